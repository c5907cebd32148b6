/* Rising numbers of keys through Redis.  The database hands out segments for a section of keys, and says which life of it in
   Redis gives its numbers, under which term.  Redis keeps how far each key has come, and up to where it may go.
   World: two Redis servers that may both answer; each may be emptied, go back to old data, or be promoted with old data, also
   late; copies of the database that lack the last changes take over; replicas of the service that are frozen anywhere, and
   believe in either server; a push that arrives again, late; a space that is deleted and added again.
   Time is counted in leases: a lease lasts for the tick in which it began, and a claim is opened in a later tick.  Replicas
   measure how long something lasts, and compare no clocks.
   Promise: a number of a key is given once (unique), and is above every number of the key that was answered before it was asked
   for (order).  -DNO_...: without a rule.  -DUNIQUE_ONLY: order is not looked at.  -DWITH_...: what is excluded. */
#ifndef S
#define S 1                      /* numbers that the database hands out at a time */
#endif
#ifndef N
#define N 3                      /* numbers that it can hand out */
#endif
#ifndef TICKS
#define TICKS 2
#endif
#ifndef KEYS
#define KEYS 1
#endif
#ifndef RESTARTS
#define RESTARTS 0               /* how often a Redis server restarts on old data */
#endif
#ifndef FLUSHES
#define FLUSHES 0                /* is emptied */
#endif
#ifndef FAILS
#define FAILS 0                  /* how often a copy of the database takes over */
#endif
#ifndef RAISES
#define RAISES 0                 /* how often an operator raises the highest number, as those up to it were used elsewhere */
#endif
#ifndef SWAPS
#define SWAPS 0                  /* how often its database is swapped with another, or back */
#endif
#ifndef DELETES
#define DELETES 0                /* how often the space is deleted; it may be added again */
#endif
#ifndef LATE
#define LATE 0                   /* how often a push comes again */
#endif
#define RIDS 5
#define NONE 15
#define UNKNOWN 15               /* the holder of a section of which it is not known who gave numbers last */

/* The row of the section: the highest number; which life of it gives numbers, in which life of a server, under which term, and
   whether it may by now. */
byte maxid, holder, hrid, term; bool open, lacks;
byte made;                       /* when the term was made: nobody has known it for longer */
byte number[RIDS], numbers = 1;  /* of the leases of each life; every one is used once */
byte changes, changed;           /* of the server of the database, and when the last was */
bool gone; byte deletes, deleted;                                            /* the space, and when it was deleted */
byte cmaxid, cholder, chrid, cterm, cmade; bool copen, cgone; byte cnumber[RIDS];   /* what a copy has */
byte top;                        /* the highest number that was ever handed out */
byte clock;
/* The servers: their lives, and of the section its life, term, base, bound, and the keys. */
byte rid[2], rids = 1, life[2], lives, rterm[2], base[2], bound[2], cur0[2], cur1[2];
bool two;                        /* the second server was promoted */
byte slife, sterm, sbase, sbound, s0, s1, swaps;                 /* another database of the first server, by SWAPDB */
byte fails, flushes, restarts, raises;
byte late, late_b = NONE, late_t, late_l, late_m;                     /* a push that may come again */
byte last0, last1; bool seen0[N + 1], seen1[N + 1];

#ifdef NO_NUMBER
#define IGNORE_NUMBER 1
#else
#define IGNORE_NUMBER 0
#endif
#ifdef NO_CHANGES
#define IGNORE_CHANGES 1
#else
#define IGNORE_CHANGES 0
#endif
#ifdef NO_LACKS
#define IGNORE_LACKS 1
#else
#define IGNORE_LACKS 0
#endif
#ifdef NO_TERM
#define IGNORE_TERM 1
#else
#define IGNORE_TERM 0
#endif
#ifdef NO_SECTION_LIFE
#define HOLDS (hrid == obs)
#else
#define HOLDS (holder == seclife)
#endif
#ifdef NO_FENCE
#define HAS_LEASE (mine != 0)
#else
#define HAS_LEASE (mine != 0 && clock <= begun)
#endif
#ifdef NO_END
#define LEASES_GO_ON 1
#else
#define LEASES_GO_ON 0
#endif
#ifdef NO_REST
#define RESTED 1
#else
#define RESTED (clock > deleted)
#endif
#ifdef NO_WAIT
#define OPEN_AT_ONCE 1
#else
#define OPEN_AT_ONCE 0
#endif

#define get(k, m) (k == 0 -> cur0[m] : cur1[m])
#define lastof(k) (k == 0 -> last0 : last1)

inline push(m, b, t, l) {
  if
#ifndef NO_LIFE
  :: life[m] != l -> skip
  :: else ->
#else
  :: true ->
#endif
     if
     :: rterm[m] < t -> rterm[m] = t; base[m] = b; bound[m] = b + S; cur0[m] = 0; cur1[m] = 0
     :: rterm[m] == t && b >= bound[m] ->
#ifndef NO_BASE
        if :: b != bound[m] -> base[m] = b :: else fi;
#endif
        bound[m] = b + S
     :: else
     fi
  fi }

inline take() { b = maxid; maxid = maxid + S; if :: maxid > top -> top = maxid :: else fi }

proctype replica() {
  byte m, k, floor, v, b, obs, seclife;
  byte mine, whose, num, chg, begun;          /* the term that it knows, of which life, under which number, and its lease */
  byte pt;                                 /* the term to push under */
end: do
  :: atomic { k = 0;
#if KEYS > 1
       if :: k = 0 :: k = 1 fi;
#endif
       floor = lastof(k); v = 0; b = NONE;
       if :: m = 0 :: two -> m = 1 fi };
     if :: HAS_LEASE -> goto next :: else fi;
     /* STATE, a write: an emptied section begins a life. */
     atomic { obs = rid[m]; if :: life[m] == 0 -> lives++; life[m] = lives :: else fi; seclife = life[m] };
     atomic {                              /* one transaction */
       if
       :: gone -> mine = 0; goto done      /* its sections are forgotten */
       :: else
       fi;
       if
       /* The lease is renewed, the section's row is not read. */
       :: mine != 0 && whose == obs && (IGNORE_NUMBER || num == number[obs]) && (IGNORE_CHANGES || chg == changes) -> begun = clock
       :: HOLDS && open && (IGNORE_LACKS || !lacks) -> mine = term; whose = obs; num = number[obs]; chg = changes; begun = clock; pt = term;
          if :: rterm[m] != term || cur0[m] >= bound[m] || cur1[m] >= bound[m] || base[m] >= bound[m] -> if :: maxid + S <= N -> take() :: else fi :: else fi
       :: HOLDS && !open && (IGNORE_LACKS || !lacks) -> mine = 0; pt = term;
          if :: clock > made -> open = 1 :: else fi
       :: !HOLDS || lacks ->
          if
          :: maxid + S <= N -> take();
             numbers++; number[hrid] = numbers;
             open = (holder == 0 && !lacks) || OPEN_AT_ONCE;   /* nobody can have a lease of an earlier term */
             holder = seclife; hrid = obs; term = b + 1; lacks = 0;
             mine = 0; made = clock; pt = term
          :: else -> goto done
          fi
       fi };
     if
     :: b != NONE -> atomic { push(m, b, pt, seclife); if :: late < LATE -> late++; late_b = b; late_t = pt; late_l = seclife; late_m = m :: true fi }
     :: else
     fi;
     if :: HAS_LEASE :: else -> goto done fi;
next: atomic {                             /* NEXT, one script */
       if
       :: rid[m] == whose && bound[m] > 0 && (IGNORE_TERM || rterm[m] == mine) -> v = get(k, m);
          if :: v < base[m] -> v = base[m] :: else fi;
          if
          :: v < bound[m] -> v++; if :: k == 0 -> cur0[m] = v :: else -> cur1[m] = v fi
          :: else -> v = 0
          fi
       :: else -> v = 0
       fi;
       if :: v == 0 -> mine = 0 :: else fi };
     if
     :: v != 0 -> atomic {                 /* the caller is answered */
          if
          :: k == 0 -> assert(!seen0[v]); seen0[v] = 1
          :: else -> assert(!seen1[v]); seen1[v] = 1
          fi;
#ifndef UNIQUE_ONLY
          assert(v > floor);
#endif
          if :: k == 0 && v > last0 -> last0 = v :: k == 1 && v > last1 -> last1 = v :: else fi }
     :: else
     fi;
done: atomic { floor = 0; v = 0; b = NONE; obs = 0; seclife = 0; k = 0;
       if :: mine == 0 -> whose = 0; num = 0; chg = 0; begun = 0; pt = 0 :: else fi }
  od
}

active proctype faults() {
  byte x;
end: do
  /* the second server is promoted, with what the first has, or with less */
  :: atomic { !two && rids < RIDS - 1 -> two = 1; rids++; rid[1] = rids; life[1] = 0;
       if :: skip :: rterm[1] = rterm[0]; base[1] = base[0]; bound[1] = bound[0]; cur0[1] = cur0[0]; cur1[1] = cur1[0] fi }
  /* the first is emptied; or restarts: what it has by then counts as old */
  :: d_step { flushes < FLUSHES -> flushes++; life[0] = 0; rterm[0] = 0; base[0] = 0; bound[0] = 0; cur0[0] = 0; cur1[0] = 0 }
  :: d_step { restarts < RESTARTS && rids < RIDS - 1 -> restarts++; rids++; rid[0] = rids; life[0] = 0 }
  :: d_step { swaps < SWAPS -> swaps++;
       x = life[0]; life[0] = slife; slife = x; x = rterm[0]; rterm[0] = sterm; sterm = x; x = base[0]; base[0] = sbase; sbase = x;
       x = bound[0]; bound[0] = sbound; sbound = x; x = cur0[0]; cur0[0] = s0; s0 = x; x = cur1[0]; cur1[0] = s1; s1 = x; x = 0 }
#ifdef WITH_FIELD_DELETED
  :: d_step { cur0[0] > base[0] -> cur0[0] = 0 }
#endif
  :: d_step { clock < TICKS -> clock++ }
  :: atomic { late_b != NONE -> push(late_m, late_b, late_t, late_l); late_b = NONE; late_t = 0; late_l = 0; late_m = 0 }
  :: d_step { raises < RAISES && maxid < N -> raises++; maxid++; seen0[maxid] = 1; seen1[maxid] = 1; if :: maxid > top -> top = maxid :: else fi }
  /* The space is deleted: what it had handed out stays known, and leases of the life that gives its numbers end. It is added
     again once every lease has ended that was renewed before. That servers forget what they have is FLUSHES. */
  :: d_step { deletes < DELETES && !gone && maxid > 0 -> deletes++; gone = 1; deleted = clock;
       if :: LEASES_GO_ON :: else -> numbers++; number[hrid] = numbers fi }
  :: d_step { gone && RESTED -> gone = 0; hrid = 0; term = 0; open = 0; lacks = 0;
       if :: changes > 0 && clock <= changed -> holder = UNKNOWN :: else -> holder = 0 fi }
  /* a copy of the database has what that has, and takes over later; what it lacks of the numbers is left out. That it lacks
     nothing is known where somebody vouches for it. */
  :: d_step { fails < FAILS -> cmaxid = maxid; cholder = holder; chrid = hrid; cterm = term; copen = open; cmade = made; cgone = gone;
       cnumber[0] = number[0]; cnumber[1] = number[1]; cnumber[2] = number[2]; cnumber[3] = number[3]; cnumber[4] = number[4] }
  :: atomic { fails < FAILS -> fails++; changes++; changed = clock; gone = cgone;
       maxid = cmaxid; holder = cholder; hrid = chrid; term = cterm; open = copen; made = cmade;
       number[0] = cnumber[0]; number[1] = cnumber[1]; number[2] = cnumber[2]; number[3] = cnumber[3]; number[4] = cnumber[4];
       if :: top > maxid -> lacks = 1 :: else -> lacks = 0 fi;
       if :: lacks = 1 :: skip fi;
       maxid = top }
  od
}
init { atomic { rid[0] = 1; run replica(); run replica() } }
