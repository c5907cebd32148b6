package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/monitor"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"

	"github.com/gin-gonic/gin"
)

// startPatience is how long after its start a replica waits for all of its modes before
// it is ready, so that a rollout takes none into service a moment too early. For a mode
// that needs longer the others do not wait.
const startPatience = 5 * time.Second

// What a healthAnswer says.
const (
	statusOK       = "ok"
	statusDegraded = "degraded"
	statusNotReady = "not ready"
)

// healthAnswer is the body of the health endpoints.
type healthAnswer struct {
	Status  string            `json:"status"`
	Message string            `json:"message,omitempty"`
	Checks  []model.Condition `json:"checks,omitempty"`
}

// Watch looks at the modes. It is to be called every second from the start on.
func (a *API) Watch() { a.look() }

// look looks at all modes that are enabled, in their order. Requests for their health look, and Watch does every
// second, so Since is when a change came.
func (a *API) look() []model.Condition {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.opts.Modes {
		seen, err := &a.seen[i], m.Ready()
		if ok := err == nil; seen.Since.IsZero() || ok != seen.OK {
			seen.OK, seen.Since = ok, now
		}
		seen.Name, seen.Error = m.Name, ""
		if err != nil {
			seen.Error = err.Error()
		}
	}
	return slices.Clone(a.seen)
}

// assess says how everything is doing, and the modes, which are the last of its checks,
// by themselves. The message is of the first check that fails: the conditions come
// before the modes that wait for them.
func (a *API) assess() (answer healthAnswer, modes []model.Condition) {
	modes = a.look()
	answer = healthAnswer{Status: statusOK, Checks: append(a.opts.Conditions(), modes...)}
	if i := slices.IndexFunc(answer.Checks, func(c model.Condition) bool { return !c.OK }); i >= 0 {
		answer.Status, answer.Message = statusDegraded, answer.Checks[i].String()
	}
	return answer, modes
}

// livez says that the process answers; it looks at no store.
func (a *API) livez(c *gin.Context) { a.writeHealth(c, true, healthAnswer{Status: statusOK}) }

// readyz says whether this replica should get requests: while any of its modes can
// serve. To be taken out of service for one that cannot would end the others.
func (a *API) readyz(c *gin.Context) {
	answer := a.readiness()
	a.writeHealth(c, answer.Status != statusNotReady, answer)
}

func (a *API) readiness() healthAnswer {
	answer, modes := a.assess()
	failing := slices.DeleteFunc(modes, func(m model.Condition) bool { return m.OK })
	if len(failing) == 0 {
		a.complete.Store(true)
	}
	reason := ""
	switch {
	case a.draining.Load():
		reason = "shutting down"
	case len(failing) == len(a.opts.Modes):
		reason = "no mode can serve: " + failing[0].String()
	case len(failing) > 0 && !a.complete.Load() && (a.now().Sub(a.startedAt) < startPatience || a.oldSchema()):
		reason = "starting: " + failing[0].String()
	}
	if reason != "" {
		answer.Status, answer.Message = statusNotReady, reason
	}
	return answer
}

// oldSchema: snowflakes may continue with the worker file of the version before, so that only
// this stops a rollout without migrations, at the first replica.
func (a *API) oldSchema() bool { return a.opts.OldSchema != nil && a.opts.OldSchema() }

// readyzOf is readyz of one mode, for balancers that route by mode.
func (a *API) readyzOf(c *gin.Context) {
	name := c.Param("mode")
	answer, modes := a.assess()
	i := slices.IndexFunc(modes, func(m model.Condition) bool { return m.Name == name })
	bits := map[string]access.Modes{ModeSegment: access.Segment, ModeSnowflake: access.Snowflake, ModeUID: access.UID,
		ModeSequence: access.Sequence}
	switch bit, known := bits[name]; {
	case i < 0 && known:
		a.fail(c, a.opts.Enabled(bit))
		return
	case i < 0:
		a.noRoute(c)
		return
	case a.draining.Load():
		answer.Status, answer.Message = statusNotReady, "shutting down"
	case !modes[i].OK:
		answer.Status, answer.Message = statusNotReady, modes[i].Error
	}
	a.writeHealth(c, answer.Status != statusNotReady, answer)
}

// healthz is for monitoring: anything that does not work makes it 503.
func (a *API) healthz(c *gin.Context) {
	answer, _ := a.assess()
	a.writeHealth(c, answer.Status == statusOK, answer)
}

// writeHealth answers 200 or 503. With server.protect_monitoring the reasons, which hold
// addresses of stores, are for requests with a token; others learn what works and what
// does not.
func (a *API) writeHealth(c *gin.Context, ok bool, answer healthAnswer) {
	if a.opts.ProtectMonitoring {
		if _, err := a.opts.Access.Operator(c.Request.Header); err != nil {
			for i := range answer.Checks {
				if answer.Checks[i].Error != "" {
					answer.Checks[i].Error = reasonHidden
				}
			}
			if what, _, more := strings.Cut(answer.Message, ": "); more {
				answer.Message = what + ": " + reasonHidden
			}
		}
	}
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	a.writeBody(c, status, typeJSON, append(appendJSON(nil, answer), '\n'))
}

// Status is the body of /api/status, what the console shows. Options.Status fills
// Version, StartedAt and the parts of the modes; the API fills the rest. Fields
// may be added, none changes its meaning. IDs also come as strings; other numbers
// stay below 2^53.
type Status struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Region is whose IDs these are; nil for a deployment alone.
	Region *model.Region `json:"region,omitempty"`
	// Ready is what /readyz answers, Message its reason.
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	// Modes has all, by name.
	Modes map[string]ModeStatus `json:"modes"`
	// Stores are the conditions of the stores, and of what is tried again and
	// again.
	Stores []model.Condition `json:"stores"`
	// Alarms are what an operator should look at, the most severe first.
	Alarms []monitor.Alarm `json:"alarms"`
	// Administration says whether some token may admin here, so that the console shows what changes things.
	Administration bool `json:"administration"`
	// Witness is whether Redis vouches for the database; nil for one that needs nobody to.
	Witness *WitnessStatus `json:"witness,omitempty"`

	Queue     *queue.Status    `json:"queue,omitempty"`
	Segment   *segment.Status  `json:"segment,omitempty"`
	Snowflake *SnowflakeStatus `json:"snowflake,omitempty"`
	UID       *uid.Status      `json:"uid,omitempty"`
}

// The states of a WitnessStatus.
const (
	WitnessNamed   = "named"   // the database names a Redis, which knows all numbers that were taken
	WitnessNone    = "none"    // numbers are skipped should the database go back
	WitnessUnknown = "unknown" // the database has not answered yet
)

// WitnessStatus is who vouches for the database should it go back, as of the last heartbeat.
type WitnessStatus struct {
	State string `json:"state"`
	// HeldSince is since when this replica may let the witness vouch; zero while it may not.
	HeldSince time.Time `json:"heldSince,omitzero"`
}

// Meaning is the state in words.
func (w WitnessStatus) Meaning() string {
	switch {
	case w.State == WitnessNone:
		return "nobody vouches for the database"
	case w.State == WitnessNamed && w.HeldSince.IsZero():
		return "this replica does not hold it"
	case w.State == WitnessNamed:
		return "Redis vouches for the database"
	}
	return "the database has not answered yet"
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

// readStatus reads what the console shows, with the first thingsShown of the tags in use.
func (a *API) readStatus(ctx context.Context) Status {
	s, ready := a.opts.Status(ctx), a.readiness()
	s.Ready, s.Message = ready.Status != statusNotReady, ready.Message
	s.Modes, s.Stores = a.modeStatus(), a.opts.Conditions()
	s.Alarms = append([]monitor.Alarm{}, s.Alarms...) // none is [], not null
	s.Administration = a.opts.Access != nil && a.opts.Access.HasAdmin()
	if s.Segment != nil && len(s.Segment.Tags) > thingsShown {
		s.Segment.Total, s.Segment.Tags = len(s.Segment.Tags), s.Segment.Tags[:thingsShown]
	}
	return s
}

// Readiness is what /readyz answers, and how each mode is doing.
func (a *API) Readiness() (ready bool, modes map[string]ModeStatus) {
	return a.readiness().Status != statusNotReady, a.modeStatus()
}

// modeStatus has every mode, the disabled ones too.
func (a *API) modeStatus() map[string]ModeStatus {
	all := map[string]ModeStatus{ModeSegment: {}, ModeSnowflake: {}, ModeUID: {}, ModeSequence: {}}
	for _, m := range a.look() {
		all[m.Name] = ModeStatus{Enabled: true, Ready: m.OK, Since: m.Since, Error: m.Error}
	}
	return all
}
