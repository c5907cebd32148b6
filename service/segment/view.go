package segment

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// View is what Leaf's /cache page and /api/status show of a tag; its JSON is that of
// both. Leaf has two buffers: the first has the segment in use here, the second the next one, and further ones are
// in Ahead alone.
type View struct {
	Name string `json:"key"`
	// of its IDs as texts; the numbers below are then period<<bits + sequence
	Pattern   string `json:"pattern,omitempty"`
	InitOK    bool   `json:"initOk"`              // a segment was taken
	ShardBits uint   `json:"shardBits,omitempty"` // the numbers below have none of them
	// length of the last segment as it is tuned; the row's step before the first
	Step      int64 `json:"step"`
	NextReady bool  `json:"nextReady"` // the second buffer holds the next segment
	Pos       int   `json:"pos"`       // the buffer in use: the first, 0

	// The two buffers: next ID, length of the segment, and its end, not included.
	Value0 int64 `json:"value0"`
	Step0  int64 `json:"step0"`
	Max0   int64 `json:"max0"`
	Value1 int64 `json:"value1"`
	Step1  int64 `json:"step1"`
	Max1   int64 `json:"max1"`

	Ahead    int       `json:"ahead"`             // segments that follow the one in use
	Held     int64     `json:"held"`              // IDs that can be issued without the database
	Rate     float64   `json:"rate"`              // IDs a second, the average of half a minute
	Runway   float64   `json:"runwaySeconds"`     // for which Held lasts at that rate, at most a year
	LastLoad time.Time `json:"lastLoad,omitzero"` // when the last segment was taken
}

// MarshalJSON adds the IDs as strings.
func (v View) MarshalJSON() ([]byte, error) {
	type plain View // without this method
	return json.Marshal(struct {
		plain
		Value0Str int64 `json:"value0Str,string"`
		Max0Str   int64 `json:"max0Str,string"`
		Value1Str int64 `json:"value1Str,string"`
		Max1Str   int64 `json:"max1Str,string"`
	}{plain(v), v.Value0, v.Max0, v.Value1, v.Max1})
}

// Status is the segment mode in /api/status.
type Status struct {
	Issued int64  `json:"issued"`          // IDs since the start of the process
	Tags   []View `json:"tags"`            // of the tags that this process uses, by name; never nil
	Total  int    `json:"total,omitempty"` // how many there are, where Tags are not all
}

// Status returns the counter and the tags in use.
func (s *Service) Status() Status {
	counts, _ := s.countPools()
	return Status{Issued: counts.Issued, Tags: s.Used()}
}

// Used are the tags that exist and that this process has used, by name.
func (s *Service) Used() []View {
	views := []View{}
	for _, t := range s.tags.All() {
		if t.exists() {
			views = append(views, t.view())
		}
	}
	slices.SortFunc(views, func(a, b View) int { return cmp.Compare(a.Name, b.Name) })
	return views
}

// Busiest are the rates of the tags that are used most, so many at most, by name: IDs a second as in View.
func (s *Service) Busiest(most int) map[string]float64 {
	var used []View
	for _, t := range s.tags.All() {
		t.mu.Lock()
		if r := t.rate.perSecond; r >= leastRate {
			used = append(used, View{Name: t.name, Rate: r})
		}
		t.mu.Unlock()
	}
	slices.SortFunc(used, func(a, b View) int { return cmp.Compare(b.Rate, a.Rate) })
	rates := map[string]float64{}
	for _, v := range used[:min(len(used), most)] {
		rates[v.Name] = v.Rate
	}
	return rates
}

// View is what this process holds of a tag that has a row in the table, which may be nothing.
func (s *Service) View(row model.Tag) View {
	if t, used := s.tags.Load(row.Name); used {
		return t.view()
	}
	v := View{Name: row.Name, ShardBits: row.ShardBits(), Step: row.Step}
	if v.ShardBits == 0 {
		v.Pattern = row.Pattern
	}
	return v
}

func (t *Tag) view() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := t.pool.Counts()
	held, next := counts.Held, t.nextNumber(counts)
	v := View{
		Name: t.name, InitOK: t.supply.loads > 0, Step: max(t.supply.row, t.supply.tuned), Held: held,
		Rate: t.rate.perSecond, Runway: t.rate.runway(held).Seconds(), LastLoad: t.supply.takenAt.UTC(),
		ShardBits: t.shardBits,
	}
	if t.numbers != nil {
		v.Pattern = t.numbers.Pattern
	}
	t.forgetUsedUp(next)
	if v.Ahead = max(0, len(t.segments)-1); len(t.segments) > 0 {
		first := t.segments[0]
		v.Value0, v.Step0, v.Max0 = min(max(next, first.First), first.End), first.End-first.First, first.End
	}
	if v.NextReady = v.Ahead > 0; v.NextReady {
		second := t.segments[1]
		v.Value1, v.Step1, v.Max1 = second.First, second.End-second.First, second.End
	}
	return v
}

const (
	// rateWindow is the time constant of the average rate that is shown.
	rateWindow = 30 * time.Second
	// leastRate is the least that is no rest of a use some minutes ago, in IDs a second.
	leastRate = 0.01
	// maxRunway is the longest that is shown.
	maxRunway = 365 * 24 * time.Hour
)

// rate is how fast a tag is used, for those who look at it. Not safe for concurrent use.
type rate struct {
	perSecond   float64 // IDs, on average since began or for about rateWindow
	issued      int64   // IDs in all, at last
	began, last time.Time
}

// observe notes that issued IDs were used until now.
func (r *rate) observe(now time.Time, issued int64) {
	if elapsed := now.Sub(r.last).Seconds(); elapsed > 0 {
		share := min(1, elapsed/min(now.Sub(r.began), rateWindow).Seconds())
		r.perSecond += share * (float64(issued-r.issued)/elapsed - r.perSecond)
		r.issued, r.last = issued, now
	}
}

// runway is how long held IDs last at that rate, at most a year; nothing lasts no time.
func (r *rate) runway(held int64) time.Duration {
	if held == 0 {
		return 0
	}
	return time.Duration(min(float64(held)/r.perSecond, maxRunway.Seconds()) * float64(time.Second))
}

// counters are the metrics that the service counts.
type counters struct {
	repeated, lifts, jumped prometheus.Counter
	wasted                  atomic.Int64 // beside what pools give up
}

// count makes the counters, and exports what pools count. They start at 0 with the process.
func (s *Service) count() {
	counter := func(name, help string) prometheus.Counter {
		return metric.Counter(s.opts.Registry, "shardid_segment_"+name, help)
	}
	s.stats.repeated = counter("repeated_total",
		"Segments refused because IDs of them were issued before: must stay 0.")
	s.stats.lifts = counter("lifts_total", "Times max_id was below what this replica knows to be issued: "+
		"the table went back in time.")
	s.stats.jumped = counter("jumped_ids_total", "IDs of tags skipped, as the database server changed and Redis "+
		"could not tell what was issued: gaps.")
	metric.CounterOf(s.opts.Registry, "shardid_segment_issued_total", "IDs given to callers.", func() int64 {
		counts, _ := s.countPools()
		return counts.Issued
	})
	metric.CounterOf(s.opts.Registry, "shardid_segment_wasted_total", "IDs held by this replica and given up: gaps.",
		func() int64 {
			counts, _ := s.countPools()
			return counts.Dropped
		})
	metric.Gauge(s.opts.Registry, "shardid_segment_runway_seconds", "How long the held IDs of the tag that runs out "+
		"first last at the present rate, at most a year.", func() float64 {
		_, runway := s.countPools()
		return runway.Seconds()
	})
}

// countPools adds up what the pools of all tags count, and what was issued and given up beside them, and says how long
// what is held lasts of the tag that runs out first: of those that hold nothing one counts that the database keeps dry.
func (s *Service) countPools() (sum hold.Counts, runway time.Duration) {
	sum.Dropped, runway = s.stats.wasted.Load(), maxRunway
	for _, t := range s.tags.All() {
		t.mu.Lock()
		c := t.pool.Counts()
		sum.Issued, sum.Dropped = sum.Issued+c.Issued+t.beside, sum.Dropped+c.Dropped
		if err := t.supply.lastErr; t.supply.loads > 0 && (c.Held > 0 || err != nil && !ofRow(err)) {
			runway = min(runway, t.rate.runway(c.Held))
		}
		t.mu.Unlock()
	}
	return sum, runway
}
