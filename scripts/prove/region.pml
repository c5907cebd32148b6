/* Regions.  Two deployments, each with a database of its own and no traffic between them.  A database records of which region
   its IDs are before the first one; each transaction that takes a number reads that, and the region joins the number.
   World: replicas of each deployment, told its region or, by an older configuration, none; once a region is recorded, also the
   other one by mistake.  Or a database is restored from a backup of the other one, also under running replicas.  One that goes
   back to an earlier state of its own is what witness.pml is about.
   Promise: deployments that have recorded a region have no ID in common, with all that they ever issued; an ID without a region is
   one of region 0.  -DNO_...: without a rule.  -DWITH_...: what is excluded. */
#ifndef N
#define N 3                      /* numbers that a database can hand out */
#endif
#ifndef STARTS
#define STARTS 2                 /* how often each replica starts */
#endif
#define NONE 2

byte region[2] = NONE, next[2];
bool typos;                      /* a replica may be told the other region, once its own is recorded */
bool issued0[8], issued1[8];     /* by each deployment, ever: number and region */
bool ever[2];                    /* it has recorded a region */

#define ID(n, r) ((r) * 4 + (n))

inline issue(d, n, r) {
  if
  :: d == 0 -> assert(!issued0[ID(n, r)]); issued0[ID(n, r)] = true
  :: else -> assert(!issued1[ID(n, r)]); issued1[ID(n, r)] = true
  fi;
  compare() }

/* With both regions recorded no ID may be one of both. */
inline compare() {
  i = 0;
  do
  :: i < 8 -> assert(!(ever[0] && ever[1] && issued0[i] && issued1[i])); i++
  :: else -> break
  od;
  i = 0 }

/* A database in use can only become region 0, whose IDs are those without a region. */
#ifdef NO_EMPTY
#define MAY_BEGIN(d, c) true
#else
#define MAY_BEGIN(d, c) (next[d] == 0 || c == 0)
#endif

inline begin() { region[d] = told; ever[d] = true; serves = true; compare() }

#ifdef NO_READ
#define READ(d, c) true
#else
#define READ(d, c) (region[d] == c)
#endif

proctype replica(byte d) {
  byte told, starts, i; bool serves;
  do
  :: atomic { starts < STARTS -> starts++; serves = false;
       if
       :: told = NONE
#ifdef WITH_SAME_REGION
       :: told = 0
#else
       :: told = d
#endif
       :: typos && region[d] != NONE -> told = 1 - d
       fi }
     if
     :: atomic { region[d] == told -> serves = true }
#ifdef NO_LOCK
     :: region[d] == NONE && told != NONE && MAY_BEGIN(d, told) ->
        if :: atomic { region[d] == NONE -> begin() } :: region[d] != NONE -> skip fi
#else
     :: atomic { region[d] == NONE && told != NONE && MAY_BEGIN(d, told) -> begin() }
#endif
     :: region[d] != told && !(region[d] == NONE && told != NONE && MAY_BEGIN(d, told)) -> skip    /* refused */
     fi
  :: atomic { serves && next[d] < N && READ(d, told) ->
       if :: told == NONE -> issue(d, next[d], 0) :: else -> issue(d, next[d], told) fi;
       next[d]++ }
  :: starts == STARTS -> break
  od }

/* Who restores the other region's backup has not told a replica of here that it is of that region. */
#ifdef WITH_TYPO_AND_RESTORE
#define CALM true
#else
#define CALM (!typos)
#endif

/* Backups are of a database that has a region. */
proctype operator() {
  byte to, saved_region, saved_next;
  if :: to = 0 :: to = 1 fi;
  if
  :: atomic { CALM && region[1 - to] != NONE -> saved_region = region[1 - to]; saved_next = next[1 - to] }
     atomic { region[to] = saved_region; next[to] = saved_next }
  :: skip
  fi
}

init { atomic {
  if :: typos = true :: typos = false fi;
  run replica(0); run replica(1); run replica(1); run operator() } }
