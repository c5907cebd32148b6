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

// A story of three periods: rates are per second, counts per period, and what cannot be read is null. Quantiles are
// those of the period alone, interpolated within a bucket, and end with the last bound.
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
		c.set(map[string]float64{"shardid_queue_issued_total": 1000})
		observe("queue", "failed", 1, time.Hour)
		m := New(slog.New(slog.DiscardHandler), prometheus.Gatherers{&c, registry}, nothing)
		m.Start()
		defer stop(t, m)
		began := time.Now().Unix()
		time.Sleep(time.Second)
		observe("queue", "ok", 95, 30*time.Microsecond)
		observe("queue", "failed", 5, 30*time.Microsecond)
		observe("uid", "refused", 10, time.Second)
		c.set(map[string]float64{"shardid_queue_issued_total": 1050, "shardid_segment_issued_total": 5})
		time.Sleep(historyEvery)
		observe("queue", "ok", 1, time.Second)
		c.set(map[string]float64{
			"shardid_queue_issued_total": 1050, "shardid_sequence_issued_total": 30,
			"shardid_snowflake_issued_total": 15,
			"shardid_segment_issued_total":   5, `shardid_queue_app_issued_total{app="7"}`: 10,
		})
		time.Sleep(historyEvery)
		c.set(map[string]float64{
			"shardid_queue_issued_total": 1057, "shardid_uid_issued_total": 50,
			`shardid_queue_app_issued_total{app="7"}`: 30,
		})
		observe("uid", "ok", 98, time.Microsecond)
		observe("uid", "ok", 2, 8*time.Millisecond)
		observe("segment", "ok", 1, time.Hour)
		time.Sleep(historyEvery)
		synctest.Wait()

		head := fmt.Sprintf(`{"periodSeconds":5,"times":[%d,%d,%d],"series":{`, began+5, began+10, began+15)
		want := head + `"queue.issued":[10,0,1.4],"queue.p99Ms":[0.05,995,null],"refused.caller":[2,0,0],` +
			`"refused.service":[1,0,0],"segment.issued":[1,0,null],"segment.p99Ms":[null,null,5000],` +
			`"sequence.issued":[null,6,null],"sequence.p99Ms":[null,null,null],"snowflake.issued":[null,3,null],` +
			`"snowflake.p99Ms":[null,null,null],"uid.issued":[null,null,10],"uid.p99Ms":[null,null,7.5]}}`
		check.Equal(t, encode(t, m.History()), want, "all")
		check.Equal(t, m.Latest(AppSeries(7)), 4, "the last of the app")
		check.Equal(t, m.Latest(AppSeries(8)), 0, "of another app")
	})
}

func encode(t *testing.T, c Chart) string {
	t.Helper()
	b, err := json.Marshal(c)
	check.Must(t, err)
	return string(b)
}

// A reading that came late is spread over the time since the last one. After 15 minutes the oldest sample goes, and
// the order stays.
func TestHistoryIsBounded(t *testing.T) {
	m, c, issued := silent(nothing), counters{}, 0
	check.Equal(t, encode(t, m.History()), `{"periodSeconds":5,"times":[],"series":{}}`, "before the first")
	at := time.Unix(1_800_000_000, 0)
	m.addReading(c.reading(t, at))
	for i := range samples + 8 {
		issued += i * 20
		at = at.Add(20 * time.Second)
		c.set(map[string]float64{"shardid_queue_issued_total": float64(issued)})
		m.addReading(c.reading(t, at))
	}
	got := m.History()
	if n := len(got.Times); n != samples || got.Times[n-1] != at.Unix() || !slices.IsSorted(got.Times) {
		t.Errorf("%d times, %v", n, got.Times)
	}
	for i, v := range got.Series["queue.issued"] {
		check.Equal(t, *v, float64(i+8), "sample", i)
	}
}

// Alarms are looked at with each sample, so that one is known to be on since it came.
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
	})
}
