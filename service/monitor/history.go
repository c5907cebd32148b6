package monitor

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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
	PeriodSeconds int                `json:"periodSeconds"`
	Times         []int64            `json:"times"` // end of each period, Unix seconds
	Series        map[string][]Value `json:"series"`
}

// NewChart is a chart without samples.
func NewChart() Chart {
	return Chart{PeriodSeconds: int(historyEvery.Seconds()), Times: []int64{}, Series: map[string][]Value{}}
}

// Value is a number of a series; NaN is unknown and null in JSON.
type Value float64

// MarshalJSON has three decimals, which is more than a chart shows.
func (v Value) MarshalJSON() ([]byte, error) {
	f := float64(v)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, math.Round(f*1000)/1000, 'f', -1, 64), nil
}

// series is a line of a chart: how much some counters rose together, per second or in each period.
type series struct {
	name      string
	perSecond bool
	counters  []string // as metric.Sums names them
}

const requests = "shardid_request_duration_seconds"

// counted are the series of the whole replica, but for the times of requests.
func counted() []series {
	const refused, failed = requests + `_count{outcome="refused"}`, requests + `_count{outcome="failed"}`
	return []series{
		{"queue.issued", true, []string{"shardid_queue_issued_total"}},
		{"segment.issued", true, []string{"shardid_segment_issued_total"}},
		{"snowflake.issued", true, []string{"shardid_snowflake_issued_total"}},
		{"uid.issued", true, []string{"shardid_uid_issued_total"}},
		{"sequence.issued", true, []string{"shardid_sequence_issued_total"}},
		{"refused", true, []string{refused, failed}},
		{"refused.caller", true, []string{refused}},
		{"refused.service", true, []string{failed}},
		{"http.answers", true, []string{"shardid_http_answers_total"}},
		{"resp.answers", true, []string{"shardid_resp_answers_total"}},
		{"queue.refills", false, []string{"shardid_queue_refills_total"}},
		{"queue.pops", false, []string{"shardid_queue_pops_total"}},
		{"queue.wasted", false, []string{"shardid_queue_wasted_indices_total"}},
		{"segment.loads", false, []string{"shardid_segment_loads_total"}},
		{"segment.wasted", false, []string{"shardid_segment_wasted_total", "shardid_segment_jumped_ids_total"}},
		{"snowflake.wasted", false, []string{"shardid_snowflake_wasted_total"}},
		{"uid.wasted", false, []string{"shardid_uid_dropped_total"}},
	}
}

// timedModes are those whose times are shown, as name.p50Ms and name.p99Ms.
func timedModes() []string { return []string{"queue", "segment", "snowflake", "uid", "sequence"} }

// appIssued is the counter of an app, and the name of its series.
func appIssued(app int) string { return fmt.Sprintf(`shardid_queue_app_issued_total{app="%d"}`, app) }

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
	lines := counted()
	for app := range model.Apps {
		lines = append(lines, series{appIssued(app), true, []string{appIssued(app)}})
	}
	for _, line := range lines {
		for _, counter := range line.counters {
			now, known := after.sums[counter]
			if !known {
				continue
			}
			rose := now - before.sums[counter]
			if rose < 0 { // it began anew
				rose = now
			}
			if line.perSecond {
				rose /= seconds
			}
			s.values[line.name] += rose
		}
	}
	for mode, all := range after.times {
		all = slices.Clone(all)
		for i, n := range before.times[mode] {
			all[i] -= n
		}
		if all[len(all)-1] > 0 {
			s.values[mode+".p50Ms"], s.values[mode+".p99Ms"] = 1000*all.quantile(0.5), 1000*all.quantile(0.99)
		}
	}
	return s
}

// quantile is the time in seconds that the share q, in 0…1, of the requests did not exceed. Within a bucket
// it is interpolated, as Prometheus does; beyond the last bound it is that bound.
func (t times) quantile(q float64) float64 {
	rank, low, below := q*t[len(t)-1], 0.0, 0.0
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
func (m *Monitor) slowModes() (modes []string) {
	for _, mode := range timedModes() {
		slow := 0
		for _, s := range m.history[max(0, len(m.history)-slowSamples):] {
			if s.values[mode+".p99Ms"] > slowAbove {
				slow++
			}
		}
		if slow > slowSamples/2 {
			modes = append(modes, mode)
		}
	}
	return modes
}

// chart shows series, by the names that samples have for them.
func (m *Monitor) chart(names map[string]string) Chart {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewChart()
	for _, s := range m.history {
		c.Times = append(c.Times, s.at)
		for name, inSample := range names {
			value, known := s.values[inSample]
			if !known {
				value = math.NaN()
			}
			c.Series[name] = append(c.Series[name], Value(value))
		}
	}
	return c
}

// History is the series of the whole replica.
func (m *Monitor) History() Chart {
	names := map[string]string{}
	for _, line := range counted() {
		names[line.name] = line.name
	}
	for _, mode := range timedModes() {
		names[mode+".p50Ms"], names[mode+".p99Ms"] = mode+".p50Ms", mode+".p99Ms"
	}
	return m.chart(names)
}

// AppHistory is the series of one app: app.issued, IDs a second, unknown while the app did
// not exist.
func (m *Monitor) AppHistory(app uint8) Chart {
	return m.chart(map[string]string{"app.issued": appIssued(int(app))})
}

// AppRates is how many IDs a second each app issued in the last sample, with which its
// history ends; 0 when that is unknown.
func (m *Monitor) AppRates() (rates [model.Apps]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.history); n > 0 {
		for app := range rates {
			rates[app] = m.history[n-1].values[appIssued(app)]
		}
	}
	return rates
}
