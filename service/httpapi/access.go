package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// adminPath is what the paths of administration begin with.
const adminPath = "/admin/"

// admit says who asks for IDs of a mode: nil where everybody may. false means that
// the request has been answered. Without server.require_token it costs a comparison.
func (a *API) admit(c *gin.Context, m access.Modes) (*access.Token, bool) {
	if !a.opts.RequireToken {
		return nil, true
	}
	token, err := a.opts.Access.Client(c.Request.Header)
	if err == nil {
		c.Set(whoKey, token.Name())
		err = token.Mode(m)
	}
	if err != nil {
		a.deny(c, err)
		return nil, false
	}
	return token, true
}

// monitoring guards a page that shows the state of the service, when
// server.protect_monitoring says so.
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

// operator says who asks for administration or monitoring; false means that the
// request has been answered.
func (a *API) operator(c *gin.Context) (*access.Token, bool) {
	token, err := a.opts.Access.Operator(c.Request.Header)
	if err != nil {
		a.deny(c, err)
		return nil, false
	}
	c.Set(whoKey, token.Name())
	return token, true
}

// adminGroup is where the routes of administration belong: requireAdmin guards them.
func (a *API) adminGroup() *gin.RouterGroup { return a.engine.Group(adminPath, a.requireAdmin) }

// requireAdmin lets requests pass whose token is for administration. Their handlers
// find its name by who.
func (a *API) requireAdmin(c *gin.Context) {
	a.requestID(c) // what is changed can be found in the log
	if !a.mayAdmin(c) {
		c.Abort()
		return
	}
	c.Next()
	if c.Request.Method != http.MethodGet {
		a.changes.Add(1)
	}
}

// mayAdmin says whether the request may administrate; false means that it has been
// answered.
func (a *API) mayAdmin(c *gin.Context) bool {
	if a.opts.Access == nil || !a.opts.Access.HasAdmin() {
		a.writeError(c, errNoAdmin, "administration over HTTP is closed: set server.admin_token, or add a token of the role admin to server.tokens_file; the command line works without")
		return false
	}
	token, ok := a.operator(c)
	if !ok {
		return false
	}
	if err := token.Admin(); err != nil {
		a.deny(c, err)
		return false
	}
	return true
}

// hidden guards the paths below /admin/ that do not exist, and methods that those
// that do have not: who may not administrate does not learn which they are. true
// means that the request has been answered.
func (a *API) hidden(c *gin.Context) bool {
	return strings.HasPrefix(c.Request.URL.Path, adminPath) && !a.mayAdmin(c)
}

// deny answers a request that has not the token it needs.
func (a *API) deny(c *gin.Context, err error) {
	var many *access.TooManyError
	switch {
	case errors.Is(err, model.ErrNoToken):
		c.Header("WWW-Authenticate", "Bearer")
	case errors.As(err, &many):
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(max(1, many.After.Seconds())))))
	}
	a.fail(c, err)
}

// isMonitoring says whether a path shows the state of the service. What it is made of
// (/openapi.yaml, the console's page) and what takes IDs apart tells nothing of that
// and is open.
func isMonitoring(path string) bool {
	switch path {
	case "/cache", "/db", "/metrics", "/api/status", "/api/history", "/api/replicas":
		return true
	}
	return false
}

// guarded puts monitoring before a page that it is for.
func (a *API) guarded(path string, page gin.HandlerFunc) gin.HandlerFunc {
	if isMonitoring(path) {
		return a.monitoring(page)
	}
	return page
}

// isolate adds what keeps a page out of others' pages, and its address, which may be
// internal, out of requests to others. Other answers load nothing and link nowhere.
func isolate(h http.Header) {
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cross-Origin-Resource-Policy"] = []string{"same-origin"}
}
