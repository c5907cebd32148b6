package httpapi

import (
	"net/http/pprof"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// longestProfile is how long a profile may take, in seconds: the connection of a request that lasts longer is cut.
const longestProfile = 10

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
	case "profile":
		c.Request.URL.RawQuery = "seconds=" + seconds
		pprof.Profile(c.Writer, c.Request)
	case "trace":
		c.Request.URL.RawQuery = "seconds=" + seconds
		pprof.Trace(c.Writer, c.Request)
	case "heap", "goroutine", "allocs", "block", "mutex", "threadcreate":
		pprof.Handler(name).ServeHTTP(c.Writer, c.Request)
	default:
		a.noRoute(c)
	}
}
