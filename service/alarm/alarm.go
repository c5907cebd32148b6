// Package alarm says what an operator should look at. Its alarms have the names of
// those in deploy/prometheus/alerts.yml, so that a console without monitoring shows the
// same, and docs/operations.md explains both.
package alarm

import (
	"sync"
	"time"
)

// Severity is how soon somebody should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // IDs may repeat, or are not issued: now
	Warning  Severity = "warning"  // that may come: today
	Info     Severity = "info"     // it is as somebody wanted it, and should be known
)

// Alarm is one thing to look at.
type Alarm struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Message says what it means and what to do.
	Message string    `json:"message"`
	Since   time.Time `json:"since"` // when it was first seen
}

// recently is how long something that happened once is an alarm, as in the rules for
// Prometheus.
const recently = 15 * time.Minute

// lately is how long a caller that got no ID is an alarm after it.
const lately = 2 * time.Minute

// Board keeps since when each alarm is on, and what rose of late. Whoever looks
// updates it. The zero value is ready. Safe for concurrent use.
type Board struct {
	mu    sync.Mutex
	since map[string]time.Time // of the alarms that are on
	rises map[string]rise
}

// rise is a counter and when it rose last.
type rise struct {
	value int64
	at    time.Time
}

// Look returns the alarms that the facts raise at now, the most severe first. Facts of
// an older time than the last ones do no harm.
func (b *Board) Look(now time.Time, f Facts) []Alarm {
	b.mu.Lock()
	defer b.mu.Unlock()
	alarms := raise(f, b.events(now, f))
	on := make(map[string]time.Time, len(alarms))
	for i := range alarms {
		since, was := b.since[alarms[i].Name]
		if !was {
			since = now
		}
		alarms[i].Since, on[alarms[i].Name] = since, since
	}
	b.since = on
	return alarms
}

// events says which counters rose recently. Callers hold mu.
func (b *Board) events(now time.Time, f Facts) events {
	return events{
		lifts:     b.rose(now, recently, "lifts", f.Queue.Lifts+f.Segment.Lifts),
		farLifts:  b.rose(now, recently, "far lifts", f.Queue.LiftAlarms),
		jumps:     b.rose(now, recently, "jumps", f.Queue.Jumps),
		starved:   b.rose(now, lately, "starved", f.Queue.Starved+f.Segment.Starved),
		ringEmpty: b.rose(now, lately, "ring", f.RingEmpty),
		faults:    b.rose(now, recently, "faults", f.Faults),
	}
}

// rose notes a counter, which was 0 at the start of the process, and says whether it
// rose within d. Callers hold mu.
func (b *Board) rose(now time.Time, d time.Duration, name string, value int64) bool {
	r := b.rises[name]
	if value > r.value {
		r = rise{value, now}
		if b.rises == nil {
			b.rises = map[string]rise{}
		}
		b.rises[name] = r
	}
	return !r.at.IsZero() && now.Sub(r.at) < d
}
