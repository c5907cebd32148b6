/* The claims of worker IDs in the database, when instances use two registries that know nothing of each other.  Each
   registry gives the same worker ID; lease.pml has what one of them does alone.  The time in an ID is the fence: a
   claim is a row that says up to which time an instance may issue.  A term begins above the claims of the other
   registry, once the database's clock says that they have ended, and closes their rows.  A term whose row is closed has
   ended.  It issues, and its worker file lets a later life issue, only as far as the claim that is stored.
   World: an instance for each registry, with a worker file or without.  At each step it reaches its registry and the
   database, or one of them, or none; it is killed, stopped in order, started again with its folder or without it.  At
   each step its clock and that of the database read anything: the promise rests on no clock.
   Each time that is reserved counts as issued.  Promise: each time belongs to one term.
   -DFILES=: which instances have a worker file, as bits.  -DNO_...: without a rule.  -DWITH_...: what is excluded. */
#ifndef T
#define T 3                      /* the latest time that a clock reads */
#endif
#ifndef TERMS
#define TERMS 4
#endif
#ifndef FILES
#define FILES 3
#endif
#define A 1                      /* how far ahead of the clock time is reserved */
#define E 2                      /* Expires, and a claim, are so far ahead of the clock */
#define MOST 8

#define file ((FILES >> me & 1) != 0)
#define other (1 - me)
/* The database: up to when instances of a registry may issue, and whether the row of the life that runs is open.
   The registries: the bounds of the worker ID. */
byte claim[2], res[2], exp[2];
bit row[2];
bit claimed[2];                  /* that life knows that there was one */
/* The instances: present term, 0 none; bounds; the claim that is stored, as far as they know. */
byte term[2], after[2], upto[2], ends[2], known[2];
byte fres[2], fexp[2];           /* worker files */
byte terms, owner[MOST];         /* to which term a time belongs */

inline upmost(a, b) { if :: a < b -> a = b :: else fi }
inline atmost(a, b) { if :: a > b -> a = b :: else fi }
inline look() { select(clock : 0 .. T); select(dnow : 0 .. T) }
inline blink() { clock = 0; dnow = 0; k = 0 }
inline reserve() {               /* all times above After up to upto are the term's */
  k = after[me] + 1;
  do :: k <= upto[me] -> assert(owner[k] == 0 || owner[k] == term[me]); owner[k] = term[me]; k++ :: else -> break od }
inline lose() { row[me] = 0; claimed[me] = 0; term[me] = 0; after[me] = 0; upto[me] = 0; ends[me] = 0; known[me] = 0 }
inline disown() { atmost(fexp[me], fres[me]); lose() }
inline begin(from) { terms++; term[me] = terms; after[me] = from; upto[me] = from; ends[me] = 0 }

#ifdef NO_STORED                 /* a claim that the database's clock takes for ended is none */
#define ahead (clock + E > dnow)
#else
#define ahead true
#endif
#ifdef NO_ENDED
#define ended true
#else
#define ended (claim[other] <= dnow)
#endif

inline raise() { if :: ahead -> upmost(claim[me], clock + E) :: else fi; upmost(known[me], clock + E) }
inline first() {                 /* the first claim of a term */
  row[me] = ahead; claimed[me] = 1; raise()
#ifndef NO_CLOSING
  ; row[other] = 0
#endif
}

inline want(most) {              /* reserves time up to most, and no further than the claim that is stored */
  k = clock + A; atmost(k, most);
#ifndef NO_BOUND
  atmost(k, known[me]);
#endif
  upmost(upto[me], k); reserve() }

inline keep() {                  /* what the worker file says */
  if
  :: file ->
     fres[me] = upto[me]; fexp[me] = ends[me];
#ifndef NO_FILE_BOUND
     atmost(fexp[me], known[me]); upmost(fexp[me], fres[me])
#endif
  :: else
  fi }

inline note() { fres[me] = upto[me]; upmost(fexp[me], fres[me]) }

inline renew() {
  upmost(ends[me], clock + E); want(MOST - 1); upmost(ends[me], upto[me]);
  upmost(res[me], upto[me]); upmost(exp[me], ends[me]); keep() }

/* A claim of a term that has begun: longer, or its first. */
inline claims() {
  if
  :: row[me] -> raise()
  :: else ->
     if :: !claimed[me] && ended && claim[other] <= after[me] -> first() :: else -> disown() fi
  fi }

proctype instance(byte me) {
  byte k, clock, dnow;
end: do
  /* begins by its registry, with the database; or with the claim that its file has of the life before */
  :: atomic { term[me] == 0 && terms < TERMS -> look();
       if
       :: ended ->
          k = res[me]; if :: fres[me] == 0 -> upmost(k, exp[me]) :: else upmost(k, fres[me]) fi;
#ifndef NO_ABOVE
          upmost(k, claim[other]);
#endif
          begin(k); first()
       :: else
       fi; blink() }
  :: d_step { term[me] == 0 && fexp[me] > fres[me] && terms < TERMS ->
       k = res[me]; upmost(k, fres[me]); begin(k); known[me] = fexp[me]; k = 0 }
  /* renews with its registry and the database, or with its registry alone */
  :: atomic { term[me] != 0 -> look(); claims(); if :: term[me] != 0 -> renew() :: else fi; blink() }
  :: atomic { term[me] != 0 -> look(); renew(); blink() }
  /* goes on by its file, with the database or without */
  :: atomic { term[me] != 0 && file && ends[me] != 0 -> look();
       claims(); if :: term[me] != 0 -> want(ends[me]); note() :: else fi; blink() }
  :: atomic { term[me] != 0 && file && ends[me] != 0 -> look(); want(ends[me]); note(); blink() }
  /* starts from its file, while its registry cannot be reached */
  :: d_step { term[me] == 0 && fexp[me] > fres[me] && terms < TERMS ->
       begin(fres[me]); ends[me] = fexp[me]; known[me] = fexp[me] }
  :: d_step { term[me] != 0 -> lose() }                        /* is killed */
  :: d_step { term[me] != 0 ->                                 /* is stopped in order */
       res[me] = upto[me]; exp[me] = upto[me]; claim[me] = upto[me];
       if :: file -> fres[me] = upto[me]; fexp[me] = upto[me] :: else fi; lose() }
  :: d_step { term[me] == 0 && fres[me] != 0 -> fres[me] = 0; fexp[me] = 0 }  /* its folder is gone */
#ifdef WITH_FILE_BACK
  :: d_step { fres[me] > 1 && term[me] == 0 -> fres[me]-- }
#endif
  od
}
init { atomic { run instance(0); run instance(1) } }
