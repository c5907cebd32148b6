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
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// Options are what the API is made of. Queue, Decoder, Conditions, Log, Metrics and
// MaxURLBytes are required.
type Options struct {
	Queue       Queue
	Decoder     model.Decoder
	Conditions  Conditions
	Log         *slog.Logger
	MaxURLBytes int // longest request target, in bytes
	// Metrics reads what /metrics shows, in Prometheus' text format.
	Metrics func(context.Context) ([]byte, error)
	// Loopback: the server is for this machine only, so requests for a Host that is
	// not come from a page of another site whose name was made to lead here.
	Loopback bool
	// CheckClient refuses requests over connections whose client is not trusted any
	// more. nil: no client shows who it is.
	CheckClient func(*http.Request) error

	// The other modes: nil for one that is disabled, whose path answers -9.
	Segment   Segment
	Snowflake Generator
	UID       Generator
	// Modes are those that are enabled, the queue first, for readiness.
	Modes []Mode

	// Segments is what this replica holds of each tag, for /cache; Tags is what
	// the database holds, for /db. nil with the segment mode disabled.
	Segments func() []SegmentView
	Tags     Tags
	// Status fills what only the services know of /api/status; nil: nothing.
	Status func(context.Context) Status
	// History is what happened in the last minutes, for /api/history; nil: nothing.
	History History
	// Replicas is the deployment as this replica sees it, for /api/replicas; nil: nothing.
	Replicas Replicas
	// Access knows the tokens; nil: there are none, and administration is closed. It
	// is required for the next two.
	Access *access.Guard
	// RequireToken closes the ID routes, ProtectMonitoring the pages that show the
	// state of the service, to requests without a token.
	RequireToken, ProtectMonitoring bool
	// Admin is behind /admin/apps and /admin/tags; nil: there are no such paths.
	Admin Admin
	// LogLevel is changed by PATCH /admin/log; nil: there is no such path.
	LogLevel LogLevel
	// AccessLog is which requests have a line in the log: one of AccessOff and its
	// like; "" is AccessOff.
	AccessLog string
	// Tracer observes the requests; nil: nobody does.
	Tracer Tracer
	// Location is the time zone of the answers that have none in their format;
	// nil means the machine's.
	Location *time.Location
}

// API serves HTTP. Safe for concurrent use.
type API struct {
	opts      Options
	engine    *gin.Engine
	errors    []apiError
	headers   headers
	pages     pages
	console   console
	now       func() time.Time
	startedAt time.Time   // when New was called
	complete  atomic.Bool // every mode was seen ready at once
	draining  atomic.Bool
	changes   atomic.Int64               // by administration
	faults    *sparse                    // of ours, in the log
	answers   [1 - lastCode]atomic.Int64 // by the code's magnitude
	traffic   map[string]*traffic        // of the ID routes, by mode; never changed
	// scratches are the buffers of the ID routes, used again and again.
	scratches sync.Pool

	modes []*watched // those that are enabled
}

// New builds the routes.
func New(opts Options) *API {
	gin.SetMode(gin.ReleaseMode)
	if opts.Location == nil {
		opts.Location = time.Local
	}
	a := &API{opts: opts, engine: gin.New(), errors: apiErrors(), headers: newHeaders(), pages: newPages(), now: time.Now}
	a.traffic, a.faults = newTraffic(), newSparse(faultLines)
	a.console = newConsole()
	a.scratches.New = func() any { return new(scratch) }
	a.startedAt = a.now()
	for _, m := range opts.Modes {
		a.modes = append(a.modes, &watched{Mode: m})
	}
	e := a.engine
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.Use(a.around()...)
	e.NoRoute(a.noRoute)
	e.NoMethod(a.noMethod)
	a.route()
	return a
}

// route registers the paths. What ends in a star is one segment, however it is
// encoded; see lastSegment.
func (a *API) route() {
	e := a.engine
	for path, handler := range map[string]gin.HandlerFunc{
		"/get":                    a.timed(ModeQueue, a.get),
		"/api/segment/get/*key":   a.timed(ModeSegment, a.getSegment),
		"/api/snowflake/get/*key": a.timed(ModeSnowflake, a.getSnowflake),
		"/api/uid/get":            a.timed(ModeUID, a.getUID),
		"/decode":                 a.decode,
		"/decodeSnowflakeId":      a.decodeSnowflake,
		"/api/uid/parse/*uid":     a.parseUID,
		"/cache":                  a.cache(),
		"/db":                     a.db(),
		"/api/status":             a.page(a.readStatus, a.writeJSONBody),
		"/api/history":            a.history(),
		"/api/replicas":           a.page(a.readReplicas, a.writeJSONBody),
		"/openapi.yaml":           a.openAPI,
		"/metrics":                a.metrics(),
	} {
		e.GET(path, a.guarded(path, handler))
	}
	for path, handler := range map[string]gin.HandlerFunc{"/livez": a.livez, "/readyz": a.readyz, "/readyz/:mode": a.readyzOf, "/healthz": a.healthz} {
		e.GET(path, handler)
		e.HEAD(path, handler)
	}
	group := a.adminGroup()
	a.routeLog(group)
	a.routeAdmin(group)
	a.routeConsole()
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Drain makes /readyz answer that the process goes away; requests are still
// served, and their answers close the connections.
func (a *API) Drain() { a.draining.Store(true) }

// Answers counts, by code of the error table, what has been answered since the
// start: 0 is IDs served by any mode, the errors are those of every path.
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
		a.fault(c, "panic in a handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			a.writeError(c, errInternal, "internal error: it has been logged, try again")
		}
	}()
	c.Next()
}

func (a *API) noRoute(c *gin.Context) {
	if a.hidden(c) {
		return
	}
	a.writeError(c, errNoRoute, fmt.Sprintf("no such path %s: try GET /get?appId=1&gatePass=alice", quote(c.Request.URL.Path)))
}

func (a *API) noMethod(c *gin.Context) {
	if a.hidden(c) {
		return
	}
	a.writeError(c, errNoMethod, fmt.Sprintf("%s takes %s only: nothing was issued", c.Request.URL.Path, c.Writer.Header().Get("Allow")))
}
