package monitor

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/metric"
	"shardid/service/queue"

	dto "github.com/prometheus/client_model/go"
)

// Every five seconds a replica takes down how much its metrics rose, and shows that to the others in its record. Each
// replica adds up the records, and keeps the sums for an hour: the console draws its charts of them.

const (
	// historyEvery is the pause between two samples.
	historyEvery = 5 * time.Second
	// samples is how many are kept of all replicas: an hour.
	samples = 720
	// slowSamples is how many of its own a replica keeps, to say whether a mode is slow: ten minutes.
	slowSamples = 120
	// slowAbove is the time of one request in a hundred, in ms, above which a sample is slow.
	slowAbove = 250
	// busiestTags is of how many tags a sample has the rates.
	busiestTags = 256
)

// Chart is the samples of some series, oldest first. All have one value for each of
// Times.
type Chart struct {
	PeriodSeconds int               `json:"periodSeconds"`
	Times         []int64           `json:"times"` // end of each period, Unix seconds
	Series        map[string]Points `json:"series"`
	// Message says why the latest sample is of this replica alone, "" when it is of all.
	Message string `json:"message,omitempty"`
}

// Points are the values of a series. One that is unknown is no number, and null in JSON.
type Points []float32

// MarshalJSON writes thousandths, which are more than a chart shows.
func (p Points) MarshalJSON() ([]byte, error) {
	text := []byte{'['}
	for i, v := range p {
		if i > 0 {
			text = append(text, ',')
		}
		if n := float64(v); math.IsNaN(n) {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendFloat(text, math.Round(n*1000)/1000, 'f', -1, 64)
		}
	}
	return append(text, ']'), nil
}

// history is the latest samples. Not safe for concurrent use.
type history struct {
	times  []int64
	series map[string]Points // each as long as times; one of which nothing is known is not there
}

// add appends a sample, whose values are those that are known, and drops the oldest beyond most.
func (h *history) add(most int, at time.Time, values map[string]float64) {
	first := max(0, len(h.times)+1-most)
	h.times = append(h.times[first:], at.Unix())
	if h.series == nil {
		h.series = map[string]Points{}
	}
	for name := range values {
		if _, known := h.series[name]; !known {
			h.series[name] = slices.Repeat(Points{float32(math.NaN())}, first+len(h.times)-1)
		}
	}
	for name, points := range h.series {
		value, known := values[name]
		if !known {
			value = math.NaN()
		}
		h.series[name] = append(points[first:], float32(value))
	}
	maps.DeleteFunc(h.series, func(_ string, points Points) bool {
		return !slices.ContainsFunc(points, func(v float32) bool { return !math.IsNaN(float64(v)) })
	})
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
	return rates
})

// AppSeries and TagSeries name the series of what an app or a tag issued, IDs a second. A sample has those of the apps
// that issued some, and of the tags that issued most.
func AppSeries(app uint8) string { return "app." + strconv.Itoa(int(app)) + ".issued" }

// TagSeries is AppSeries of a tag, as an average over half a minute.
func TagSeries(tag string) string { return "tag." + tag + ".issued" }

// reading is where the metrics stand at one instant.
type reading struct {
	at    time.Time
	sums  map[string]float64
	apps  map[uint8]int64  // IDs issued
	times map[string]times // of each mode's requests but for those that were answered 4xx
}

// times counts requests by how long they took: those up to each of metric.Buckets, and then all.
type times []float64

func newReading(families []*dto.MetricFamily, apps []queue.View, at time.Time) reading {
	r := reading{at, metric.Sums(families), map[uint8]int64{}, map[string]times{}}
	for _, v := range apps {
		r.apps[v.App] = v.Issued
	}
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

// newSample is what happened between two readings, by the names of the series. What is unknown is not there, as of a
// mode that is disabled.
func newSample(before, after reading, tags map[string]float64) map[string]float64 {
	values, seconds := map[string]float64{}, after.at.Sub(before.at).Seconds()
	for name, counter := range rates() {
		if now, known := after.sums[counter]; known {
			values[name] = (now - before.sums[counter]) / seconds
		}
	}
	for app, issued := range after.apps {
		if n := issued - before.apps[app]; n > 0 {
			values[AppSeries(app)] = float64(n) / seconds
		}
	}
	for tag, rate := range tags {
		values[TagSeries(tag)] = rate
	}
	for mode, all := range after.times {
		all = slices.Clone(all)
		for i, n := range before.times[mode] {
			all[i] -= n
		}
		if all[len(all)-1] > 0 {
			values[mode+".p99Ms"] = 1000 * all.p99()
		}
	}
	return values
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
	r, state, _ := m.look()
	var tags map[string]float64
	if state.Busiest != nil {
		tags = state.Busiest(busiestTags)
	}
	m.addReading(r, tags)
}

func (m *Monitor) addReading(r reading, tags map[string]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.last.at.IsZero() {
		m.latest = newSample(m.last, r, tags)
		m.history.add(slowSamples, r.at, m.latest)
	}
	m.last = r
}

// slowModes are those of which more than half of the latest samples are slow. A sample without a request is
// not. Callers hold mu.
func (m *Monitor) slowModes() (slow []string) {
	for _, mode := range model.Modes() {
		n := 0
		for _, p99 := range m.history.series[mode.String()+".p99Ms"] {
			if p99 > slowAbove {
				n++
			}
		}
		if n > slowSamples/2 {
			slow = append(slow, mode.String())
		}
	}
	return slow
}

// Latest is the latest sample, by the names of the series; nobody may change it. What is unknown is not there.
func (m *Monitor) Latest() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}
