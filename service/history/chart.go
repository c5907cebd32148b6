package history

import (
	"math"
	"strconv"

	"shardid/model"
)

// Chart is the samples of some series, oldest first. All have one value for each of
// Times.
type Chart struct {
	PeriodSeconds int                `json:"periodSeconds"`
	Times         []int64            `json:"times"` // end of each period, Unix seconds
	Series        map[string][]Value `json:"series"`
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

// All is the series of the whole replica.
func (h *History) All() Chart {
	h.mu.Lock()
	defer h.mu.Unlock()
	chart := h.empty()
	for i, name := range h.names() {
		series := make([]Value, 0, h.samples)
		for s := range h.inOrder {
			series = append(series, Value(s.values[i]))
		}
		chart.Series[name] = series
	}
	return chart
}

// App is the series of one app: app.issued, IDs a second, unknown while the app did not
// exist.
func (h *History) App(app uint8) Chart {
	h.mu.Lock()
	defer h.mu.Unlock()
	chart := h.empty()
	series := make([]Value, 0, h.samples)
	for s := range h.inOrder {
		series = append(series, Value(s.apps[app]))
	}
	chart.Series["app.issued"] = series
	return chart
}

// Rates is how many IDs a second each app issued of late; 0 when that is unknown.
func (h *History) Rates() (rates [model.Apps]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(smooth, h.samples)
	for back := range n {
		s := &h.ring[(h.next-1-back+Samples)%Samples]
		for app, rate := range s.apps {
			if !math.IsNaN(float64(rate)) {
				rates[app] += float64(rate) / float64(n)
			}
		}
	}
	return rates
}

// empty is a chart without series. Callers hold mu.
func (h *History) empty() Chart {
	c := Chart{PeriodSeconds: int(Every.Seconds()), Times: make([]int64, 0, h.samples), Series: map[string][]Value{}}
	for s := range h.inOrder {
		c.Times = append(c.Times, s.at)
	}
	return c
}

// names are those of a sample's values, in their order.
func (h *History) names() []string {
	var all []string
	all = append(append(all, h.opts.Rates...), h.opts.Counts...)
	for _, t := range h.opts.Timings {
		all = append(all, t+".p50Ms", t+".p99Ms")
	}
	return all
}

// inOrder yields the samples, oldest first. Callers hold mu.
func (h *History) inOrder(yield func(*sample) bool) {
	for i := range h.samples {
		if !yield(&h.ring[(h.next-h.samples+i+Samples)%Samples]) {
			return
		}
	}
}
