package sequence_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/service/sequence"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway error = &model.StoreError{Store: "database", Op: "answer", Err: errors.New("it is unreachable")}

// table is a database in memory: the real rules of a section, no SQL.
type table struct {
	mu sync.Mutex
	stored
	changes int64                      // of its server
	changed time.Time                  // when the last one was
	top     map[model.SectionKey]int64 // the highest numbers that were handed out, whatever a copy knows
	doubts  bool                       // nobody vouches for a copy: its rows may lack what they lack
	alone   bool
	err     error         // every call fails with it
	late    time.Duration // the answer of the next renewal
}

// stored is what a copy of the database has.
type stored struct {
	rows    map[model.SectionKey]sectionRow
	spaces  map[string]model.Space
	numbers map[string]int64 // of leases, by life
	fresh   sectionRow       // of a section without one
	deleted time.Time        // when a space was
}

type sectionRow struct {
	model.SectionRow
	change int64 // of the server that it was written after
}

func newTable(spaces ...model.Space) *table {
	t := &table{top: map[model.SectionKey]int64{}, stored: stored{rows: map[model.SectionKey]sectionRow{},
		spaces: map[string]model.Space{}, numbers: map[string]int64{}}}
	for _, space := range spaces {
		t.spaces[space.Name] = space
	}
	return t
}

func (t *table) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// another has another replica take a section for another life; newNumber says whether leases of the
// life before get another number.
func (t *table) another(key model.SectionKey, newNumber bool) {
	t.change(func() {
		row := t.rows[key]
		if newNumber {
			t.numbers[model.ServerOf(row.Life)] += 1000
		}
		row.Life, row.Term, row.Last = "another", row.Last+1, row.Last+10
		t.rows[key] = row
	})
}

func (t *table) AllocateSections(_ context.Context, reqs []model.SectionRequest, _ string,
	_ bool) []model.SectionGrant {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return slices.Repeat([]model.SectionGrant{{Err: t.err}}, len(reqs))
	}
	out, lost := make([]model.SectionGrant, len(reqs)), map[string]bool{}
	for i, req := range reqs {
		out[i] = t.allocate(req, lost)
	}
	for i, req := range reqs {
		out[i].Number, out[i].Changes = t.numbers[model.ServerOf(req.Life)], t.changes
	}
	return out
}

// allocate answers a request, under the mark of a witness unless nobody vouches. It ends the leases of the life that
// loses the section.
func (t *table) allocate(req model.SectionRequest, lost map[string]bool) model.SectionGrant {
	space, found := t.spaces[req.Key.Space]
	if !found || req.Key.Section >= space.Sections {
		return model.SectionGrant{Err: model.ErrUnknownSpace}
	}
	row, found := t.rows[req.Key]
	if !found {
		row = t.fresh
	}
	floor := req.Bound
	if row.Unsure = row.change < t.changes; row.Unsure && t.doubts {
		row.Doubt = max(t.top[req.Key]-row.Last, 0)
	} else {
		floor = max(floor, t.top[req.Key])
	}
	grant, next, err := row.Next(req, floor, space.Step, model.MaxSequence, !t.alone, time.Now())
	if grant.Err = err; err != nil || next == row.SectionRow {
		return grant
	}
	if server := model.ServerOf(row.Life); next.Life != row.Life && !lost[server] {
		lost[server] = true
		t.numbers[server] += 1000
	}
	row.SectionRow, row.change = next, t.changes
	t.rows[req.Key], t.top[req.Key] = row, next.Last
	return grant
}

func (t *table) RenewFence(_ context.Context, servers []string, _ string) (model.Fence, error) {
	late := time.Duration(0)
	defer func() { time.Sleep(late) }()
	t.mu.Lock()
	defer t.mu.Unlock()
	late, t.late = t.late, 0
	f := model.Fence{Changes: t.changes, Numbers: map[string]int64{}, Spaces: slices.Collect(maps.Values(t.spaces))}
	for _, server := range servers {
		if t.numbers[server] == 0 {
			t.numbers[server] = int64(len(t.numbers) + 1)
		}
		f.Numbers[server] = t.numbers[server]
	}
	return f, t.err
}

// redis is a store whose server can be replaced. Calls for numbers take took.
type redis struct {
	mu     sync.Mutex
	now    *memstore.Sequences
	took   time.Duration
	calls  int                       // for numbers
	pushes []error                   // what the next pushes answer, before they do anything
	strays bool                      // who is asked anew, says another
	err    error                     // every call for numbers fails with it
	silent map[model.SectionKey]bool // whose server answers no call
	second map[model.SectionKey]bool // whose server is another one of a cluster
}

// isSecond says whether another server of a cluster has a section. Its life is that of the first under its name.
func (r *redis) isSecond(key model.SectionKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.second[key]
}

const secondServer = "second"

func newRedis() *redis { return &redis{now: memstore.NewSequences()} }

func (r *redis) present() *memstore.Sequences {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *redis) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// replace makes the server one that knows nothing.
func (r *redis) replace() { r.change(func() { r.now = memstore.NewSequences() }) }

func (r *redis) State(ctx context.Context, keys []model.SectionKey) []model.SectionState {
	states := r.present().State(ctx, keys)
	for i, key := range keys {
		states[i].Err = cmp.Or(states[i].Err, r.awaitSilent(ctx, key))
		if r.isSecond(key) {
			states[i].Server, states[i].Life = secondServer, secondServer+"-"+states[i].Life
		}
	}
	return states
}

// awaitSilent waits for the end of a call when the server of a section is silent.
func (r *redis) awaitSilent(ctx context.Context, key model.SectionKey) error {
	r.mu.Lock()
	silent := r.silent[key]
	r.mu.Unlock()
	if !silent {
		return nil
	}
	<-ctx.Done()
	return errAway
}

func (r *redis) Next(ctx context.Context, asks []model.SectionAsk) []model.SectionAnswer {
	r.mu.Lock()
	took, err := r.took, r.err
	r.calls++
	r.mu.Unlock()
	time.Sleep(took)
	if err != nil {
		return slices.Repeat([]model.SectionAnswer{{Err: err}}, len(asks))
	}
	inner := slices.Clone(asks)
	for i := range inner {
		if inner[i].Server == secondServer {
			inner[i].Server, _ = r.present().Confirm(ctx, inner[i].Key)
		}
	}
	answers := r.present().Next(ctx, inner)
	for i, ask := range asks {
		if err := r.awaitSilent(ctx, ask.Key); err != nil {
			answers[i] = model.SectionAnswer{Err: err}
		}
	}
	return answers
}

func (r *redis) Push(ctx context.Context, pushes []model.SectionPush) []error {
	r.mu.Lock()
	if len(r.pushes) > 0 {
		err := r.pushes[0]
		r.pushes = r.pushes[1:]
		r.mu.Unlock()
		return slices.Repeat([]error{err}, len(pushes))
	}
	r.mu.Unlock()
	inner := slices.Clone(pushes)
	for i := range inner {
		inner[i].Life = strings.TrimPrefix(inner[i].Life, secondServer+"-")
	}
	return r.present().Push(ctx, inner)
}

func (r *redis) Confirm(ctx context.Context, key model.SectionKey) (string, error) {
	r.mu.Lock()
	strays := r.strays
	r.mu.Unlock()
	if strays {
		return "another", nil
	}
	if r.isSecond(key) {
		return secondServer, nil
	}
	return r.present().Confirm(ctx, key)
}

func (r *redis) Majority() bool { return true }
func (r *redis) Place() string  { return "here" }

// rig is a service over a table and a redis.
type rig struct {
	t *testing.T
	*sequence.Service
	table    *table
	redis    *redis
	reports  *check.Reports
	registry *prometheus.Registry // of the counters
}

var space = model.Space{Name: "s", Sections: 4, Step: 1000}

// within runs a test of a service that has started, with a space of 4 sections.
func within(t *testing.T, test func(t *testing.T, r *rig), change ...func(*sequence.Options, *table)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, table: newTable(space), redis: newRedis(), reports: &check.Reports{},
			registry: prometheus.NewRegistry()}
		opts := sequence.Options{Store: r.redis, Allocator: r.table, Reporter: r.reports,
			Log:      slog.New(slog.DiscardHandler),
			Registry: r.registry, Timeout: time.Second, Prepare: func(context.Context) error { return nil }}
		for _, f := range change {
			f(&opts, r.table)
		}
		r.Service = sequence.New(opts)
		check.Is(t, r.Ready(), model.ErrNotReady)
		r.Start()
		defer func() { check.OK(t, r.Stop(context.Background())) }()
		synctest.Wait()
		check.Must(t, r.Ready())
		test(t, r)
	})
}

// counted is the counter shardid_sequence_NAME_total.
func (r *rig) counted(name string) int {
	r.t.Helper()
	return int(check.Metrics(r.t, r.registry)["shardid_sequence_"+name+"_total"])
}

// ask asks for numbers of a key of the space, and gives the last.
func (r *rig) ask(key string, count int64) (int64, error) {
	a := &model.SequenceAsk{Space: "s", Key: key, Count: count}
	r.Ask(r.t.Context(), []*model.SequenceAsk{a})
	return a.Last, a.Err
}

// want fails the test unless the next number of a key is this one.
func (r *rig) want(key string, number int64) {
	r.t.Helper()
	got, err := r.ask(key, 1)
	if err != nil || got != number {
		r.t.Errorf("got %d, %v, want %d", got, err, number)
	}
}

// wantAbove fails the test unless there is a number, and it is above one: asks whose callers have gone
// may cost numbers.
func (r *rig) wantAbove(key string, last int64) {
	r.t.Helper()
	if got, err := r.ask(key, 1); err != nil || got <= last {
		r.t.Fatalf("got %d, %v, want one above %d", got, err, last)
	}
}

// wantNone fails the test unless there is no number, because of why.
func (r *rig) wantNone(key string, why error) {
	r.t.Helper()
	got, err := r.ask(key, 1)
	if !errors.Is(err, model.ErrNoNumber) || !errors.Is(err, why) || got != 0 {
		r.t.Fatalf("got %d, %v, want none for %v", got, err, why)
	}
}

func sectionOf(key string) model.SectionKey {
	return model.SectionKey{Space: "s", Section: space.SectionOf(key)}
}

func keyNo(i int) string { return "k" + strconv.Itoa(i) }
