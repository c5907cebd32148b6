package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/client/idgen"
)

func newGenerator(tb testing.TB, addrs ...string) *Generator {
	tb.Helper()
	g, err := newClient(tb, Options{Addrs: addrs}).Generator(tb.Context(), "orders")
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// eventually calls again until it is so.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for till := time.Now().Add(10 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(till) {
			tb.Fatal("not in 10 s: " + what)
		}
	}
}

// Several generators and goroutines: no ID twice, each caller's rise, and the worker IDs are
// released above the last.
func TestGeneratorsNeverRepeat(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 20 * time.Second}
	c := newClient(t, Options{Addrs: []string{s.start(t)}, Instance: "a b"})
	var mu sync.Mutex
	var all, ofLast []int64
	for range 3 {
		g, err := c.Generator(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		ofLast = nil
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				var mine []int64
				for i := range 3000 {
					n := 1 + i%7*i%5
					some, err := g.Take(n)
					id, err2 := g.Next()
					if err := errors.Join(err, err2); err != nil || len(some) != n {
						t.Error(len(some), err)
						return
					}
					mine = append(append(mine, some...), id)
				}
				if !slices.IsSorted(mine) {
					t.Error("the IDs of a caller do not rise")
				}
				mu.Lock()
				defer mu.Unlock()
				ofLast = append(ofLast, mine...)
			})
		}
		callers.Wait()
		all = append(all, ofLast...)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s.check(t, all)
	worker, ms := s.check(t, []int64{slices.Max(ofLast)})
	if worker != 2 || len(s.released) != 3 || s.released[2] != ms || ms > time.Now().UnixMilli() {
		t.Errorf("released %v; the last worker ID is %d, its last time %d", s.released, worker, ms)
	}
}

// During an outage a generator continues to the end of its lease, then refuses and says why, and
// resumes by itself: with its lease, or with a new one.
func TestGeneratorOutage(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{"a short one": time.Minute, "a long one": 600 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			s := &lessor{hold: hold, renew: 100 * time.Millisecond}
			g := newGenerator(t, s.start(t))
			var ids []int64
			next := func() error {
				id, err := g.Next()
				if err == nil {
					ids = append(ids, id)
				}
				return err
			}
			s.set(func() { s.status = http.StatusServiceUnavailable })
			eventually(t, "a failure", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.cause != nil
			})
			err := next()
			for hold < time.Minute && err == nil {
				err = next()
			}
			if (hold < time.Minute) != (errors.Is(err, ErrNoLease) && errors.Is(err, ErrTimeout)) {
				t.Error(err)
			}
			s.set(func() { s.hold, s.status = time.Minute, 0 })
			eventually(t, "IDs again", func() bool { return next() == nil })
			if worker, _ := s.check(t, ids); (hold < time.Minute) != (worker > 0) || g.WorkerID() != int(worker) {
				t.Errorf("the worker ID is %d, %d", worker, g.WorkerID())
			}
		})
	}
}

// Timers may have stood still, as on a machine that was suspended: who finds that the lease has ended has it renewed.
func TestGeneratorWakesUp(t *testing.T) {
	t.Parallel()
	s := &lessor{hold: 300 * time.Millisecond, renew: time.Hour}
	g := newGenerator(t, s.start(t))
	is := func(want error) func() bool {
		return func() bool { _, err := g.Next(); return errors.Is(err, want) }
	}
	eventually(t, "the end of the lease", is(ErrNoLease))
	s.set(func() { s.hold = time.Minute })
	eventually(t, "IDs again", is(nil))
}

// A lease that is lost is replaced at once; while there is none, the error says so.
func TestGeneratorLosesItsLease(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 50 * time.Millisecond}
	g := newGenerator(t, s.start(t))
	before, err := g.Next()
	if err != nil {
		t.Fatal(err)
	}
	s.set(func() { s.status = http.StatusConflict })
	eventually(t, "the loss", func() bool {
		_, err = g.Next()
		return errors.Is(err, ErrNoLease) && strings.Contains(err.Error(), "refused for a test") && g.WorkerID() == -1
	})
	s.set(func() { s.status, s.seqBits = 0, 11 })
	eventually(t, "another layout", func() bool {
		_, err = g.Next()
		return errors.Is(err, ErrNoLease) && strings.Contains(err.Error(), "another layout") && g.WorkerID() == -1
	})
	s.set(func() {
		if s.released[int64(len(s.all)-1)] == 0 {
			t.Error("a lease that is not used was not given back")
		}
	})
	s.set(func() { s.seqBits = 12 })
	eventually(t, "a new lease", func() bool { return g.WorkerID() > 0 })
	if id, err := g.Next(); err != nil || id < before {
		t.Error(id, before, err)
	}
}

// Generator waits for a time that nobody can have used, renewing meanwhile, and gives up with its
// context or when the clock is wrong.
func TestGeneratorWaitsForItsTime(t *testing.T) {
	t.Parallel()
	s := &lessor{hold: time.Second, renew: 50 * time.Millisecond, after: time.Now().UnixMilli() + 2000}
	c := newClient(t, Options{Addrs: []string{s.start(t)}})
	g, err := c.Generator(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	id, err := g.Next()
	if s.check(t, []int64{id}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last int
	s.set(func() {
		s.hold, s.after, last = time.Minute, time.Now().Add(time.Hour).UnixMilli(), len(s.all)
		s.granted = func() { time.AfterFunc(2*time.Second, cancel) }
	})
	_, err = c.Generator(ctx, "orders")
	released := s.released[int64(last)]
	if !errors.Is(err, context.Canceled) || released == 0 || released > s.all[last].Until {
		t.Error(err, s.released)
	}
	s.set(func() { s.after, s.granted = time.Now().UnixMilli()-1, nil })
	for _, off := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		clock := clockOff(func() time.Duration { return off })
		if _, err := c.newGenerator(t.Context(), "orders", clock); !errors.Is(err, ErrNoLease) {
			t.Errorf("a clock that is off by %v: %v", off, err)
		}
	}
}

// clockOff is the machine's clock, set by so much.
func clockOff(by func() time.Duration) idgen.Clock {
	system := idgen.SystemClock()
	return func() (int64, time.Duration) {
		wall, mono := system()
		return wall + int64(by()), mono
	}
}

// A replica that is down or hangs costs no lease, when another one answers.
func TestGeneratorFailover(t *testing.T) {
	t.Parallel()
	s := &lessor{hold: time.Minute, renew: 300 * time.Millisecond}
	hung := &lessor{hang: make(chan struct{})}
	defer close(hung.hang)
	g := newGenerator(t, "http://127.0.0.1:1", s.start(t), hung.start(t))
	eventually(t, "renewals", func() bool {
		if _, err := g.Next(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.spans) > 12
	})
	if g.WorkerID() != 0 || len(s.all) != 1 {
		t.Errorf("%d leases", len(s.all))
	}
}

func TestGeneratorCloses(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 20 * time.Second, after: testEpoch}
	c := newClient(t, Options{Addrs: []string{s.start(t)}, Timeout: 2 * time.Second})
	generators := make([]*Generator, 4)
	for i := range generators {
		g, err := c.Generator(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		generators[i] = g
	}
	id, _ := generators[0].Next()
	_, ms := s.check(t, []int64{id})
	if err := errors.Join(generators[0].Close(), generators[0].Close()); err != nil || s.released[0] != ms {
		t.Errorf("%v, released above %d, the last ID is of %d", err, s.released[0], ms)
	}
	if _, err := generators[0].Next(); !errors.Is(err, ErrClosed) || generators[0].WorkerID() != -1 {
		t.Error(err, generators[0].WorkerID())
	}
	s.set(func() { s.status = http.StatusConflict }) // by a request whose answer was lost
	if err := generators[1].Close(); err != nil {
		t.Error(err)
	}
	s.set(func() { s.status = http.StatusServiceUnavailable })
	err := generators[2].Close()
	if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "stays leased until") ||
		strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	s.set(func() { s.status = 0 })
	if err := c.Close(); err != nil || s.released[3] < s.all[3].After {
		t.Error(err, s.released)
	}
	if _, err := generators[3].Take(3); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Generator(t.Context(), "orders"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// The IDs of a name with shard bits end in those of each key, and are unique over all keys. They are asked for with a
// key, and those of other names without.
func TestGeneratorFor(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 20 * time.Second, shardBits: 6}
	c := newClient(t, Options{Addrs: []string{s.start(t)}})
	g, err := c.Generator(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, 5000)
	for key := range ids {
		if ids[key], err = g.NextFor(uint64(key) << 3); err != nil || ids[key]%64 != int64(key)<<3%64 {
			t.Fatalf("ID %d of key %d, %v", ids[key], key<<3, err)
		}
	}
	numbers := map[int64]bool{}
	for _, id := range ids {
		numbers[id>>6] = true
	}
	if s.check(t, ids); len(numbers) != len(ids) {
		t.Errorf("%d numbers in %d IDs", len(numbers), len(ids))
	}
	_, one := g.Next()
	_, many := g.Take(2)
	plain, err := newClient(t, Options{Addrs: []string{(&lessor{hold: time.Minute, renew: time.Minute}).start(t)}}).
		Generator(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	_, keyed := plain.NextFor(7)
	for _, err := range []error{one, many, keyed} {
		if err == nil || !strings.HasPrefix(err.Error(), "shardid: ask with Next") {
			t.Error(err)
		}
	}
}

// More IDs than the layout has in a millisecond are waited for until the timeout.
func TestGeneratorTimeout(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 20 * time.Second, seqBits: 3}
	c := newClient(t, Options{Addrs: []string{s.start(t)}, Timeout: 2 * time.Second})
	g, err := c.Generator(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Take(MaxTake); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}

func testLayout(workerBits, seqBits, shardBits uint) idgen.Layout {
	return idgen.Layout{Epoch: testEpoch, WorkerBits: workerBits, SeqBits: seqBits, ShardBits: shardBits}.InMillis()
}

// With what no shardid answers IDs could repeat, or be negative.
func TestLeaseIsChecked(t *testing.T) {
	good := lease{Layout: testLayout(10, 12, 0), Name: "orders", Secret: "x", RenewMs: 1, WorkerID: 1023}
	if err := good.check("orders"); err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(*lease){
		func(l *lease) { l.Name = "other" }, func(l *lease) { l.Secret = "" }, func(l *lease) { l.RenewMs = 0 },
		func(l *lease) { l.WorkerID = 1024 }, func(l *lease) { l.WorkerID = -1 },
		func(l *lease) { l.WorkerBits = 0 }, func(l *lease) { l.WorkerBits = 1 << 40 },
		func(l *lease) { l.SeqBits = 0 }, func(l *lease) { l.SeqBits = 15 },
		func(l *lease) { l.ShardBits = 12 }, func(l *lease) { l.Epoch = -1 },
		func(l *lease) { l.After = -1 }, func(l *lease) { l.After = testEpoch + 1<<41 },
	} {
		l := good
		spoil(&l)
		if err := l.check("orders"); err == nil {
			t.Errorf("%d: %+v is good", i, l)
		}
	}
}
