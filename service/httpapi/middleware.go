package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// What a request keeps for the log and its span.
const (
	callerKey   = "shardid.caller"   // name of the token that it came with, never the token
	operatorKey = "shardid.operator" // that token is an operator's, who may read what stores say
	codeKey     = "shardid.code"     // code of its error
)

// middleware is what every request goes through, outermost first.
func (a *API) middleware() []gin.HandlerFunc {
	all := []gin.HandlerFunc{a.identify}
	if a.opts.Tracer != nil {
		all = append(all, a.trace)
	}
	if a.opts.LogRequests {
		all = append(all, a.logRequest)
	}
	return append(all, a.recover, a.screen)
}

// identify answers with the request's own ID, when it has one that can be used.
// Without one it costs a look into the head.
func (a *API) identify(c *gin.Context) {
	if given := c.Request.Header[requestIDHeader]; len(given) == 1 && isRequestID(given[0]) {
		c.Writer.Header()[requestIDHeader] = given
	}
}

const (
	// requestIDHeader is where a caller and we say which request something is about.
	requestIDHeader = "X-Request-Id"
	// maxRequestID is the longest ID of a caller that is taken over, in bytes: more
	// than any tool makes, and little enough for every line of a log.
	maxRequestID = 128
)

// isRequestID says whether a text can be in a head and a line of a log as it is:
// visible ASCII.
func isRequestID(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r > '~' }
	return text != "" && len(text) <= maxRequestID && strings.IndexFunc(text, hidden) < 0
}

// requestID is the ID of the request, which it shows to the caller: its own, that of
// its span's trace, or a new one.
func (a *API) requestID(c *gin.Context) string {
	id := knownID(c)
	if id == "" {
		if id = traceID(c); id == "" {
			id = rand.Text()
		}
		c.Writer.Header()[requestIDHeader] = []string{id}
	}
	return id
}

// knownID is the ID that the answer shows; "" for none yet.
func knownID(c *gin.Context) string { return c.Writer.Header().Get(requestIDHeader) }

// traceID is the ID of the trace that the request's span belongs to; "" without a span.
func traceID(c *gin.Context) string {
	if span := trace.SpanContextFromContext(c.Request.Context()); span.HasTraceID() {
		return span.TraceID().String()
	}
	return ""
}

// isTraced says whether a request gets a span. Those that machines send again and again do not:
// they would be most of all traces and tell nothing.
func isTraced(r *http.Request) bool {
	path := r.URL.Path
	return !isHealth(path) && path != "/metrics" && !strings.HasPrefix(path, "/readyz/") &&
		r.Method != http.MethodOptions
}

// trace has a request continue the trace that its traceparent names, in a span of its own. That has its route in place
// of its path, which may hold an ID, and the code of the answer.
func (a *API) trace(c *gin.Context) {
	r, route, name := c.Request, c.FullPath(), "HTTP"
	if !isTraced(r) {
		return
	}
	if route != "" {
		name = r.Method + " " + route
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := a.opts.Tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(r.Method), semconv.HTTPRoute(route), semconv.URLPath(route),
		semconv.UserAgentOriginal(r.UserAgent())))
	defer span.End()
	c.Request = r.WithContext(ctx)
	c.Next()
	status := c.Writer.Status()
	span.SetAttributes(semconv.HTTPResponseStatusCode(status), attribute.Int("shardid.code", c.GetInt(codeKey)))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// faultLines is how many lines a second may tell of faults of ours: one that every request meets must not fill the
// disk.
const faultLines = 10

// logRequest writes a line for a request. It shows nothing of the query, because a gatePass may be the name of a
// person. Texts that are empty are skipped.
func (a *API) logRequest(c *gin.Context) {
	began := time.Now()
	c.Next()
	attrs := slices.DeleteFunc([]slog.Attr{
		slog.String("method", fmt.Sprintf("%.256s", c.Request.Method)),
		slog.String("path", fmt.Sprintf("%.256s", c.Request.URL.Path)),
		slog.Int("status", c.Writer.Status()), slog.Int("code", c.GetInt(codeKey)),
		slog.Float64("ms", float64(time.Since(began).Microseconds())/1000),
		slog.Int("bytes", max(0, c.Writer.Size())), slog.String("request_id", knownID(c)),
		slog.String("trace_id", traceID(c)), slog.String("token", caller(c)),
	}, func(a slog.Attr) bool { return a.Value.Equal(slog.StringValue("")) })
	a.opts.Log.LogAttrs(context.Background(), slog.LevelInfo, "request", attrs...)
}

// fault counts and logs what the service did wrong.
func (a *API) fault(c *gin.Context, message string, args ...any) {
	a.opts.Traffic.Fault()
	id := a.requestID(c)
	args = append(append([]any{"path", fmt.Sprintf("%.256s", c.Request.URL.Path)}, args...), "request_id", id)
	a.faults.Log(slog.LevelError, message, args...)
}

// recover turns a panic into an answer with code -11 and logs it.
func (a *API) recover(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		a.fault(c, "panic in a handler", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if !c.Writer.Written() {
			a.writeError(c, rowFault, internalError)
		}
	}()
	c.Next()
}

// screen refuses, before anything else looks at it, a request target that is too long,
// and requests that their sender may not have meant.
func (a *API) screen(c *gin.Context) {
	if a.opts.Monitor.Draining.Load() {
		c.Header("Connection", "close") // its next request finds another replica
	}
	refuse := func(row issuer.Row, message string) {
		a.writeError(c, row, message)
		c.Abort()
	}
	r := c.Request
	if n := len(r.RequestURI); n > maxURL {
		refuse(rowLongURL, fmt.Sprintf("send the parameters in the body of a POST: the request target has %d bytes, "+
			"at most %d are allowed", n, maxURL))
		return
	}
	if isHealth(c.FullPath()) {
		return
	}
	switch {
	case isForeign(r):
		refuse(rowClosed, "enter the address in the browser yourself, or ask from a program, or, if the page is the "+
			"console behind a proxy, have it send the Host on: a page of another site asks for this, which could use "+
			"up IDs or read the state of the service. Nothing was issued")
	case a.opts.OwnHosts && !a.isOwn(r.Host):
		refuse(rowClosed, fmt.Sprintf("ask for 127.0.0.1 or localhost, have a proxy send such a Host, set "+
			"server.require_token, or let server.addr listen for other machines: shardid was asked for the host "+
			"%.64q, as a page of another site could. Nothing was issued", r.Host))
	}
}

// isForeign says whether a request may be one that a page of another site makes a browser send. Programs send none of
// these headers. Browsers send the first one only over TLS and to their own machine, no Origin with most GETs, and no
// Referer where the page forbids it.
func isForeign(r *http.Request) bool {
	site := r.Header["Sec-Fetch-Site"]
	if slices.Contains(site, "cross-site") {
		return true
	}
	page := cmp.Or(r.Header.Get("Origin"), r.Referer())
	if same := slices.Contains(site, "same-site"); page == "" || len(site) > 0 && !same {
		return same // another host may be, too
	}
	from, err := url.Parse(page)
	return err != nil || !strings.EqualFold(from.Host, r.Host)
}

// isOwn says whether no other site can have the host as its name: an IP address, localhost or this machine's name. A
// client that names none is no browser.
func (a *API) isOwn(host string) bool {
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") || name == a.hostname {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// isHealth says whether a path is asked for by what starts and watches processes, which
// may use any name.
func isHealth(path string) bool { return path == "/livez" || path == "/readyz" || path == "/healthz" }

// caller is the name of the token that a request came with; "" for none.
func caller(c *gin.Context) string { return c.GetString(callerKey) }

// admit says who asks for IDs of a mode: nil where tokens are not required. false means
// that the request has been answered. Without server.require_token it costs a comparison.
func (a *API) admit(c *gin.Context, m model.Mode) (*access.Token, bool) {
	if !a.opts.RequireToken {
		return nil, true
	}
	token, err := a.opts.Access.Client(c.Request.Header)
	if err == nil {
		c.Set(callerKey, token.Name())
		err = token.Mode(m)
	}
	if err != nil {
		a.fail(c, err)
		return nil, false
	}
	return token, true
}

// operator says who asks for administration or monitoring; false means that the
// request has been answered.
func (a *API) operator(c *gin.Context) (*access.Token, bool) {
	token, err := a.opts.Access.Operator(c.Request.Header)
	if err != nil {
		a.fail(c, err)
		return nil, false
	}
	c.Set(callerKey, token.Name())
	c.Set(operatorKey, true)
	return token, true
}

// monitoring guards a page that shows the state of the service, when
// server.protect_monitoring says so. What the service is made of (/openapi.yaml, the
// console's page) and what takes IDs apart tells nothing of that and is open.
func (a *API) monitoring(page gin.HandlerFunc) gin.HandlerFunc {
	if !a.opts.ProtectMonitoring {
		return page
	}
	return func(c *gin.Context) {
		if _, ok := a.operator(c); ok {
			page(c)
		}
	}
}

// adminPath is what the paths of administration begin with.
const adminPath = "/admin/"

func isAdmin(c *gin.Context) bool { return strings.HasPrefix(c.Request.URL.Path, adminPath) }

// requireAdmin lets requests pass whose token is for administration. Their handlers
// find its name by caller.
func (a *API) requireAdmin(c *gin.Context) {
	a.requestID(c) // what is changed can be found in the log
	if !a.mayAdmin(c) {
		c.Abort()
		return
	}
	c.Next()
	if !reads(c) {
		a.changes.Add(1)
	}
}

// reads says whether a request changes nothing.
func reads(c *gin.Context) bool {
	return c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
}

// mayAdmin says whether the request may administrate; false means that it has been
// answered.
func (a *API) mayAdmin(c *gin.Context) bool {
	if a.opts.Access == nil || !a.opts.Access.HasAdmin() {
		a.writeError(c, rowClosed, "set server.admin_token, or add a token that may admin to server.tokens_file, or "+
			"use the command line, which works without: administration over HTTP is closed")
		return false
	}
	token, ok := a.operator(c)
	if !ok {
		return false
	}
	if err := token.Admin(); err != nil {
		a.fail(c, err)
		return false
	}
	return true
}
