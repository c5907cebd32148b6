package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// Trace is a request that is observed.
type Trace struct {
	Context context.Context // of the request: what is done with it belongs to its trace
	ID      string          // of the trace, 32 hex digits
	Parent  string          // W3C traceparent of the request, "" when it is not recorded
	// End is called once, with the status of the answer and its code of the error
	// table, 0 for none.
	End func(status, code int)
}

// Tracer begins to observe a request for a route, "" for none that exists. It must not
// block.
type Tracer func(r *http.Request, route string) Trace

// traceKey is where a request keeps the ID of its trace.
const traceKey = "shardid.trace"

// around is what every request goes through, outermost first.
func (a *API) around() []gin.HandlerFunc {
	all := []gin.HandlerFunc{a.identify}
	if a.opts.Tracer != nil {
		all = append(all, a.traced)
	}
	if l := newAccessLog(a.opts.Log, a.opts.AccessLog); l.isOn() {
		all = append(all, l.logged)
	}
	return append(all, a.recover, a.screen)
}

// traced observes a request; it is there only when tracing is on.
func (a *API) traced(c *gin.Context) {
	if isProbe(c.FullPath()) {
		return
	}
	t := a.opts.Tracer(c.Request, c.FullPath())
	defer func() { t.End(c.Writer.Status(), c.GetInt(codeKey)) }()
	c.Request = c.Request.WithContext(t.Context)
	c.Set(traceKey, t.ID)
	if t.Parent != "" {
		c.Writer.Header()["Traceparent"] = []string{t.Parent}
	}
	c.Next()
}

// isProbe says whether a path is asked for again and again by machines: its traces
// would be most of all and tell nothing.
func isProbe(path string) bool {
	switch path {
	case "/livez", "/readyz", "/healthz", "/metrics":
		return true
	}
	return strings.HasPrefix(path, "/readyz/")
}
