package monitor

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/metric"

	dto "github.com/prometheus/client_model/go"
)

// The history is a sample every five seconds of how much the replica's metrics rose, for 15 minutes. The
// console draws its charts of them.

const (
	// historyEvery is the pause between two samples.
	historyEvery = 5 * time.Second
	// samples is how many are kept: 15 minutes.
	samples = 180
	// slowSamples is how many of the latest samples say whether a mode is slow: ten minutes.
	slowSamples = 120
	// slowAbove is the time of one request in a hundred, in ms, above which a sample is slow.
	slowAbove = 250
)

// Chart is the samples of some series, oldest first. All have one value for each of
// Times.
type Chart struct {
	PeriodSeconds int                   `json:"periodSeconds"`
	Times         []int64               `json:"times"`  // end of each period, Unix seconds
	Series        map[string][]*float64 `json:"series"` // nil is unknown
}

const requests = "shardid_request_duration_seconds"

// rates are the series that are shown per second, by the counters that rise, as metric.Sums names them. Each mode has
// the series name.issued, IDs a second, and name.p99Ms, the time that one request in a hundred exceeded.
var rates = sync.OnceValue(func() map[string]string {
	rates := map[string]string{
		"refused.caller":  requests + `_count{outcome="refused"}`,
		"refused.service": requests + `_count{outcome="failed"}`,
	}
	for _, mode := range model.Modes() {
		rates[mode.String()+".issued"] = "shardid_" + mode.String() + "_issued_total"
	}
	for app := range model.Apps {
		rates[AppSeries(uint8(app))] = fmt.Sprintf(`shardid_queue_app_issued_total{app="%d"}`, app)
	}
	return rates
})

// AppSeries names, for Latest, the series of what an app issued, IDs a second.
func AppSeries(app uint8) string { return fmt.Sprintf("app.%d.issued", app) }

// reading is where the metrics stand at one instant.
type reading struct {
	at    time.Time
	sums  map[string]float64
	times map[string]times // of each mode's requests but for those that were answered 4xx
}

// times counts requests by how long they took: those up to each of metric.Buckets, and then all.
type times []float64

func newReading(families []*dto.MetricFamily, at time.Time) reading {
	r := reading{at, metric.Sums(families), map[string]times{}}
	for _, family := range families {
		if family.GetName() != requests {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["outcome"] == "refused" {
				continue
			}
			all := r.times[labels["mode"]]
			if all == nil {
				all = make(times, len(m.GetHistogram().GetBucket())+1)
				r.times[labels["mode"]] = all
			}
			for i, bucket := range m.GetHistogram().GetBucket() {
				all[i] += float64(bucket.GetCumulativeCount())
			}
			all[len(all)-1] += float64(m.GetHistogram().GetSampleCount())
		}
	}
	return r
}

// sample is one period: what is shown of it, by the name of the series. What is unknown is not there, as of a
// mode that is disabled.
type sample struct {
	at     int64 // its end, Unix seconds
	values map[string]float64
}

// newSample is what happened between two readings.
func newSample(before, after reading) sample {
	s, seconds := sample{after.at.Unix(), map[string]float64{}}, after.at.Sub(before.at).Seconds()
	for name, counter := range rates() {
		if now, known := after.sums[counter]; known {
			s.values[name] = (now - before.sums[counter]) / seconds
		}
	}
	for mode, all := range after.times {
		all = slices.Clone(all)
		for i, n := range before.times[mode] {
			all[i] -= n
		}
		if all[len(all)-1] > 0 {
			s.values[mode+".p99Ms"] = 1000 * all.p99()
		}
	}
	return s
}

// p99 is the time in seconds that one request in a hundred exceeded. Within a bucket
// it is interpolated, as Prometheus does; beyond the last bound it is that bound.
func (t times) p99() float64 {
	rank, low, below := 0.99*t[len(t)-1], 0.0, 0.0
	for i, bound := range metric.Buckets() {
		if t[i] >= rank {
			return low + (bound-low)*(rank-below)/(t[i]-below)
		}
		low, below = bound, t[i]
	}
	return low
}

// sample adds a sample, and looks at the alarms, so that each is known to be on since it
// came.
func (m *Monitor) sample() {
	r, _ := m.look()
	m.addReading(r)
}

func (m *Monitor) addReading(r reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.last.at.IsZero() {
		m.history = append(m.history, newSample(m.last, r))
		m.history = m.history[max(0, len(m.history)-samples):]
	}
	m.last = r
}

// slowModes are those of which more than half of the latest samples are slow. A sample without a request is
// not. Callers hold mu.
func (m *Monitor) slowModes() (slow []string) {
	for _, mode := range model.Modes() {
		n := 0
		for _, s := range m.history[max(0, len(m.history)-slowSamples):] {
			if s.values[mode.String()+".p99Ms"] > slowAbove {
				n++
			}
		}
		if n > slowSamples/2 {
			slow = append(slow, mode.String())
		}
	}
	return slow
}

// History is the series of the whole replica. Those of a mode that is disabled are unknown.
func (m *Monitor) History() Chart {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range rates() {
		if !strings.HasPrefix(name, "app.") {
			names = append(names, name)
		}
	}
	for _, mode := range model.Modes() {
		names = append(names, mode.String()+".p99Ms")
	}
	c := Chart{PeriodSeconds: int(historyEvery.Seconds()), Times: []int64{}, Series: map[string][]*float64{}}
	for _, s := range m.history {
		c.Times = append(c.Times, s.at)
		for _, name := range names {
			var shown *float64
			if value, known := s.values[name]; known {
				shown = new(math.Round(value*1000) / 1000) // more than a chart shows
			}
			c.Series[name] = append(c.Series[name], shown)
		}
	}
	return c
}

// Latest is the last value of a series, with which its history ends; 0 when it is unknown.
func (m *Monitor) Latest(series string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.history); n > 0 {
		return m.history[n-1].values[series]
	}
	return 0
}
