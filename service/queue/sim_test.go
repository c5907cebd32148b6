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
	"testing"
	"time"

	"shardid/model"
	"shardid/model/witness"
	"shardid/scripts/simtest"
)

// TestSimulation has no mutants: scripts/mutants leaves the guards out of the real code. The bounds of a jump, and who
// vouches for the database, have a simulation of their own, in model/counter_sim_test.go.
func TestSimulation(t *testing.T) {
	simtest.Simulation[string]{
		Worlds: 10_000, Least: map[string]float64{"IDs": 50},
		World: func(_ *testing.T, seed uint64, _ string) (simtest.Tally, error) {
			w := newWorld(seed)
			if err := w.run(); err != nil {
				return nil, fmt.Errorf("%w after %v", err, w.faults)
			}
			return simtest.Tally{"IDs": len(w.issued), "jumps": w.jumps}, nil
		},
	}.Run(t)
}

// simKeys are the lists of the simulation: few, so that replicas meet.
func simKeys() []model.ListKey { return []model.ListKey{{App: 1, Shard: 0}, {App: 1, Shard: 1}} }

// world is one simulated deployment, all of whose chances come from one seed: a
// scheduler that runs one step of one replica at a time, and lets a fault happen
// between any two steps.
type world struct {
	rng *rand.Rand
	now time.Time

	redis    *simRedis
	database *simDatabase
	replicas []*simReplica
	delayed  []func() // commands still on their way
	// Commits and pushes get no answer until these times.
	commitsFail, pushesFail time.Time

	// databaseGoesBack says which of two kinds of world this is. In the one the
	// database goes back in time, with or without Redis, and Redis is exchanged for
	// another one and back. In the other Redis may have two masters at once. These
	// together are outside the promise.
	databaseGoesBack bool
	// lowered says that max_id is lowered by hand, in a world where Redis loses nothing and
	// is no witness: some process of the deployment has none.
	lowered bool
	// forgetful says that all replicas may be killed at once, also in a power cut. A copy of
	// the database that lacks an earlier change of the server comes back only while one
	// who has seen that is left, as otherwise it is outside the promise.
	forgetful bool

	faulty int // so many of a hundred steps are faults
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

func newWorld(seed uint64) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0),
		issued: map[int64]bool{}, faults: map[string]int{},
	}
	w.databaseGoesBack, w.forgetful = w.chance(67), w.chance(50)
	w.lowered = !w.databaseGoesBack && w.chance(30)
	w.faulty = 1 + w.rng.IntN(8)
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
		w.after(time.Duration(w.rng.IntN(200)) * time.Millisecond)
		switch {
		case w.chance(w.faulty):
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

// after lets time go by, in which the replicas send their heartbeats.
func (w *world) after(d time.Duration) {
	for ; d > 0; d -= time.Second {
		w.now = w.now.Add(min(d, time.Second))
		for _, r := range w.replicas {
			if w.now.Sub(r.beatAt) >= time.Second {
				r.beatAt = w.now
				if !w.lowered && w.database.notice(r) == nil {
					w.database.attend(r)
				}
			}
		}
	}
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
	loses := func(do func() bool) func() bool { return func() bool { return !w.lowered && do() } }
	all := []struct {
		name string
		do   func() bool // false: not now
	}{
		{"snapshot", w.redis.save},
		{"restart from a snapshot", loses(w.redis.restart)},
		{"replication", w.redis.sync},
		{"failover", loses(w.redis.promote)},
		{"failover back", loses(w.redis.promoteBack)},
		{"a replica follows the failover", func() bool {
			w.replicas[w.rng.IntN(len(w.replicas))].node = w.redis.master
			return true
		}},
		{"a key is deleted", loses(w.redis.loseKey)},
		{"Redis is exchanged", w.redis.move},
		{"the database crashes", w.database.crash},
		{"the database fails over", w.database.failOver},
		{"the database is restored", w.database.restore},
		{"both stores go back", func() bool { return w.database.failOver() && w.redis.restart() }},
		{"max_id is lowered", w.database.lower},
		{"a power cut", func() bool { return w.forgetful && w.database.crash() && w.redis.restart() && w.killAll() }},
		{"a replica is killed", w.kill},
		{"a replica does not reach the database", w.cutOff},
		{"all replicas are killed", w.killAll},
		{"a quiet time", func() bool { w.after(time.Duration(w.rng.IntN(30)) * time.Second); return true }},
		{"COMMITs get no answer", func() bool { return w.outage(&w.commitsFail) }},
		{"pushes get no answer", func() bool { return w.outage(&w.pushesFail) }},
	}
	f := all[w.rng.IntN(len(all))]
	if f.do() {
		w.faults[f.name]++
	}
}

func (w *world) kill() bool {
	i := w.rng.IntN(len(w.replicas))
	if w.replicas[i] == w.database.objector {
		return false
	}
	w.replicas[i].crash()
	w.replicas[i] = w.newReplica()
	return true
}

// killAll leaves nobody who knows what was issued.
func (w *world) killAll() bool {
	if !w.forgetful || w.database.objector != nil {
		return false
	}
	for i, r := range w.replicas {
		r.crash()
		w.replicas[i] = w.newReplica()
	}
	return true
}

func (w *world) cutOff() bool {
	r := w.replicas[w.rng.IntN(len(w.replicas))]
	if r == w.database.objector {
		return false
	}
	r.Cut = w.now.Add(time.Duration(w.rng.IntN(20)) * time.Second)
	return true
}

// outage lasts for any while.
func (w *world) outage(until *time.Time) bool {
	*until = w.now.Add(time.Duration(w.rng.IntN(5)) * time.Second)
	return true
}

// note checks an ID that a caller got.
func (w *world) note(id int64) {
	if w.issued[id] {
		key, index, _ := model.DecodeQueueID(id)
		w.fail("index %d of list %s was issued twice", index, key)
	}
	w.issued[id] = true
}

// simReplica is one process: the real service on simulated stores. It runs as a
// coroutine that stops before and after each thing a store does.
type simReplica struct {
	world *world
	node  int // the Redis node its connections lead to
	simtest.Replica
	beatAt time.Time
	gone   bool // it was killed
	lists  []*list
	held   map[*list][]int64 // IDs that the lists gave and no caller has yet
	yield  func(struct{}) bool
	next   func() (struct{}, bool)
	end    func()
}

func (w *world) newReplica() *simReplica {
	r := &simReplica{world: w, node: w.redis.master, Replica: simtest.Replica{ID: w.redis.name()}, beatAt: w.now,
		held: map[*list][]int64{}}
	r.Redis = r.ask
	r.Settle = func() { w.database.settle(r.on()) }
	s, err := New(Options{
		Lists: r, Allocator: r, Catalogue: nil, Reporter: r, Log: slog.New(slog.DiscardHandler),
		Timeout: time.Second, PrefetchMax: 1000, MaxStep: 100,
		RefillCron: "@yearly", ReloadCron: "@yearly",
	})
	if err != nil {
		panic(err)
	}
	_ = s.Stop(context.Background()) // no refill and no pop begins by itself
	for _, key := range simKeys() {
		l := &list{svc: s, key: key, depth: -1}
		l.openPool()
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
		runs, err := l.More(context.Background(), 1+r.world.rng.Int64N(12))
		for _, run := range runs {
			for i := range run.Count {
				r.held[l] = append(r.held[l], run.First+i*run.Stride)
			}
		}
		if r.issue(l); err == nil && len(runs) == 0 {
			l.refillIn(r.world)
		}
	}
}

// refillIn refills; a lock is heeded or not, as its holder may have died.
func (l *list) refillIn(w *world) {
	if w.chance(50) {
		l.refill.lockedSince = time.Unix(0, 0)
	}
	l.svc.runPass([]*job{{list: l}})
}

// reload reads the list's row and its state, as the cron jobs do.
func (r *simReplica) reload(l *list) {
	row := r.world.database.rows[l.key]
	l.svc.observe(context.Background(), []*job{{list: l}}, r.State)
	l.configure(model.ListConfig{Key: l.key, MaxID: row.Last, Step: simStep, CurrentStep: row.CurrentStep})
}

// issue gives some of what is held to callers; the rest stays ahead of demand.
func (r *simReplica) issue(l *list) {
	if len(r.held[l]) == 0 {
		return
	}
	n := 1 + r.world.rng.IntN(len(r.held[l]))
	for _, id := range r.held[l][:n] {
		r.world.note(id)
	}
	r.held[l] = r.held[l][n:]
}

func (r *simReplica) resume() { r.next() }

// crash ends the process where it stands: whatever it still does fails. Its lists are closed so that their pauses end.
func (r *simReplica) crash() {
	r.gone = true
	r.end()
	for _, l := range r.lists {
		l.close(model.ErrUnknownApp)
	}
}

// Report implements Reporter.
func (r *simReplica) Report(string, error) {}

var errLost error = &model.StoreError{Store: "store", Op: "answer", Err: errors.New("it did not")}

// simData is what a Redis server holds.
type simData struct {
	lists map[model.ListKey][]int64
	h, e  map[model.ListKey]string
	w     map[model.ListKey]int64
	marks simMarks
}

// simMarks is the hash of marks. Its map is never changed.
type simMarks struct {
	h, e string // replication ID, and since when the hash is kept
	of   map[model.ListKey]int64
}

func (d simData) clone() simData {
	lists := make(map[model.ListKey][]int64, len(d.lists))
	for k, v := range d.lists {
		lists[k] = slices.Clone(v)
	}
	return simData{lists, maps.Clone(d.h), maps.Clone(d.e), maps.Clone(d.w), d.marks}
}

// simNode is one Redis server; its methods are the scripts of the real store.
type simNode struct {
	simData
	name     func() string
	slave    bool // a replica of the other: it refuses to write
	replID   string
	snapshot simData
}

// life is that of one list.
func (n *simNode) life(key model.ListKey) string { return n.replID + "-" + n.e[key] }

// guard drops what another life left.
func (n *simNode) guard(key model.ListKey) (purged int64) {
	_, marked := n.w[key]
	if n.h[key] == n.replID && marked {
		return 0
	}
	purged = int64(len(n.lists[key]))
	delete(n.lists, key)
	if n.h[key] != n.replID || n.e[key] == "" {
		n.h[key], n.e[key] = n.replID, n.name()
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
	return int64(len(list)) == n.w[key]-list[0]+1
}

func (n *simNode) state(key model.ListKey) model.ListState {
	purged := n.guard(key)
	return model.ListState{Life: n.life(key), Len: int64(len(n.lists[key])), HighWater: n.w[key], Purged: purged}
}

// witness is the life of the marks: another one begins without any.
func (n *simNode) witness() string {
	if n.marks.h != n.replID {
		n.marks = simMarks{h: n.replID, e: n.name()}
	}
	return n.marks.h + "-" + n.marks.e
}

// raise raises the mark of a list.
func (n *simNode) raise(key model.ListKey, index int64) {
	n.marks.of = maps.Clone(n.marks.of)
	if n.marks.of == nil {
		n.marks.of = map[model.ListKey]int64{}
	}
	n.marks.of[key] = max(n.marks.of[key], index)
}

// push appends a part of a segment.
func (n *simNode) push(r model.PushRequest) error {
	n.guard(r.Key)
	switch {
	case n.life(r.Key) != r.Life:
		return model.ErrLifeChanged
	case r.Segment.First <= n.w[r.Key]:
		return model.ErrNotAboveHighWater
	case int64(len(n.lists[r.Key])) >= r.Cap:
		return model.ErrListFull
	}
	n.w[r.Key] = r.Segment.Last
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
	place       int // which of the two is used
	master      int
	names       int
}

func newSimRedis(w *world) *simRedis {
	r := &simRedis{world: w}
	for i := range 2 * len(r.nodes) {
		empty := simData{map[model.ListKey][]int64{}, map[model.ListKey]string{}, map[model.ListKey]string{},
			map[model.ListKey]int64{}, simMarks{}}
		n := &simNode{simData: empty, name: r.name, snapshot: empty.clone(), replID: r.name()}
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
	n.replID = r.name()
	return true
}

// sync brings the replica up to date; between two of these it lags.
func (r *simRedis) sync() bool {
	r.nodes[1-r.master].simData = r.nodes[r.master].clone()
	r.nodes[1-r.master].replID, r.nodes[1-r.master].slave = r.nodes[r.master].replID, true
	return true
}

// promote makes the replica the master, with what it has.
func (r *simRedis) promote() bool { return r.takeOver(1 - r.master) }

// takeOver makes a server the master. Clients follow one by one; until then they use the old master.
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
func (r *simRedis) move() bool {
	if !r.world.databaseGoesBack {
		return false
	}
	r.nodes, r.spare = r.spare, r.nodes
	r.master, r.spareMaster, r.place = r.spareMaster, r.master, 1-r.place
	for _, replica := range r.world.replicas {
		replica.node = r.master
	}
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
	if r.world.chance(30) {
		n.marks = simMarks{}
	}
	return true
}

// simRow is a row of id_alloc.
type simRow struct {
	model.AllocState
	accounts int64 // change of the server that it accounts for
}

// simCopy is what a database server holds, or held.
type simCopy struct {
	simtest.Copy
	at   time.Time // when it was like that
	rows map[model.ListKey]simRow
}

// simDatabase is id_alloc and shardid_deployment. Every state that it was in may come
// back: on a replica that lags, after a crash, from a backup.
type simDatabase struct {
	*simtest.Database
	world *world
	rows  map[model.ListKey]simRow
	past  []simCopy
	// objector has seen a change that the present copy lacks. Before it has met that it is
	// neither killed nor cut off, which is outside the promise.
	objector *simReplica
}

// simRate is the most indices a second of a list where the database goes back; it is
// less than the longest segment.
const simRate = 20

func newSimDatabase(w *world) *simDatabase {
	d := &simDatabase{world: w, rows: map[model.ListKey]simRow{}, Database: &simtest.Database{
		Rate: simRate, Now: func() time.Time { return w.now }, Chance: w.chance,
	}}
	d.Since, d.Beat = w.now, w.now
	for _, key := range simKeys() {
		d.rows[key] = simRow{AllocState: model.AllocState{Key: key, Step: simStep}}
	}
	d.commit()
	return d
}

// lower lowers max_id, as a person would who restores a table.
func (d *simDatabase) lower() bool {
	if !d.world.lowered {
		return false
	}
	key := simKeys()[d.world.rng.IntN(len(simKeys()))]
	row := d.rows[key]
	row.Last = d.world.rng.Int64N(row.Last + 1)
	row.LastMaxID = row.Last
	d.rows[key] = row
	return true
}

func (d *simDatabase) commit() {
	d.past = append(d.past, simCopy{d.Copy, d.world.now, maps.Clone(d.rows)})
}

// goBack lets a copy that is at most that old take over, on that life of a server.
func (d *simDatabase) goBack(age time.Duration, on simtest.Server) bool {
	if !d.world.databaseGoesBack {
		return false
	}
	oldest := slices.IndexFunc(d.past, func(c simCopy) bool { return d.world.now.Sub(c.at) <= age })
	if oldest < 0 {
		oldest = len(d.past) - 1
	}
	older := d.past[oldest+d.world.rng.IntN(len(d.past)-oldest)]
	if len(older.Changes) < len(d.Changes) && !d.objects() {
		return false
	}
	d.Copy, d.rows = older.Copy, maps.Clone(older.rows)
	if on.Name != d.Answers.Name {
		d.Skew = time.Duration(d.world.rng.Int64N(int64(2*model.MaxClockApart))) - model.MaxClockApart
	}
	d.Answers = on
	return true
}

// objects looks for a replica that has seen the last change and will object to a copy
// without it.
func (d *simDatabase) objects() bool {
	for _, r := range d.world.replicas {
		if d.objector == nil && r.Saw(d.Changes[len(d.Changes)-1]) && !d.world.now.Before(r.Cut) {
			d.objector = r
		}
	}
	return d.objector != nil
}

func (d *simDatabase) crash() bool    { return d.goBack(time.Second, d.restarted()) }
func (d *simDatabase) failOver() bool { return d.goBack(10*time.Second, d.another()) }
func (d *simDatabase) restore() bool {
	if d.world.chance(50) {
		return d.goBack(1<<62, d.restarted())
	}
	return d.goBack(1<<62, d.another())
}

func (d *simDatabase) restarted() simtest.Server {
	return simtest.Server{Name: d.Answers.Name, Boot: d.world.redis.count()}
}
func (d *simDatabase) another() simtest.Server { return simtest.Server{Name: d.world.redis.count()} }

// errUnnoted: the change of the server is not noted yet.
var errUnnoted = errors.New("the database has changed")

// notice lets a replica meet the database: it notes a change of it, as the real store does in
// a transaction of its own before anything else. The error says that it must try again.
func (d *simDatabase) notice(by *simReplica) error {
	changes := len(d.Changes)
	switch {
	case by.gone || d.world.now.Before(by.Cut):
		return errLost
	case !d.Meets(&by.Replica):
		return errUnnoted
	case d.objector == by:
		d.objector = nil
	}
	if len(d.Changes) > changes {
		d.commit()
	}
	return nil
}

// attend is a heartbeat of a replica.
func (d *simDatabase) attend(r *simReplica) {
	if d.Clock().Sub(d.Beat) >= model.BeatEvery {
		d.Beat = d.Clock()
	}
	d.Attend(&r.Replica)
	d.commit()
}

// settle brings the rows up to the marks, once the witness has vouched.
func (d *simDatabase) settle(redis *simNode) {
	for key, row := range d.rows {
		row.Doubt, row.accounts = d.doubt(row), int64(len(d.Changes))
		row.Counter = row.Raise(redis.marks.of[key])
		d.rows[key] = row
	}
	d.world.faults["rows are settled"]++
}

// doubt is what a row may lack by now.
func (d *simDatabase) doubt(row simRow) int64 { return d.Doubt(row.accounts, row.At, row.Doubt) }

// row is the row as the store reads it.
func (d *simDatabase) row(key model.ListKey) model.AllocState {
	row := d.rows[key]
	row.Doubt, row.Rate, row.JumpFrom = d.doubt(row), simRate, d.JumpFrom
	if !d.world.databaseGoesBack {
		row.Rate = 0
	}
	return row.AllocState
}

// allocate takes a segment, under the mark of the witness if there is one.
func (d *simDatabase) allocate(by *simReplica, req model.AllocRequest) model.Allocation {
	if err := d.notice(by); err != nil {
		return model.Allocation{Err: err}
	}
	if d.Unsettled() {
		return model.Allocation{Err: model.ErrJumping}
	}
	redis, marked := by.on(), d.Witness != ""
	if marked {
		if redis.slave || redis.witness() != witness.Life(d.Witness) {
			return model.Allocation{Err: errLost}
		}
		req.Floor = max(req.Floor, redis.marks.of[req.Key])
	}
	a, next, err := d.row(req.Key).Next(req, d.Clock())
	if err != nil {
		return model.Allocation{Err: err}
	}
	if a.Jumped > 0 {
		d.world.jumps++
	}
	if marked {
		redis.raise(req.Key, next.Last)
	}
	if d.world.chance(2) {
		return model.Allocation{Err: errLost} // a gap
	}
	d.rows[req.Key] = simRow{next, int64(len(d.Changes))}
	d.commit()
	return a
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

// ask is Redis of simtest.Replica: a server that became a replica does not say, and the
// majority not always.
func (r *simReplica) ask(confirm bool) (life string, place int, answers bool) {
	redis, node := r.world.redis, r.on()
	if confirm {
		node, answers = redis.nodes[redis.master], !r.world.chance(10)
	} else {
		answers = !node.slave
	}
	if answers {
		life = node.witness()
	}
	return life, redis.place, answers
}

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

// Push implements Lists.
func (r *simReplica) Push(_ context.Context, reqs []model.PushRequest) []error {
	errs := make([]error, len(reqs))
	for i, req := range reqs {
		for offset := int64(0); offset == 0 || offset < req.Segment.Len() && errs[i] == nil; offset += simPart {
			errs[i] = r.pushPart(req, offset)
		}
	}
	return errs
}

// simPart is the longest part of a segment that is pushed at once, in indices.
const simPart = 7

// pushPart pushes what follows the offset; others run between two parts.
func (r *simReplica) pushPart(req model.PushRequest, offset int64) error {
	req.Segment.First += offset
	req.Segment.Last = min(req.Segment.Last, req.Segment.First+simPart-1)
	req.Cap += offset
	var answer error
	err := r.script(func(node *simNode) { answer = node.push(req) })
	if r.world.now.Before(r.world.pushesFail) {
		err = errors.Join(err, errLost)
	}
	if err == nil {
		err = answer
	}
	return err
}

// Delete implements Lists.
func (r *simReplica) Delete(context.Context, []model.ListKey) error { return nil }

// TryLock implements Lists: the lock may have expired, so anybody may get it.
func (r *simReplica) TryLock(_ context.Context, names []string, _ string, _ time.Duration) ([]bool, error) {
	got := make([]bool, len(names))
	for i := range got {
		got[i] = r.world.chance(80)
	}
	return got, nil
}

// Unlock implements Lists.
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
	err := r.call(func() { a = r.world.database.allocate(r, req) })
	if err == nil && !r.world.now.Before(r.world.commitsFail) {
		return a
	}
	return model.Allocation{Err: errLost}
}
