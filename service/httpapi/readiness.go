package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"shardid/model"

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

// watched is a mode and what was last seen of it. A request for its health looks, so
// Since is when a change was seen first. Safe for concurrent use.
type watched struct {
	Mode
	mu   sync.Mutex
	last model.Condition
}

func (w *watched) look(now time.Time) model.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Ready()
	if ok := err == nil; w.last.Since.IsZero() || ok != w.last.OK {
		w.last.OK, w.last.Since = ok, now
	}
	w.last.Name, w.last.Error = w.Name, ""
	if err != nil {
		w.last.Error = err.Error()
	}
	return w.last
}

// look looks at all modes that are enabled.
func (a *API) look() []model.Condition {
	now := a.now()
	seen := make([]model.Condition, len(a.modes))
	for i, m := range a.modes {
		seen[i] = m.look(now)
	}
	return seen
}

// assess says how everything is doing, and the modes, which are the last of its checks,
// by themselves. The message is of the first check that fails: the conditions come
// before the modes that wait for them.
func (a *API) assess() (answer healthAnswer, modes []model.Condition) {
	modes = a.look()
	answer = healthAnswer{Status: statusOK, Checks: append(a.opts.Conditions.Conditions(), modes...)}
	if i := slices.IndexFunc(answer.Checks, func(c model.Condition) bool { return !c.OK }); i >= 0 {
		answer.Status, answer.Message = statusDegraded, answer.Checks[i].Name+": "+answer.Checks[i].Error
	}
	return answer, modes
}

// livez says that the process answers; it looks at no store.
func (a *API) livez(c *gin.Context) { a.writeHealth(c, http.StatusOK, healthAnswer{Status: statusOK}) }

// readyz says whether this replica should get requests: while any of its modes can
// serve. To be taken out of service for one that cannot would end the others.
func (a *API) readyz(c *gin.Context) { a.writeReadiness(c, a.readiness()) }

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
	case len(failing) == len(a.modes):
		reason = "no mode can serve: " + failing[0].Name + ": " + failing[0].Error
	case len(failing) > 0 && !a.complete.Load() && a.now().Sub(a.startedAt) < startPatience:
		reason = "starting: " + failing[0].Name + ": " + failing[0].Error
	}
	if reason != "" {
		answer.Status, answer.Message = statusNotReady, reason
	}
	return answer
}

// readyzOf is readyz of one mode, for balancers that route by mode.
func (a *API) readyzOf(c *gin.Context) {
	name := c.Param("mode")
	answer, modes := a.assess()
	i := slices.IndexFunc(modes, func(m model.Condition) bool { return m.Name == name })
	switch {
	case i < 0 && slices.Contains([]string{ModeSegment, ModeSnowflake, ModeUID}, name):
		a.failDisabled(c, name)
		return
	case i < 0:
		a.noRoute(c)
		return
	case a.draining.Load():
		answer.Status, answer.Message = statusNotReady, "shutting down"
	case !modes[i].OK:
		answer.Status, answer.Message = statusNotReady, modes[i].Error
	}
	a.writeReadiness(c, answer)
}

func (a *API) writeReadiness(c *gin.Context, answer healthAnswer) {
	status := http.StatusOK
	if answer.Status == statusNotReady {
		status = http.StatusServiceUnavailable
	}
	a.writeHealth(c, status, answer)
}

// healthz is for monitoring: anything that does not work makes it 503.
func (a *API) healthz(c *gin.Context) {
	answer, _ := a.assess()
	status := http.StatusOK
	if answer.Status != statusOK {
		status = http.StatusServiceUnavailable
	}
	a.writeHealth(c, status, answer)
}

// writeHealth answers. With server.protect_monitoring the reasons, which hold addresses of
// stores, are for requests with a token; others learn what works and what does not.
func (a *API) writeHealth(c *gin.Context, status int, answer healthAnswer) {
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
	a.writeBody(c, status, a.headers.json, append(appendJSON(nil, answer), '\n'))
}
