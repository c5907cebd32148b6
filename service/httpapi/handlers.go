package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"shardid/model"
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

// scratch is what a request of /get needs and gives back.
type scratch struct {
	ids  []int64
	body []byte
}

// get issues IDs.
func (a *API) get(c *gin.Context) {
	p, err := parseGet(c.Request.URL.RawQuery)
	if err != nil {
		a.fail(c, err)
		return
	}
	s, _ := a.scratches.Get().(*scratch)
	defer a.scratches.Put(s)
	s.ids, err = a.opts.Queue.Next(c.Request.Context(), p.app, p.gatePass, p.count, s.ids[:0])
	if err != nil {
		a.fail(c, err)
		return
	}
	a.answers[0].Add(1)
	contentType := a.headers.json
	switch {
	case wantsText(c.Request):
		s.body, contentType = appendLines(s.body[:0], s.ids), a.headers.text
	case p.batch:
		s.body = appendIDs(s.body[:0], s.ids, p.stringify)
	default:
		s.body = appendID(s.body[:0], s.ids[0])
	}
	a.writeBody(c, http.StatusOK, contentType, s.body)
}

// decode takes an ID apart.
func (a *API) decode(c *gin.Context) {
	id, err := parseID(c.Query("id"))
	if err != nil {
		a.fail(c, err)
		return
	}
	kind := c.DefaultQuery("kind", model.KindQueue)
	parts, err := a.opts.Decoder.Decode(kind, id)
	if err != nil {
		a.fail(c, err)
		return
	}
	body := appendID(nil, id)
	body = append(body[:len(body)-1], `,"kind":"`+kind+`"`...)
	a.writeBody(c, http.StatusOK, a.headers.json, append(appendParts(body, parts), '}'))
}

// healthAnswer is the body of the three health endpoints.
type healthAnswer struct {
	Status  string             `json:"status"` // ok, degraded, not ready
	Message string             `json:"message,omitempty"`
	Checks  []health.Condition `json:"checks,omitempty"`
}

// livez says that the process answers; it looks at no store.
func (a *API) livez(c *gin.Context) { a.writeHealth(c, http.StatusOK, healthAnswer{Status: "ok"}) }

// readyz says whether this replica should get requests. With the database away
// it stays ready for as long as the lists last.
func (a *API) readyz(c *gin.Context) {
	answer := healthAnswer{Status: "ok", Checks: a.opts.Conditions.Conditions()}
	switch err := a.opts.Queue.Ready(); {
	case a.draining.Load():
		answer.Message = "shutting down"
	case err != nil:
		answer.Message = err.Error()
	case !a.opts.Conditions.OK(ConditionRedis):
		answer.Message = "redis cannot be used"
	case a.opts.Conditions.OK(ConditionDatabase):
	case a.opts.Queue.Starved(starvedFor):
		answer.Message = "the database cannot be used and the lists have run dry"
	default:
		answer.Status = "degraded"
	}
	status := http.StatusOK
	if answer.Message != "" {
		answer.Status, status = "not ready", http.StatusServiceUnavailable
	}
	a.writeHealth(c, status, answer)
}

// healthz is for monitoring: anything that does not work makes it 503.
func (a *API) healthz(c *gin.Context) {
	answer := healthAnswer{Status: "ok", Checks: a.opts.Conditions.Conditions()}
	status := http.StatusOK
	if err := a.opts.Queue.Ready(); err != nil {
		answer.Message = err.Error()
	}
	for _, check := range answer.Checks {
		if !check.OK {
			answer.Message = fmt.Sprintf("%s: %s", check.Name, check.Error)
		}
	}
	if answer.Message != "" {
		answer.Status, status = "degraded", http.StatusServiceUnavailable
	}
	a.writeHealth(c, status, answer)
}

func (a *API) writeHealth(c *gin.Context, status int, answer healthAnswer) {
	a.writeBody(c, status, a.headers.json, append(appendJSON(nil, answer), '\n'))
}
