// Package httpapi is the HTTP front end: routes, parameters, answers, and the
// one place that maps an error to its code and status (errors.go).
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/health"

	"github.com/gin-gonic/gin"
)

// Queue is the service behind /get.
type Queue interface {
	// Next issues count IDs and appends them to dst, all or none. Errors: those
	// of the model package that carry a code, or the context's.
	Next(ctx context.Context, app int, gatePass string, count int, dst []int64) ([]int64, error)
	// Ready is nil or wraps model.ErrNotReady and says what is waited for.
	Ready() error
	// Starved says whether a caller was refused for want of indices within d.
	Starved(d time.Duration) bool
}

// Conditions tells how the things the service depends on are doing.
type Conditions interface {
	Conditions() []health.Condition
	OK(names ...string) bool
}

// Options are what the API is made of. All fields are required.
type Options struct {
	Queue       Queue
	Decoder     model.Decoder
	Conditions  Conditions
	Log         *slog.Logger
	Metrics     http.Handler // serves /metrics
	MaxURLBytes int          // longest request target, in bytes
}

// API serves HTTP. Safe for concurrent use.
type API struct {
	opts     Options
	engine   *gin.Engine
	headers  headers
	draining atomic.Bool
	answers  [1 - lastCode]atomic.Int64 // by the code's magnitude
	// scratches are the buffers of /get, used again and again.
	scratches sync.Pool
}

// New builds the routes.
func New(opts Options) *API {
	gin.SetMode(gin.ReleaseMode)
	a := &API{opts: opts, engine: gin.New(), headers: newHeaders()}
	a.scratches.New = func() any { return new(scratch) }
	e := a.engine
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.Use(a.recover, a.bound)
	e.NoRoute(a.noRoute)
	e.NoMethod(a.noMethod)
	e.GET("/get", a.get)
	e.GET("/decode", a.decode)
	e.GET("/openapi.yaml", a.openAPI)
	e.GET("/metrics", gin.WrapH(opts.Metrics))
	for path, handler := range map[string]gin.HandlerFunc{"/livez": a.livez, "/readyz": a.readyz, "/healthz": a.healthz} {
		e.GET(path, handler)
		e.HEAD(path, handler)
	}
	for _, mode := range []string{"segment", "snowflake", "uid"} {
		e.GET("/api/"+mode+"/*path", a.absentMode(mode))
	}
	e.Any("/admin/*path", a.noAdmin)
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Drain makes /readyz answer that the process goes away; requests are still
// served.
func (a *API) Drain() { a.draining.Store(true) }

// Answers counts, by code of the error table, what has been answered since the
// start: 0 is IDs served by /get, the errors are those of every path.
func (a *API) Answers() map[int]int64 {
	counts := make(map[int]int64, len(a.answers))
	for i := range a.answers {
		counts[-i] = a.answers[i].Load()
	}
	return counts
}

// recover turns a panic into an answer with code -11 and logs it.
func (a *API) recover(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // a panic value, compared as net/http does
			panic(p)
		}
		a.opts.Log.Error("panic in a handler", "path", c.Request.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			a.writeError(c, errInternal, "internal error: it has been logged, try again")
		}
	}()
	c.Next()
}

// bound refuses a request target that is too long before anything reads it.
func (a *API) bound(c *gin.Context) {
	if n := len(c.Request.RequestURI); n > a.opts.MaxURLBytes {
		a.writeError(c, errURLTooLong, fmt.Sprintf("the request target has %d bytes, at most %d are allowed", n, a.opts.MaxURLBytes))
		c.Abort()
	}
}

func (a *API) noRoute(c *gin.Context) {
	a.writeError(c, errNoRoute, fmt.Sprintf("no such path %s: try GET /get?appId=1&gatePass=alice", quote(c.Request.URL.Path)))
}

func (a *API) noMethod(c *gin.Context) {
	a.writeError(c, errNoMethod, fmt.Sprintf("%s takes %s only: nothing was issued", c.Request.URL.Path, c.Writer.Header().Get("Allow")))
}

// absentMode answers for a mode that this version does not have.
func (a *API) absentMode(mode string) gin.HandlerFunc {
	return func(c *gin.Context) {
		a.fail(c, fmt.Errorf("%w: this version does not have the %s mode: use /get", model.ErrModeDisabled, mode))
	}
}

// noAdmin answers for administration, which this version has on the command line
// only.
func (a *API) noAdmin(c *gin.Context) {
	a.writeError(c, errNoAdmin, "administration over HTTP is not part of this version: use shardid provision and shardid apps")
}
