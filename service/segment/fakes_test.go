package segment_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/background"
	"shardid/service/metric"
	"shardid/service/segment"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errAway is an error of a database that stored nothing, and errLost one after which nobody knows.
var (
	errAway error = &model.StoreError{
		Store: "database", Op: "begin", Err: &model.NotBegunError{Err: errors.New("it is unreachable")},
	}
	errLost error = &model.StoreError{Store: "database", Op: "commit", Err: errors.New("no answer")}
)

// table is leaf_alloc in memory: the real choice of segments, no SQL.
type table struct {
	mu       sync.Mutex
	rows     map[string]model.Tag
	err      error         // every call fails with it
	lose     bool          // allocations are committed and their answers lost
	delay    time.Duration // of every call
	change   func(model.TagSegment) model.TagSegment
	reads    int
	requests []model.TagRequest
	taken    []model.TagSegment
}

// newTable has the tags, each with Leaf's max_id 1.
func newTable(step int64, tags ...string) *table {
	t := &table{rows: map[string]model.Tag{}}
	for _, name := range tags {
		t.rows[name] = model.Tag{Name: name, MaxID: 1, Step: step}
	}
	return t
}

// set changes the table.
func (t *table) set(f func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t)
}

func (t *table) put(name string, maxID, step int64) {
	t.set(func(t *table) { t.rows[name] = model.Tag{Name: name, MaxID: maxID, Step: step} })
}

func (t *table) fail(err error) { t.set(func(t *table) { t.err = err }) }

func (t *table) maxID(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[name].MaxID
}

// segments is what was taken.
func (t *table) segments() []model.TagSegment {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.taken)
}

// lengths is how long the segments are that were taken.
func (t *table) lengths() []int64 {
	var out []int64
	for _, s := range t.segments() {
		out = append(out, s.End-s.First)
	}
	return out
}

func (t *table) asked() []model.TagRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

func (t *table) readCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}

func (t *table) wait(ctx context.Context) error {
	t.mu.Lock()
	delay := t.delay
	t.mu.Unlock()
	return sleep(ctx, delay)
}

// sleep ends with ctx, whose error it gives then.
func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		background.Pause(ctx, d, nil)
	}
	return ctx.Err()
}

func (t *table) TagsNamed(ctx context.Context, names []string) (rows []model.Tag, err error) {
	t.mu.Lock()
	t.reads++
	err = t.err
	for _, name := range names {
		if row, there := t.rows[name]; there {
			rows = append(rows, row)
		}
	}
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return rows, t.wait(ctx)
}

func (t *table) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	if err := t.wait(ctx); err != nil {
		return model.TagSegment{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, req)
	if t.err != nil {
		return model.TagSegment{}, t.err
	}
	s, err := t.allocate(req, time.Now())
	switch {
	case err == nil && t.lose:
		return s, errLost
	case err == nil && t.change != nil:
		s = t.change(s)
	}
	return s, err
}

// allocate is for a process whose clock says local.
func (t *table) allocate(req model.TagRequest, local time.Time) (model.TagSegment, error) {
	row, ok := t.rows[req.Tag]
	if !ok {
		return model.TagSegment{}, model.ErrUnknownTag
	}
	if numbers, err := row.Numbers(); err != nil || !numbers.Same(req.Numbers) ||
		row.ShardBits() != req.ShardBits {
		return model.TagSegment{}, fmt.Errorf("%w: another pattern", model.ErrInvalidArgument)
	}
	s, _, err := req.Next(model.Counter{Last: max(row.MaxID, 1) - 1}, row.Step, 0, time.Now(), local)
	if err != nil {
		return s, err
	}
	row.MaxID = s.End
	t.rows[req.Tag] = row
	t.taken = append(t.taken, s)
	return s, nil
}

// replica is one started service.
type replica struct {
	*segment.Service
	reports  *check.Reports
	registry *prometheus.Registry
}

func start(t testing.TB, db segment.Table, change ...func(*segment.Options)) replica {
	t.Helper()
	r, registry := &check.Reports{}, prometheus.NewRegistry()
	opts := segment.Options{Table: db, Reporter: r, Log: slog.New(slog.DiscardHandler), Timeout: 2 * time.Second,
		Registry: registry}
	for _, f := range change {
		f(&opts)
	}
	s := segment.New(opts)
	s.Start()
	t.Cleanup(func() { stop(t, s) })
	return replica{s, r, registry}
}

func stop(t testing.TB, s *segment.Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	check.OK(t, s.Stop(ctx))
}

// ready starts a replica and waits until it serves.
func ready(t testing.TB, db segment.Table, change ...func(*segment.Options)) replica {
	t.Helper()
	r := start(t, db, change...)
	check.Eventually(t, "ready", r.Ready)
	return r
}

// orders is a table with one tag, and a replica that serves it.
func orders(t testing.TB, step int64, change ...func(*segment.Options)) (*table, replica) {
	t.Helper()
	db := newTable(step, "orders")
	return db, ready(t, db, change...)
}

// counted is the metric shardid_segment_NAME_total.
func (r replica) counted(name string) int64 {
	families, _ := r.registry.Gather() // a registry that fails has none
	return int64(metric.Sums(families)["shardid_segment_"+name+"_total"])
}

// one asks for a single ID.
func (r replica) one(tag string) (int64, error) {
	ids, err := r.Next(context.Background(), tag, model.ShardKey{}, 1, nil)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// use has the tag orders in use, which holds nothing then.
func (r replica) use(t *testing.T) {
	t.Helper()
	check.Is(t, check.Err(r.Numbers(t.Context(), "orders", 1, nil)), model.ErrInvalidArgument)
}

// mustTake takes n IDs, one by one, that must be dense and begin at first.
func (r replica) mustTake(t *testing.T, tag string, first int64, n int) {
	t.Helper()
	for want := first; want < first+int64(n); want++ {
		if id, err := r.one(tag); err != nil || id != want {
			t.Fatalf("one = %d, %v, want %d", id, err, want)
		}
	}
}

// batch takes n IDs at once.
func (r replica) batch(t *testing.T, tag string, n int) []int64 {
	t.Helper()
	ids, err := r.Next(t.Context(), tag, model.ShardKey{}, n, nil)
	if err != nil || len(ids) != n {
		t.Fatalf("%d IDs, %v", len(ids), err)
	}
	return ids
}

// inBubble runs a test in virtual time.
func inBubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// view is what is shown of a tag.
func (r replica) view(tag string) segment.View { return r.View(model.Tag{Name: tag, Step: 100}) }
