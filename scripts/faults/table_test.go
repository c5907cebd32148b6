//go:build unix

package faults

import (
	"slices"
	"syscall"
	"time"
)

// fault is a row of the table: a kind of disorder, and what it may cost. It breaks something and lets that last
// a little; the world heals it.
type fault struct {
	name string
	run  func(*world)
	on   []string // the topologies where it works; nil for all

	// leftOut is how many numbers of a list may be left out, ten times as many of a tag, beyond the segments
	// that are on their way.
	leftOut int64
	// without is for how long a process that nobody broke may be without new IDs, the time that the fault
	// lasts included, but not that in which the database's server stops and starts; 0 is 5 s.
	without time.Duration
	asks    answer // whether an operator has to confirm narrow apps

	database bool // something happens to the database: without Redis nobody vouches for it
	calm     bool // no weather beside it: the tripwire may not know a push that comes late from a repeat
	slow     bool // takes more than a few seconds: TestFaults has one of them
	first    int  // 1: comes before all others
}

// answer is how often something happens.
type answer string

const (
	never  answer = ""
	maybe  answer = "maybe"
	always answer = "always"
)

// jumps is what a list leaves out where nobody knows what the database lacks: twice its rate, which is 5000 a
// second, for some minutes.
const jumps = 5_000_000

// ages is what it leaves out where the database has a change that only a Redis could settle which nobody uses
// any more: the doubt is counted from there, up to the length of a run.
const ages = 100 * jumps

// table is all rows.
func table() []fault {
	var (
		proxied = []string{onSingle, onGroup} // between processes and Redis
		single  = []string{onSingle}
		files   = []string{onSingle, onCluster} // Redis reads a file of the test at its start
		redis   = []string{onSingle, onSentinel, onCluster}
		copied  = []string{onSingle, onSentinel, onCluster, onNone} // the database has a replica
		alone   = []string{onSingle, onNone}                        // of these one without Redis, and one with any
		nodes   = []string{onGroup, onGalera}
		s       = time.Second
	)
	return []fault{
		// Redis goes back, or forgets: the lists are dropped, and the database knows what they gave.
		{name: "old RDB", run: oldRDB, on: redis, without: 15 * s},
		{name: "old AOF", run: oldAOF, on: files, without: 15 * s},
		{name: "Redis restarts", run: redisRestarts, on: files, without: 15 * s},
		{name: "Redis restarts, empty", run: redisEmpty, on: redis, without: 15 * s},
		{name: "Redis restarts, a process is killed", run: victim, on: single, without: 25 * s},
		{name: "Redis is unreachable for long", run: redisAway, on: single, without: 60 * s, slow: true},
		{name: "Redis sleeps", run: redisSleeps, on: redis, without: 10 * s},
		{name: "lists deleted", run: deleted(listKeys), on: redis, calm: true},
		{name: "metas deleted", run: deleted(metaKeys), on: redis, calm: true},
		{name: "sections deleted", run: deleted(sectionKeys), on: redis, calm: true},
		{name: "all deleted", run: onMasters("FLUSHALL"), on: redis, without: 15 * s, calm: true},
		{name: "keys evicted", run: evicted, on: redis, calm: true, without: 10 * s},
		{name: "out of memory", run: outOfMemory, on: redis, without: 10 * s},
		{name: "scripts flushed", run: onMasters("SCRIPT", "FLUSH"), on: redis},
		{name: "locks gone", run: locksGone, on: redis},

		// Another Redis takes over, which lacks the last moment, or continues beside the first.
		{name: "lagging replica promoted", run: lagging, on: redis, without: 15 * s},
		{name: "master lost", run: lostMaster, on: redis, without: 15 * s},
		{name: "process asleep over a promotion", run: asleep, on: redis, without: 15 * s},
		{name: "sleeping master replaced", run: sleepingMaster, on: []string{onSentinel, onCluster}, without: 20 * s},
		{name: "split brain", run: splitBrain, on: single, without: 15 * s},
		{name: "split brain, a process asleep", run: splitAsleep, on: single, without: 30 * s, slow: true},
		{name: "A-B-A", run: thereAndBack, on: single, without: 10 * s},
		{name: "A-B-A with B's data", run: backWithOldData, on: single, without: 10 * s},
		{name: "taken over twice", run: takenOverTwice, on: []string{onCluster}, without: 10 * s},
		{name: "cluster grows and shrinks", run: clusterGrows, on: []string{onCluster}, without: 20 * s, slow: true},
		{name: "another Redis", run: anotherRedis, on: single},

		// Between the processes and the stores.
		{name: "replies dropped", run: storm(Weather{DropReply: 0.2}, Weather{}), on: proxied, calm: true},
		{name: "replies stalled", run: storm(Weather{LateReply: 0.3, Longest: 2 * s}, Weather{}),
			on: proxied, calm: true, without: 10 * s},
		{name: "requests dropped", run: storm(Weather{DropRequest: 0.2}, Weather{}), on: proxied, calm: true},
		{name: "pushes late", run: storm(Weather{LateRequest: 0.3, Longest: 2 * s}, Weather{}),
			on: proxied, calm: true, without: 10 * s},
		{name: "COMMIT unclear", run: storm(Weather{}, Weather{DropReply: 0.1}), calm: true},

		// The database restarts, fails over, or goes back, and Redis knows what it lacks.
		{name: "database sleeps", run: databaseSleeps, on: alone, without: 10 * s, database: true},
		{name: "database restarts", run: databaseRestarts, on: copied, without: 15 * s, database: true},
		{name: "database is unreachable for long", run: databaseAway, on: alone, without: 45 * s, database: true,
			slow: true},
		{name: "database hangs, and restarts", run: databaseHangs, on: single,
			without: 45 * s, database: true, slow: true},
		{name: "database fails over", run: databaseFailsOver, on: copied, without: 25 * s, database: true},
		{name: "database fails over twice", run: databaseFailsOverTwice, on: alone,
			leftOut: jumps, without: 25 * s, asks: maybe, database: true, slow: true},
		{name: "database fails over and back", run: databaseOverAndBack, on: alone,
			leftOut: ages, without: 45 * s, asks: maybe, database: true, slow: true},
		{name: "database fails over after long", run: databaseAwayFailsOver, on: single,
			without: 45 * s, database: true, slow: true},
		{name: "database fails over before the first ID", run: beforeFirstID,
			on: []string{onNone}, database: true, first: 1},
		{name: "COMMITs stall", run: commitsStall, on: alone, calm: true, without: 30 * s, database: true},
		{name: "max_id rolled back", run: rowsBack, on: redis},
		{name: "app, tag and space made again", run: madeAgain, on: single, calm: true, without: 25 * s, slow: true},
		{name: "each restarts, with weeks between", run: restartsOverWeeks, on: single, without: 15 * s, slow: true},
		{name: "another Redis and back, database fails over", run: backFailsOver, on: single,
			without: 25 * s, slow: true},

		// Both go back, or nobody can vouch: counters jump, and narrow apps ask first.
		{name: "both stores restart", run: bothRestart, on: single, leftOut: jumps, without: 30 * s, asks: always},
		{name: "both stores fall back", run: bothFallBack, on: redis,
			leftOut: jumps, without: 60 * s, asks: maybe, slow: true},
		{name: "both stores restored", run: bothRestored, on: single,
			leftOut: jumps, without: 90 * s, asks: always, slow: true},
		{name: "another Redis and back, database restored", run: backRestored, on: single,
			leftOut: ages, without: 90 * s, asks: maybe, slow: true},
		{name: "another Redis, database fails over", run: anotherRedisFailsOver, on: single,
			leftOut: jumps, without: 60 * s, asks: maybe, slow: true},
		{name: "split brain, database fails over", run: splitFailsOver, on: single,
			leftOut: jumps, without: 60 * s, asks: maybe, slow: true},
		{name: "no Redis, database fails over", run: noRedisFailsOver, on: redis,
			leftOut: jumps, without: 60 * s, asks: maybe, slow: true},

		// Databases of several nodes, whose commits outlive any one of them: nothing is doubted, so nothing jumps.
		{name: "primary killed", run: withoutPrimary(killed), on: nodes, without: 30 * s},
		{name: "primary starts outside the group", run: withoutPrimary(startedOutside),
			on: []string{onGroup}, without: 30 * s},
		{name: "primary asleep", run: withoutPrimary(frozen), on: nodes, without: 45 * s, slow: true},
		{name: "primary switched", run: primarySwitched, on: nodes, without: 15 * s},
		{name: "writes on all nodes", run: nodesApart, on: []string{onGalera}, without: 15 * s},

		// Processes and clients.
		{name: "process sleeps", run: processSleeps},
		{name: "process killed", run: processKilled},
		{name: "all processes restart", run: allRestart, without: 15 * s},
		{name: "Go client killed", run: clientKilled},
		{name: "Go client sleeps", run: clientSleeps},
		{name: "Go clients cut off", run: clientsCutOff},
	}
}

// faultsOn are those that work on a topology.
func faultsOn(topology string) []fault {
	return slices.DeleteFunc(table(), func(f fault) bool { return f.on != nil && !slices.Contains(f.on, topology) })
}

// storm is weather between the processes and Redis, and the database.
func storm(redis, db Weather) func(*world) {
	return func(w *world) {
		w.setWeather(redis, db)
		w.linger(2 * time.Second)
	}
}

// someProc is one that the fault of this round breaks.
func (w *world) someProc() *proc {
	p := w.procs[w.rnd.IntN(len(w.procs))]
	p.broken = true
	return p
}

// sleep freezes a process until it is woken up, or the world heals.
func (w *world) sleep(p *proc) (wake func()) {
	p.broken = true
	p.Signal(syscall.SIGSTOP)
	w.later(func() { p.Signal(syscall.SIGCONT) })
	return func() { p.Signal(syscall.SIGCONT) }
}

// kill ends processes until the world heals, in any order.
func (w *world) kill(procs ...*proc) {
	for _, p := range procs {
		p.broken = true
		p.Kill()
	}
}

func processSleeps(w *world) {
	w.sleep(w.someProc())
	w.linger(1500 * time.Millisecond)
}

func processKilled(w *world) {
	p := w.someProc()
	w.kill(p)
	w.later(p.start)
	w.linger(time.Second)
}

// allRestart: all processes are unreachable at once, after an orderly stop or a power cut.
func allRestart(w *world) {
	end := syscall.SIGKILL
	if w.coin() {
		end = syscall.SIGTERM
	}
	for _, p := range w.procs {
		p.broken = true
		p.Signal(end)
	}
	for _, p := range w.procs {
		if status := p.Exit(patience); status != 0 && end == syscall.SIGTERM {
			w.t.Errorf("%s ended with status %d", p.name, status)
		}
		w.later(p.start)
	}
}

func clientKilled(w *world) {
	g := w.someGopher()
	g.kill()
	w.later(g.start)
	w.linger(time.Second)
}

// clientSleeps: what it holds is as old as the pause when it continues, and so are the answers
// that wait for it.
func clientSleeps(w *world) {
	g := w.someGopher()
	g.process.Signal(syscall.SIGSTOP)
	w.later(func() { g.process.Signal(syscall.SIGCONT) })
	w.linger(4 * time.Second) // longer than a fetch may take
}

// clientsCutOff: what was asked for does not arrive, or its answer does not, always or now
// and then; or it comes late.
func clientsCutOff(w *world) {
	weathers := []Weather{{DropRequest: 1}, {DropReply: 1}, {DropReply: 0.3}, {LateReply: 1, Longest: 4 * time.Second}}
	weather := weathers[w.rnd.IntN(len(weathers))]
	w.note("clients: %v", weather)
	for _, p := range w.procs {
		p.front.SetWeather(weather)
		w.later(func() { p.front.SetWeather(Weather{}) })
	}
	w.linger(4 * time.Second)
}
