package queue_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/service/metric"
	"shardid/service/queue"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway error = &model.StoreError{Store: "store", Op: "answer", Err: errors.New("it is unreachable")}

// errNoStep is about a row that cannot be used, as the database tells it.
var errNoStep = fmt.Errorf("id_alloc row cannot be used: %w: step 0 is not in 1…1000000", model.ErrInvalidArgument)

// table is a database in memory: the real choice of segments, no SQL.
type table struct {
	mu       sync.Mutex
	rows     map[model.ListKey]model.AllocState
	scramble string        // secret of all apps
	err      error         // every call fails with it
	delay    time.Duration // of every allocation
	loads    int
	taken    map[model.ListKey][]model.Segment
	asked    map[model.ListKey]int // segments that were asked for
}

// newTable has apps whose step is 100.
func newTable(apps ...uint8) *table {
	t := &table{rows: map[model.ListKey]model.AllocState{}, taken: map[model.ListKey][]model.Segment{},
		asked: map[model.ListKey]int{}}
	for _, app := range apps {
		t.provision(app, 100, reject(0))
	}
	return t
}

// reject is a limit to so many indices of the list of alice, 0 for none.
func reject(last int64) model.Limit {
	limit := model.Limit{Policy: model.LimitReject}
	if last > 0 {
		limit.MaxID = aliceKey().Compose(last)
	}
	return limit
}

func (t *table) provision(app uint8, step int64, limit model.Limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard := range uint8(model.Shards) {
		key := model.ListKey{App: app, Shard: shard}
		t.rows[key] = model.AllocState{Key: key, Step: step, Limit: limit}
	}
}

func (t *table) set(f func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t)
}

func (t *table) fail(err error) { t.set(func(t *table) { t.err = err }) }

// remove removes the rows of an app.
func (t *table) remove(app uint8) {
	t.set(func(t *table) {
		for shard := range uint8(model.Shards) {
			delete(t.rows, model.ListKey{App: app, Shard: shard})
		}
	})
}

// edit changes one row.
func (t *table) edit(key model.ListKey, f func(*model.AllocState)) {
	t.set(func(t *table) {
		row := t.rows[key]
		f(&row)
		t.rows[key] = row
	})
}

// doubt makes a list doubtful, as after a failover; confirm ends that.
func (t *table) doubt(limit model.Limit) {
	t.edit(aliceKey(), func(row *model.AllocState) {
		row.Counter = model.Counter{Last: 1000, At: time.Now().Add(-time.Minute), Doubt: 60_000}
		row.Step, row.Limit = 100, limit
	})
}

func (t *table) confirm() { t.edit(aliceKey(), func(row *model.AllocState) { row.Doubt = 0 }) }

func (t *table) Load(context.Context) ([]model.ListConfig, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loads++
	var out []model.ListConfig
	for key, r := range t.rows {
		if r.Step < 1 {
			out = append(out, model.ListConfig{Key: key, AppName: "test", Err: errNoStep})
			continue
		}
		out = append(out, model.ListConfig{Key: key, AppName: "test", MaxID: r.Last, Step: r.Step,
			CurrentStep: r.CurrentStep,
			Scramble:    t.scramble, Limit: r.Limit, Unconfirmed: r.Unconfirmed(0, r.Limit.LastIndex(key))})
	}
	return out, t.err
}

func (t *table) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	t.mu.Lock()
	delay := t.delay
	t.mu.Unlock()
	time.Sleep(delay)
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]model.Allocation, len(reqs))
	for i, req := range reqs {
		if out[i].Err = ctx.Err(); out[i].Err == nil {
			out[i] = t.allocate(req)
		}
	}
	return out
}

func (t *table) allocate(req model.AllocRequest) model.Allocation {
	t.asked[req.Key]++
	row, ok := t.rows[req.Key]
	switch {
	case t.err != nil:
		return model.Allocation{Err: t.err}
	case !ok:
		return model.Allocation{Err: model.ErrUnknownShard}
	}
	a, next, err := row.Next(req, time.Now())
	if err != nil {
		return model.Allocation{Err: err}
	}
	t.rows[req.Key] = next
	t.taken[req.Key] = append(t.taken[req.Key], a.Segment)
	return a
}

// asks is how many segments of the list of alice were asked for, and longest the length of the longest one
// that was taken.
func (t *table) asks() (n int) {
	t.set(func(t *table) { n = t.asked[aliceKey()] })
	return n
}

func (t *table) longest() (n int64) {
	t.set(func(t *table) {
		for _, s := range t.taken[aliceKey()] {
			n = max(n, s.Len())
		}
	})
	return n
}

func (t *table) countLoads() (n int) {
	t.set(func(t *table) { n = t.loads })
	return n
}

// lists is a memstore whose calls can be looked at and broken, with the locks of replicas that share it.
type lists struct {
	*memstore.Store
	mu       sync.Mutex
	err      error                                                       // every call fails with it
	readOnly error                                                       // every write does
	onPop    func(model.Popped) model.Popped                             // changes an answer
	onPush   func(ctx context.Context, reqs []model.PushRequest) []error // in place of a push
	locks    map[string]time.Time                                        // until when each is held
	silent   map[string]bool                                             // lists whose server answers no call
	// sees that the state of so many lists is asked for
	onState func(n int)
}

func newLists() *lists { return &lists{Store: memstore.New(), locks: map[string]time.Time{}} }

func (l *lists) set(f func(*lists)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

func (l *lists) fail(err error) { l.set(func(l *lists) { l.err = err }) }

// depth is how many indices a list has.
func (l *lists) depth(key model.ListKey) int64 {
	return l.Store.State(context.Background(), []model.ListKey{key})[0].Len
}

// restart forgets everything, as an empty Redis does.
func (l *lists) restart() { l.set(func(l *lists) { l.Store = memstore.New(); clear(l.locks) }) }

func (l *lists) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return model.Popped{}, l.err
	}
	p, err := l.Store.Pop(ctx, key, n)
	if l.onPop != nil {
		p = l.onPop(p)
	}
	return p, err
}

func (l *lists) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	l.mu.Lock()
	see := l.onState
	l.mu.Unlock()
	if see != nil {
		see(len(keys))
	}
	return l.state(ctx, keys, nil)
}

func (l *lists) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	l.mu.Lock()
	readOnly := l.readOnly
	l.mu.Unlock()
	return l.state(ctx, keys, readOnly)
}

func (l *lists) state(ctx context.Context, keys []model.ListKey, refused error) []model.ListState {
	late := ctx.Err() != nil
	for _, key := range keys {
		_ = l.awaitSilent(ctx, []string{key.String()})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	states := l.Store.State(ctx, keys)
	for i, key := range keys {
		if states[i].Err = cmp.Or(l.err, refused); late || l.silent[key.String()] {
			states[i].Err = errAway
		}
	}
	return states
}

// awaitSilent waits for the end of a call to several servers when one of them is silent.
func (l *lists) awaitSilent(ctx context.Context, names []string) error {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	if !slices.ContainsFunc(names, func(name string) bool { return silent[name] }) {
		return nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(3 * time.Second): // after which a client gives it up
	}
	return errAway
}

func (l *lists) Push(ctx context.Context, reqs []model.PushRequest) []error {
	l.mu.Lock()
	push, store := l.onPush, l.Store
	l.mu.Unlock()
	if push == nil {
		push = store.Push
	}
	return push(ctx, reqs)
}

func (l *lists) TryLock(ctx context.Context, names []string, _ string, ttl time.Duration) ([]bool, error) {
	if err := l.awaitSilent(ctx, names); err != nil {
		return slices.Repeat([]bool{true}, len(names)), err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.err, l.readOnly); err != nil {
		return slices.Repeat([]bool{true}, len(names)), err
	}
	got := make([]bool, len(names))
	for i, name := range names {
		if got[i] = !time.Now().Before(l.locks[name]); got[i] {
			l.locks[name] = time.Now().Add(ttl)
		}
	}
	return got, nil
}

func (l *lists) Unlock(_ context.Context, names []string, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		delete(l.locks, name)
	}
	return nil
}

// refused are pushes of which none arrives.
func refused(_ context.Context, reqs []model.PushRequest) []error {
	return slices.Repeat([]error{errAway}, len(reqs))
}

// slow are pushes that take a microsecond for an index, from all replicas in turn, and are not kept, which saves
// memory.
func (l *lists) slow() func(context.Context, []model.PushRequest) []error {
	turn := make(chan struct{}, 1)
	return func(ctx context.Context, reqs []model.PushRequest) []error {
		const atOnce = 10_000
		indices := int64(0)
		for _, r := range reqs {
			indices += r.Segment.Len()
		}
		for ; indices > 0; indices -= atOnce {
			turn <- struct{}{}
			time.Sleep(time.Duration(min(indices, atOnce)) * time.Microsecond)
			<-turn
			if ctx.Err() != nil {
				return slices.Repeat([]error{ctx.Err()}, len(reqs))
			}
		}
		return make([]error, len(reqs))
	}
}

// replica is one started service.
type replica struct {
	*queue.Service
	reports  *check.Reports
	registry *prometheus.Registry
}

func start(t testing.TB, l *lists, db *table, change ...func(*queue.Options)) replica {
	t.Helper()
	r, registry := &check.Reports{}, prometheus.NewRegistry()
	opts := queue.Options{
		Lists: l, Allocator: db, Catalogue: db, Reporter: r,
		Log:     slog.New(slog.DiscardHandler),
		Probe:   func(context.Context) error { l.mu.Lock(); defer l.mu.Unlock(); return l.err },
		Timeout: 2 * time.Second, PrefetchMax: 1000, MaxStep: 100_000,
		RefillCron: "0 */2 * * * *", ReloadCron: "30 */2 * * * *", Registry: registry,
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := queue.New(opts)
	check.Must(t, err)
	s.Start()
	t.Cleanup(func() { stop(t, s) })
	return replica{s, r, registry}
}

// firstSweepOnly and timeout are changes of Options.
func firstSweepOnly(o *queue.Options) { o.RefillCron = "@yearly" }

func timeout(d time.Duration) func(*queue.Options) {
	return func(o *queue.Options) { o.Timeout = d }
}

func stop(t testing.TB, s *queue.Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check.OK(t, s.Stop(ctx))
}

// ready starts a replica and waits until it has read the apps.
func ready(t testing.TB, l *lists, db *table, change ...func(*queue.Options)) replica {
	t.Helper()
	r := start(t, l, db, change...)
	check.Eventually(t, "ready", func() error {
		if err := r.Ready(); errors.Is(err, model.ErrNotReady) {
			return err
		}
		return nil
	})
	return r
}

func aliceKey() model.ListKey { return model.ListKey{App: 1, Shard: idtext.ShardOf("alice")} }

// passOf is a gatePass of a shard.
func passOf(shard uint8) string {
	for i := 0; ; i++ {
		if pass := strconv.Itoa(i); idtext.ShardOf(pass) == shard {
			return pass
		}
	}
}

// one asks for a single ID.
func (r replica) one(app int, pass string) (int64, error) {
	ids, err := r.Next(context.Background(), app, idtext.ShardOf(pass), 1, nil)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// alice asks for a single ID of the list of alice.
func (r replica) alice() error { return check.Err(r.one(1, "alice")) }

// dry asks for single IDs of app 1 until none comes.
func (r replica) dry(pass string) (err error) {
	for err == nil {
		_, err = r.one(1, pass)
	}
	return err
}

// counted is the metric shardid_queue_NAME, and wasted that of wasted indices for a reason.
func (r replica) counted(name string) int {
	families, _ := r.registry.Gather() // a registry that fails has none
	return int(metric.Sums(families)["shardid_queue_"+name])
}

func (r replica) wasted(reason string) int {
	return r.counted(fmt.Sprintf("wasted_indices_total{reason=%q}", reason))
}

// works wants conditions to have no error.
func (r replica) works(t testing.TB, conditions ...string) {
	t.Helper()
	for _, c := range conditions {
		check.OK(t, r.reports.Of(c), c)
	}
}

// collector notes IDs of the list of alice and finds repeats.
type collector struct {
	seen map[int64]bool
	err  error
}

func newCollector() *collector { return &collector{seen: map[int64]bool{}} }

func (c *collector) add(ids ...int64) {
	for _, id := range ids {
		if key, _, err := model.DecodeQueueID(id); err != nil || c.seen[id] || key != aliceKey() {
			c.err = fmt.Errorf("ID %d came before (%t), or is of another list: %+v", id, c.seen[id], key)
		}
		c.seen[id] = true
	}
}

// take asks for n IDs of the list of alice and adds them.
func (c *collector) take(t testing.TB, r replica, n int) {
	t.Helper()
	ids, err := r.Next(context.Background(), 1, idtext.ShardOf("alice"), n, nil)
	check.Must(t, err)
	c.add(ids...)
}

func (c *collector) check(t testing.TB, want int) {
	t.Helper()
	if c.err != nil {
		t.Error(c.err)
	}
	check.Equal(t, len(c.seen), want, "distinct IDs")
}
