/* A worker ID of a name, which holders lease over HTTP.  A lease is a run of times: its holder may issue those above after, up to
   until.  The database stores until and the holder's secret; it gives the worker ID to another holder above all that it stored.
   World: holders that come, renew, are forgotten or release at any moment, also long after their lease has ended; a request to
   release that arrives late; replicas of the database that may lack the last changes take over at any moment, and their clocks
   differ; time passes.
   Each time that is granted counts as issued, whenever that is: so a holder may be frozen, and its clock may say what it likes.
   Promise: each time belongs to one lease.  -DNO_...: without a rule.  -DWITH_...: what is excluded. */
#ifndef T
#define T 8                      /* ticks; a time is one tick */
#endif
#ifndef LEASES
#define LEASES 3
#endif
#ifndef FAILS
#define FAILS 2                  /* how often a replica of the database takes over */
#endif
#define H 2                      /* hold: a lease is granted so far ahead of the database's clock */
#ifdef WITH_CLOCKS_APART
#define O 3
#else
#define O 1                      /* how far the database's clock may be ahead of time */
#endif
#ifdef NO_SLACK
#define S 0
#else
#define S 1
#endif
#ifdef NO_MARGIN
#define M 0
#else
#define M 1                      /* for so long after its end a lease is left alone */
#endif
#define MOST 32

byte t = 1, off;                     /* time; how far the database's clock is ahead of it */
#define now (t + off)
/* The row of the worker ID, and the copies that a replica has of it. */
byte until, secret;              /* of the lease that was granted last; secret 0: it was released */
byte kept;                       /* since when the database has forgotten nothing; 0 for ever */
byte cuntil[2], csecret[2];
byte fails;
/* Leases: their holders' bounds; whether the holder still uses it. */
byte after[LEASES + 1], upto[LEASES + 1];
bool uses[LEASES + 1], late[LEASES + 1];   /* its release is on the way */
byte used[LEASES + 1];
byte leases, owner[MOST];

#ifdef WITH_STEAL
#define free 1
#else
#define free (secret == 0 || now >= until + M)
#endif
#ifdef NO_SECRET
#define known 1
#else
#define known (secret == l)
#endif
#ifdef NO_ENDED
#define lives 1
#else
#define lives (now < until)
#endif

inline grant(l) {
  k = after[l] + 1;
  do :: k <= upto[l] -> assert(owner[k] == 0 || owner[k] == l); owner[k] = l; k++ :: else -> break od;
  k = 0 }

inline acquire() {
  leases++;
  k = 0;
#ifndef NO_FENCE
  k = until;
#endif
#ifndef NO_WAIT
  if :: kept != 0 && kept + H + S > k -> k = kept + H + S :: else fi;
#endif
  after[leases] = k;
  upto[leases] = now + H;
  if :: upto[leases] > until -> until = upto[leases] :: else fi;
  upto[leases] = until;
  secret = leases; uses[leases] = 1;
  grant(leases) }

active proctype world() {
  byte k, l, u;
end: do
  /* a holder asks for a lease */
  :: d_step { leases < LEASES && free -> acquire() }
  /* a holder renews, perhaps one that was frozen for long */
  :: atomic { select(l : 1 .. LEASES);
     if
     :: d_step { uses[l] && known && lives -> if :: now + H > until -> until = now + H :: else fi; upto[l] = until; grant(l) }
     :: else
     fi; l = 0 }
  /* a holder stops, says the last time that it used, and forgets the others */
  :: atomic { select(l : 1 .. LEASES);
     if
     :: uses[l] && upto[l] > after[l] ->
        select(u : after[l] .. upto[l]); k = 0;
        d_step { used[l] = u; late[l] = 1;
#ifndef NO_STOP
          uses[l] = 0; k = u + 1;
          do :: k <= upto[l] -> owner[k] = 0; k++ :: else -> break od;
#endif
          k = 0 }
     :: else
     fi; l = 0; u = 0 }
  /* and that arrives, at any moment, or again */
  :: atomic { select(l : 1 .. LEASES);
     if
     :: d_step { late[l] && secret == l -> until = used[l]; secret = 0 }
     :: else
     fi; l = 0 }
  /* time passes; the database's clock is corrected */
  :: d_step { t < T -> t++ }
  :: d_step { off < O && t < T -> off++ }
  :: d_step { off > 0 && t < T -> off-- }
  /* a replica has what the database has, and takes over some time later */
  :: d_step { fails < FAILS -> cuntil[0] = until; csecret[0] = secret }
  :: d_step { fails < FAILS && t < T -> fails++; until = cuntil[0]; secret = csecret[0];
       kept = now }
  :: d_step { fails < FAILS && t < T && off > 0 -> fails++; off = 0; until = cuntil[0]; secret = csecret[0];
       kept = now }
  od
}
