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

	// For a database that fails over to an older copy; see failOver. No witness is named.
	simtest.Database
	counter  model.Counter   // of the starts; its Last is lastID
	accounts int64           // change of the server that the counter accounts for
	now      time.Time       // by the server's clock
	past     []func()        // each goes back to what was stored then
	known    simtest.Replica // what the instances know of the server
}

// nodeRate is how many starts the database registers in a second, at most.
const nodeRate = 50

// remember keeps what is stored, as a replica does.
func (t *table) remember() {
	rows, last, counter, servers := maps.Clone(t.rows), t.lastID, t.counter, t.Copy
	accounts := t.accounts
	for id, r := range rows {
		copied := *r
		rows[id] = &copied
	}
	t.past = append(t.past, func() {
		t.lastID, t.counter, t.Copy, t.rows = last, counter, servers, maps.Clone(rows)
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
	t := &table{rows: map[int64]*row{}}
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
	node, err := t.register(start)
	if err != nil || t.lose {
		return model.Node{}, errors.Join(err, t.lost())
	}
	return node, nil
}

func (t *table) register(start model.NodeStart) (model.Node, error) {
	for _, r := range t.rows {
		if r.node.Token == start.Token {
			return r.node, nil
		}
	}
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
