// Package httpapi is the HTTP front end: routes, parameters, answers, and the statuses of
// the error table (errors.go), whose codes service/issuer has for all front ends.
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/admin"
	"shardid/service/background"
	"shardid/service/issuer"
	"shardid/service/metric"
	"shardid/service/monitor"
	"shardid/service/segment"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Segments is what the segment mode holds. Safe for concurrent use.
type Segments interface {
	Used() []segment.View            // of the tags that are used, by name
	View(row model.Tag) segment.View // of a tag that the table has, used or not
}

// Options are what the API is made of. Issuer.Queue, Leases, Decoder, Monitor, Log and Reads but for Segments and Tags
// are required.
type Options struct {
	*issuer.Issuer // the modes that are enabled; the path of another answers -9
	Reads
	Leases   Leases // of worker IDs of names
	Decoder  model.Decoder
	Monitor  *monitor.Monitor // knows how this replica is doing
	Log      *slog.Logger
	LogLevel *LogLevel // is changed by PATCH /admin/log; nil: there is no such path
	// LogRequests gives each request a line of level info in the log.
	LogRequests bool
	Tracer      trace.Tracer          // gives requests spans; nil: they have none
	Registry    prometheus.Registerer // exports what is counted; nil for none
	// Access knows the tokens; nil: there are none, and administration is closed. It is required for the next two.
	Access *access.Guard
	// RequireToken closes the ID routes, ProtectMonitoring the pages that show the state of the service, to
	// requests without a token.
	RequireToken, ProtectMonitoring bool
	// OwnHosts refuses a Host that another site could have as its name: all but IP addresses, localhost and the name of
	// this machine.
	OwnHosts bool
	Admin    []admin.Resource // below /admin
}

// Reads is what the pages show. Errors of those that read the database: *model.StoreError, or the context's.
type Reads struct {
	Metrics prometheus.Gatherer // for /metrics
	// Segments is what this replica holds of tags, for /cache; Tags finds those of the database whose name contains
	// a text, for /cache and /db: the first ones by name, and how many there are. Both are nil with the segment mode
	// disabled.
	Segments Segments
	Tags     func(ctx context.Context, search string, limit int) (tags []model.Tag, total int, err error)
	// Names are the names of worker IDs, for /api/names; Spaces are those of sequences, for /api/sequences.
	Names, Spaces admin.Lister
	// Replicas is the deployment as this replica sees it, for /api/replicas.
	Replicas func(context.Context) monitor.View
	// History is the last hour of all of them together, with further series, for /api/history.
	History func(further ...string) monitor.Chart
}

// API serves HTTP. Safe for concurrent use.
type API struct {
	opts     Options
	engine   *gin.Engine
	reading  time.Duration // how long an answer waits for what it reads from a store
	hostname string        // of this machine, in lower case; "" when the system does not tell
	changes  atomic.Int64  // by administration
	faults   background.RateLimitedLog
	buffers  sync.Pool // of *buffer, for the ID routes

	noneFree   prometheus.Counter
	noneFreeOf atomic.Pointer[string] // a name of worker IDs
}

// maxURL is the longest request target, in bytes. What is longer fits into the body of a POST.
const maxURL = 8192

// New builds the routes.
func New(opts Options) *API {
	a := newBare(opts)
	a.buffers.New = func() any { return new(buffer) }
	a.engine = a.route()
	return a
}

// newBare makes an API without modes and routes.
func newBare(opts Options) *API {
	gin.SetMode(gin.ReleaseMode)
	hostname, _ := os.Hostname()
	a := &API{opts: opts, reading: readTimeout, hostname: strings.ToLower(hostname)}
	a.noneFree = metric.Counter(opts.Registry, "shardid_leases_none_free_total",
		"Leases that were refused because every worker ID of the name was leased.")
	a.faults.Logger, a.faults.Every, a.faults.Burst = opts.Log, time.Second/faultLines, faultLines
	return a
}

// route registers all paths. What ends in a star is one segment, however it is encoded; see
// lastSegment.
func (a *API) route() *gin.Engine {
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.Use(a.middleware()...)
	e.NoRoute(a.noRoute)
	e.NoMethod(a.noMethod)
	page := func(r route) gin.HandlerFunc { return a.monitoring(a.serveJSON(http.StatusOK, r)) }
	for path, handler := range map[string]gin.HandlerFunc{
		"/livez":              a.livez,
		"/readyz":             a.readyz,
		"/readyz/:mode":       a.readyzOf,
		"/healthz":            a.healthz,
		"/decode":             a.serveJSON(http.StatusOK, a.decode),
		"/api/uid/parse/*uid": a.serveJSON(http.StatusOK, a.parseUID),
		"/decodeSnowflakeId":  a.serveJSON(http.StatusOK, a.decodeSnowflake),
		"/cache":              a.monitoring(a.cache()),
		"/db":                 a.monitoring(a.db()),
		"/openapi.yaml":       a.file("openapi.yaml", openAPI),
		"/":                   a.file("console.html", consoleHTML),
		"/console/*file":      a.consoleFile,
		"/docs/*file":         a.document,
		"/metrics":            a.monitoring(a.metrics()),
		"/api/status":         page(readOnce(a, a.readStatus)),
		"/api/history":        page(a.readHistory),
		"/api/replicas":       page(readOnce(a, a.opts.Replicas)),
		"/api/names":          page(listed(a, "names", a.opts.Names)),
		"/api/sequences":      page(listed(a, "spaces", a.opts.Spaces)),
	} {
		routeGet(e, path, handler)
	}
	a.routeIDs(e)
	a.routeLeases(e)
	admin := e.Group(adminPath, a.requireAdmin)
	a.routeAdmin(admin)
	routeGet(admin, "pprof/:name", a.profile)
	return e
}

// routeGet adds a path that is read. HEAD has the same handler, as net/http leaves the body out.
func routeGet(r gin.IRoutes, path string, handler gin.HandlerFunc) {
	r.GET(path, handler)
	r.HEAD(path, handler)
}

// routeIDs adds the paths of each mode for IDs. HEAD has none: an ID that nobody reads would be lost.
func (a *API) routeIDs(e *gin.Engine) {
	for path, handler := range map[string]gin.HandlerFunc{
		"/get":                    a.ids(model.ModeQueue, &ofGet, nil),
		"/api/segment/get/*key":   a.ids(model.ModeSegment, &ofLeafTag, leafKey),
		"/api/snowflake/get/*key": a.ids(model.ModeSnowflake, &ofLeaf, leafKey),
		"/api/uid/get":            a.ids(model.ModeUID, &ofLeaf, nil),
		"/v1/queue/:appId/ids":    a.ids(model.ModeQueue, &ofV1Queue, nil),
		"/v1/segment/*tag":        a.ids(model.ModeSegment, &ofV1Segment, v1Tag),
		"/v1/snowflake/ids":       a.ids(model.ModeSnowflake, &ofV1, nil),
		"/v1/uid/ids":             a.ids(model.ModeUID, &ofV1, nil),
		"/v1/sequence/:space/ids": a.ids(model.ModeSequence, &ofSequence, nil),

		"/tinyid/id/nextId":              a.timed(model.ModeSegment, a.tinyidIDs(false)),
		"/tinyid/id/nextIdSimple":        a.timed(model.ModeSegment, a.tinyidIDs(true)),
		"/tinyid/id/nextSegmentId":       a.timed(model.ModeSegment, a.tinyidRun(false)),
		"/tinyid/id/nextSegmentIdSimple": a.timed(model.ModeSegment, a.tinyidRun(true)),
	} {
		e.GET(path, handler)
		e.POST(path, handler)
	}
	routeGet(e, "/v1/sequence/:space/current", a.ids(model.ModeSequence, &ofCurrent, nil))
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// noRoute and noMethod answer below /admin/ only to those who may administrate: others
// do not learn which paths exist.
func (a *API) noRoute(c *gin.Context) {
	if !isAdmin(c) || a.mayAdmin(c) {
		a.writeError(c, rowNoPath, model.Message(noSuchPath(c)))
	}
}

// noMethod answers OPTIONS, by which HAProxy looks whether a server is up, and methods that the path
// does not have.
func (a *API) noMethod(c *gin.Context) {
	h := c.Writer.Header()
	allowed := h.Get("Allow") + ", " + http.MethodOptions
	h.Del("Allow")
	isOptions := c.Request.Method == http.MethodOptions // from browsers without a token
	if !isOptions && isAdmin(c) && !a.mayAdmin(c) {
		return
	}
	h.Set("Allow", allowed)
	if isOptions {
		c.Status(http.StatusNoContent)
		return
	}
	a.writeError(c, rowNoMethod, fmt.Sprintf("use %s: nothing was issued, as %s takes no other method", allowed,
		c.Request.URL.Path))
}
