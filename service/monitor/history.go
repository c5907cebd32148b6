package monitor

import (
	"math"
	"strconv"
	"time"

	"shardid/model"
	"shardid/service/latency"
	"shardid/service/segment"
	"shardid/service/snowflake"
	"shardid/service/uid"
)

const (
	// historyEvery is the pause between two samples.
	historyEvery = 5 * time.Second
	// samples is how many are kept: 15 minutes.
	samples = 180
	// slowSamples is how many of the latest samples say whether a mode is slow: ten minutes.
	slowSamples = 120
	// slowAbove is the time of one request in a hundred above which a sample is slow.
	slowAbove = 250 * time.Millisecond
	// unknown is a counter that cannot be read, as that of a mode that is disabled.
	unknown int64 = -1
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

// reading is where the counters of the charts stand at one instant.
type reading struct {
	counters []counter
	timings  []timing
	apps     [model.Apps]int64 // IDs issued of each app; unknown for those that do not exist
}

// counter is shown per second, or as how much it rose in a period.
type counter struct {
	name      string
	perSecond bool
	value     int64
}

// timing is shown as name.p50Ms and name.p99Ms.
type timing struct {
	name  string
	times latency.Reading
}

// read takes the counters out of a snapshot, always in the same order.
func read(s Snapshot) reading {
	tags := segment.Stats{Issued: unknown, Loads: unknown, Wasted: unknown}
	if s.Segment != nil {
		tags = *s.Segment
	}
	flakes := snowflake.Stats{Issued: unknown, Wasted: unknown}
	if s.Snowflake != nil {
		flakes = s.Snowflake.Stats
	}
	uids := uid.Stats{Issued: unknown, Dropped: unknown}
	if s.UID != nil {
		uids = s.UID.Stats
	}
	numbers := Sequence{Issued: unknown}
	if s.Sequence != nil {
		numbers = *s.Sequence
	}
	commands := unknown
	if s.RESP != nil {
		commands = sum(s.RESP)
	}
	var r reading
	var caller, service int64
	for _, mode := range []string{"queue", "segment", "snowflake", "uid", "sequence"} {
		t := s.Traffic[mode]
		caller, service = caller+t.Refused.Count(), service+t.Failed.Count()
		r.timings = append(r.timings, timing{mode, t.OK.Plus(t.Failed)}) // all but those that were answered 4xx
	}
	r.counters = []counter{
		{"queue.issued", true, s.Queue.Issued},
		{"segment.issued", true, tags.Issued},
		{"snowflake.issued", true, flakes.Issued},
		{"uid.issued", true, uids.Issued},
		{"sequence.issued", true, numbers.Issued},
		{"refused", true, caller + service},
		{"refused.caller", true, caller},
		{"refused.service", true, service},
		{"http.answers", true, sum(s.HTTP)},
		{"resp.answers", true, commands},
		{"queue.refills", false, s.Queue.Refills},
		{"queue.pops", false, s.Queue.Pops},
		{"queue.wasted", false, sum(s.Queue.Wasted())},
		{"segment.loads", false, tags.Loads},
		{"segment.wasted", false, tags.Wasted + tags.Jumped},
		{"snowflake.wasted", false, flakes.Wasted},
		{"uid.wasted", false, uids.Dropped},
	}
	for i := range r.apps {
		r.apps[i] = unknown
	}
	for _, v := range s.Apps {
		r.apps[v.App] = v.Issued
	}
	return r
}

func sum[K comparable](counts map[K]int64) (all int64) {
	for _, n := range counts {
		all += n
	}
	return all
}

// history is a ring of samples; its memory is bounded.
type history struct {
	last   reading
	lastAt time.Time // zero before the first reading
	ring   [samples]sample
	next   int // where in ring the next sample goes
	filled int // samples in ring
}

// sample is one period. NaN is unknown.
type sample struct {
	at     int64     // its end, Unix seconds
	values []float64 // of the counters, then two of each timing
	apps   [model.Apps]float32
}

// sample adds a sample, and looks at the alarms, so that each is known to be on since it
// came.
func (m *Monitor) sample() {
	s, now := m.Snapshot(), m.now()
	m.raise(s, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history.add(read(s), now)
}

// add enters what happened between the last reading and this one.
func (h *history) add(r reading, now time.Time) {
	if !h.lastAt.IsZero() {
		seconds := now.Sub(h.lastAt).Seconds()
		s := &h.ring[h.next]
		s.at, s.values = now.Unix(), s.values[:0]
		for i, c := range r.counters {
			n := increase(h.last.counters[i].value, c.value)
			if c.perSecond {
				n /= seconds
			}
			s.values = append(s.values, n)
		}
		for i, t := range r.timings {
			times := t.times.Since(h.last.timings[i].times)
			s.values = append(s.values, 1000*times.Quantile(0.5), 1000*times.Quantile(0.99))
		}
		for app, n := range r.apps {
			s.apps[app] = float32(increase(h.last.apps[app], n) / seconds)
		}
		h.next = (h.next + 1) % samples
		h.filled = min(h.filled+1, samples)
	}
	h.last, h.lastAt = r, now
}

// increase is how much a counter rose. One that was unknown, or fell, began anew at 0.
func increase(before, after int64) float64 {
	switch {
	case after == unknown:
		return math.NaN()
	case before == unknown, after < before:
		return float64(after)
	}
	return float64(after - before)
}

// back is the sample of n periods ago; the latest is that of 1.
func (h *history) back(n int) *sample { return &h.ring[(h.next-n+samples)%samples] }

// slow returns the modes of which more than half of the latest samples are slow. A sample
// without a request is not.
func (h *history) slow() (modes []string) {
	for i, t := range h.last.timings {
		slow := 0
		for n := min(h.filled, slowSamples); n > 0; n-- {
			if h.back(n).values[len(h.last.counters)+2*i+1] > float64(slowAbove.Milliseconds()) {
				slow++
			}
		}
		if slow > slowSamples/2 {
			modes = append(modes, t.name)
		}
	}
	return modes
}

// History is the series of the whole replica.
func (m *Monitor) History() Chart {
	m.mu.Lock()
	defer m.mu.Unlock()
	chart := m.history.chart()
	for i, name := range m.history.names() {
		chart.Series[name] = m.history.series(func(s *sample) Value { return Value(s.values[i]) })
	}
	return chart
}

// AppHistory is the series of one app: app.issued, IDs a second, unknown while the app did
// not exist.
func (m *Monitor) AppHistory(app uint8) Chart {
	m.mu.Lock()
	defer m.mu.Unlock()
	chart := m.history.chart()
	chart.Series["app.issued"] = m.history.series(func(s *sample) Value { return Value(s.apps[app]) })
	return chart
}

// NewChart is a chart without samples.
func NewChart() Chart {
	return Chart{PeriodSeconds: int(historyEvery.Seconds()), Times: []int64{}, Series: map[string][]Value{}}
}

// chart has the times and no series.
func (h *history) chart() Chart {
	c := NewChart()
	for n := h.filled; n > 0; n-- {
		c.Times = append(c.Times, h.back(n).at)
	}
	return c
}

// names are those of a sample's values, in their order.
func (h *history) names() (all []string) {
	for _, c := range h.last.counters {
		all = append(all, c.name)
	}
	for _, t := range h.last.timings {
		all = append(all, t.name+".p50Ms", t.name+".p99Ms")
	}
	return all
}

// series is one value of each sample.
func (h *history) series(value func(*sample) Value) []Value {
	all := make([]Value, 0, h.filled)
	for n := h.filled; n > 0; n-- {
		all = append(all, value(h.back(n)))
	}
	return all
}

// AppRates is how many IDs a second each app issued in the last sample, with which its
// history ends; 0 when that is unknown.
func (m *Monitor) AppRates() (rates [model.Apps]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.history.filled == 0 {
		return rates
	}
	for app, rate := range m.history.back(1).apps {
		if !math.IsNaN(float64(rate)) {
			rates[app] = float64(rate)
		}
	}
	return rates
}
