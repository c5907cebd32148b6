package monitor

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// counters are metrics that a test sets, by name or by name{label="value"}. Safe for concurrent use.
type counters struct {
	mu     sync.Mutex
	values map[string]float64
}

func (c *counters) set(values map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values = values
}

// Gather implements prometheus.Gatherer.
func (c *counters) Gather() (families []*dto.MetricFamily, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, value := range c.values {
		name, labels, _ := strings.Cut(strings.TrimSuffix(key, `"}`), "{")
		m := &dto.Metric{Counter: &dto.Counter{Value: &value}}
		if label, of, has := strings.Cut(labels, `="`); has {
			m.Label = []*dto.LabelPair{{Name: &label, Value: &of}}
		}
		families = append(families, &dto.MetricFamily{Name: &name, Type: dto.MetricType_COUNTER.Enum(),
			Metric: []*dto.Metric{m}})
	}
	return families, nil
}

// reading is that of the counters now.
func (c *counters) reading(t *testing.T, at time.Time) reading {
	t.Helper()
	families, err := c.Gather()
	check.Must(t, err)
	return newReading(families, at)
}

// A story of three periods: rates are per second, counts per period, quantiles those of
// the period alone, and what cannot be read is null.
func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c counters
		registry := prometheus.NewRegistry()
		took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: requests, Buckets: metric.Buckets()},
			[]string{"mode", "outcome"})
		registry.MustRegister(took)
		observe := func(mode, outcome string, n int, d time.Duration) {
			for range n {
				took.WithLabelValues(mode, outcome).Observe(d.Seconds())
			}
		}
		c.set(map[string]float64{"shardid_queue_issued_total": 1000, "shardid_queue_refills_total": 100})
		observe("queue", "failed", 1, time.Hour)
		m := New(slog.New(slog.DiscardHandler), prometheus.Gatherers{&c, registry}, nothing)
		m.Start()
		defer stop(t, m)
		began := time.Now().Unix()
		time.Sleep(time.Second)
		observe("queue", "ok", 95, 30*time.Microsecond)
		observe("queue", "failed", 5, 30*time.Microsecond)
		observe("uid", "refused", 10, time.Second)
		c.set(map[string]float64{
			"shardid_queue_issued_total": 1050, "shardid_queue_refills_total": 103, "shardid_queue_pops_total": 7,
			`shardid_queue_wasted_indices_total{reason="full"}`: 2, `shardid_queue_wasted_indices_total{reason="failed"}`: 3,
			"shardid_segment_issued_total": 5, "shardid_segment_loads_total": 1,
			"shardid_segment_wasted_total": 15, "shardid_segment_jumped_ids_total": 5,
			`shardid_http_answers_total{code="0"}`: 7, `shardid_http_answers_total{code="-6"}`: 3,
		})
		time.Sleep(historyEvery)
		observe("queue", "ok", 1, time.Second)
		c.set(map[string]float64{
			"shardid_queue_issued_total": 1050, "shardid_sequence_issued_total": 30, "shardid_resp_answers_total": 20,
			"shardid_snowflake_issued_total": 15, "shardid_snowflake_wasted_total": 4, "shardid_segment_issued_total": 5,
			`shardid_queue_app_issued_total{app="7"}`: 10,
		})
		time.Sleep(historyEvery)
		c.set(map[string]float64{
			"shardid_queue_issued_total": 7, // counted anew
			"shardid_uid_issued_total":   50, "shardid_uid_dropped_total": 6,
			`shardid_queue_app_issued_total{app="7"}`: 30,
		})
		time.Sleep(historyEvery)
		synctest.Wait()

		head := fmt.Sprintf(`{"periodSeconds":5,"times":[%d,%d,%d],"series":{`, began+5, began+10, began+15)
		want := head + `"http.answers":[2,null,null],"queue.issued":[10,0,1.4],"queue.p50Ms":[0.025,750,null],` +
			`"queue.p99Ms":[0.05,995,null],` +
			`"queue.pops":[7,null,null],"queue.refills":[3,null,null],"queue.wasted":[5,null,null],` +
			`"refused":[3,0,0],"refused.caller":[2,0,0],"refused.service":[1,0,0],"resp.answers":[null,4,null],` +
			`"segment.issued":[1,0,null],"segment.loads":[1,null,null],"segment.p50Ms":[null,null,null],` +
			`"segment.p99Ms":[null,null,null],"segment.wasted":[20,null,null],"sequence.issued":[null,6,null],` +
			`"sequence.p50Ms":[null,null,null],"sequence.p99Ms":[null,null,null],` +
			`"snowflake.issued":[null,3,null],"snowflake.p50Ms":[null,null,null],"snowflake.p99Ms":[null,null,null],` +
			`"snowflake.wasted":[null,4,null],"uid.issued":[null,null,10],"uid.p50Ms":[null,null,null],` +
			`"uid.p99Ms":[null,null,null],"uid.wasted":[null,null,6]}}`
		check.Equal(t, encode(t, m.History()), want, "all")
		check.Equal(t, encode(t, m.AppHistory(7)), head+`"app.issued":[null,2,4]}}`, "app")
		if got := m.AppRates(); got[7] != 4 || got[8] != 0 {
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

// The quantiles of a period are interpolated within a bucket, and end with the last bound.
func TestQuantile(t *testing.T) {
	for name, c := range map[string]struct {
		took map[time.Duration]int
		q    float64
		want time.Duration
	}{
		"half of the first bucket": {map[time.Duration]int{time.Microsecond: 100}, 0.5, 25 * time.Microsecond},
		"all of it":                {map[time.Duration]int{time.Microsecond: 100}, 1, 50 * time.Microsecond},
		"a later bucket": {map[time.Duration]int{time.Microsecond: 90, 8 * time.Millisecond: 10}, 0.95,
			7500 * time.Microsecond},
		"its lower end": {map[time.Duration]int{time.Microsecond: 90, 8 * time.Millisecond: 10}, 0.9,
			50 * time.Microsecond},
		"beyond the last bound": {map[time.Duration]int{time.Hour: 1}, 0.5, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			all := make(times, len(metric.Buckets())+1)
			for took, n := range c.took {
				for i, bound := range metric.Buckets() {
					if took.Seconds() <= bound {
						all[i] += float64(n)
					}
				}
				all[len(all)-1] += float64(n)
			}
			got := time.Duration(all.quantile(c.q) * float64(time.Second)).Round(time.Nanosecond)
			check.Equal(t, got.Round(time.Microsecond/2), c.want, "quantile")
		})
	}
}

// A reading that came late is spread over the time since the last one.
func TestALateSample(t *testing.T) {
	m, at, c := silent(nothing), time.Unix(1_800_000_000, 0), counters{}
	check.Equal(t, encode(t, m.AppHistory(7)), `{"periodSeconds":5,"times":[],"series":{}}`, "before the first")
	m.addReading(c.reading(t, at))
	c.set(map[string]float64{"shardid_queue_issued_total": 100})
	m.addReading(c.reading(t, at.Add(20*time.Second)))
	if got := m.History(); got.Series["queue.issued"][0] != 5 || got.Times[0] != at.Unix()+20 {
		t.Errorf("%+v", got)
	}
}

// After 15 minutes the oldest sample goes, and the order stays.
func TestHistoryIsBounded(t *testing.T) {
	m, c, refills := silent(nothing), counters{}, 0
	at := func(i int) time.Time { return time.Unix(1_800_000_000, 0).Add(time.Duration(i) * historyEvery) }
	for i := range samples + 8 {
		refills += i
		c.set(map[string]float64{"shardid_queue_refills_total": float64(refills)})
		m.addReading(c.reading(t, at(i)))
	}
	got := m.History()
	if n := len(got.Times); n != samples || got.Times[0] != at(8).Unix() || !slices.IsSorted(got.Times) ||
		got.Times[n-1] != at(samples+7).Unix() {
		t.Errorf("%d times, %v", n, got.Times)
	}
	for i, v := range got.Series["queue.refills"] {
		if int(v) != i+8 {
			t.Fatalf("sample %d is %v, want %d", i, v, i+8)
		}
	}
	check.Equal(t, len(m.AppHistory(0).Series["app.issued"]), samples, "samples of an app")
}

// Alarms are looked at with each sample, so that one is known to be on since it came, and
// nothing is looked at after Stop.
func TestSamplesLookAtAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := silent(func() (s State) {
			if time.Since(began) >= time.Second {
				s.Settings = []model.Finding{{Level: model.LevelUnsafe}}
			}
			return s
		})
		m.Start()
		time.Sleep(time.Minute + time.Second)
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
		m.addReading(reading{at: time.Unix(int64(i), 0), sums: map[string]float64{"shardid_queue_issued_total": float64(i)}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(m.History()); err != nil {
			b.Fatal(err)
		}
	}
}
