package monitor

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/metric"
	"shardid/service/queue"

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
	return newReading(families, nil, at)
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
		var apps atomic.Pointer[[]queue.View]
		apps.Store(&[]queue.View{{App: 7}, {App: 8, Issued: 100}})
		m := New(slog.New(slog.DiscardHandler), prometheus.Gatherers{&c, registry}, func() (s State) {
			s.Queue.Apps = *apps.Load()
			s.Busiest = func(int) map[string]float64 { return map[string]float64{"orders": 2.5} }
			return s
		})
		m.Start()
		defer stop(t, m)
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
			"shardid_segment_issued_total":   5,
		})
		apps.Store(&[]queue.View{{App: 7, Issued: 10}, {App: 8, Issued: 100}})
		time.Sleep(historyEvery)
		c.set(map[string]float64{
			"shardid_queue_issued_total": 1057, "shardid_uid_issued_total": 50,
		})
		apps.Store(&[]queue.View{{App: 7, Issued: 30}, {App: 8, Issued: 1}}) // the latter was removed and added again
		observe("uid", "ok", 98, time.Microsecond)
		observe("uid", "ok", 2, 8*time.Millisecond)
		observe("segment", "ok", 1, time.Hour)
		time.Sleep(historyEvery)
		synctest.Wait()

		check.Equal(t, encode(t, m.Latest()), `{"app.7.issued":4,"queue.issued":1.4,"refused.caller":0,`+
			`"refused.service":0,"segment.p99Ms":5000,"tag.orders.issued":2.5,"uid.issued":10,"uid.p99Ms":7.5}`,
			"the last")
		for name, want := range map[string]string{
			"queue.issued": "[10,0,1.4]", "queue.p99Ms": "[0.049,995,null]", "refused.caller": "[2,0,0]",
			"refused.service": "[1,0,0]", "segment.issued": "[1,0,null]", "segment.p99Ms": "[null,null,5000]",
			"sequence.issued": "[null,6,null]", "snowflake.issued": "[null,3,null]", "uid.issued": "[null,null,10]",
			"uid.p99Ms": "[null,null,7.5]", "app.7.issued": "[null,2,4]", "tag.orders.issued": "[2.5,2.5,2.5]",
			"sequence.p99Ms": "[]",
		} {
			check.Equal(t, encode(t, m.history.series[name]), want, name)
		}
	})
}

func encode(t *testing.T, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	check.Must(t, err)
	return string(b)
}

// After an hour the oldest sample goes, and the order stays. A series of which nothing is known any more is dropped.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	at := time.Unix(1_800_000_000, 0)
	h.add(3, at, map[string]float64{"gone": 1})
	for i := range 5 {
		at = at.Add(historyEvery)
		h.add(3, at, map[string]float64{"queue.issued": float64(i)})
		check.Equal(t, h.series["gone"] != nil, i < 2, "after", i)
	}
	check.Equal(t, fmt.Sprint(h.times), fmt.Sprint([]int64{at.Unix() - 10, at.Unix() - 5, at.Unix()}))
	check.Equal(t, encode(t, h.series), `{"queue.issued":[2,3,4]}`)
}

// A reading that came late is spread over the time since the last one.
func TestLateReading(t *testing.T) {
	m, c := silent(nothing), counters{}
	at := time.Unix(1_800_000_000, 0)
	for i := range 3 {
		c.set(map[string]float64{"shardid_queue_issued_total": float64(i * 60)})
		m.addReading(c.reading(t, at.Add(time.Duration(i*20)*time.Second)), nil)
	}
	check.Equal(t, m.Latest()["queue.issued"], 3)
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
