// Package health remembers how each thing the service depends on is doing, and
// logs when that changes: once, not for every request that meets the failure.
package health

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// probeEvery is the pause between two probes of a store.
	probeEvery = time.Second
	// probeTimeout bounds one probe.
	probeTimeout = 3 * time.Second
	// quiet is the shortest time between two log lines about one condition. Only
	// that it works again is logged at once: a reporter may say so only once.
	quiet = 10 * time.Second
	// remindEvery is how often a lasting failure is logged again.
	remindEvery = time.Minute
)

// Probe asks a store whether it can be used.
type Probe struct {
	Name  string
	Check func(context.Context) error // returns soon after its context ends
}

// Condition is how one thing is doing.
type Condition struct {
	Name  string    `json:"name"`
	OK    bool      `json:"ok"`
	Since time.Time `json:"since"`           // when OK last changed
	Error string    `json:"error,omitempty"` // the latest failure
}

// Monitor keeps the conditions. Safe for concurrent use.
type Monitor struct {
	log    *slog.Logger
	probes []Probe
	now    func() time.Time

	mu         sync.Mutex
	conditions map[string]*condition

	ctx     context.Context // ends at Stop
	cancel  context.CancelFunc
	started bool // guarded by mu
	wg      sync.WaitGroup
}

type condition struct {
	Condition
	err       error     // the latest failure, nil while OK
	logged    time.Time // last line
	announced bool      // that line said it fails
	told      string    // the failure that line told of
	failures  int64     // since the last line
}

// New makes a monitor of the probes. Start runs them; Report works without.
func New(log *slog.Logger, probes ...Probe) *Monitor {
	ctx, cancel := context.WithCancel(context.Background())
	return &Monitor{log: log, probes: probes, now: time.Now, conditions: map[string]*condition{}, ctx: ctx, cancel: cancel}
}

// Start probes each store once a second until Stop. A second call, and one after
// Stop, does nothing.
func (m *Monitor) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started || m.ctx.Err() != nil {
		return
	}
	m.started = true
	for _, p := range m.probes {
		m.wg.Go(func() { m.run(p) })
	}
}

// Stop ends the probes and waits for them. It may be called twice, and without
// Start.
func (m *Monitor) Stop() {
	m.mu.Lock() // so that no Start adds to wg while Wait runs
	m.cancel()
	m.mu.Unlock()
	m.wg.Wait()
}

func (m *Monitor) run(p Probe) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		m.probe(p)
		select {
		case <-tick.C:
		case <-m.ctx.Done():
			return
		}
	}
}

func (m *Monitor) probe(p Probe) {
	ctx, cancel := context.WithTimeout(m.ctx, probeTimeout)
	defer cancel()
	err := p.Check(ctx)
	if m.ctx.Err() == nil {
		m.Report(p.Name, err)
	}
}

// Report notes how something went: nil when it works. A change is logged at
// once unless a line was written a moment ago; a lasting failure again every
// minute, with the number of failures since. What is not probed has no line while
// the failure of a probed store explains it.
func (m *Monitor) Report(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	c := m.conditions[name]
	if c == nil {
		c = &condition{Condition: Condition{Name: name, OK: true, Since: now}}
		m.conditions[name] = c
	}
	c.update(err, now)
	if line := c.line(now); line != "" && !m.explained(c, now) {
		m.write(c, line)
		c.logged, c.announced, c.told, c.failures = now, !c.OK, c.Error, 0
	}
}

// explained says whether a failure needs no line of its own: it is not that of a
// probed store, and such a store fails, or has not been probed since.
func (m *Monitor) explained(c *condition, now time.Time) bool {
	if c.OK || len(m.probes) == 0 {
		return false
	}
	for _, p := range m.probes {
		if p.Name == c.Name {
			return false
		}
		if store := m.conditions[p.Name]; store != nil && !store.OK {
			return true
		}
	}
	return now.Sub(c.Since) < 2*probeEvery
}

// update takes over the outcome.
func (c *condition) update(err error, now time.Time) {
	c.Error, c.err = "", err
	if err != nil {
		c.Error = err.Error()
		c.failures++
	}
	if ok := err == nil; ok != c.OK {
		c.OK, c.Since = ok, now
	}
}

// line decides whether something is to be logged, and what; "" means nothing.
func (c *condition) line(now time.Time) string {
	age := now.Sub(c.logged)
	switch {
	case c.OK && c.announced:
		return "works again"
	case c.OK:
		return ""
	case !c.announced && age >= quiet:
		return "fails"
	case c.Error != c.told && age >= quiet:
		return "fails otherwise"
	case age >= remindEvery:
		return "still fails"
	}
	return ""
}

func (m *Monitor) write(c *condition, line string) {
	if c.OK {
		m.log.Info(c.Name + " " + line)
		return
	}
	m.log.Error(c.Name+" "+line, "error", c.Error, "failures", c.failures)
}

// Conditions returns all conditions, by name.
func (m *Monitor) Conditions() []Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Condition, 0, len(m.conditions))
	for _, c := range m.conditions {
		out = append(out, c.Condition)
	}
	slices.SortFunc(out, func(a, b Condition) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Err is why a condition does not work, nil when it does. What was never reported is
// not known to work.
func (m *Monitor) Err(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.conditions[name]; c != nil {
		return c.err
	}
	return errors.New("it has not been looked at yet")
}
