package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"time"

	"shardid/model"
)

// mutant is a fault built into the simulated stores: a guard of the design that
// is left out. The simulation must notice each.
type mutant string

const (
	noMutant          mutant = ""
	noHistoryCheck    mutant = "lists are served whatever their history"
	runIDForHistory   mutant = "run_id instead of master_replid"
	pushRetries       mutant = "a push without an answer is sent again, for any history"
	noHighWater       mutant = "no high-water mark"
	noFloor           mutant = "max_id is not lifted"
	noBucket          mutant = "the rate is not enforced"
	noHeartbeat       mutant = "no heartbeat: a copy of the database is taken for new"
	noWait            mutant = "no wait before a jump"
	oneRate           mutant = "a jump of one rate instead of two"
	identityIgnored   mutant = "another life of the database server is taken for the one before"
	staleMarkBelieved mutant = "a mark is believed although it is stale"
	otherRedisVouches mutant = "a mark in a Redis that was exchanged for another one counts"
	unclearCommit     mutant = "an unclear COMMIT counts as committed"
	noRowLock         mutant = "two allocations read the same row"
	partsUnmarked     mutant = "only the first part of a segment raises the high-water mark"
	gapsOverlooked    mutant = "a pop takes every list to be without gaps"
)

// simKeys are the lists of the simulation: few, so that replicas meet.
func simKeys() []model.ListKey { return []model.ListKey{{App: 1, Shard: 0}, {App: 1, Shard: 1}} }

// world is one simulated deployment, all of whose chances come from one seed: a
// scheduler that runs one step of one replica at a time, and lets a fault happen
// between any two steps.
type world struct {
	rng    *rand.Rand
	mutant mutant
	now    time.Time

	redis    *simRedis
	database *simDatabase
	replicas []*simReplica
	delayed  []func() // commands still on their way

	// databaseGoesBack says which of two kinds of world this is. In the one the
	// database goes back in time, with or without Redis, and Redis is exchanged for
	// another one and back. In the other Redis may have two masters at once. These
	// together are outside the promise.
	databaseGoesBack bool
	// forgetful says that all replicas may be killed at once, also in a power cut. Then
	// an old copy of the database comes back only as the first of all that happens to
	// it: nobody is left who knows of what happened later, and to go back beyond that
	// is outside the promise.
	forgetful bool

	issued map[int64]bool
	jumps  int
	faults map[string]int
	err    error // the first violation
}

const (
	simReplicas = 3
	simSteps    = 600
	simStep     = 20 // smallest segment, in indices
)

func newWorld(seed uint64, m mutant) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), mutant: m, now: time.Unix(1_800_000_000, 0),
		issued: map[int64]bool{}, faults: map[string]int{},
	}
	w.databaseGoesBack, w.forgetful = w.chance(67), w.chance(50)
	w.redis = newSimRedis(w)
	w.database = newSimDatabase(w)
	for range simReplicas {
		w.replicas = append(w.replicas, w.newReplica())
	}
	return w
}

// run simulates until the end or the first violation.
func (w *world) run() error {
	for i := 0; i < simSteps && w.err == nil; i++ {
		w.now = w.now.Add(time.Duration(w.rng.IntN(200)) * time.Millisecond)
		if w.now.Sub(w.database.Beat) >= model.BeatEvery {
			w.database.heartbeat(w.replicas[w.rng.IntN(len(w.replicas))])
		}
		switch {
		case w.chance(8):
			w.fault()
		case len(w.delayed) > 0 && w.chance(20):
			w.arrive()
		default:
			w.replicas[w.rng.IntN(len(w.replicas))].resume()
		}
	}
	for _, r := range w.replicas {
		r.crash()
	}
	return w.err
}

// chance is true in so many of a hundred cases.
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// arrive lets a command that its sender has given up reach the server after all.
func (w *world) arrive() {
	i := w.rng.IntN(len(w.delayed))
	command := w.delayed[i]
	w.delayed = append(w.delayed[:i], w.delayed[i+1:]...)
	w.faults["a command arrives late"]++
	command()
}

// fault does one thing that the promise covers.
func (w *world) fault() {
	all := []struct {
		name string
		do   func() bool // false: not now
	}{
		{"snapshot", w.redis.save},
		{"restart from a snapshot", w.redis.restart},
		{"replication", w.redis.sync},
		{"failover", w.redis.promote},
		{"failover back", w.redis.promoteBack},
		{"a replica follows the failover", w.follow},
		{"a key is deleted", w.redis.loseKey},
		{"Redis is exchanged", w.redis.move},
		{"the database crashes", w.database.crash},
		{"the database fails over", w.database.failOver},
		{"the database is restored", w.database.restore},
		{"both stores go back", func() bool { return w.database.failOver() && w.redis.restart() }},
		{"a power cut", func() bool { return w.forgetful && w.database.crash() && w.redis.restart() && w.killAll() }},
		{"a replica is killed", w.kill},
		{"all replicas are killed", w.killAll},
		{"a quiet time", w.pass},
	}
	f := all[w.rng.IntN(len(all))]
	if f.do() {
		w.faults[f.name]++
	}
}

// follow lets one replica find the present master.
func (w *world) follow() bool {
	r := w.replicas[w.rng.IntN(len(w.replicas))]
	r.node = w.redis.master
	return true
}

func (w *world) kill() bool {
	i := w.rng.IntN(len(w.replicas))
	w.replicas[i].crash()
	w.replicas[i] = w.newReplica()
	return true
}

// killAll leaves nobody who knows what was issued.
func (w *world) killAll() bool {
	if !w.forgetful {
		return false
	}
	for i, r := range w.replicas {
		r.crash()
		w.replicas[i] = w.newReplica()
	}
	return true
}

// pass lets a while go by.
func (w *world) pass() bool {
	w.now = w.now.Add(time.Duration(w.rng.IntN(30)) * time.Second)
	return true
}

// note checks an ID that a caller got.
func (w *world) note(id int64) {
	if w.issued[id] {
		parts, _ := model.DecodeQueueID(id)
		w.fail("index %d of list %s was issued twice", parts.Index, parts.ListKey)
	}
	w.issued[id] = true
}

// simReplica is one process: the real service on simulated stores. It runs as a
// coroutine that stops before and after each thing a store does.
type simReplica struct {
	world *world
	node  int // the Redis node its connections lead to
	seen  model.Timeline
	lists []*list
	yield func(struct{}) bool
	next  func() (struct{}, bool)
	end   func()
}

func (w *world) newReplica() *simReplica {
	r := &simReplica{world: w, node: w.redis.master}
	s, err := New(Options{
		Lists: r, Locker: r, Allocator: r, Catalogue: nil, Reporter: r, Log: slog.New(slog.DiscardHandler),
		Timeout: time.Second, LowWatermark: 0.2, PrefetchMax: 1000, MaxStep: 100,
		RefillCron: "@yearly", ReloadCron: "@yearly",
	})
	if err != nil {
		panic(err)
	}
	for _, key := range simKeys() {
		l := &list{svc: s, key: key, depth: -1}
		l.configure(model.ListConfig{Key: key, Step: simStep})
		r.lists = append(r.lists, l)
	}
	r.next, r.end = iter.Pull(r.live)
	return r
}

// live pops and refills for ever, through the code that serves callers.
func (r *simReplica) live(yield func(struct{}) bool) {
	r.yield = yield
	for yield(struct{}{}) {
		l := r.lists[r.world.rng.IntN(len(r.lists))]
		switch {
		case r.world.chance(25):
			l.refillIn(r.world)
			continue
		case r.world.chance(5):
			r.reload(l)
			continue
		}
		p, err := l.pop(1 + r.world.rng.IntN(12))
		if err != nil {
			continue
		}
		l.deliver(p)
		r.issue(l)
		if len(p.Indices) == 0 {
			l.refillIn(r.world)
		}
	}
}

// refillIn refills with or without the lock, whose holder may have died.
func (l *list) refillIn(w *world) {
	l.mu.Lock()
	claimed := l.claim()
	l.mu.Unlock()
	if claimed {
		l.svc.runPass([]*job{{list: l}}, w.chance(50))
	}
}

// reload reads the list's row and its state, as the cron jobs do, and settles them.
func (r *simReplica) reload(l *list) {
	row := r.world.database.rows[l.key]
	l.svc.observe(context.Background(), []*job{{list: l}}, r.State)
	l.configure(model.ListConfig{Key: l.key, MaxID: row.Last, Step: simStep, CurrentStep: row.CurrentStep, History: row.Life, Doubt: row.Doubt})
	if l.unsettled() {
		r.world.faults["a list is settled"]++
		l.svc.refill([]*list{l}, true)
	}
}

// issue gives some of what is held to callers; the rest stays ahead of demand.
func (r *simReplica) issue(l *list) {
	if l.held() == 0 {
		return
	}
	ids, _ := l.tryTake(1+r.world.rng.IntN(l.held()), nil)
	for _, id := range ids {
		r.world.note(id)
	}
}

func (r *simReplica) resume() { r.next() }

// crash ends the process where it stands: whatever it still does fails.
func (r *simReplica) crash() { r.end() }

// Report implements Reporter.
func (r *simReplica) Report(string, error) {}

var errLost = errors.New("no answer")
