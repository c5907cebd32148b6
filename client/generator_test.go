package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// A call that takes too long ends.
func TestGeneratorAtItsCap(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 20 * time.Second, seqBits: 3}
	c := newClient(t, Options{Addrs: []string{s.start(t)}, Timeout: 100 * time.Millisecond})
	g, err := c.Generator(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Take(MaxTake); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}

// During an outage a generator goes on to the end of its lease, then refuses and says why, and
// goes on by itself: with its lease, or with a new one.
func TestGeneratorOutage(t *testing.T) {
	t.Parallel()
	for name, replaced := range map[string]bool{"a short one": false, "a long one": true} {
		t.Run(name, func(t *testing.T) {
			s := &lessor{hold: 600 * time.Millisecond, renew: 100 * time.Millisecond}
			g := newGenerator(t, s.start(t))
			var ids []int64
			next := func() error {
				id, err := g.Next()
				if err == nil {
					ids = append(ids, id)
				}
				return err
			}
			eventually(t, "two renewals", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return next() == nil && len(s.spans) > 2
			})
			s.set(func() { s.status = http.StatusServiceUnavailable })
			if !replaced {
				time.Sleep(200 * time.Millisecond)
			} else {
				eventually(t, "the end of the lease", func() bool { return next() != nil })
				err := next()
				s.mu.Lock()
				until := s.spans[len(s.spans)-1].Until
				s.mu.Unlock()
				var refused *Error
				if _, last := s.check(t, ids); !errors.Is(err, ErrNoLease) || !errors.As(err, &refused) || !strings.Contains(err.Error(), formatMs(until)) || until-last > 200 {
					t.Errorf("%v; the last ID at %s", err, formatMs(last))
				}
			}
			s.set(func() { s.status = 0 })
			eventually(t, "IDs again", func() bool { return next() == nil })
			worker, _ := s.check(t, ids)
			if replaced != (worker > 0) || g.WorkerID() != int(worker) {
				t.Errorf("the worker ID is %d, %d", worker, g.WorkerID())
			}
		})
	}
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
		return errors.Is(err, ErrNoLease) && strings.Contains(err.Error(), `for the name "orders" since 2`) && g.WorkerID() == -1
	})
	s.set(func() { s.status = 0 })
	eventually(t, "a new lease", func() bool { return g.WorkerID() == 1 })
	if id, err := g.Next(); err != nil || id < before {
		t.Error(id, before, err)
	}
	if err := g.Close(); err != nil || s.released[1] == 0 {
		t.Error(err, s.released)
	}
}

// ahead sets the clock of a generator; the IDs before do not count.
func ahead(g *Generator) *atomic.Int64 {
	var by atomic.Int64
	clock := g.clock
	g.clock = func() (int64, time.Duration) {
		wall, mono := clock()
		return wall + by.Load(), mono
	}
	g.term.Store(newTerm(g.lease, 0, g.clock))
	return &by
}

// Whatever the clock does, IDs rise and their times were granted.
func TestGeneratorClock(t *testing.T) {
	s := &lessor{hold: 10 * time.Second, renew: time.Minute}
	g := newGenerator(t, s.start(t))
	by := ahead(g)
	ids := []int64{}
	for _, c := range []struct {
		set  time.Duration
		fail error
		text string
	}{
		{0, nil, ""}, {-3 * time.Millisecond, nil, ""},
		{-time.Minute, ErrClockBack, "which the clock reaches in 59."},
		{0, nil, ""}, {5 * time.Second, nil, ""},
		{time.Second, ErrClockBack, "which the clock reaches in "},
		{time.Hour, ErrNoLease, "or its machine, stood still"},
		{6 * time.Second, nil, ""},
		{-100 * 365 * 24 * time.Hour, ErrClockBack, ""},
	} {
		by.Store(int64(c.set))
		time.Sleep(2 * time.Millisecond) // a clock that is set shows a millisecond later
		id, err := g.Next()
		some, err2 := g.Take(5)
		if !errors.Is(err, c.fail) || !errors.Is(err2, c.fail) || c.fail != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("set by %v: %v, %v", c.set, err, err2)
		}
		if err == nil && err2 == nil {
			ids = append(append(ids, id), some...)
		}
	}
	s.check(t, ids)
	if !slices.IsSorted(ids) || len(ids) != 5*6 {
		t.Errorf("%d IDs, sorted %t", len(ids), slices.IsSorted(ids))
	}
}

// A machine that slept through its lease asks for a renewal at once, whatever the timer says, and
// issues nothing of the old lease.
func TestGeneratorWakesUp(t *testing.T) {
	t.Parallel()
	s := &lessor{hold: 1500 * time.Millisecond, renew: time.Hour}
	g := newGenerator(t, s.start(t))
	time.Sleep(1600 * time.Millisecond)
	if _, err := g.Next(); !errors.Is(err, ErrNoLease) {
		t.Error(err)
	}
	eventually(t, "a new lease", func() bool { return g.WorkerID() == 1 })
	id, err := g.Next()
	if worker, _ := s.check(t, []int64{id}); worker != 1 || err != nil {
		t.Error(worker, err)
	}
}

// Generator waits for a time that nobody can have used, renewing meanwhile, and gives up with its
// context or when the clock is wrong.
func TestGeneratorWaitsForItsTime(t *testing.T) {
	t.Parallel()
	s := &lessor{hold: 400 * time.Millisecond, renew: 50 * time.Millisecond, after: time.Now().UnixMilli() + 1000}
	c := newClient(t, Options{Addrs: []string{s.start(t)}})
	g, err := c.Generator(t.Context(), "orders")
	if err != nil || time.Now().UnixMilli() <= s.after {
		t.Fatal(err)
	}
	id, err := g.Next()
	if worker, _ := s.check(t, []int64{id}); worker != 0 || err != nil {
		t.Error(worker, err)
	}
	s.set(func() { s.after = time.Now().Add(time.Hour).UnixMilli() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if g, err := c.Generator(ctx, "orders"); g != nil || !errors.Is(err, context.DeadlineExceeded) || s.released[1] == 0 || s.released[1] > s.all[1].Until {
		t.Error(err, s.released)
	}
	for _, l := range []lease{ // what a clock that is wrong gets
		{After: time.Now().Add(time.Hour).UnixMilli(), Until: time.Now().Add(2 * time.Hour).UnixMilli(), Now: time.Now().Add(time.Hour).UnixMilli()},
		{After: 1, Until: time.Now().Add(-time.Hour).UnixMilli(), Now: time.Now().Add(-2 * time.Hour).UnixMilli()},
	} {
		l.Name, l.Epoch, l.WorkerBits, l.SeqBits = "orders", testEpoch, 10, 12
		g := &Generator{name: "orders", client: c, clock: idgen.SystemClock(), hurry: make(chan struct{}, 1)}
		g.begin(l)
		g.note(nil, l)
		if err := g.usable(t.Context(), l); !errors.Is(err, ErrNoLease) || !strings.Contains(err.Error(), "clock") {
			t.Error(err)
		}
	}
}

// A replica that is down or hangs costs no lease, when another one answers.
func TestGeneratorFailover(t *testing.T) {
	t.Parallel()
	s := &lessor{hold: 2 * time.Second, renew: 300 * time.Millisecond}
	hung := &lessor{hang: make(chan struct{})}
	defer close(hung.hang)
	g := newGenerator(t, "http://127.0.0.1:1", s.start(t), hung.start(t))
	eventually(t, "renewals for twice the lease", func() bool {
		if _, err := g.Next(); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.spans[len(s.spans)-1].Until > s.spans[0].Until+4000
	})
	if g.WorkerID() != 0 || len(s.all) != 1 {
		t.Errorf("%d leases", len(s.all))
	}
}

func TestGeneratorCloses(t *testing.T) {
	s := &lessor{hold: time.Minute, renew: 20 * time.Second}
	c := newClient(t, Options{Addrs: []string{s.start(t)}, Timeout: 300 * time.Millisecond})
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
	if err := generators[2].Close(); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "stays leased until") {
		t.Error(err)
	}
	s.set(func() { s.status = 0 })
	if err := c.Close(); err != nil || s.released[3] == 0 {
		t.Error(err, s.released)
	}
	if _, err := generators[3].Take(3); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Generator(t.Context(), "orders"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	var zero Generator
	_, err := zero.Next()
	_, err2 := zero.Take(1)
	_, err3 := new(Client).Generator(t.Context(), "orders")
	if err != ErrZero || err2 != ErrZero || err3 != ErrZero || zero.Close() != ErrZero || zero.WorkerID() != -1 { //nolint:errorlint // it is that one
		t.Error(err, err2, err3)
	}
}

// BenchmarkGenerator stays below the cap of its layout, as 4 million sequence numbers do.
func BenchmarkGenerator(b *testing.B) {
	g := newGenerator(b, (&lessor{hold: time.Minute, renew: 20 * time.Second, seqBits: 22}).start(b))
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Next(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := g.Next(); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("hundred", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.Take(100); err != nil {
				b.Fatal(err)
			}
		}
	})
}
