// Package monitor is what an operator learns of a replica: the conditions of the things
// it depends on, its readiness, the alarms derived from them and from counters, the history for
// the charts of the console, and the records by which all replicas are seen on one page.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/background"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// probeEvery is the pause between two probes of a store.
	probeEvery = time.Second
	// probeTimeout bounds one probe.
	probeTimeout = 3 * time.Second
	// remindEvery is the shortest time between two log lines that a condition fails.
	remindEvery = time.Minute
)

// Probe asks a store whether it can be used.
type Probe struct {
	Name  string
	Check func(context.Context) error // returns soon after its context ends
}

// Monitor keeps the conditions, the readiness, the alarms and the history of a replica. Safe for
// concurrent use.
type Monitor struct {
	Draining atomic.Bool // is set when the replica goes away: it is not ready then, and still serves

	log     *slog.Logger
	probes  []Probe
	metrics prometheus.Gatherer
	state   func() State
	now     func() time.Time
	group   *background.Group
	ready   readiness

	mu         sync.Mutex // guards the rest; it is not held while metrics and state are read
	conditions map[string]*condition
	raised     []Alarm         // as last seen; the slice does not change
	rises      map[string]rise // of what alarms count, by the names of the counters
	last       reading         // zero before the first
	// latest is the latest sample, which does not change; history has those before, too.
	latest  map[string]float64
	history history
}

type condition struct {
	model.Condition
	logged time.Time // when the last line said that it fails
	told   bool      // no line has said since that it works again
}

// update takes over how something is that was looked at.
func (c *condition) update(err error, now time.Time) {
	if ok := err == nil; ok != c.OK || c.Since.IsZero() {
		c.OK, c.Since = ok, now.UTC()
	}
	c.Error, c.Err = model.Message(err), err
}

// New makes a monitor. Start runs the probes, looks at the modes, and reads metrics and state every few seconds;
// Report works without. Neither is read before Start or Alarms.
func New(log *slog.Logger, metrics prometheus.Gatherer, state func() State, probes ...Probe) *Monitor {
	m := &Monitor{
		log: log, probes: probes, metrics: metrics, state: state, now: time.Now,
		group:      background.NewGroup("monitor"),
		conditions: map[string]*condition{}, rises: map[string]rise{},
	}
	m.ready.startedAt = m.now()
	return m
}

// Start looks at each store and mode once a second and fills the history until Stop. A second call,
// and one after Stop, does nothing.
func (m *Monitor) Start() {
	m.group.Start(func() {
		for _, p := range m.probes {
			m.group.Go(func() { m.group.Every(probeEvery, func() { m.probe(p) }) })
		}
		m.group.Go(func() { m.group.Every(lookEvery, func() { m.lookAtModes() }) })
		m.group.Every(historyEvery, m.sample)
	})
}

// Stop ends what Start began and waits. It may be called twice, and without Start.
func (m *Monitor) Stop(ctx context.Context) error { return m.group.Stop(ctx, nil) }

func (m *Monitor) probe(p Probe) {
	ctx, cancel := context.WithTimeout(m.group.Context(), probeTimeout)
	defer cancel()
	err := p.Check(ctx)
	if m.group.Context().Err() == nil {
		m.Report(p.Name, err)
	}
}

// Report implements background.Reporter. A failure is logged at once, and again every minute while it lasts
// or returns; its end is logged at once.
func (m *Monitor) Report(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	c := m.conditions[name]
	if c == nil {
		c = &condition{Condition: model.Condition{Name: name}}
		m.conditions[name] = c
	}
	c.update(err, now)
	switch {
	case c.OK && c.told:
		m.log.Info(name + " works again")
		c.told = false
	case !c.OK && now.Sub(c.logged) >= remindEvery:
		m.log.Error(name+" fails", "error", err)
		c.logged, c.told = now, true
	}
}

// Conditions returns all conditions, by name.
func (m *Monitor) Conditions() []model.Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]model.Condition, 0, len(m.conditions))
	for _, c := range m.conditions {
		all = append(all, c.Condition)
	}
	slices.SortFunc(all, func(a, b model.Condition) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Err is the latest failure of a condition, nil while it works. It is also an error for a
// condition that was never reported.
func (m *Monitor) Err(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.conditions[name]; c != nil {
		return c.Err
	}
	return errors.New("it has not been looked at yet")
}
