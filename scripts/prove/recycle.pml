/* One worker ID in the tree of NotFound9's fork of Leaf: workId:N lies in one of its pools, inuse or notuse.  The fork moves it in two
   steps, the second of which never overwrites, and its recycler deletes whatever lies there by then; we move it in one transaction, if
   what we read is unchanged.
   World: an instance of the fork, its recycler, and two instances of ours; each holder is killed, or silent for an hour, at any moment.
   Who was silent for so long issues nothing more: the fork stops, and a lease of ours has ended.
   What is excluded: a recycler that pauses between reading and deleting for longer than ours waits.
   Promise: one instance at a time issues.  -DNO_...: without a rule. */
#define FORK 1
byte in;                         /* who put it into inuse; 0 not there */
bool out = 1, fresh;             /* it is in notuse; its holder has reported within the hour */
bool changed[4];                 /* since an instance of ours has read it */
byte issues;                     /* who does */
bool deciding;                   /* the recycler is between reading and deleting */
#define write changed[2] = 1; changed[3] = 1
#define start(me) assert(issues == 0); issues = me
#define stop(me) if :: issues == me -> issues = 0 :: else fi
#ifdef NO_CHECK
#define same 1
#else
#define same (!changed[me])
#endif
#ifdef NO_WAIT
#define waited 1
#else
#define waited !deciding
#endif

proctype fork() { bool mine;
end: do
  :: d_step { !mine && out -> out = 0; write } ->                     /* deletes it from notuse */
     if
     :: d_step { in == 0 -> in = FORK; fresh = 1; mine = 1; write; start(FORK) }
     :: in != 0                                                       /* NodeExists */
     :: skip                                                          /* is killed in between */
     fi
  :: d_step { mine -> mine = 0; stop(FORK) }                          /* is killed, or has stopped */
  od }

proctype recycler() {
end: do
  :: d_step { in != 0 && !fresh -> deciding = 1 } ->
     if
     :: d_step { in != 0 -> in = 0; deciding = 0; write } ->
        d_step { out = 1; write }
     :: d_step { in == 0 -> deciding = 0 }                            /* NoNode */
     fi
  od }

proctype ours(byte me) { bool mine;
end: do
  :: d_step { !mine && (out || in == me
#ifdef NO_PRESENT
       || in == 0
#endif
       || in != 0 && !fresh) -> changed[me] = 0 } ->
     if
     :: d_step { same -> out = 0; in = me; fresh = 1; mine = 1; write }
     :: !same
     fi
  :: d_step { mine && in == me && fresh && waited && issues != me -> start(me) }   /* a renewal allows the first IDs */
  :: d_step { mine && (in != me
#ifndef NO_SILENCE
       || !fresh
#endif
       ) -> mine = 0; stop(me) }                                      /* a renewal finds it lost, or comes after an hour */
#ifdef NO_SILENCE
  :: d_step { mine && in == me && !fresh -> fresh = 1; write; start(me) }   /* a late one goes on */
#endif
  :: d_step { (mine && in == me && fresh
#ifndef NO_WAIT_BACK
       && waited
#endif
       ) -> in = 0; out = 1; mine = 0; write; stop(me) }                /* gives it back; before that it stays in inuse */
  :: d_step { mine -> mine = 0; stop(me) }                            /* is killed */
  od }

proctype hour() {
end: do
  :: d_step { in != 0 && fresh -> fresh = 0;
#ifdef NO_FENCE
       if :: in == FORK -> stop(FORK) :: else fi
#else
       stop(in)
#endif
     }
  od }

init { atomic { run fork(); run recycler(); run ours(2); run ours(3); run hour() } }
