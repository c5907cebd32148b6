package httpapi

import (
	"fmt"
	"net/http/pprof"
	"slices"
	"strconv"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// longestProfile is how long a profile may take, in seconds: the connection of a request that lasts longer is cut.
const longestProfile = 10

// profile serves what `go tool pprof` reads: heap, goroutine, allocs, block, mutex and threadcreate as they are, and
// profile (CPU time) and trace of the next seconds, by default 5.
func (a *API) profile(c *gin.Context) {
	name := c.Param("name")
	seconds, given := c.GetQuery("seconds")
	if n, err := strconv.Atoi(seconds); given && (err != nil || n < 1 || n > longestProfile) {
		a.fail(c, fmt.Errorf("%w: seconds is not 1…%d", model.ErrInvalidArgument, longestProfile))
		return
	}
	c.Header("Cache-Control", "no-store")
	if !given && (name == "profile" || name == "trace") {
		c.Request.URL.RawQuery = "seconds=5"
	}
	switch {
	case name == "profile":
		pprof.Profile(c.Writer, c.Request)
	case name == "trace":
		pprof.Trace(c.Writer, c.Request)
	case slices.Contains([]string{"heap", "goroutine", "allocs", "block", "mutex", "threadcreate"}, name):
		pprof.Handler(name).ServeHTTP(c.Writer, c.Request)
	default:
		a.noRoute(c)
	}
}
