package uid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = &model.StoreError{Store: "database", Op: "mark", Err: errors.New("connection refused")}

// table is WORKER_NODE in memory, as a worker.Registry. The zero value is empty.
type table struct {
	mu     sync.Mutex
	tokens []string      // of the rows from ID 1 on; "" for one that is gone
	marks  []int64       // Unix seconds
	away   error         // of every call
	full   bool          // no worker ID is left
	hangs  chan struct{} // nothing is answered before it is closed; nil when it is
}

func (t *table) set(change func(*table)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t)
}

// rows is how many there are, also of those that are gone.
func (t *table) rows() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.marks)
}

func (t *table) Acquire(_ context.Context, owner model.Owner) (lease model.Lease, err error) {
	if t.hangs != nil {
		<-t.hangs
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.away != nil:
		return lease, t.away
	case t.full:
		return lease, model.ErrNoWorkerID
	}
	now := time.Now().Unix()
	t.tokens, t.marks = append(t.tokens, owner.Token), append(t.marks, now-1)
	return model.Lease{WorkerID: len(t.marks), Owner: owner, After: 1000 * (now - 1)}, nil
}

func (t *table) Renew(_ context.Context, lease model.Lease) (model.Lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := lease.WorkerID - 1; {
	case t.away != nil:
		return lease, t.away
	case t.tokens[n] != lease.Owner.Token:
		return lease, model.ErrLeaseLost
	default:
		t.marks[n] = max(t.marks[n], lease.Reserved/1000)
		return lease, nil
	}
}

func (t *table) Release(context.Context, model.Lease) error { return nil }

// keeper begins with the first ID, as the command has it.
type keeper struct{ *worker.Keeper }

func (k *keeper) Need(ctx context.Context) {
	k.Start("host", rand.Text())
	k.Keeper.Need(ctx)
}

// epoch is before 2000-01-01, when the clock of a synctest bubble starts.
func epoch() time.Time { return time.Date(1999, time.December, 1, 0, 0, 0, 0, time.UTC) }

// second0 is when the clock of a synctest bubble starts.
const second0 = int64(946684800)

// tiny is a layout of 8 IDs a second, so that a ring has few.
func tiny() idgen.Layout {
	return model.UIDLayout(38, 22, 3, epoch())
}

// options are valid ones: cached, 16 IDs in the ring, refusing.
func options() Options {
	return Options{
		Mode: ModeCached, Layout: tiny(), Timeout: 2 * time.Second,
		BoostPower: 1, PaddingFactor: 50, RejectPut: PutDiscard, RejectTake: TakeRefuse,
		Keeper: &keeper{}, Idle: func() error { return nil },
	}
}

// kept makes a service of options that change may alter, whose keeper asks the registry, until the test ends.
func kept(t testing.TB, nodes worker.Registry, change func(*Options)) *Service {
	t.Helper()
	opts := options()
	if change != nil {
		change(&opts)
	}
	if opts.Now == nil {
		opts.Now = idgen.SystemClock()
	}
	s, err := New(opts)
	check.Must(t, err)
	k := opts.Keeper.(*keeper)
	k.Keeper = worker.New(worker.Options{
		Condition: Condition, Mode: "node", Registry: nodes, Generator: s, Reserve: s.Reserve,
		Layout: func(context.Context, bool) (time.Duration, bool, error) { return 0, true, nil },
		TTL:    worker.Forever, Expiry: worker.Forever, MaxClockOffset: math.MaxInt64,
		Reporter: &check.Reports{}, Log: slog.New(slog.DiscardHandler), Now: opts.Now,
	})
	t.Cleanup(func() { check.OK(t, errors.Join(s.Stop(context.Background()), k.Stop(context.Background()))) })
	return s
}

// serving is kept, with a worker ID.
func serving(t testing.TB, nodes worker.Registry, change func(*Options)) *Service {
	t.Helper()
	s := kept(t, nodes, change)
	s.asked.Store(true)
	s.opts.Keeper.Need(t.Context())
	return s
}

// clock is one that can be set; its monotonic part cannot.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
	system idgen.Clock
}

func newClock() *clock { return &clock{system: idgen.SystemClock()} }

func (c *clock) now() (int64, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.system()
	return wall + int64(c.offset), mono
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// mustNext asks for n IDs and wants them positive and rising.
func mustNext(t testing.TB, s *Service, n int) []int64 {
	t.Helper()
	ids, err := s.Next(t.Context(), n, nil)
	if err != nil || len(ids) != n {
		t.Fatalf("Next(%d) = %d IDs, %v", n, len(ids), err)
	}
	for i, id := range ids {
		if id <= 0 || i > 0 && id <= ids[i-1] {
			t.Fatalf("ID %d is %d", i, id)
		}
	}
	return ids
}

// mustFail asks for n IDs and wants that error, with the text, and none of them.
func mustFail(t testing.TB, s *Service, n int, want error, text string) {
	t.Helper()
	kept := []int64{7}
	ids, err := s.Next(t.Context(), n, kept)
	if !errors.Is(err, want) || len(ids) != 1 {
		t.Fatalf("Next(%d) = %v, %v, want %v", n, ids, err, want)
	}
	check.Has(t, fmt.Sprint(err), text, "the error")
}
