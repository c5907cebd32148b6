package uid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("database is away")

// mutant is a database that breaks one of its promises; a test must notice.
type mutant string

const (
	noMark          mutant = "marks are confirmed and not stored"
	recycleUnmarked mutant = "a worker ID is used again without a bound"
	recycleTooEarly mutant = "a worker ID is used again before its mark has passed"
	noDoubt         mutant = "another server is taken for the same"
	placeUnmarked   mutant = "a place's worker ID is used again without a bound"
	placeForgotten  mutant = "a place keeps its worker ID although marks may be forgotten"
	releaseTooLow   mutant = "a mark is lowered below what was issued"
)

// table is WORKER_NODE in memory.
type table struct {
	mutant mutant

	mu     sync.Mutex
	rows   map[int64]*row // by ID
	lastID int64          // auto-increment
	away   error          // every call fails with it
	lose   bool           // every call does its work and then fails
	crash  bool           // the next call panics
	marks  int            // calls of MarkNode
	starts []model.NodeStart
	places map[model.NodePlace]place
	frees  int // calls of ReleaseNode

	// For a database that fails over to an older copy; see failOver. No witness is named.
	simtest.Database
	counter  model.Counter   // of the starts; its Last is lastID
	accounts int64           // change of the server that the counter accounts for
	now      time.Time       // by the server's clock
	past     []func()        // each goes back to what was stored then
	known    simtest.Replica // what the instances know of the server
}

// place is what a registry's worker ID stands for.
type place struct {
	node  int64
	token string
	since time.Time // of the times
}

// nodeRate is how many starts the database registers in a second, at most.
const nodeRate = 50

// remember keeps what is stored, as a replica does.
func (t *table) remember() {
	rows, last, counter, servers, places := maps.Clone(t.rows), t.lastID, t.counter, t.Copy, maps.Clone(t.places)
	accounts := t.accounts
	for id, r := range rows {
		copied := *r
		rows[id] = &copied
	}
	t.past = append(t.past, func() {
		t.lastID, t.counter, t.Copy, t.rows, t.places = last, counter, servers, maps.Clone(rows), maps.Clone(places)
		t.accounts = accounts
		for id, r := range rows {
			copied := *r
			t.rows[id] = &copied
		}
	})
}

// failOver makes an older copy the database.
func (t *table) failOver(copied int) {
	t.past[copied]()
	t.Answers.Name++
}

type row struct {
	node model.Node
	used int64
}

func newTable() *table {
	t := &table{rows: map[int64]*row{}, places: map[model.NodePlace]place{}}
	t.Rate, t.Now = nodeRate, func() time.Time { return t.now }
	return t
}

func (t *table) set(change func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t)
}

func (t *table) RegisterNode(_ context.Context, start model.NodeStart) (model.Node, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts = append(t.starts, start)
	if err := t.fails(); err != nil {
		return model.Node{}, err
	}
	node, err := t.registerPlace(start)
	if err != nil || t.lose {
		return model.Node{}, errors.Join(err, t.lost())
	}
	return node, nil
}

// registerPlace is register with what a place in a registry stands for.
func (t *table) registerPlace(start model.NodeStart) (node model.Node, err error) {
	for _, r := range t.rows {
		if r.node.Token == start.Token {
			return r.node, nil
		}
	}
	if start.Place == nil {
		return t.register(start)
	}
	t.Meets(&t.known)
	was, ok := t.places[*start.Place]
	r := t.rows[was.node]
	if ok && r != nil && r.node.Token == was.token && (was.since.Equal(t.Since) || t.mutant == placeForgotten) {
		r.node.Token, r.node.AfterSecond, r.node.Recycled = start.Token, r.used, true
		if t.mutant == placeUnmarked {
			r.node.AfterSecond, r.node.Recycled = 0, false
		}
		r.used = max(r.used, start.UsedUntil)
		node = r.node
	} else if node, err = t.register(start); err != nil {
		return node, err
	}
	t.places[*start.Place] = place{node.ID, node.Token, t.Since}
	return node, nil
}

func (t *table) register(start model.NodeStart) (model.Node, error) {
	if t.lastID+1 >= start.Workers {
		return t.recycle(start)
	}
	number, next, err := t.number(start.Workers)
	if err != nil {
		return model.Node{}, err
	}
	t.lastID, t.counter, t.accounts = number, next, int64(len(t.Changes))
	node := model.Node{ID: t.lastID, WorkerID: t.lastID, Token: start.Token}
	t.rows[node.ID] = &row{node, start.UsedUntil}
	return node, nil
}

// number gives a start its number, above those that a copy may lack.
func (t *table) number(workers int64) (int64, model.Counter, error) {
	t.Meets(&t.known)
	if t.Unsettled() {
		return 0, t.counter, model.ErrJumping
	}
	c := t.counter
	c.Last, c.Rate, c.JumpFrom = t.lastID, nodeRate, t.JumpFrom
	c.Doubt = t.Doubt(t.accounts, c.At, c.Doubt)
	number, _, next, err := c.TakeNumbers(0, 1, workers-1, t.now)
	return number, next, err
}

func (t *table) recycle(start model.NodeStart) (model.Node, error) {
	var oldest *row
	for _, r := range t.rows {
		if oldest == nil || r.used < oldest.used || r.used == oldest.used && r.node.ID < oldest.node.ID {
			oldest = r
		}
	}
	if oldest == nil || oldest.used >= start.NowSecond && t.mutant != recycleTooEarly {
		return model.Node{}, model.ErrNoWorkerID
	}
	oldest.node = model.Node{ID: oldest.node.ID, WorkerID: oldest.node.WorkerID, Token: start.Token, AfterSecond: oldest.used, Recycled: true}
	switch t.mutant {
	case recycleUnmarked:
		oldest.node.AfterSecond, oldest.node.Recycled = 0, false
	case recycleTooEarly:
		oldest.node.AfterSecond = 0
	}
	oldest.used = start.UsedUntil
	return oldest.node, nil
}

func (t *table) MarkNode(_ context.Context, node model.Node, until int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marks++
	if err := t.fails(); err != nil {
		return err
	}
	r := t.rows[node.ID]
	if r == nil || r.node.Token != node.Token {
		return fmt.Errorf("mark node %d: %w", node.ID, model.ErrLeaseLost)
	}
	if t.mutant != noMark {
		r.used = max(r.used, until)
	}
	return t.lost()
}

func (t *table) ReleaseNode(_ context.Context, node model.Node, last int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frees++
	if err := t.fails(); err != nil {
		return err
	}
	if r := t.rows[node.ID]; r != nil && r.node.Token == node.Token {
		if t.mutant == releaseTooLow {
			last -= 2
		}
		r.used = min(r.used, max(last, r.node.AfterSecond, 1))
	}
	return t.lost()
}

func (t *table) fails() error {
	if t.crash {
		t.crash = false
		panic("no such luck")
	}
	return t.away
}

func (t *table) lost() error {
	if t.lose {
		return fmt.Errorf("%w: the answer is lost", errAway)
	}
	return nil
}

// epoch is before 2000-01-01, when the clock of a synctest bubble starts.
func epoch() time.Time { return time.Date(1999, time.December, 1, 0, 0, 0, 0, time.UTC) }

// tiny is a layout of 8 IDs a second, so that a ring has few slots.
func tiny() model.UIDLayout {
	return model.UIDLayout{TimeBits: 38, WorkerBits: 22, SeqBits: 3, Epoch: epoch()}
}

// options are valid ones: cached, 16 IDs in the ring, refusing.
func options(nodes Nodes) Options {
	return Options{
		Mode: ModeCached, Layout: tiny(), Place: Place{Host: "host", Type: model.NodeActual}, Timeout: 2 * time.Second,
		BoostPower: 1, PaddingFactor: 50, RejectPut: PutDiscard, RejectTake: TakeRefuse,
		RecordLayout: func(context.Context) error { return nil },
		Nodes:        nodes, Reporter: &check.Reports{}, Log: slog.New(slog.DiscardHandler),
	}
}

// unasked makes a service of options that change may alter, starts it, and stops it at the end
// of the test.
func unasked(t *testing.T, nodes Nodes, change func(*Options)) *Service {
	t.Helper()
	opts := options(nodes)
	if change != nil {
		change(&opts)
	}
	s, err := New(opts)
	check.Must(t, err)
	s.Start()
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	return s
}

// started is unasked and does what the first call does, but does not wait.
func started(t *testing.T, nodes Nodes, change func(*Options)) *Service {
	t.Helper()
	s := unasked(t, nodes, change)
	s.needed.Store(true)
	s.background.Start(s.run)
	s.markOpened()
	return s
}

// registry gives what it is told to.
type registry struct {
	mu     sync.Mutex
	place  model.NodePlace
	err    error
	starts int
}

func (r *registry) Start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
}

func (r *registry) Place() (model.NodePlace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place, r.err
}

func (r *registry) set(worker int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place, r.err = model.NodePlace{Registry: "zk test", WorkerID: worker}, err
}

// clock is one that can be set.
type clock struct {
	mu    sync.Mutex
	at    time.Time
	crash bool // the next look panics
}

func newClock() *clock { return &clock{at: time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crash {
		c.crash = false
		panic("no clock")
	}
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}
