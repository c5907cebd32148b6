package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
)

func TestSimulation(t *testing.T) {
	worlds := uint64(10_000)
	if check.Race { // it finds nothing in a coroutine
		worlds = 500
	}
	var issued, jumps atomic.Int64
	simtest.Run(t, worlds, func(_ *testing.T, seed uint64) error {
		w := newWorld(seed, noMutant)
		if err := w.run(); err != nil {
			return fmt.Errorf("%w after %v", err, w.faults)
		}
		issued.Add(int64(len(w.issued)))
		jumps.Add(int64(w.jumps))
		return nil
	})
	t.Logf("%d worlds, %d IDs, %d jumps, none twice", worlds, issued.Load(), jumps.Load())
	if least := int64(worlds) * 50; issued.Load() < least {
		t.Errorf("%d IDs were issued, want at least %d: the simulation stands still", issued.Load(), least)
	}
}

// Each guard that is left out must let an ID repeat in some world. The bounds of a jump
// have a simulation of their own, in model/counter_sim_test.go, which catches what is
// left out of them. That a lowered max_id is lifted shows TestDirectedMaxIDRolledBack.
func TestSimulationCatchesMutants(t *testing.T) {
	if check.Race {
		t.Skip("make simulate runs it, ten times faster")
	}
	simtest.Catches(t, 30_000, []mutant{noHistoryCheck, runIDForHistory, pushRetries, noHighWater, noHeartbeat,
		noWait, identityIgnored, unclearCommit, noRowLock, partsUnmarked, gapsOverlooked},
		func(_ *testing.T, seed uint64, m mutant) error { return newWorld(seed, m).run() })
}

// mutant is a fault built into the simulated stores: a guard of the design that
// is left out. The simulation must notice each.
type mutant string

const (
	noMutant          mutant = ""
	noHistoryCheck    mutant = "lists are served whatever their life"
	runIDForHistory   mutant = "run_id instead of master_replid"
	pushRetries       mutant = "a push without an answer is sent again, in any life"
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
	seen  model.ServerTimes
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

// refillIn refills; a lock is heeded or not, as its holder may have died.
func (l *list) refillIn(w *world) {
	l.mu.Lock()
	claimed := l.claim()
	l.mu.Unlock()
	if claimed {
		l.svc.runPass([]*job{{list: l, manner: manner{ignoreLock: w.chance(50)}}})
	}
}

// reload reads the list's row and its state, as the cron jobs do, and settles them.
func (r *simReplica) reload(l *list) {
	row := r.world.database.rows[l.key]
	l.svc.observe(context.Background(), []*job{{list: l}}, r.State)
	l.configure(model.ListConfig{Key: l.key, MaxID: row.Last, Step: simStep, CurrentStep: row.CurrentStep, Life: row.Life, Doubt: row.Doubt})
	if l.unsettled() {
		r.world.faults["a list is settled"]++
		l.svc.refill([]*list{l}, manner{settle: true})
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

// simData is what a Redis server holds.
type simData struct {
	lists       map[model.ListKey][]int64
	h, e        map[model.ListKey]string
	w           map[model.ListKey]int64
	beatH, used string // replication ID under which beat was, and since when that is used without a break
	beat        time.Time
}

func (d simData) clone() simData {
	lists := make(map[model.ListKey][]int64, len(d.lists))
	for k, v := range d.lists {
		lists[k] = slices.Clone(v)
	}
	return simData{lists, maps.Clone(d.h), maps.Clone(d.e), maps.Clone(d.w), d.beatH, d.used, d.beat}
}

// simNode is one Redis server; its methods are the scripts of the real store.
type simNode struct {
	simData
	mutant   mutant
	name     func() string
	slave    bool // a replica of the other: it refuses to write
	replID   string
	runID    string
	snapshot simData
}

func (n *simNode) replicationID() string {
	if n.mutant == runIDForHistory {
		return n.runID
	}
	return n.replID
}

// life is that of one list.
func (n *simNode) life(key model.ListKey) string { return n.replicationID() + "-" + n.e[key] }

// guard drops what another life left.
func (n *simNode) guard(key model.ListKey) (purged int64) {
	if n.mutant == noHistoryCheck {
		return 0
	}
	_, marked := n.w[key]
	if n.h[key] == n.replicationID() && marked {
		return 0
	}
	purged = int64(len(n.lists[key]))
	delete(n.lists, key)
	if n.h[key] != n.replicationID() || n.e[key] == "" {
		n.h[key], n.e[key] = n.replicationID(), n.name()
	}
	return purged
}

func (n *simNode) pop(key model.ListKey, count int) model.Popped {
	purged := n.guard(key)
	list := n.lists[key]
	count = min(count, len(list))
	popped := slices.Clone(list[:count])
	if count > 1 && n.isRun(key) {
		for i := range popped { // only the first one is read
			popped[i] = list[0] + int64(i)
		}
	}
	n.lists[key] = slices.Clone(list[count:])
	return model.Popped{Life: n.life(key), Indices: popped, Len: int64(len(list) - count), Purged: purged}
}

// isRun says whether a list has no gap.
func (n *simNode) isRun(key model.ListKey) bool {
	list := n.lists[key]
	return n.mutant == gapsOverlooked || int64(len(list)) == n.w[key]-list[0]+1
}

func (n *simNode) state(key model.ListKey) model.ListState {
	purged := n.guard(key)
	highWater := n.w[key]
	if n.mutant == noHighWater {
		highWater = min(highWater, 1) // marked, but nothing remembered
	}
	return model.ListState{Life: n.life(key), Len: int64(len(n.lists[key])), HighWater: highWater, Purged: purged}
}

// use gives a name for the time in which the deployment has used the server without a
// break, and the server has forgotten nothing.
func (n *simNode) use(now time.Time) string {
	if n.beatH != n.replicationID() || now.Sub(n.beat) > time.Minute && n.mutant != staleMarkBelieved {
		n.beatH, n.used = n.replicationID(), n.name()
	}
	n.beat = now
	return n.used
}

func (n *simNode) mark(r model.MarkRequest) error {
	n.guard(r.Key)
	if n.life(r.Key) != r.Life {
		return model.ErrLifeChanged
	}
	n.w[r.Key] = max(n.w[r.Key], r.Index)
	return nil
}

// push appends a part of a segment.
func (n *simNode) push(r model.PushRequest, first bool) error {
	n.guard(r.Key)
	switch {
	case n.mutant != pushRetries && n.mutant != noHistoryCheck && n.life(r.Key) != r.Life:
		return model.ErrLifeChanged
	case n.mutant != noHighWater && r.Segment.First <= n.w[r.Key]:
		return model.ErrNotAboveHighWater
	case int64(len(n.lists[r.Key])) >= r.Cap:
		return model.ErrListFull
	}
	if first || n.mutant != partsUnmarked {
		n.w[r.Key] = r.Segment.Last
	}
	for i := r.Segment.First; i <= r.Segment.Last; i++ {
		n.lists[r.Key] = append(n.lists[r.Key], i)
	}
	return nil
}

// simRedis is a master and its replica; clients may still hang on the old one.
type simRedis struct {
	world       *world
	nodes       [2]*simNode
	spare       [2]*simNode // another Redis
	spareMaster int
	master      int
	names       int
}

func newSimRedis(w *world) *simRedis {
	r := &simRedis{world: w}
	for i := range 2 * len(r.nodes) {
		empty := simData{map[model.ListKey][]int64{}, map[model.ListKey]string{}, map[model.ListKey]string{}, map[model.ListKey]int64{}, "", "", time.Time{}}
		n := &simNode{simData: empty, mutant: w.mutant, name: r.name, snapshot: empty.clone(), replID: r.name(), runID: r.name()}
		if i < len(r.nodes) {
			r.nodes[i] = n
		} else {
			r.spare[i-len(r.nodes)] = n
		}
	}
	return r
}

func (r *simRedis) name() string { return fmt.Sprint("id", r.count()) }
func (r *simRedis) count() int   { r.names++; return r.names }

func (r *simRedis) save() bool {
	n := r.nodes[r.master]
	n.snapshot = n.clone()
	return true
}

// restart loads an old snapshot.
func (r *simRedis) restart() bool {
	n := r.nodes[r.master]
	n.simData = n.snapshot.clone()
	n.replID, n.runID = r.name(), r.name()
	return true
}

// sync brings the replica up to date; between two of these it lags.
func (r *simRedis) sync() bool {
	r.nodes[1-r.master].simData = r.nodes[r.master].clone()
	r.nodes[1-r.master].replID, r.nodes[1-r.master].slave = r.nodes[r.master].replID, true
	return true
}

// promote makes the replica the master, with what it has. Clients follow one by
// one; until then they use the old master.
func (r *simRedis) promote() bool {
	return r.takeOver(1 - r.master)
}

func (r *simRedis) takeOver(node int) bool {
	r.master = node
	r.nodes[r.master].replID, r.nodes[r.master].slave = r.name(), false
	for _, replica := range r.world.replicas {
		if r.world.databaseGoesBack { // nobody reaches the old master
			replica.node = r.master
		}
	}
	return true
}

// promoteBack demotes the master and promotes it again, both with the data of the
// other: A→B→A.
func (r *simRedis) promoteBack() bool {
	r.promote()
	for _, replica := range r.world.replicas {
		if replica.node != r.master && r.world.chance(50) {
			replica.node = r.master
		}
	}
	back := 1 - r.master
	if r.world.chance(50) {
		r.sync()
	}
	return r.takeOver(back)
}

// move has all replicas use another Redis, which the deployment has used before or not.
// That takes a person more than a minute; meanwhile nothing is served.
func (r *simRedis) move() bool {
	if !r.world.databaseGoesBack {
		return false
	}
	r.nodes, r.spare = r.spare, r.nodes
	r.master, r.spareMaster = r.spareMaster, r.master
	for _, replica := range r.world.replicas {
		replica.node = r.master
	}
	r.world.now = r.world.now.Add(61 * time.Second)
	return true
}

// loseKey deletes a list or its meta hash, as an eviction or a person would.
func (r *simRedis) loseKey() bool {
	n, key := r.nodes[r.master], simKeys()[r.world.rng.IntN(len(simKeys()))]
	if r.world.chance(50) {
		delete(n.lists, key)
		return true
	}
	delete(n.h, key)
	delete(n.e, key)
	delete(n.w, key)
	return true
}

// simServer is one life of a database server.
type simServer struct{ name, boot int }

// simCopy is what a database server holds, or held.
type simCopy struct {
	at     time.Time // when it was like that
	rows   map[model.ListKey]model.AllocState
	server simServer // that wrote last
	used   string    // the use of Redis in which rows name histories
	model.ServerTimes
}

// simDatabase is id_alloc and shardid_deployment. Every state that it was in may come
// back: on a replica that lags, after a crash, from a backup.
type simDatabase struct {
	world *world
	simCopy
	past    []simCopy
	answers simServer
}

// simRate is the most indices a second of a list where the database goes back; it is
// less than the longest segment.
const simRate = 20

func newSimDatabase(w *world) *simDatabase {
	d := &simDatabase{world: w}
	d.rows, d.Since, d.Beat = map[model.ListKey]model.AllocState{}, w.now, w.now
	for _, key := range simKeys() {
		d.rows[key] = model.AllocState{Key: key, Step: simStep}
	}
	d.commit()
	return d
}

func (d *simDatabase) commit() {
	d.at = d.world.now
	d.past = append(d.past, d.simCopy)
	d.past[len(d.past)-1].rows = maps.Clone(d.rows)
}

// goBack lets a copy that is at most that old take over, on that life of a server.
func (d *simDatabase) goBack(age time.Duration, on simServer) bool {
	if !d.world.databaseGoesBack {
		return false
	}
	oldest := slices.IndexFunc(d.past, func(c simCopy) bool { return d.world.now.Sub(c.at) <= age })
	if oldest < 0 {
		oldest = len(d.past) - 1
	}
	d.simCopy = d.past[oldest+d.world.rng.IntN(len(d.past)-oldest)]
	d.rows = maps.Clone(d.rows)
	d.answers = on
	return true
}

func (d *simDatabase) crash() bool    { return d.goBack(time.Second, d.restarted()) }
func (d *simDatabase) failOver() bool { return d.goBack(10*time.Second, d.another()) }
func (d *simDatabase) restore() bool {
	if d.world.forgetful && d.answers != (simServer{}) {
		return false
	}
	if d.world.chance(50) {
		return d.goBack(1<<62, d.restarted())
	}
	return d.goBack(1<<62, d.another())
}

func (d *simDatabase) restarted() simServer { return simServer{d.answers.name, d.world.redis.count()} }
func (d *simDatabase) another() simServer {
	n := d.world.redis.count()
	return simServer{n, n}
}

// notice notes that another life of the server answers, or one that lacks what the
// replica has seen, as the real store does in a transaction of its own before anything
// is allocated.
func (d *simDatabase) notice(by *simReplica) {
	if d.server == d.answers && !d.Behind(by.seen) || d.world.mutant == identityIgnored {
		by.seen = d.ServerTimes
		return
	}
	now := d.world.now
	vouched := !by.on().slave && by.on().use(now) == d.used || d.world.mutant == otherRedisVouches
	next, gap := d.Note(by.seen, now, d.server.name == d.answers.name)
	if d.world.mutant == noHeartbeat {
		gap.Known, gap.Rows = now, false // a copy is taken for new
	}
	for key, row := range d.rows {
		rate := int64(simRate)
		if d.world.mutant == oneRate {
			rate /= 2
		}
		row.Doubt = gap.Doubt(rate, row.At, row.Doubt)
		if !vouched {
			row.Life = ""
		}
		d.rows[key] = row
	}
	d.server, d.ServerTimes = d.answers, next
	by.seen = next
	d.commit()
}

// heartbeat is what the replicas send every ten seconds.
func (d *simDatabase) heartbeat(by *simReplica) {
	d.notice(by)
	d.Beat = d.world.now
	if !by.on().slave {
		if used := by.on().use(d.world.now); used != d.used {
			d.used = used
			for key, row := range d.rows {
				row.Life = ""
				d.rows[key] = row
			}
		}
	}
	d.commit()
}

// row is the row as the store reads it.
func (d *simDatabase) row(req *model.AllocRequest) model.AllocState {
	if d.world.mutant == noFloor {
		req.Floor = 0
	}
	row := d.rows[req.Key]
	row.Rate, row.JumpFrom = simRate, d.JumpFrom
	if d.world.mutant == noBucket || !d.world.databaseGoesBack {
		row.Rate = 0
	}
	if d.world.mutant == noWait {
		row.JumpFrom = time.Time{}
	}
	return row
}

func (d *simDatabase) allocate(by *simReplica, req model.AllocRequest) model.Allocation {
	d.notice(by)
	a, next, err := d.row(&req).Next(req, d.world.now)
	if err != nil {
		return model.Allocation{Err: err}
	}
	if a.Jumped > 0 {
		d.world.jumps++
	}
	d.rows[req.Key] = next
	d.commit()
	return a
}

func (d *simDatabase) settle(by *simReplica, req model.AllocRequest) {
	d.notice(by)
	d.rows[req.Key] = d.row(&req).Settle(req)
	d.commit()
}

// The methods below are the replica's view of the stores: requests and answers
// get lost, and others run between any two steps.

// pause lets others run; false means that the process was killed.
func (r *simReplica) pause() bool { return r.yield(struct{}{}) }

// call runs a command. It may get lost on its way, its answer on the way back, or
// it may arrive long after its sender gave up.
func (r *simReplica) call(command func()) error {
	switch {
	case !r.pause() || r.world.chance(3):
		return errLost
	case r.world.chance(2):
		r.world.delayed = append(r.world.delayed, command)
		return errLost
	}
	command()
	if !r.pause() || r.world.chance(3) {
		return errLost
	}
	return nil
}

func (r *simReplica) on() *simNode { return r.world.redis.nodes[r.node] }

// errSlave is the answer of a server that has become a replica.
var errSlave = errors.New("READONLY")

// script runs a command on the server that this process is connected to.
func (r *simReplica) script(command func(*simNode)) error {
	node, refused := r.on(), error(nil)
	err := r.call(func() {
		if refused = errSlave; !node.slave {
			refused = nil
			command(node)
		}
	})
	return errors.Join(err, refused)
}

// Pop implements Lists.
func (r *simReplica) Pop(_ context.Context, key model.ListKey, n int) (p model.Popped, err error) {
	if err = r.script(func(node *simNode) { p = node.pop(key, n) }); err != nil {
		return model.Popped{}, err
	}
	return p, nil
}

// State implements Lists.
func (r *simReplica) State(_ context.Context, keys []model.ListKey) []model.ListState {
	states := make([]model.ListState, len(keys))
	for i, key := range keys {
		if err := r.script(func(node *simNode) { states[i] = node.state(key) }); err != nil {
			states[i] = model.ListState{Err: err}
		}
	}
	return states
}

// Probe implements Lists.
func (r *simReplica) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	return r.State(ctx, keys)
}

// Mark implements Lists.
func (r *simReplica) Mark(_ context.Context, reqs []model.MarkRequest) []error {
	errs := make([]error, len(reqs))
	for i, req := range reqs {
		var answer error
		err := r.script(func(node *simNode) { answer = node.mark(req) })
		errs[i] = errors.Join(err, answer)
	}
	return errs
}

// Push implements Lists.
func (r *simReplica) Push(_ context.Context, reqs []model.PushRequest) []error {
	errs := make([]error, len(reqs))
	for i, req := range reqs {
		for offset := int64(0); offset < req.Segment.Len() && errs[i] == nil; offset += simPart {
			errs[i] = r.pushPart(req, offset)
		}
	}
	return errs
}

// simPart is the longest part of a segment that is pushed at once, in indices.
const simPart = 15

// pushPart pushes what follows the offset; others run between two parts.
func (r *simReplica) pushPart(req model.PushRequest, offset int64) error {
	req.Segment.First += offset
	req.Segment.Last = min(req.Segment.Last, req.Segment.First+simPart-1)
	req.Cap += offset
	var answer error
	push := func(node *simNode) { answer = node.push(req, offset == 0) }
	err := r.script(push)
	if err != nil && r.world.mutant == pushRetries {
		err = r.script(push) // perhaps to the new master
	}
	if err == nil {
		err = answer
	}
	return err
}

// Delete implements Lists.
func (r *simReplica) Delete(context.Context, []model.ListKey) error { return nil }

// TryLock implements Locker: the lock may have expired, so anybody may get it.
func (r *simReplica) TryLock(_ context.Context, names []string, _ string, _ time.Duration) ([]bool, error) {
	got := make([]bool, len(names))
	for i := range got {
		got[i] = r.world.chance(80)
	}
	return got, nil
}

// Unlock implements Locker.
func (r *simReplica) Unlock(context.Context, []string, string) error { return nil }

// Allocate implements Allocator: it commits or not, and the answer to COMMIT may
// get lost.
func (r *simReplica) Allocate(_ context.Context, reqs []model.AllocRequest) []model.Allocation {
	out := make([]model.Allocation, len(reqs))
	for i, req := range reqs {
		out[i] = r.allocate(req)
	}
	return out
}

func (r *simReplica) allocate(req model.AllocRequest) (a model.Allocation) {
	before := r.world.database.rows
	if r.world.mutant == noRowLock {
		before = maps.Clone(before)
		if !r.pause() {
			return model.Allocation{Err: errLost}
		}
	}
	err := r.call(func() {
		if r.world.mutant == noRowLock {
			r.world.database.rows[req.Key] = before[req.Key]
		}
		a = r.world.database.allocate(r, req)
	})
	if err == nil {
		return a
	}
	if r.world.mutant == unclearCommit {
		a, _, _ := r.world.database.row(&req).Next(req, r.world.now)
		return a
	}
	return model.Allocation{Err: err}
}

// Settle implements Allocator.
func (r *simReplica) Settle(_ context.Context, reqs []model.AllocRequest) []model.Allocation {
	out := make([]model.Allocation, len(reqs))
	for i, req := range reqs {
		out[i].Err = r.call(func() { r.world.database.settle(r, req) })
	}
	return out
}
