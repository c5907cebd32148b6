package httpapi

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"sync"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// longestProfile is how long a profile may take, in seconds: the connection of a request that lasts longer is cut.
const longestProfile = 10

// profiling is held while a profile of CPU time or a trace is made: a process makes one at a time.
var profiling sync.Mutex

// profile serves what `go tool pprof` reads: heap, goroutine, allocs, block, mutex and threadcreate as they are, and
// profile (CPU time) and trace of the next seconds, by default 5.
func (a *API) profile(c *gin.Context) {
	name := c.Param("name")
	seconds := c.DefaultQuery("seconds", "5")
	if _, err := model.ParseRange("seconds must be", seconds, 1, longestProfile); err != nil {
		a.fail(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	switch name {
	case "profile", "trace":
		if !profiling.TryLock() {
			a.fail(c, fmt.Errorf("%w: another profile or trace is being made", model.ErrTooMany))
			return
		}
		defer profiling.Unlock()
		c.Request.URL.RawQuery = "seconds=" + seconds
		map[string]http.HandlerFunc{"profile": pprof.Profile, "trace": pprof.Trace}[name](c.Writer, c.Request)
	case "heap", "goroutine", "allocs", "block", "mutex", "threadcreate":
		pprof.Handler(name).ServeHTTP(c.Writer, c.Request)
	default:
		a.noRoute(c)
	}
}
