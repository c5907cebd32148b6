//go:build unix

package faults

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// fault is one kind of disorder. It breaks something and lets that last a
// little; the world heals it.
type fault struct {
	name string
	run  func(*world)
	// on are the topologies where it works; nil for all.
	on []string
	// long is one after which numbers are left out, which waits for half a minute.
	long bool
	// calm allows no weather beside it: a push that comes late after the
	// high-water mark was deleted is no repeat, but the tripwire cannot know.
	calm bool
}

func faults() []fault {
	withConf, withProxy := []string{onSingle, onCluster, onGroup}, []string{onSingle, onGroup}
	withReplica := []string{onSingle, onSentinel, onCluster} // of the database
	return []fault{
		{name: "old RDB", run: oldRDB},
		{name: "old AOF", run: oldAOF, on: withConf},
		{name: "lagging replica promoted", run: lagging},
		{name: "process asleep over a promotion", run: asleep},
		{name: "master lost", run: lostMaster},
		{name: "split brain", run: splitBrain, on: withProxy},
		{name: "A-B-A", run: thereAndBack, on: withProxy},
		{name: "A-B-A with B's data", run: backWithOldData, on: withProxy},
		{name: "taken over twice", run: takenOverTwice, on: []string{onCluster}},
		{name: "sleeping master replaced", run: sleepingMaster, on: []string{onSentinel, onCluster}},
		{name: "redis sleeps", run: redisSleeps},
		{name: "lists deleted", run: listsDeleted, calm: true},
		{name: "metas deleted", run: metasDeleted, calm: true},
		{name: "sections deleted", run: sectionsDeleted, calm: true},
		{name: "all deleted", run: allDeleted, calm: true},
		{name: "keys evicted", run: evicted, calm: true},
		{name: "out of memory", run: outOfMemory},
		{name: "scripts flushed", run: scriptsFlushed},
		{name: "locks gone", run: locksGone},
		{name: "max_id rolled back", run: rowsBack},
		{name: "replies dropped", run: storm(Weather{DropReply: 0.2}), on: withProxy, calm: true},
		{name: "replies stalled", run: storm(Weather{LateReply: 0.3, Longest: 2 * time.Second}), on: withProxy, calm: true},
		{name: "requests dropped", run: storm(Weather{DropRequest: 0.2}), on: withProxy, calm: true},
		{name: "pushes late", run: storm(Weather{LateRequest: 0.3, Longest: 2 * time.Second}), on: withProxy, calm: true},
		{name: "COMMIT unclear", run: unclearCommits, calm: true},
		{name: "database sleeps", run: databaseSleeps, on: withReplica},
		{name: "database killed", run: databaseKilled, on: withReplica},
		{name: "database fails over, lagging", run: databaseFailsOver, on: withReplica},
		{name: "database and Redis fall back", run: bothFallBack, long: true, on: withReplica},
		{name: "another Redis", run: anotherRedis, on: withProxy},
		{name: "another Redis, database fails over", run: anotherRedisFailsOver, on: []string{onSingle}, long: true},
		{name: "no Redis, database fails over", run: noRedisFailsOver, long: true, on: withReplica},
		{name: "Redis clocks wrong", run: clocksWrong, on: withProxy},
		{name: "COMMITs stall", run: commitsStall, calm: true, on: withReplica},
		{name: "app and tag made again", run: madeAgain, calm: true, on: withReplica},
		{name: "group's primary killed", run: withoutPrimary(killed), on: []string{onGroup}},
		{name: "group's primary starts outside it", run: withoutPrimary(startedOutside), on: []string{onGroup}},
		{name: "group's primary asleep", run: withoutPrimary(frozen), on: []string{onGroup}},
		{name: "group's primary cut off", run: withoutPrimary(cutOff), on: []string{onGroup}},
		{name: "group's primary switched", run: primarySwitched, on: []string{onGroup}},
		{name: "process sleeps", run: processSleeps},
		{name: "process killed", run: processKilled},
		{name: "Go client killed", run: clientKilled},
		{name: "Go client sleeps", run: clientSleeps},
		{name: "Go clients cut off", run: clientsCutOff},
	}
}

// storm is weather between the processes and Redis.
func storm(weather Weather) func(*world) {
	return func(w *world) {
		w.setWeather(weather, Weather{})
		w.linger(2 * time.Second)
	}
}

// unclearCommits loses answers of the database: a COMMIT may have happened.
func unclearCommits(w *world) {
	w.setWeather(Weather{}, Weather{DropReply: 0.1})
	w.linger(2 * time.Second)
}

func databaseSleeps(w *world) {
	db := w.db.Primary
	db.Pause()
	w.later(db.Resume)
	w.linger(1500 * time.Millisecond)
}

func databaseKilled(w *world) {
	db := w.db.Primary
	db.Kill()
	w.later(db.Restart)
	w.linger(time.Second)
}

// databaseFailsOver: the primary is lost, and its replica has missed the last moment.
func databaseFailsOver(w *world) {
	w.followDatabase()
	w.db.Lag()
	w.issue(lag)
	w.promoteDatabase()
	w.linger(time.Second)
}

// bothFallBack: the database and Redis are lost, and the replicas of both have missed
// the last moment.
func bothFallBack(w *world) {
	w.followDatabase()
	p := w.somePair()
	p.cut(w)
	w.db.Lag()
	w.issue(lag)
	w.site.promote(w, p)
	w.promoteDatabase()
	w.linger(time.Second)
}

func (w *world) someProc() *proc { return w.procs[w.rnd.IntN(len(w.procs))] }

func processSleeps(w *world) {
	p := w.someProc()
	p.Signal(syscall.SIGSTOP)
	w.later(func() { p.Signal(syscall.SIGCONT) })
	w.linger(1500 * time.Millisecond)
}

func processKilled(w *world) {
	p := w.someProc()
	w.tally(p)
	p.Kill()
	w.later(p.start)
	w.linger(time.Second)
}

// round is one entry of the schedule.
type round struct {
	fault     fault
	redis, db Weather // beside the fault
	seed      uint64  // of the choices within
}

// faultsOn are those that work on a topology.
func faultsOn(topology string) []fault {
	return slices.DeleteFunc(faults(), func(f fault) bool { return f.on != nil && !slices.Contains(f.on, topology) })
}

// schedule chooses at most n rounds: every kind in random order, half of them in bad
// weather, and again and again; or once, with only so many of the long ones.
func schedule(seed uint64, topology string, n, once int) []round {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var rounds []round
	for len(rounds) < n {
		kinds, long := faultsOn(topology), 0
		rnd.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		for _, f := range kinds {
			if f.long {
				long++
			}
			if !f.long || once == 0 || long <= once {
				rounds = append(rounds, newRound(f, topology, rnd))
			}
		}
		if once > 0 {
			break
		}
	}
	return rounds[:min(n, len(rounds))]
}

func newRound(f fault, topology string, rnd *rand.Rand) round {
	r := round{fault: f, seed: rnd.Uint64()}
	weather := rnd.IntN(6)
	proxied := topology == onSingle || topology == onGroup
	switch {
	case f.calm:
	case weather == 0:
		r.db = Weather{DropReply: 0.03}
	case weather == 1 && proxied:
		r.redis = Weather{DropReply: 0.02}
	case weather == 2 && proxied:
		r.redis = Weather{LateRequest: 0.05, Longest: 1500 * time.Millisecond}
	}
	return r
}
