package httpapi

import (
	"net/http"
	"sync/atomic"
	"time"

	"shardid/service/latency"

	"github.com/gin-gonic/gin"
)

// Traffic is what the ID route of one mode has answered since the start, but for what a
// panic ended. Its times are from when the request was routed until its answer was
// written.
type Traffic struct {
	OK      latency.Reading // requests that got their IDs
	Refused latency.Reading // those that were answered 4xx: the caller's to change
	Failed  latency.Reading // those that were answered 5xx: ours
	Codes   map[int]int64   // requests by the code of their error
}

// traffic counts for one mode. Safe for concurrent use.
type traffic struct {
	ok, refused, failed latency.Histogram
	codes               [1 - lastCode]atomic.Int64 // by the code's magnitude
}

// codeKey is where a request that was refused keeps its code.
const codeKey = "shardid.code"

func newTraffic() map[string]*traffic {
	return map[string]*traffic{ModeQueue: {}, ModeSegment: {}, ModeSnowflake: {}, ModeUID: {}}
}

// timed counts what next answers for a mode. The clock is read twice, as cheaply as
// it can be: its monotonic part only.
func (a *API) timed(mode string, next gin.HandlerFunc) gin.HandlerFunc {
	t, start := a.traffic[mode], time.Now()
	return func(c *gin.Context) {
		began := time.Since(start)
		next(c)
		t.count(c, time.Since(start)-began)
	}
}

func (t *traffic) count(c *gin.Context, took time.Duration) {
	switch status := c.Writer.Status(); {
	case status < http.StatusBadRequest:
		t.ok.Observe(took)
		return
	case status < http.StatusInternalServerError:
		t.refused.Observe(took)
	default:
		t.failed.Observe(took)
	}
	t.codes[-c.GetInt(codeKey)].Add(1)
}

// Traffic returns what each of the four modes has answered, by name.
func (a *API) Traffic() map[string]Traffic {
	all := make(map[string]Traffic, len(a.traffic))
	for mode, t := range a.traffic {
		one := Traffic{OK: t.ok.Read(), Refused: t.refused.Read(), Failed: t.failed.Read(), Codes: map[int]int64{}}
		for i := 1; i < len(t.codes); i++ {
			one.Codes[-i] = t.codes[i].Load()
		}
		all[mode] = one
	}
	return all
}
