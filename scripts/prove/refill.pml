/* How a list is refilled and popped while Redis restarts, is promoted, or loses data.
   STATE tells the life of the list and its mark w; ALLOCATE commits a segment in the database; PUSH brings it to the list, once,
   and is refused in another life or when it does not start above w; POP drops what another life left, then takes.
   World: two replicas; Redis server 0, and server 1, which begins as an old copy of 0 (a promoted replica) while 0 goes on
   answering; each replica may use either at any moment; a server restarts from an older snapshot; the list's hash is lost; a push
   arrives at any later moment, or never; a replica is killed and starts without memory.
   -DBACK: instead the database goes back, unnoticed, as it may within the five seconds that the promise names, and Redis stays.
   Segments have two numbers.  Promise: no number is popped twice.  -DNO_...: without a rule.  -DWITH_...: what is excluded. */
#ifndef S
#define S 4                      /* segments: s has the numbers 2s+1 and 2s+2 */
#endif
#ifndef EVENTS
#define EVENTS 3                 /* restarts, promotions and losses */
#endif

byte last;                       /* the database: segments handed out (max_id) */
/* Redis, by server: replication ID; list as bits; hash: h, e (since when the list is kept; no two are equal), w in segments. */
byte replid[2], list[2], h[2], e[2], w[2];
byte ilist, ih, ie, iw;          /* a snapshot, or a replica that lags */
byte replids, stamps, events, backs;
byte fly[2*S];                   /* push under way: of replica i and segment s at S*i+s: the life it names, 0 none */
byte used;                       /* numbers popped, as bits */

/* What every script does first. */
inline guard(s) {
  if
#ifdef NO_HISTORY
  :: w[s] != 0 && e[s] != 0
#else
  :: h[s] == replid[s] && w[s] != 0 && e[s] != 0
#endif
  :: else ->
     if :: h[s] != replid[s] || e[s] == 0 || list[s] != 0 -> stamps++; e[s] = stamps; h[s] = replid[s] :: else fi;
     list[s] = 0
  fi }

inline state(s) { guard(s); life = e[s]; if :: w[s] > known -> known = w[s] :: else fi }

inline allocate() {
#ifndef NO_FLOOR
  if :: known > last -> last = known :: else fi;
#endif
  if :: last < S -> fly[S*me + last] = life; last++; known = (known < last -> last : known) :: else fi;
  life = 0 }

inline push(s, i, n) {
  guard(s);
  if
#ifdef NO_LIFE
  :: n >= w[s] ->
#else
#ifdef NO_W
  :: e[s] == fly[S*i + n] ->
#else
  :: e[s] == fly[S*i + n] && n >= w[s] ->
#endif
#endif
     list[s] = list[s] | (3 << (2*n)); if :: w[s] < n + 1 -> w[s] = n + 1 :: else fi
  :: else
  fi;
#ifdef NO_ONCE
  skip }
#else
  fly[S*i + n] = 0 }
#endif

inline pop(s) {
#ifdef NO_POP_CHECK
  skip;
#else
  guard(s);
#endif
  b = 1;
  do :: list[s] != 0 && (list[s] & b) == 0 -> b = b << 1 :: else -> break od;
  if :: list[s] != 0 -> list[s] = list[s] & ~b; assert((used & b) == 0); used = used | b :: else fi;
  b = 0 }

proctype replica(byte me) {
  byte life, known, b;
  do
  :: d_step { life == 0 -> state(0) }
  :: d_step { life == 0 && replid[1] != 0 -> state(1) }
#ifdef NO_COMMIT                                                /* pushes first; the commit comes later, or never */
  :: d_step { life != 0 && (known > last -> known : last) < S -> fly[S*me + (known > last -> known : last)] = life }
#endif
  :: d_step { life != 0 -> allocate() }
  :: d_step { pop(0) }
  :: d_step { replid[1] != 0 -> pop(1) }
  :: d_step { life = 0; known = 0 }                             /* is killed, and starts again */
  od
}

proctype network(byte i, n) {                                   /* delivers the pushes of segment n */
  do
  :: d_step { fly[S*i + n] != 0 -> push(0, i, n) }
  :: d_step { fly[S*i + n] != 0 && replid[1] != 0 -> push(1, i, n) }
  od
}

inline restore(s) { list[s] = ilist; h[s] = ih; e[s] = ie; w[s] = iw }
inline begin(s) { events++; replids++; replid[s] = replids }

proctype world() {
  do
#ifndef BACK
  :: d_step { events < EVENTS -> ilist = list[0]; ih = h[0]; ie = e[0]; iw = w[0] }
  :: d_step { events < EVENTS -> begin(0); restore(0) }
  :: d_step { events < EVENTS -> begin(1); restore(1) }          /* promoted; or restarted */
  :: d_step { events < EVENTS -> events++; h[0] = 0; e[0] = 0; w[0] = 0 }
  :: d_step { events < EVENTS && list[0] != 0 -> events++; list[0] = 0 }
#endif
#if defined(BACK) || defined(WITH_BOTH)
  :: d_step { backs < 2 && last > 0 -> backs++; last-- }
#endif
#ifdef WITH_RESTORE                                             /* RESTORE of the list's key, or LPUSH of what was popped */
  :: d_step { events < EVENTS && ilist != 0 -> events++; list[0] = ilist }
#endif
#ifdef WITH_SAME_HISTORY                                        /* older data under the same replication ID: DEBUG RELOAD NOSAVE, a VM
                                                                   reverted with its memory, a server that only imitates the field */
  :: d_step { events < EVENTS -> events++; restore(0) }
#endif
#ifdef WITH_ACTIVE                                              /* active-active replication: what one server has, the other gets */
  :: d_step { events < EVENTS && replid[1] != 0 -> events++; list[1] = list[0]; h[1] = replid[1]; e[1] = e[0]; w[1] = w[0] }
#endif
  od
}
init { byte k; atomic {
  replids = 1; replid[0] = 1;
  run replica(0); run replica(1); run world();
  do :: k < S -> run network(0, k); run network(1, k); k++ :: else -> break od } }
