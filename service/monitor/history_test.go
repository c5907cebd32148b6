package monitor

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/issuer"
	"shardid/service/latency"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/snowflake"
)

// counters are what a test lets rise.
type counters struct {
	mu sync.Mutex
	s  Snapshot
}

func (c *counters) set(f func(*Snapshot)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.s)
}

func (c *counters) snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s
}

// A story of three periods: rates are per second, counts per period, quantiles those of
// the period alone, and what cannot be read is null.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counters
		var took, failed, refused latency.Histogram
		traffic := func() map[string]issuer.Traffic {
			return map[string]issuer.Traffic{"queue": {OK: took.Read(), Failed: failed.Read()},
				"uid": {Refused: refused.Read()}}
		}
		c.s.Queue.Issued, c.s.Queue.Refills = 1000, 100 // before the start of the history
		m := silent(c.snapshot)
		m.Start()
		defer stop(t, m)
		began := time.Now().Unix()
		time.Sleep(time.Second)
		for range 100 {
			took.Observe(30 * time.Microsecond)
		}
		for i := range 10 {
			refused.Observe(time.Second)
			if i < 5 {
				failed.Observe(30 * time.Microsecond)
			}
		}
		c.set(func(s *Snapshot) {
			s.Queue = queue.Stats{Issued: 1050, Refills: 103, Pops: 7, Discarded: queue.Discarded{Full: 2, Failed: 3}}
			s.Segment = &segment.Stats{Issued: 5, Loads: 1, Wasted: 20}
			s.Traffic, s.HTTP = traffic(), map[int]int64{0: 7, -6: 3}
		})
		time.Sleep(historyEvery)
		took.Observe(time.Second)
		c.set(func(s *Snapshot) {
			s.Snowflake = &Snowflake{Stats: snowflake.Stats{Issued: 15, Wasted: 4}}
			s.RESP, s.Sequence = map[int]int64{0: 20}, &Sequence{Issued: 30}
			s.Apps = []queue.View{{App: 7, Issued: 10}}
			s.Traffic = traffic()
		})
		time.Sleep(historyEvery)
		c.set(func(s *Snapshot) {
			s.Apps = []queue.View{{App: 7, Issued: 30}}
			s.Segment, s.UID = nil, &UID{}
			s.UID.Stats.Issued, s.UID.Stats.Dropped = 50, 6
			s.Queue.Issued = 7 // counted anew
		})
		time.Sleep(historyEvery)
		synctest.Wait()

		head := fmt.Sprintf(`{"periodSeconds":5,"times":[%d,%d,%d],"series":{`, began+5, began+10, began+15)
		want := head + `"http.answers":[2,0,0],"queue.issued":[10,0,1.4],"queue.p50Ms":[0.025,750,null],` +
			`"queue.p99Ms":[0.05,995,null],` +
			`"queue.pops":[7,0,0],"queue.refills":[3,0,0],"queue.wasted":[5,0,0],` +
			`"refused":[3,0,0],"refused.caller":[2,0,0],"refused.service":[1,0,0],"resp.answers":[null,4,0],` +
			`"segment.issued":[1,0,null],"segment.loads":[1,0,null],"segment.p50Ms":[null,null,null],` +
			`"segment.p99Ms":[null,null,null],"segment.wasted":[20,0,null],"sequence.issued":[null,6,0],` +
			`"sequence.p50Ms":[null,null,null],"sequence.p99Ms":[null,null,null],` +
			`"snowflake.issued":[null,3,0],"snowflake.p50Ms":[null,null,null],"snowflake.p99Ms":[null,null,null],` +
			`"snowflake.wasted":[null,4,0],"uid.issued":[null,null,10],"uid.p50Ms":[null,null,null],` +
			`"uid.p99Ms":[null,null,null],"uid.wasted":[null,null,6]}}`
		check.Equal(t, encode(t, m.History()), want, "all")
		want = head + `"app.issued":[null,2,4]}}`
		check.Equal(t, encode(t, m.AppHistory(7)), want, "app")
		if got := m.AppRates(); math.Abs(got[7]-4) > 1e-6 || got[8] != 0 {
			t.Errorf("rates: %v, %v, want those with which the charts end, 4 and 0", got[7], got[8])
		}
	})
}

func encode(t *testing.T, c Chart) string {
	t.Helper()
	b, err := json.Marshal(c)
	check.Must(t, err)
	return string(b)
}

// issued is a reading of the queue mode.
func issued(n int64) reading { return read(Snapshot{Queue: queue.Stats{Issued: n}}) }

// A reading that came late is spread over the time since the last one.
func TestALateSample(t *testing.T) {
	m, at := silent(nothing), time.Unix(1_800_000_000, 0)
	check.Equal(t, encode(t, m.History()), `{"periodSeconds":5,"times":[],"series":{}}`, "before the first")
	m.history.add(issued(0), at)
	m.history.add(issued(100), at.Add(20*time.Second))
	if got := m.History(); got.Series["queue.issued"][0] != 5 || got.Times[0] != at.Unix()+20 {
		t.Errorf("%+v", got)
	}
}

// After 15 minutes the oldest sample goes, and the order stays.
func TestTheRingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counters
		m := silent(c.snapshot)
		m.Start()
		defer stop(t, m)
		began := time.Now().Unix()
		synctest.Wait()
		for i := range int64(samples + 7) {
			c.set(func(s *Snapshot) { s.Queue.Refills += i })
			time.Sleep(historyEvery)
			synctest.Wait()
		}
		got := m.History()
		if n := len(got.Times); n != samples || got.Times[0] != began+8*5 || !slices.IsSorted(got.Times) ||
			got.Times[n-1] != began+(samples+7)*5 {
			t.Errorf("times: %d, %d…%d", n, got.Times[0]-began, got.Times[n-1]-began)
		}
		for i, v := range got.Series["queue.refills"] {
			if int(v) != i+7 {
				t.Fatalf("sample %d is %v, want %d", i, v, i+7)
			}
		}
		check.Equal(t, len(m.AppHistory(0).Series["app.issued"]), samples, "samples of an app")
	})
}

// A mode is slow when in more than five of the last ten minutes one in a hundred of its requests
// took more than a quarter of a second.
func TestSlow(t *testing.T) {
	m, at, took := silent(nothing), noon, latency.Histogram{}
	look := func(samples int, each time.Duration, want string) {
		t.Helper()
		for range samples {
			took.Observe(each)
			at = at.Add(historyEvery)
			m.history.add(read(Snapshot{Traffic: map[string]issuer.Traffic{"uid": {OK: took.Read()}}}), at)
		}
		got := ""
		for _, a := range m.raise(Snapshot{}, at) {
			got += a.Name + a.Message[strings.Index(a.Message, ", in"):strings.Index(a.Message, ":")]
		}
		check.Equal(t, got, want, at.Format(time.TimeOnly))
	}
	look(61, time.Second, "")
	look(1, time.Second, "ShardidSlow, in the mode uid")
	look(59, time.Millisecond, "ShardidSlow, in the mode uid")
	look(1, time.Millisecond, "")
}

// Alarms are looked at with each sample, so that one is known to be on since it came, and
// no snapshot is taken after Stop.
func TestSamplesLookAtAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counters
		m := silent(c.snapshot)
		m.Start()
		time.Sleep(time.Second)
		c.set(func(s *Snapshot) { s.Settings = []model.Finding{{Level: model.LevelUnsafe}} })
		time.Sleep(time.Minute)
		if got := m.Alarms(); len(got) != 1 || time.Since(got[0].Since) != 56*time.Second {
			t.Errorf("%+v at %v", got, time.Now())
		}
		stop(t, m)
		before := m.History()
		time.Sleep(time.Minute)
		if after := m.History(); len(after.Times) != 12 || len(after.Times) != len(before.Times) {
			t.Errorf("%d samples, %d after Stop", len(before.Times), len(after.Times))
		}
	})
}

func BenchmarkHistory(b *testing.B) {
	m := silent(nothing)
	for i := range samples + 1 {
		m.history.add(issued(int64(i)), time.Unix(int64(i), 0))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(m.History()); err != nil {
			b.Fatal(err)
		}
	}
}
