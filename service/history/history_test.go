package history

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/service/latency"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counters are what a test lets rise.
type counters struct {
	mu       sync.Mutex
	issued   int64
	refills  int64
	disabled int64
	app7     int64
	took     latency.Histogram
}

func (c *counters) set(f func(*counters)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *counters) read() Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Reading{Rates: []int64{c.issued, c.disabled}, Counts: []int64{c.refills}, Timings: []latency.Reading{c.took.Read()}}
	for i := range r.Apps {
		r.Apps[i] = Unknown
	}
	r.Apps[7] = c.app7
	return r
}

func newTest() (*History, *counters) {
	c := &counters{disabled: Unknown, app7: Unknown}
	return New(Options{Rates: []string{"issued", "disabled"}, Counts: []string{"refills"}, Timings: []string{"queue"}, Read: c.read}), c
}

// A story of three periods: rates are per second, counts per period, quantiles those of
// the period alone, and what cannot be read is null.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := newTest()
		c.set(func(c *counters) { c.issued, c.refills = 1000, 100 }) // before the start of the history
		h.Start()
		defer h.Stop()
		began := time.Now().Unix()
		time.Sleep(time.Second)
		c.set(func(c *counters) {
			c.issued, c.refills = 1050, 103
			for range 100 {
				c.took.Observe(30 * time.Microsecond)
			}
		})
		time.Sleep(Every)
		c.set(func(c *counters) { c.app7 = 10; c.took.Observe(time.Second) })
		time.Sleep(Every)
		c.set(func(c *counters) { c.app7 = 30; c.issued = 7 }) // counted anew
		time.Sleep(Every)
		synctest.Wait()

		want := fmt.Sprintf(`{"periodSeconds":5,"times":[%d,%d,%d],"series":{`, began+5, began+10, began+15) +
			`"disabled":[null,null,null],"issued":[10,0,1.4],"queue.p50Ms":[0.025,750,null],"queue.p99Ms":[0.05,995,null],"refills":[3,0,0]}}`
		if got := encode(t, h.All()); got != want {
			t.Errorf("all: %s\nwant %s", got, want)
		}
		want = fmt.Sprintf(`{"periodSeconds":5,"times":[%d,%d,%d],"series":{"app.issued":[null,2,4]}}`, began+5, began+10, began+15)
		if got := encode(t, h.App(7)); got != want {
			t.Errorf("app: %s\nwant %s", got, want)
		}
		if got := h.Rates(); math.Abs(got[7]-2) > 1e-6 || got[8] != 0 {
			t.Errorf("rates: %v, %v, want the average of three periods, 2, and 0", got[7], got[8])
		}
	})
}

func encode(t *testing.T, c Chart) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A reading that came late is spread over the time it is of.
func TestALateSample(t *testing.T) {
	h, _ := newTest()
	at := time.Unix(1_800_000_000, 0)
	reading := func(n int64) Reading {
		return Reading{Rates: []int64{n, Unknown}, Counts: []int64{0}, Timings: make([]latency.Reading, 1)}
	}
	h.add(reading(0), at)
	h.add(reading(100), at.Add(20*time.Second))
	if got := h.All(); got.Series["issued"][0] != 5 || got.Times[0] != at.Unix()+20 {
		t.Errorf("%+v", got)
	}
}

// After 15 minutes the oldest sample goes, and the order stays.
func TestTheRingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, c := newTest()
		h.Start()
		defer h.Stop()
		began := time.Now().Unix()
		synctest.Wait()
		const samples = Samples + 7
		for i := range int64(samples) {
			c.set(func(c *counters) { c.refills += i })
			time.Sleep(Every)
			synctest.Wait()
		}
		got := h.All()
		if len(got.Times) != Samples || got.Times[0] != began+8*5 || !slices.IsSorted(got.Times) || got.Times[Samples-1] != began+samples*5 {
			t.Errorf("times: %d, %d…%d", len(got.Times), got.Times[0]-began, got.Times[len(got.Times)-1]-began)
		}
		for i, v := range got.Series["refills"] {
			if int(v) != i+7 {
				t.Fatalf("sample %d is %v, want %d", i, v, i+7)
			}
		}
		if n := len(h.App(0).Series["app.issued"]); n != Samples {
			t.Errorf("%d samples of an app", n)
		}
	})
}

// Stop waits for a reading, and nothing reads after it; it needs no Start.
func TestStartAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, slow := 0, true
		h := New(Options{Read: func() Reading {
			if reads++; slow {
				time.Sleep(time.Second)
			}
			return Reading{}
		}})
		h.Start()
		h.Start()
		synctest.Wait()
		began := time.Now()
		h.Stop()
		h.Stop()
		if reads != 1 || time.Since(began) != time.Second {
			t.Errorf("%d reads, stopped after %v", reads, time.Since(began))
		}
		h.Start()
		time.Sleep(time.Minute)
		if reads != 1 {
			t.Errorf("%d reads after Stop", reads)
		}
		if c := h.All(); len(c.Times) != 0 || c.Times == nil || c.PeriodSeconds != 5 {
			t.Errorf("%+v", c)
		}
		New(Options{}).Stop()
	})
}

// Whoever looks while it samples sees whole samples.
func TestLookingWhileItSamples(t *testing.T) {
	h, c := newTest()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			c.set(func(c *counters) { c.issued++ })
			h.add(c.read(), time.Unix(int64(i), 0))
		}
	})
	wg.Go(func() {
		for range 200 {
			chart := h.All()
			for name, s := range chart.Series {
				if len(s) != len(chart.Times) {
					t.Errorf("%s has %d values for %d times", name, len(s), len(chart.Times))
				}
			}
			h.Rates()
		}
	})
	wg.Wait()
}

func BenchmarkAll(b *testing.B) {
	h := New(Options{Rates: make([]string, 7), Counts: make([]string, 7), Timings: make([]string, 4)})
	for i := range h.opts.Rates {
		h.opts.Rates[i], h.opts.Counts[i] = fmt.Sprint("r", i), fmt.Sprint("c", i)
	}
	for i := range h.opts.Timings {
		h.opts.Timings[i] = fmt.Sprint("t", i)
	}
	for i := range Samples {
		h.add(Reading{Rates: make([]int64, 7), Counts: make([]int64, 7), Timings: make([]latency.Reading, 4), Apps: [model.Apps]int64{}}, time.Unix(int64(i), 0))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(h.All()); err != nil {
			b.Fatal(err)
		}
	}
}
