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

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/service/queue"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway error = &model.StoreError{Store: "store", Op: "answer", Err: errors.New("it is away")}

// errNoStep is about a row that cannot be used, as the database tells it.
var errNoStep = fmt.Errorf("id_alloc row cannot be used: %w: step 0 is not in 1…1000000", model.ErrInvalidArgument)

// table is a database in memory: the real choice of segments, no SQL.
type table struct {
	mu    sync.Mutex
	rows  map[model.ListKey]model.AllocState
	err   error         // every call fails with it
	delay time.Duration // of every allocation
	loads int
	taken []model.Segment
	asked map[model.ListKey]int // segments that were asked for
}

func newTable(apps ...uint8) *table {
	t := &table{rows: map[model.ListKey]model.AllocState{}, asked: map[model.ListKey]int{}}
	for _, app := range apps {
		t.provision(app, 100, model.Limit{Policy: model.LimitReject})
	}
	return t
}

func (t *table) provision(app uint8, step int64, limit model.Limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard := range uint8(model.Shards) {
		key := model.ListKey{App: app, Shard: shard}
		t.rows[key] = model.AllocState{Key: key, Step: step, Limit: limit}
	}
}

func (t *table) change(f func(map[model.ListKey]model.AllocState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t.rows)
}

// edit changes one row.
func (t *table) edit(key model.ListKey, f func(*model.AllocState)) {
	t.change(func(rows map[model.ListKey]model.AllocState) {
		row := rows[key]
		f(&row)
		rows[key] = row
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

func (t *table) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

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
		out = append(out, model.ListConfig{Key: key, AppName: "test", MaxID: r.Last, Step: r.Step, CurrentStep: r.CurrentStep,
			Limit: r.Limit, Unconfirmed: r.Unconfirmed(0, r.Limit.LastIndex(key))})
	}
	return out, t.err
}

func (t *table) Allocate(_ context.Context, reqs []model.AllocRequest) []model.Allocation {
	t.mu.Lock()
	delay := t.delay
	t.mu.Unlock()
	time.Sleep(delay)
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]model.Allocation, len(reqs))
	for i, req := range reqs {
		out[i] = t.allocate(req)
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
	t.taken = append(t.taken, a.Segment)
	return a
}

// askedFor is how many segments of a list were asked for.
func (t *table) askedFor(key model.ListKey) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked[key]
}

// segments are all that were allocated.
func (t *table) segments() []model.Segment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.taken)
}

// lists is a memstore whose calls can be looked at and broken.
type lists struct {
	*memstore.Store
	mu     sync.Mutex
	err    error                                         // every call fails with it
	onPop  func(model.Popped) model.Popped               // changes an answer
	onPush func([]model.PushRequest) []model.PushRequest // changes a request
	full   error                                         // pushes fail with it
	// readOnly is what every write fails with.
	readOnly error
	pops     []int // how many each pop asked for
	// foreign says which lists are another deployment's, nil: none; told are those whose
	// state said so.
	foreign func(model.ListKey) bool
	told    map[model.ListKey]bool
}

func newLists() *lists { return &lists{Store: memstore.New(), told: map[model.ListKey]bool{}} }

func (l *lists) set(f func(*lists)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

func (l *lists) popped() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.pops...)
}

func (l *lists) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pops = append(l.pops, n)
	if err := l.refusal(key); err != nil {
		return model.Popped{}, err
	}
	p, err := l.Store.Pop(ctx, key, n)
	if l.onPop != nil {
		p = l.onPop(p)
	}
	return p, err
}

func (l *lists) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	l.mu.Lock()
	defer l.mu.Unlock()
	states := l.Store.State(ctx, keys)
	for i := range states {
		if states[i].Err = l.refusal(keys[i]); errors.Is(states[i].Err, model.ErrForeign) {
			l.told[keys[i]] = true
		}
	}
	return states
}

// refusal is what every call about the list fails with. Callers hold mu.
func (l *lists) refusal(key model.ListKey) error {
	if l.err == nil && l.foreign != nil && l.foreign(key) {
		return &model.StoreError{Store: "store", Op: "answer", Err: model.ErrForeign}
	}
	return l.err
}

func (l *lists) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	states := l.State(ctx, keys)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range states {
		if l.readOnly != nil {
			states[i].Err = l.readOnly
		}
	}
	return states
}

func (l *lists) Push(ctx context.Context, reqs []model.PushRequest) []error {
	l.mu.Lock()
	change, full := l.onPush, cmp.Or(l.full, l.readOnly)
	l.mu.Unlock()
	if full != nil {
		return slices.Repeat([]error{full}, len(reqs))
	}
	if change != nil {
		reqs = change(reqs)
	}
	return l.Store.Push(ctx, reqs)
}

// spied are lists that note when they were asked for their state, and may hold that up.
type spied struct {
	*lists
	mu    sync.Mutex
	asked []stateCall
	delay time.Duration
}

type stateCall struct {
	at    time.Time
	lists int
}

func (s *spied) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	s.mu.Lock()
	s.asked = append(s.asked, stateCall{time.Now(), len(keys)})
	delay := s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	return s.lists.State(ctx, keys)
}

func (s *spied) takes(delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = delay
}

// calls gives those since the last call.
func (s *spied) calls() (asked []stateCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	return asked
}

func (l *lists) TryLock(ctx context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.err, l.readOnly); err != nil {
		return nil, err
	}
	return l.Store.TryLock(ctx, names, token, ttl)
}

func (l *lists) Unlock(ctx context.Context, names []string, token string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Store.Unlock(ctx, names, token)
}

// replica is one started service.
type replica struct {
	*queue.Service
	reports *check.Reports
}

func start(t testing.TB, l *lists, db *table, change ...func(*queue.Options)) replica {
	t.Helper()
	r := &check.Reports{}
	opts := queue.Options{
		Lists: l, Locker: l, Allocator: db, Catalogue: db, Reporter: r,
		Log:     slog.New(slog.DiscardHandler),
		Probe:   func(context.Context) error { l.mu.Lock(); defer l.mu.Unlock(); return l.err },
		Timeout: 2 * time.Second, LowWatermark: 0.2, PrefetchMax: 1000, MaxStep: 100_000, LiftAlarm: 1000,
		RefillCron: "0 */2 * * * *", ReloadCron: "30 */2 * * * *",
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := queue.New(opts)
	check.Must(t, err)
	s.Start()
	t.Cleanup(func() { stop(t, s) })
	return replica{s, r}
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

// filled waits until the first sweep has filled all lists of one app.
func (r replica) filled(t *testing.T) {
	t.Helper()
	check.Eventually(t, "all lists are filled", func() error {
		if n := r.Stats().Refills; n < model.Shards {
			return fmt.Errorf("%d of them", n)
		}
		return nil
	})
}

func aliceKey() model.ListKey { return model.ListKey{App: 1, Shard: model.ShardOf("alice")} }

// passOf is a gatePass of a shard.
func passOf(shard uint8) string {
	for i := 0; ; i++ {
		if pass := strconv.Itoa(i); model.ShardOf(pass) == shard {
			return pass
		}
	}
}

// one asks for a single ID.
func (r replica) one(app int, pass string) (int64, error) {
	ids, err := r.Next(context.Background(), app, pass, 1, nil)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// collector notes IDs of many goroutines and finds repeats.
type collector struct {
	mu   sync.Mutex
	seen map[int64]bool
	err  error
}

func newCollector() *collector { return &collector{seen: map[int64]bool{}} }

func (c *collector) add(ids []int64, app uint8, pass string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		parts, err := model.DecodeQueueID(id)
		switch {
		case err != nil:
			c.err = err
		case c.seen[id]:
			c.err = fmt.Errorf("ID %d came twice", id)
		case parts.App != app || parts.Shard != model.ShardOf(pass):
			c.err = fmt.Errorf("ID %d of app %d and %q decodes to %+v", id, app, pass, parts)
		}
		c.seen[id] = true
	}
}

// take asks for n IDs of app 1 and adds them.
func (c *collector) take(t *testing.T, r replica, pass string, n int) {
	t.Helper()
	ids, err := r.Next(context.Background(), 1, pass, n, nil)
	check.Must(t, err)
	c.add(ids, 1, pass)
}

func (c *collector) check(t *testing.T, want int) {
	t.Helper()
	if c.err != nil {
		t.Error(c.err)
	}
	check.Equal(t, len(c.seen), want, "distinct IDs")
}
