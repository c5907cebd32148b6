package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shardid/model"
)

// simData is what a Redis server holds.
type simData struct {
	lists map[model.ListKey][]int64
	h, e  map[model.ListKey]string
	w     map[model.ListKey]int64
	beatH string // history for which beat counts
	beat  time.Time
}

func (d simData) clone() simData {
	lists := make(map[model.ListKey][]int64, len(d.lists))
	for k, v := range d.lists {
		lists[k] = slices.Clone(v)
	}
	return simData{lists, maps.Clone(d.h), maps.Clone(d.e), maps.Clone(d.w), d.beatH, d.beat}
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

func (n *simNode) history() string {
	if n.mutant == runIDForHistory {
		return n.runID
	}
	return n.replID
}

// life is the history of one list.
func (n *simNode) life(key model.ListKey) string { return n.history() + "-" + n.e[key] }

// guard drops what another history left.
func (n *simNode) guard(key model.ListKey) (purged int64) {
	if n.mutant == noHistoryCheck {
		return 0
	}
	_, marked := n.w[key]
	if n.h[key] == n.history() && marked {
		return 0
	}
	purged = int64(len(n.lists[key]))
	delete(n.lists, key)
	if n.h[key] != n.history() || n.e[key] == "" {
		n.h[key], n.e[key] = n.history(), n.name()
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
	return model.Popped{History: n.life(key), Indices: popped, Len: int64(len(list) - count), Purged: purged}
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
	return model.ListState{History: n.life(key), Len: int64(len(n.lists[key])), HighWater: highWater, Purged: purged}
}

// lastBeat is when the deployment used the server last, in its present history.
func (n *simNode) lastBeat() time.Time {
	if n.beatH != n.history() {
		return time.Time{}
	}
	return n.beat
}

func (n *simNode) setBeat(now time.Time) { n.beatH, n.beat = n.history(), now }

func (n *simNode) mark(r model.MarkRequest) error {
	n.guard(r.Key)
	if n.life(r.Key) != r.History {
		return model.ErrHistoryChanged
	}
	n.w[r.Key] = max(n.w[r.Key], r.Index)
	if simTrace {
		fmt.Println("mark", r, n.w[r.Key])
	}
	return nil
}

// push appends a part of a segment.
func (n *simNode) push(r model.PushRequest, first bool) error {
	n.guard(r.Key)
	switch {
	case n.mutant != pushRetries && n.mutant != noHistoryCheck && n.life(r.Key) != r.History:
		return model.ErrHistoryChanged
	case n.mutant != noHighWater && r.Segment.First <= n.w[r.Key]:
		return model.ErrNotAboveHighWater
	case int64(len(n.lists[r.Key])) >= r.Cap:
		return model.ErrListFull
	}
	if first || n.mutant != partsUnmarked {
		n.w[r.Key] = r.Segment.Last
	}
	if simTrace {
		fmt.Println("pushed", r)
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
		empty := simData{map[model.ListKey][]int64{}, map[model.ListKey]string{}, map[model.ListKey]string{}, map[model.ListKey]int64{}, "", time.Time{}}
		n := &simNode{simData: empty, mutant: w.mutant, name: r.name, snapshot: empty.clone(), replID: r.name(), runID: r.name()}
		if i < len(r.nodes) {
			r.nodes[i] = n
		} else {
			r.spare[i-len(r.nodes)] = n
		}
	}
	return r
}

func (r *simRedis) name() string { r.names++; return fmt.Sprint("id", r.names) }

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

// simCopy is what a database server holds, or held.
type simCopy struct {
	at     time.Time // when it was like that
	rows   map[model.ListKey]model.AllocState
	server int // the life of the server that wrote last
	since  time.Time
	beat   time.Time
}

// simDatabase is id_alloc and shardid_deployment. Every state that it was in may come
// back: on a replica that lags, after a crash, from a backup.
type simDatabase struct {
	world *world
	simCopy
	past []simCopy
	life int // of the server that answers
}

// simRate is the most indices a second of a list; it is less than the longest segment.
const simRate = 20

func newSimDatabase(w *world) *simDatabase {
	d := &simDatabase{world: w}
	d.rows, d.since, d.beat = map[model.ListKey]model.AllocState{}, w.now, w.now
	for _, key := range simKeys() {
		d.rows[key] = model.AllocState{Key: key, Step: simStep}
	}
	d.commit()
	return d
}

func (d *simDatabase) commit() {
	d.at = d.world.now
	d.past = append(d.past, simCopy{d.at, maps.Clone(d.rows), d.server, d.since, d.beat})
}

// goBack lets a copy that is at most that old take over.
func (d *simDatabase) goBack(age time.Duration) bool {
	if !d.world.databaseGoesBack {
		return false
	}
	oldest := slices.IndexFunc(d.past, func(c simCopy) bool { return d.world.now.Sub(c.at) <= age })
	if oldest < 0 {
		oldest = len(d.past) - 1
	}
	d.simCopy = d.past[oldest+d.world.rng.IntN(len(d.past)-oldest)]
	d.rows = maps.Clone(d.rows)
	d.life++
	if simTrace {
		fmt.Println(d.world.now.Format("04:05.000"), "db back", d.at.Format("04:05.000"), d.rows[simKeys()[1]].Counter)
	}
	return true
}

func (d *simDatabase) crash() bool    { return d.goBack(time.Second) }
func (d *simDatabase) failOver() bool { return d.goBack(10 * time.Second) }
func (d *simDatabase) restore() bool  { return d.goBack(1 << 62) }

// notice notes that another life of the server answers, as the real store does in a
// transaction of its own before anything is allocated.
func (d *simDatabase) notice(by *simReplica) {
	if d.server == d.life || d.world.mutant == identityIgnored {
		return
	}
	now := d.world.now
	vouched := !by.on().slave && now.Sub(by.on().lastBeat()) <= time.Minute || d.world.mutant == staleMarkBelieved
	for key, row := range d.rows {
		beat, at := d.beat, row.At
		if d.world.mutant == noHeartbeat {
			beat, at = now, now // a copy is taken for new
		}
		doubt := model.DoubtOf(simRate, beat, at, now)
		if d.world.mutant == oneRate {
			doubt /= 2
		}
		row.Doubt += doubt
		if !vouched || !strings.HasPrefix(row.Life, by.on().history()+"-") && d.world.mutant != otherRedisVouches {
			row.Life = ""
		}
		d.rows[key] = row
	}
	if d.since = d.since.Add(model.JumpWait); d.since.Before(now) || d.world.mutant == oneWait {
		d.since = now
	}
	d.server, d.beat = d.life, now
	if simTrace {
		fmt.Println(d.world.now.Format("04:05.000"), "noted vouched", vouched, d.rows[simKeys()[1]].Counter)
	}
	d.commit()
}

// heartbeat is what the replicas send every ten seconds.
func (d *simDatabase) heartbeat(by *simReplica) {
	d.notice(by)
	d.beat = d.world.now
	d.commit()
	if !by.on().slave {
		by.on().setBeat(d.world.now)
	}
}

// row is the row as the store reads it.
func (d *simDatabase) row(req *model.AllocRequest) model.AllocState {
	if d.world.mutant == noFloor {
		req.Floor = 0
	}
	row := d.rows[req.Key]
	row.Rate, row.Noted = simRate, d.since
	if d.world.mutant == noBucket {
		row.Rate = 0
	}
	if d.world.mutant == noWait {
		row.Noted = time.Time{}
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
	if simTrace {
		fmt.Println(d.world.now.Format("04:05.000"), "alloc", req.Key, a.Segment, "jumped", a.Jumped, "req", req.Floor, req.Mark, req.History, "row", next.Counter.Life, next.Last)
	}
	return a
}

func (d *simDatabase) settle(by *simReplica, req model.AllocRequest) {
	d.notice(by)
	if simTrace {
		fmt.Println(d.world.now.Format("04:05.000"), "settle", req, d.rows[req.Key].Counter, d.row(&req).Settle(req).Counter)
	}
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
