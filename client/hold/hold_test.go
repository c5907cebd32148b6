package hold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errEmpty, errAway, errEnd = errors.New("empty"), errors.New("away"), errors.New("the end")

// counter is a source that counts on, in runs of at most most IDs of a stride of 3.
type counter struct {
	last, calls, under atomic.Int64
	most               int64
	fails              atomic.Pointer[error]
	delay              time.Duration
}

func (c *counter) More(ctx context.Context, n int64) ([]Run, error) {
	if c.under.Add(1) != 1 {
		panic("two calls at a time")
	}
	defer c.under.Add(-1)
	c.calls.Add(1)
	if c.delay > 0 {
		select {
		case <-time.After(c.delay):
		case <-ctx.Done():
		}
	}
	if err := c.fails.Load(); err != nil {
		return nil, *err
	}
	n = min(n, c.most)
	first := 3 * (c.last.Add(n) - n + 1)
	return []Run{{first, n/2 + n%2, 3}, {first + (n/2+n%2)*3, n / 2, 3}}[:1+min(1, n/2)], nil
}

func (c *counter) fail(err error) {
	if c.fails.Store(&err); err == nil {
		c.fails.Store(nil)
	}
}

// pool makes a pool of a source which is asked at once for what it holds.
func pool(t testing.TB, c *counter, change func(*Options)) *Pool {
	opts := Options{
		Source: c, Lasts: 2 * time.Second, Low: 0.5, Most: 100_000, Timeout: time.Second, Empty: errEmpty,
		FirstPause: 20 * time.Millisecond, LastPause: 200 * time.Millisecond,
		Final: func(err error) bool { return errors.Is(err, errEnd) }, Go: func(f func()) bool { go f(); return true },
	}
	if change != nil {
		change(&opts)
	}
	p := New(opts)
	t.Cleanup(func() { p.Close(errEnd) })
	return p
}

// Goroutines take one and many at a time while what is held is shown again and again, dropped in part,
// and given up at the end. Each ID is taken once, or dropped; and a batch rises.
func TestNoIDTwice(t *testing.T) {
	c := &counter{most: 1000}
	p := pool(t, c, func(o *Options) { o.Least, o.Most, o.Timeout = 200, 5000, time.Minute })
	var all sync.WaitGroup
	var taken [4][]int64
	for g := range taken {
		all.Go(func() {
			ids, err := make([]int64, 0, 1<<20), error(nil)
			for i := 0; err == nil; i++ {
				if before := len(ids); i%4 > 0 {
					var id int64
					if id, err = p.Next(t.Context()); err == nil {
						ids = append(ids, id)
					}
				} else if ids, err = p.Take(t.Context(), 5, ids); err == nil {
					if batch := ids[before:]; len(batch) != 5 || !slices.IsSorted(batch) {
						t.Errorf("a batch of %v", batch)
					}
				}
			}
			if !errors.Is(err, errEnd) {
				t.Error(err)
			}
			taken[g] = ids
		})
	}
	for i := 0; p.Counts().Issued < 200_000; i++ {
		p.Drop(func(r Run) Run { return Run{r.First, r.Count * int64(i%100) / 99, r.Stride} })
	}
	p.Close(errEnd)
	all.Wait()
	ids := slices.Concat(taken[:]...)
	for busy := true; busy; time.Sleep(time.Millisecond) { // a call under way may bring more, which is dropped
		p.mu.Lock()
		busy = p.asking
		p.mu.Unlock()
	}
	got, issued := p.Counts(), int64(len(ids))
	if got.Issued != issued || issued+got.Dropped != c.last.Load() || got.Held != 0 || got.Waiting != 0 {
		t.Errorf("%+v, %d were taken of %d", got, issued, c.last.Load())
	}
	slices.Sort(ids)
	if n := len(slices.Compact(slices.Clone(ids))); n != len(ids) || ids[0] < 3 || ids[n-1] > 3*c.last.Load() {
		t.Errorf("%d IDs, of which %d differ, from %d to %d", len(ids), n, ids[0], ids[len(ids)-1])
	}
}

// Who waits is served in order, each with all or nothing, whatever is held meanwhile.
func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{most: 4, delay: 10 * time.Millisecond}
		p := pool(t, c, nil)
		var callers sync.WaitGroup
		sizes := []int{1, 20, 2, 5000, 3, 4} // the first call is for one ID, the next ones are for all
		got, ends := make([][]int64, len(sizes)), make([]error, len(sizes))
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 225*time.Millisecond)
		defer cancel()
		for i, n := range sizes {
			ctx := t.Context()
			if n == 5000 {
				ctx = short
			}
			callers.Go(func() { got[i], ends[i] = p.Take(ctx, n, nil) })
			time.Sleep(25 * time.Millisecond) // something is there, but too little
			p.Drop(func(r Run) Run { return r })
		}
		c.fail(errAway)
		callers.Wait()
		if took := time.Since(began); took != 225*time.Millisecond {
			t.Errorf("those behind a caller who gave up were served after %v", took)
		}
		last := int64(0)
		for i, n := range sizes {
			switch {
			case n == 5000:
				if len(got[i]) != 0 || !errors.Is(ends[i], context.DeadlineExceeded) {
					t.Errorf("%d IDs, %v", len(got[i]), ends[i])
				}
			case len(got[i]) != n || ends[i] != nil || got[i][0] <= last || got[i][n-1] != got[i][0]+3*int64(n-1):
				t.Errorf("%d: %d after %d, %v", n, got[i], last, ends[i])
			default:
				last = got[i][n-1]
			}
		}
	})
}

// Close ends those who wait, and gives up what is held or comes later. Who found the open part before
// that takes nothing of it.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{most: 100}
		p := pool(t, c, func(o *Options) { o.Least = 100 })
		if _, err := p.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		found := p.current.Load()
		c.delay = time.Second
		waits := make(chan error)
		go func() { _, err := p.Take(t.Context(), 1000, nil); waits <- err }()
		synctest.Wait()
		p.Close(errEnd)
		if err := <-waits; !errors.Is(err, errEnd) {
			t.Error(err)
		}
		if n := found.taken.Add(1); n <= found.Count {
			t.Errorf("the ID %d of %d of a closed part is taken", n, found.Count)
		}
		synctest.Wait()
		if got := p.Counts(); got.Issued+got.Dropped != c.last.Load() || got.Held != 0 {
			t.Errorf("%+v of %d", got, c.last.Load())
		}
	})
}

// What a caller gets while the source fails, how often it is called, and what ends that.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{most: 100}
		p := pool(t, c, func(o *Options) {
			o.Refuse, o.LastPause, o.Timeout = time.Second, time.Minute,
				10*time.Second
		})
		drain := func() {
			for p.Counts().Held > 0 {
				_, _ = p.Next(t.Context())
			}
		}
		c.fail(errAway)
		if _, err := p.Next(t.Context()); !errors.Is(err, errEmpty) || !errors.Is(err, errAway) {
			t.Error(err)
		}
		if n := c.calls.Load(); n < 7 || n > 12 { // 20 ms, 40 ms, … 10 s, and half of each
			t.Errorf("%d calls in ten seconds", n)
		}
		time.Sleep(time.Hour)
		before := c.calls.Load()
		time.Sleep(time.Hour)
		p.Retry() // for nobody, too, but once
		time.Sleep(time.Hour)
		if n := c.calls.Load() - before; n != 1 || before > 12 {
			t.Errorf("%d calls for nobody, and %d for a retry", before, n)
		}
		waits := make(chan error)
		go func() { _, err := p.Next(t.Context()); waits <- err }()
		time.Sleep(5 * time.Second)
		c.fail(nil)
		began := time.Now()
		p.Retry()
		if err := <-waits; err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		drain()
		c.fail(errEnd) // is told at once, and for a second without a call
		before = c.calls.Load()
		for range 10 {
			if _, err := p.Next(t.Context()); !errors.Is(err, errEnd) {
				t.Error(err)
			}
		}
		if n := c.calls.Load() - before; n != 1 || time.Since(began) > 0 {
			t.Errorf("%d calls in %v", n, time.Since(began))
		}
		c.fail(nil)
		time.Sleep(2 * time.Second)
		if _, err := p.Next(t.Context()); err != nil {
			t.Error(err)
		}
		drain()
		c.fail(errEnd)
		_, _ = p.Next(t.Context())
		c.fail(nil)
		began = time.Now()
		p.Wake() // it is over before
		if _, err := p.Next(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		drain()
		c.fail(errEnd)
		_, _ = p.Next(t.Context())
		c.fail(nil)
		p.Retry() // for nobody, too
		if synctest.Wait(); p.Counts().Held == 0 {
			t.Error("a retry while callers are refused made no call")
		}
	})
}

// A retry while the source is called has it called once more. What Drop gives up is given up of what comes then, too.
func TestRetryDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{most: 100, delay: time.Second}
		p := pool(t, c, nil)
		p.Retry()
		synctest.Wait()
		p.Retry()
		p.Drop(func(Run) Run { return Run{} })
		time.Sleep(time.Minute)
		if n := c.calls.Load(); n != 2 || p.Counts().Dropped != c.last.Load()/2 {
			t.Errorf("%d calls, %+v of %d", n, p.Counts(), c.last.Load())
		}
	})
}

// What is held follows demand that lasts.
func TestDemand(t *testing.T) {
	type demand struct{ rate, seconds int }
	queue, segment := Options{Lasts: 250 * time.Millisecond, Low: 0.5},
		Options{Lasts: 11 * time.Minute, Low: 0.95, Least: 2000}
	for name, c := range map[string]struct {
		of         Options
		demand     []demand
		held, most int64 // after it, at least and at most
		calls      int64 // at most
	}{
		"one a second":  {queue, []demand{{1, 100}}, 0, 0, 101},
		"steady":        {queue, []demand{{1000, 60}}, 125, 250, 600},
		"a burst":       {segment, []demand{{20_000, 1}}, 0, 40_000, 100},
		"a burst later": {segment, []demand{{1, 1800}, {20_000, 1}}, 0, 40_000, 100},
		"ten minutes":   {segment, []demand{{1000, 660}}, 600_000, 700_000, 1000},
		"half an hour":  {segment, []demand{{1000, 1800}}, 600_000, 700_000, 2000},
		"no more":       {segment, []demand{{10_000, 660}}, 950_000, 1_000_000, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &counter{most: 20_000}
				p := pool(t, source, func(o *Options) {
					o.Lasts, o.Low, o.Least, o.Most = c.of.Lasts, c.of.Low,
						c.of.Least, 1_000_000
				})
				for _, d := range c.demand {
					steps := min(d.rate, 10) // a second
					for range d.seconds * steps {
						if _, err := p.Take(t.Context(), d.rate/steps, nil); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Second / time.Duration(steps))
					}
				}
				if held, calls := p.Counts().Held, source.calls.Load(); held < c.held || held > c.most ||
					calls > c.calls {
					t.Errorf("%d IDs are held after %d calls", held, calls)
				}
			})
		})
	}
}
