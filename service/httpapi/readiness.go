package httpapi

import (
	"net/http"
	"sync"
	"time"

	"shardid/service/health"

	"github.com/gin-gonic/gin"
)

// Names of the conditions that readiness looks at.
const (
	ConditionDatabase = "database"
	ConditionRedis    = "redis"
)

// starvedFor is how long after a refusal for want of indices a replica with its
// database away counts as not ready.
const starvedFor = 5 * time.Second

// What a healthAnswer says.
const (
	statusOK       = "ok"
	statusDegraded = "degraded"
	statusNotReady = "not ready"
)

// healthAnswer is the body of the three health endpoints.
type healthAnswer struct {
	Status  string             `json:"status"`
	Message string             `json:"message,omitempty"`
	Checks  []health.Condition `json:"checks,omitempty"`
}

// watched is a mode and what was last seen of it. Whoever asks for its health
// looks, so Since is when a change was seen first. Safe for concurrent use.
type watched struct {
	Mode
	mu   sync.Mutex
	last sight
}

// sight is a mode at one instant.
type sight struct {
	health.Condition
	wasReady bool // now or earlier
}

func (w *watched) look(now time.Time) sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Ready()
	ok := err == nil
	if w.last.Since.IsZero() || ok != w.last.OK {
		w.last.OK, w.last.Since = ok, now
	}
	w.last.Name, w.last.Error, w.last.wasReady = w.Name, "", w.last.wasReady || ok
	if err != nil {
		w.last.Error = err.Error()
	}
	return w.last
}

// look looks at all modes beside the queue.
func (a *API) look() []sight {
	now := a.now()
	seen := make([]sight, len(a.modes))
	for i, m := range a.modes {
		seen[i] = m.look(now)
	}
	return seen
}

// checks are the conditions of the stores, then those of the modes.
func (a *API) checks(modes []sight) []health.Condition {
	all := a.opts.Conditions.Conditions()
	for _, m := range modes {
		all = append(all, m.Condition)
	}
	return all
}

// livez says that the process answers; it looks at no store.
func (a *API) livez(c *gin.Context) { a.writeHealth(c, http.StatusOK, healthAnswer{Status: statusOK}) }

// readyz says whether this replica should get requests. With the database away
// it stays ready for as long as the lists last, and so it does when a mode that
// was ready refuses for now: the others may serve.
func (a *API) readyz(c *gin.Context) {
	answer := a.readiness()
	status := http.StatusOK
	if answer.Status == statusNotReady {
		status = http.StatusServiceUnavailable
	}
	a.writeHealth(c, status, answer)
}

func (a *API) readiness() healthAnswer {
	modes := a.look()
	answer := healthAnswer{Status: statusOK, Checks: a.checks(modes)}
	if reason := a.notReady(modes); reason != "" {
		answer.Status, answer.Message = statusNotReady, reason
		return answer
	}
	answer.Message = firstOf(modes, func(m sight) bool { return m.wasReady })
	if answer.Message != "" || !a.opts.Conditions.OK(ConditionDatabase) {
		answer.Status = statusDegraded
	}
	return answer
}

// notReady says why this replica should get no requests, "" when it should.
func (a *API) notReady(modes []sight) string {
	never := firstOf(modes, func(m sight) bool { return !m.wasReady })
	switch err := a.opts.Queue.Ready(); {
	case a.draining.Load():
		return "shutting down"
	case err != nil:
		return err.Error()
	case !a.opts.Conditions.OK(ConditionRedis):
		return "redis cannot be used"
	case !a.opts.Conditions.OK(ConditionDatabase) && a.opts.Queue.Starved(starvedFor):
		return "the database cannot be used and the lists have run dry"
	}
	return never
}

// firstOf is the name and the reason of the first mode that is not ready and of
// which also holds, "" when there is none.
func firstOf(modes []sight, also func(sight) bool) string {
	for _, m := range modes {
		if !m.OK && also(m) {
			return m.Name + ": " + m.Error
		}
	}
	return ""
}

// healthz is for monitoring: anything that does not work makes it 503. The
// message names a store before what waits for it.
func (a *API) healthz(c *gin.Context) {
	answer := healthAnswer{Status: statusOK, Checks: a.checks(a.look())}
	status := http.StatusOK
	for _, check := range answer.Checks {
		if !check.OK && answer.Message == "" {
			answer.Message = check.Name + ": " + check.Error
		}
	}
	if err := a.opts.Queue.Ready(); err != nil && answer.Message == "" {
		answer.Message = err.Error()
	}
	if answer.Message != "" {
		answer.Status, status = statusDegraded, http.StatusServiceUnavailable
	}
	a.writeHealth(c, status, answer)
}

func (a *API) writeHealth(c *gin.Context, status int, answer healthAnswer) {
	a.writeBody(c, status, a.headers.json, append(appendJSON(nil, answer), '\n'))
}
