package monitor

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/model/witness"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
)

const (
	// startPatience is how long after its start a replica waits for all of its modes before
	// it is ready, so that a rollout takes none into service a moment too early. For a mode
	// that needs longer the others do not wait.
	startPatience = 5 * time.Second
	// lookEvery is the pause between two looks at the modes.
	lookEvery = time.Second
)

// What Health says.
const (
	StatusOK       = "ok"
	StatusDegraded = "degraded"
	StatusNotReady = "not ready"
	ShuttingDown   = "shutting down"
)

// Health is the body of the health endpoints.
type Health struct {
	Status  string            `json:"status"`
	Message string            `json:"message,omitempty"`
	Checks  []model.Condition `json:"checks,omitempty"`
	modes   []model.Condition // the last of Checks
}

// readiness is that of the modes.
type readiness struct {
	startedAt time.Time   // when New was called, by the monotonic clock
	complete  atomic.Bool // every mode was seen ready at once

	mu    sync.Mutex // guards what was last seen of modes
	modes []*mode
}

// mode is a way to make IDs, with what was last seen of it.
type mode struct {
	condition
	ready func() error
}

// AddMode adds a mode that is enabled; the queue comes first. ready is nil while the mode can serve anything, or says
// what is missing, and must not block. It is to be called before Start.
func (m *Monitor) AddMode(name string, ready func() error) {
	m.ready.modes = append(m.ready.modes, &mode{condition{Condition: model.Condition{Name: name}}, ready})
}

// lookAtModes looks at all modes that are enabled, in their order. Requests for their health do so, and Start does
// every second, so Since is when a change came.
func (m *Monitor) lookAtModes() (seen []model.Condition) {
	m.ready.mu.Lock()
	defer m.ready.mu.Unlock()
	for _, mode := range m.ready.modes {
		mode.update(mode.ready(), m.now())
		seen = append(seen, mode.Condition)
	}
	return seen
}

// Health says how everything is doing: anything that does not work makes it degraded. The message is of the first
// check that fails, and the conditions come before the modes that wait for them.
func (m *Monitor) Health() Health {
	h := Health{Status: StatusOK, modes: m.lookAtModes()}
	h.Checks = append(m.Conditions(), h.modes...)
	if i := slices.IndexFunc(h.Checks, func(c model.Condition) bool { return !c.OK }); i >= 0 {
		h.Status, h.Message = StatusDegraded, model.Message(h.Checks[i].Failure())
	}
	return h
}

// Readiness says whether this replica should get requests: while any of its modes can
// serve. To be taken out of service for one that cannot would end the others.
func (m *Monitor) Readiness() Health {
	h, r := m.Health(), &m.ready
	failing := slices.DeleteFunc(h.modes, func(c model.Condition) bool { return c.OK })
	if len(failing) == 0 {
		r.complete.Store(true)
	}
	switch {
	case m.Draining.Load():
		h.Status, h.Message = StatusNotReady, ShuttingDown
	case len(failing) == len(r.modes):
		h.Status = StatusNotReady
		h.Message = model.Message(fmt.Errorf("%w: no mode can serve", failing[0].Failure()))
	case len(failing) > 0 && !r.complete.Load() &&
		(m.now().Sub(r.startedAt) < startPatience || m.state().OldSchema):
		h.Status, h.Message = StatusNotReady, model.Message(fmt.Errorf("%w: starting", failing[0].Failure()))
	}
	return h
}

// ReadinessOf is Readiness of one mode, for balancers that route by mode; false for one that is not enabled.
func (m *Monitor) ReadinessOf(mode string) (h Health, enabled bool) {
	h = m.Health()
	i := slices.IndexFunc(h.modes, func(c model.Condition) bool { return c.Name == mode })
	switch {
	case i < 0:
		return h, false
	case m.Draining.Load():
		h.Status, h.Message = StatusNotReady, ShuttingDown
	case !h.modes[i].OK:
		h.Status, h.Message = StatusNotReady, h.modes[i].Error
	}
	return h, true
}

// Status is the body of /api/status, what the console shows. Fields may be added, none changes its meaning.
// IDs also come as strings; other numbers stay below 2^53.
type Status struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Region is whose IDs these are; zero for a deployment alone.
	Region model.Region `json:"region,omitzero"`
	// Ready is what /readyz answers, Message its reason.
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	// Modes has all, by name.
	Modes map[string]ModeStatus `json:"modes"`
	// Stores are the conditions of the stores, and of what is tried again and
	// again.
	Stores []model.Condition `json:"stores"`
	// Alarms are what an operator should look at, the most severe first.
	Alarms []Alarm `json:"alarms"`
	// Administration says whether some token may admin here, so that the console shows what changes things. The HTTP
	// front end knows it.
	Administration bool `json:"administration"`
	// Witness is whether Redis vouches for the database; nil for one that needs nobody to.
	Witness *witness.Vouching `json:"witness,omitempty"`

	Queue     queue.Status     `json:"queue"`
	Segment   *segment.Status  `json:"segment,omitempty"`
	Snowflake *SnowflakeStatus `json:"snowflake,omitempty"`
	UID       *uid.Status      `json:"uid,omitempty"`
}

// ModeStatus is whether a mode can issue.
type ModeStatus struct {
	Enabled bool      `json:"enabled"`
	Ready   bool      `json:"ready"`
	Since   time.Time `json:"since,omitzero"` // when Ready changed, within a second
	Error   string    `json:"error,omitempty"`
}

// SnowflakeStatus is the snowflake mode: its generator and the lease of its worker ID.
type SnowflakeStatus struct {
	Issued                   int64     `json:"issued"`   // IDs since the start
	WorkerID                 int       `json:"workerId"` // -1 while none is held
	Mode                     string    `json:"mode"`     // of the registry of worker IDs
	Address                  string    `json:"address"`  // of this instance, ip:port
	State                    string    `json:"state"`    // waiting, serving or offline
	ReservedUntil            time.Time `json:"reservedUntil,omitzero"`
	TrustSeconds             float64   `json:"trustSeconds"`       // how long the lease is trusted without a renewal
	ClockOffsetSeconds       float64   `json:"clockOffsetSeconds"` // how far this clock is ahead of the registry's
	RemainingLifetimeSeconds int64     `json:"remainingLifetimeSeconds"`
	Error                    string    `json:"error,omitempty"` // the registry's latest
}

// Status is how this replica is doing, with all of the tags in use.
func (m *Monitor) Status() Status {
	_, state, alarms := m.look()
	s, ready, latest := state.Status, m.Readiness(), m.Latest()
	s.StartedAt, s.Ready, s.Message = m.ready.startedAt.UTC(), ready.Status != StatusNotReady, ready.Message
	s.Modes, s.Stores, s.Alarms = m.modeStatus(), m.Conditions(), alarms
	for i, app := range s.Queue.Apps {
		s.Queue.Apps[i].PerSecond = latest[AppSeries(app.App)]
	}
	if state.Tags != nil {
		s.Segment = new(state.Tags())
	}
	return s
}

// modeStatus has every mode, the disabled ones too.
func (m *Monitor) modeStatus() map[string]ModeStatus {
	all := map[string]ModeStatus{}
	for _, mode := range model.Modes() {
		all[mode.String()] = ModeStatus{}
	}
	for _, c := range m.lookAtModes() {
		all[c.Name] = ModeStatus{Enabled: true, Ready: c.OK, Since: c.Since, Error: c.Error}
	}
	return all
}

// Record is how this replica is doing now, for the consoles of all replicas.
func (m *Monitor) Record() Record {
	host, _ := os.Hostname() // "" when the system does not tell
	s := m.state()
	r := Record{
		Host: host, URL: s.URL, Version: s.Version, StartedAt: m.ready.startedAt.UTC(),
		Ready: m.Readiness().Status != StatusNotReady, Modes: map[string]ModeRecord{}, WorkerID: -1,
		Alarms: map[string]int{}, Rates: m.Latest(),
	}
	for name, mode := range m.modeStatus() {
		r.Modes[name] = ModeRecord{mode.Enabled, mode.Ready, r.Rates[name+".issued"]}
	}
	if s.Snowflake != nil {
		r.WorkerID = s.Snowflake.WorkerID
	}
	for _, alarm := range m.Raised() {
		r.Alarms[string(alarm.Severity)]++
	}
	return r
}
