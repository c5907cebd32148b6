/* The lease of one snowflake worker ID.  The time in an ID is the fence: a lease may issue the times above After, at most Reserved,
   below Expires; the registry stores the last two before they are used.  Another instance gets the worker ID only once Expires has
   passed and starts above it; the same data folder starts above Reserved.  While the registry is away a holder goes on from its
   worker file, never beyond Expires.  A registry that went back gives no time that could have been reserved before.
   World: two instances, each with its own data folder, killed and started at any moment; their clocks are set at any moment, also
   too far; the registry is away, or goes back to an older copy; time passes.
   Each time that is reserved counts as issued.  Promise: each time belongs to one term.
   -DFILES=: which instances have a worker file, as bits.  -DNO_...: without a rule.  -DWITH_...: what is excluded. */
#ifndef T
#define T 4                      /* ticks; a time is one tick */
#endif
#ifndef TERMS
#define TERMS 3
#endif
#ifndef FILES
#define FILES 3
#endif
#ifndef BACKS
#define BACKS 1                  /* how often the registry goes back */
#endif
#define A 1                      /* how far ahead of the clock time is reserved */
#define E 4                      /* Expires is so far ahead of the clock, with a file */
#define O 1                      /* how far a clock may be from the registry's */
#define MOST 13

byte t, rclock = 1, off[2] = 1;  /* time; how far the clocks of the registry and of the instances are ahead of it */
#define now (t + rclock)
#define clock (t + off[me])
#define near (off[me] <= rclock + O && off[me] + O >= rclock)
/* The registry, and a copy of it: the bounds, the folder, the term that holds. */
byte res[2], exp[2], folder[2], held[2];
byte kept;                       /* since when it has forgotten nothing; 0 for ever */
bool met[2] = 1;                 /* the registry has renewed or refused the instance's lease since it went back */
bool away, given;                /* it does not answer; it gave the worker ID since it went back */
byte backs;
/* The instances: present term, 0 none; bounds; what the registry has confirmed; its time when it answered last. */
byte term[2], after[2], upto[2], ends[2], heard[2], token[2];
byte fres[2], fexp[2];           /* worker files */
byte terms, owner[MOST];         /* to which term a time belongs */

#define file(i) ((FILES >> i & 1) != 0)
#ifdef WITH_COPIED_FOLDER
#define mine 1
#else
#define mine (file(me) -> me + 1 : 0)          /* the folder that the registry stores; 0 without one */
#endif
#define back (file(me) && folder[0] == mine)   /* this folder had the worker ID last */
#ifdef NO_OFFSET
#define right 1
#else
#define right near
#endif
#ifdef WITH_UNREACHABLE
#define alone 1
#else
#define alone (met[me] && away || !met[me] && !given)    /* nobody gets the worker ID before all have reached the registry that is back */
#endif

inline upmost(a, b) { if :: a < b -> a = b :: else fi }
inline reserve() {               /* all times above After up to upto are the term's */
  k = after[me] + 1;
  do :: k <= upto[me] -> assert(owner[k] == 0 || owner[k] == term[me]); owner[k] = term[me]; k++ :: else -> break od;
  k = 0 }
inline lose() {
  term[me] = 0; after[me] = 0; upto[me] = 0; ends[me] = 0; heard[me] = 0; token[me] = 0 }
inline disown() {                /* the registry has answered that the worker ID is not ours */
#ifndef NO_DISOWN
  if :: fexp[me] > fres[me] -> fexp[me] = fres[me] :: else fi;
#endif
  lose() }

inline acquire() {
  k = res[0];
#ifdef NO_RESERVED
  if :: back -> k = 0 :: else fi;
#endif
#ifndef NO_FENCE
  if :: !back -> upmost(k, exp[0]) :: else fi;
#endif
  upmost(exp[0], k); res[0] = k;
  if
  :: fexp[me] > now && k >= fres[me] -> skip   /* it remembers all that this folder reserved, and has kept others away since */
  :: else ->
     if :: back || fexp[me] != 0 -> upmost(k, fres[me]) :: else fi;
#ifndef NO_WAIT
     if                                         /* also without a file of its own: another one may go on from its file */
#ifndef NO_FROM_NOW
     :: kept != 0 && now < kept + E -> upmost(k, now + A + O)
     :: kept != 0 && now >= kept + E -> upmost(k, kept + A + O)
#else
     :: kept != 0 -> upmost(k, kept + A + O)
#endif
     :: else
     fi
#endif
  fi;
  terms++; term[me] = terms; token[me] = terms; after[me] = k; upto[me] = k; ends[me] = 0; heard[me] = now;
  folder[0] = mine; held[0] = terms; given = (kept != 0); met[me] = 1; k = 0 }

inline renew() {
  met[me] = 1;
  if
#ifndef NO_TOKEN
  :: held[0] != token[me] -> disown()
#endif
#ifndef NO_LAPSED
  :: held[0] == token[me] && kept != 0 && kept >= heard[me] && (ends[me] == 0 || now >= ends[me]) -> disown()
#endif
  :: else ->
     upmost(upto[me], clock + A);
     upmost(ends[me], upto[me] + 1);
     if :: file(me) -> upmost(ends[me], clock + E) :: else fi;
     upmost(res[0], upto[me]); upmost(exp[0], ends[me]); heard[me] = now;
     if :: file(me) -> fres[me] = upto[me]; fexp[me] = ends[me] :: else fi;
     reserve()
  fi }

inline offline() {
  k = clock + A;
#ifndef NO_EXPIRES
  if :: k > ends[me] - 1 -> k = ends[me] - 1 :: else fi;
#endif
  upmost(upto[me], k);
#ifndef NO_FILE
  fres[me] = upto[me];
#endif
  reserve() }

proctype instance(byte me) {
  byte k;
  do
  :: d_step { term[me] == 0 && !away && near && terms < TERMS && (back
#ifdef NO_HELD
       || 1
#endif
       || now >= exp[0]) -> acquire() }
  :: d_step { term[me] != 0 && token[me] != 0 && !away && right -> renew() }
  /* a term of the file goes on once the registry confirms it, or ends */
  :: d_step { term[me] != 0 && token[me] == 0 && !away && near ->
       if :: back && res[0] <= upto[me] -> token[me] = term[me]; held[0] = term[me] :: else -> met[me] = 1; disown() fi }
  :: d_step { term[me] != 0 && ends[me] != 0 && alone && file(me) && right -> offline() }
  /* starts from its file */
  :: d_step { term[me] == 0 && alone && file(me) && fexp[me] > clock && terms < TERMS ->
       terms++; term[me] = terms; after[me] = fres[me]; upto[me] = fres[me]; ends[me] = fexp[me] }
  :: d_step { term[me] != 0 -> lose() }                        /* is killed */
  :: d_step { t < T -> off[me] = (off[me] + 1) % 4 }            /* its clock is set; 3 is too far */
#ifdef WITH_FILE_BACK
  :: d_step { fres[me] > 1 && term[me] == 0 -> fres[me]-- }
#endif
  od
}

proctype world() {
  do
  :: d_step { t < T -> t++ }
  :: d_step { away = !away }
  :: d_step { backs < BACKS && t < T -> res[1] = res[0]; exp[1] = exp[0]; folder[1] = folder[0]; held[1] = held[0] }
  :: d_step { backs < BACKS && t > 0 -> backs++; away = 0; given = 0; met[0] = 0; met[1] = 0;
#ifdef WITH_REGISTRY_CLOCK                                      /* the copy's clock is behind that of the server that was lost */
       rclock = 0;
#endif
       kept = now;
       res[0] = res[1]; exp[0] = exp[1]; folder[0] = folder[1]; held[0] = held[1] }
  od
}
init { atomic { run instance(0); run instance(1); run world() } }
