/* Which Redis vouches for the counters of a database that may fail over to a copy that lacks what was committed lately.
   The row of the deployment names a witness: a life of one Redis, whose marks are raised before numbers are used.
   World: two replicas; Redis X and Y, of which X may end (be replaced at its place, lose its life) while old connections to it
   still work; each replica may use X, Y or none at any moment, and may be killed and start without memory; a copy of the
   database falls behind at any moment, also a copy of a copy, and the database fails over to it at any later moment, or is put
   back to it as a dump, which names the server that it is put into and is noted by the age of its tables (NO_AGE); time
   passes; the database's clock is set.  A replica that is cut off is one that does nothing for a while.
   A jump lands above everything ever taken and leaves a distance: its size is simulated in model/counter_sim_test.go.
   A copy may lack a hold.  So those who have seen a change know it, a replica vouches only for a copy that knows the changes that
   it has seen and no others, and nobody takes numbers after a change before each living replica had the time to object.
   Promise: no number is taken twice.  -DNO_...: one rule is left out.  -DWITH_...: the world does what the promise excludes. */
#ifndef N
#define N 3                      /* numbers */
#endif
#ifndef FAILS
#define FAILS 2                  /* failovers of the database, at most 2 */
#endif
#ifndef NAMES
#define NAMES 2                  /* namings of a witness */
#endif
#define H 0                      /* a hold vouches while the database was heard of at most H whole ticks ago (15 min) */
#ifdef NO_SLACK
#define D 0
#else
#define D 1                      /* the database's clock is off by at most one tick (10 s) */
#endif
#define X 1
#define Y 2
#ifndef EARLY
#define EARLY 0
#endif
#define JUMP 7                   /* a doubt that nobody vouched for; a smaller one is the naming that did */

/* The database: index 0 answers; copies 1 and 2 take over at the first and second failover. */
byte max[3];                     /* the counter: highest number taken */
byte doubt[3];                   /* of the counter: 0, the naming that vouched, or JUMP */
bool made[3];                    /* the counter's row exists */
byte due[3];                     /* the doubt with which a new row begins */
byte wit[3];                     /* the witness: a naming; 0: nobody vouches */
byte jumps[3];                   /* changes that nobody vouched for, one bit for each */
byte holds[6], age[6];           /* member row of replica i in state k: 2k+i: what it holds, ticks since it was written */
bool noted = 1;                  /* the row names the present server */
bool frozen[3], skewed;
byte fails, changes;
/* Redis, and the namings. */
byte mark[3];                    /* by life */
bool gone;                       /* X does not answer at its place any more */
byte life[NAMES + 1], names;
/* The replicas' memory. */
byte hold[2], mage[2], seen[2];  /* the naming it may let vouch, ticks since it heard of the database, jumps it has seen */
/* What the proof knows. */
byte used, top, all;             /* numbers taken, the highest taken, changes ever noted */

byte reg[2];                     /* the changes that the row knew when a replica wrote what it holds */
#define W wit[0]
#define back(i) ((seen[i] & ~jumps[0]) != 0)
#ifdef NO_SEEN
#define known noted
#define met 1
#else
#define known (noted && !back(me))
#define met (!back(0) && !back(1))
#endif
#define lives (life[W] != X || !gone)        /* the Redis at the witness' own place, asked anew */
#ifdef NO_ANEW
#define alive 1
#else
#define alive lives
#endif
#ifdef NO_HOLD
#define holding 1
#else
#define holding (hold[me] == W)
#endif
#ifdef NO_SAME                   /* a replica that has seen changes vouches only for a copy that knows the same ones */
#define same 1
#else
#define same (jumps[0] == seen[me] && jumps[0] == reg[me])
#endif
#ifdef NO_EXPIRY
#define fresh 1
#else
#define fresh (mage[me] <= H)
#endif
#define silent(i) (holds[i] != W || age[i] > H + D)
#if defined(NO_MEMBERS) || defined(WITH_TWO_AT_ONE_PLACE)      /* the latter: to one replica X seems replaced, to the other not */
#define unheld 1
#else
#define unheld (silent(0) && silent(1))
#endif
#ifdef WITH_NOBODY_LEFT
#define remembered(log) 1
#else
#define remembered(log) ((all & ~(log)) == 0)                 /* a replica is left that saw what a copy lacks */
#endif
#ifdef NO_MARK
#define raise(l, n) skip
#else
#define raise(l, n) if :: mark[l] < n -> mark[l] = n :: else fi
#endif

/* Each transaction forgets first what the row does not name any more. */
inline meet() {
#ifndef NO_FORGET
  if :: hold[me] != W -> hold[me] = 0; mage[me] = 0 :: else fi;
#endif
#ifndef NO_SERVER                /* it must hold the witness anew after each change */
  if :: reg[me] != jumps[0] -> hold[me] = 0; mage[me] = 0 :: else fi;
#endif
  reg[me] = jumps[0];
  seen[me] = seen[me] | jumps[0] }

inline use() { assert((used >> max[0] & 1) == 0); used = used | (1 << max[0]); if :: top < max[0] -> top = max[0] :: else fi }

inline take(l) {                 /* l: the life whose marks count, 0 none */
  if :: !made[0] -> made[0] = 1;
#ifndef NO_BIRTH
        doubt[0] = due[0]
#endif
     :: else fi;
  if :: mark[l] > max[0] -> max[0] = mark[l] :: else fi;
  if
#ifdef NO_LIFE
  :: doubt[0] == JUMP ->
#else
  :: doubt[0] != 0 && doubt[0] != W ->
#endif
#ifndef NO_JUMP
     max[0] = top + 1
#endif
  :: else
  fi;
  doubt[0] = 0;
  if
  :: max[0] < N && met ->        /* nobody takes before each living replica has met the server: 3 s */
     max[0]++;
#ifdef NO_MARK_FIRST
     owed[me] = max[0]; to[me] = l;
#else
     if :: l != 0 -> raise(l, max[0]) :: else fi;
#endif
     use()
  :: else
  fi }
inline name(l) {
  meet();
#ifdef NO_NEW_NAME
  life[l] = l; W = l
#else
  names++; life[names] = l; W = names
#endif
  }
inline abandon() {               /* a change that nobody vouches for */
  due[0] = JUMP; if :: made[0] -> doubt[0] = JUMP :: else fi;
  W = 0; jumps[0] = jumps[0] | seen[me] | (1 << changes); all = all | (1 << changes); changes++;
  noted = 1; meet() }

#ifdef NO_MARK_FIRST
byte owed[2], to[2];
#endif
#ifdef NO_LOCK
byte read[2];
#endif
#ifdef WITH_REVERTED_REPLICA
byte saved[2];
#endif

proctype replica(byte me) {
  do
  /* takes, where nobody vouches or it uses the witness */
  :: d_step { known -> meet(); take(life[W]) }
#ifdef NO_MARK_FIRST
  :: d_step { owed[me] != 0 -> raise(to[me], owed[me]); owed[me] = 0; to[me] = 0 }
#endif
#ifdef NO_WITNESS                                              /* also takes where it uses another Redis than the witness */
  :: d_step { known && W != 0 -> meet(); take(X + Y - life[W]) }
#endif
#ifdef NO_LOCK                                                 /* the row is read, and the numbers taken later */
  :: d_step { known && read[me] == 0 -> read[me] = 1 + life[W] }
  :: d_step { known && read[me] != 0 -> meet(); take(read[me] - 1); read[me] = 0 }
#endif
#ifdef WITH_OTHER_PROGRAM                                      /* keeps no marks */
  :: d_step { noted && max[0] < N -> max[0]++; use() }
#endif
  /* beats: holds; gives up, in memory first; retires the witness that nobody holds; names another */
  :: d_step { known && W != 0 -> meet(); holds[me] = W; age[me] = 0; hold[me] = W; mage[me] = 0;
#ifdef WITH_REVERTED_REPLICA
       saved[me] = W
#endif
     }
  :: d_step { hold[me] != 0 -> hold[me] = 0; mage[me] = 0 }
#ifdef NO_GIVE_UP_FIRST
  :: d_step { known && holds[me] != 0 -> meet(); holds[me] = 0; age[me] = 0 }
#else
  :: d_step { known && hold[me] == 0 && holds[me] != 0 -> meet(); holds[me] = 0; age[me] = 0 }
#endif
#ifdef NO_COMMIT_FIRST
  :: d_step { known && W != 0 -> meet(); hold[me] = W; mage[me] = 0 }
#endif
  :: d_step { known && W != 0 && (unheld || !lives) -> meet(); W = 0; hold[me] = 0; mage[me] = 0 }
  :: d_step { known && W == 0 && names < NAMES -> name(X) }
  :: d_step { known && W == 0 && names < NAMES -> name(Y) }
  /* settles what it vouched for */
  :: d_step { known && W != 0 && hold[me] == W && due[0] == W ->
#ifndef NO_TOMBSTONE
       made[0] = 1;
#endif
       if :: made[0] && mark[life[W]] > max[0] -> max[0] = mark[life[W]] :: else fi;
       due[0] = 0; if :: doubt[0] == W -> doubt[0] = 0 :: else fi }
  /* notes a change: the server is another, or the row lacks a jump that this replica has seen */
  :: d_step { !known && W != 0 && alive && holding && fresh && changes < 4 && same ->
       jumps[0] = jumps[0] | (1 << changes); all = all | (1 << changes); changes++; reg[me] = jumps[0];
       due[0] = (due[0] == 0 || due[0] == W -> W : JUMP);
       if :: made[0] -> doubt[0] = (doubt[0] == 0 || doubt[0] == W -> W : JUMP) :: else fi;
       hold[me] = W; mage[me] = 0; holds[me] = W; age[me] = 0;
       jumps[0] = jumps[0] | seen[me]; noted = 1; meet() }
  :: d_step { (!known || EARLY) && changes < 3 -> abandon() }
  /* is killed, and starts without memory */
  :: d_step { remembered(jumps[0] | seen[1 - me]) -> hold[me] = 0; mage[me] = 0; seen[me] = 0;
#ifdef NO_MARK_FIRST
       owed[me] = 0; to[me] = 0
#endif
     }
#ifdef WITH_REVERTED_REPLICA
  :: d_step { saved[me] != 0 -> hold[me] = saved[me]; mage[me] = 0; saved[me] = 0 }
#endif
  od
}

inline grow(k) {
  if :: holds[2*k] != 0 && age[2*k] < H + 2 -> age[2*k]++ :: else fi;
  if :: holds[2*k+1] != 0 && age[2*k+1] < H + 2 -> age[2*k+1]++ :: else fi }
inline passes() { grow(0); grow(1); grow(2) }
inline copy(a, b) {
  max[b] = max[a]; doubt[b] = doubt[a]; made[b] = made[a]; due[b] = due[a]; wit[b] = wit[a]; jumps[b] = jumps[a];
  holds[2*b] = holds[2*a]; holds[2*b+1] = holds[2*a+1]; age[2*b] = age[2*a]; age[2*b+1] = age[2*a+1] }
inline clear(a) {
  max[a] = 0; doubt[a] = 0; made[a] = 0; due[a] = 0; wit[a] = 0; jumps[a] = 0;
  holds[2*a] = 0; holds[2*a+1] = 0; age[2*a] = 0; age[2*a+1] = 0 }
#ifdef NO_AGE
#define named noted
#else
#define named 0
#endif
inline fail(k) { copy(k, 0); clear(k); fails++; noted = named }

proctype world() {
  do
  :: d_step { FAILS > 0 && fails < 1 && !frozen[1] -> copy(0, 1); frozen[1] = 1 }
  :: d_step { FAILS > 1 && fails < 2 && !frozen[2] -> copy(0, 2); frozen[2] = 1 }
#ifdef WITH_TWO_DATABASES                                      /* copy 2 is the first server, which a replica still uses */
  :: d_step { fails == 0 && frozen[1] -> copy(0, 2); frozen[2] = 1; fail(1) }
  :: d_step { fails == 1 && max[2] < N ->
       if :: mark[life[wit[2]]] > max[2] -> max[2] = mark[life[wit[2]]] :: else fi;
       if :: max[2] < N -> max[2]++; if :: wit[2] != 0 -> raise(life[wit[2]], max[2]) :: else fi;
          assert((used >> max[2] & 1) == 0); used = used | (1 << max[2]); if :: top < max[2] -> top = max[2] :: else fi
       :: else
       fi }
#elif !defined(WITH_FAILBACK)
  :: d_step { fails == 0 && frozen[1] && remembered(jumps[1] | seen[0] | seen[1]) -> fail(1) }
  :: d_step { fails == 1 && frozen[2] && remembered(jumps[2] | seen[0] | seen[1]) -> fail(2) }
#else  /* copy 2 is the first server itself when it was cut off; it returns as it was */
  :: d_step { fails == 0 && frozen[1] && remembered(jumps[1] | seen[0] | seen[1]) -> copy(0, 2); frozen[2] = 1; fail(1) }
  :: d_step { fails == 1 && noted -> copy(2, 0); clear(2); fails++ }
#endif
  :: d_step { !gone -> gone = 1 }
#ifdef WITH_PLACE_RETURNS
  :: d_step { gone -> gone = 0 }
#endif
  :: d_step { passes(); if :: hold[0] != 0 && mage[0] <= H -> mage[0]++ :: else fi; if :: hold[1] != 0 && mage[1] <= H -> mage[1]++ :: else fi }
  :: d_step { !skewed -> skewed = 1; passes() }
#ifdef WITH_REVERTED_REDIS
  :: d_step { mark[Y] > 0 -> mark[Y] = 0 }
#endif
#ifdef WITH_DELETED_ROW                                        /* by SQL, or an older table restored, while Redis is emptied */
  :: d_step { made[0] -> made[0] = 0; max[0] = 0; doubt[0] = 0; gone = 1 }
#endif
  od
}
init { atomic { run replica(0); run replica(1); run world() } }
