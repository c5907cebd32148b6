package httpapi

import (
	"log/slog"
	"sync/atomic"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"
)

// faultLines is how many faults of ours a second are told: a fault that every request
// meets must not fill the disk.
const faultLines = 10

// moreLines is how many lines were left out before one.
const moreLines = "more_since_the_last_line"

// sparse lets so many lines a second through. Safe for concurrent use.
type sparse struct {
	limiter *rate.Limiter
	skipped atomic.Int64 // since the last one that was told of
}

func newSparse(perSecond int) *sparse {
	return &sparse{limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// allow says whether there may be a line, and counts it otherwise.
func (s *sparse) allow() bool {
	if s.limiter.Allow() {
		return true
	}
	s.skipped.Add(1)
	return false
}

// fault logs what the service did wrong.
func (a *API) fault(c *gin.Context, message string, args ...any) {
	id := a.requestID(c)
	if !a.faults.allow() {
		return
	}
	args = append(append([]any{"path", cut(c.Request.URL.Path)}, args...), "request_id", id)
	if n := a.faults.skipped.Swap(0); n > 0 {
		args = append(args, slog.Int64(moreLines, n))
	}
	a.opts.Log.Error(message, args...)
}
