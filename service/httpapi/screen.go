package httpapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

// errForeign: a browser sends what a page of another site makes it send, or the client's
// certificate is not trusted any more.
var errForeign = apiError{errors.New("not from here"), -7, http.StatusForbidden, false}

// screen refuses, before anything else looks at it, a request target that is too long,
// and requests that their sender may not have meant.
func (a *API) screen(c *gin.Context) {
	if a.draining.Load() {
		c.Header("Connection", "close") // its next request finds another replica
	}
	r := c.Request
	if n := len(r.RequestURI); n > a.opts.MaxURLBytes {
		a.refuse(c, errURLTooLong, fmt.Sprintf("the request target has %d bytes, at most %d are allowed", n, a.opts.MaxURLBytes))
		return
	}
	if a.opts.CheckClient != nil {
		if err := a.opts.CheckClient(r); err != nil {
			c.Header("Connection", "close")
			a.refuse(c, errForeign, err.Error())
			return
		}
	}
	switch {
	case isHealth(c.FullPath()):
	case slices.Contains(r.Header["Sec-Fetch-Site"], "cross-site"):
		a.refuse(c, errForeign, "a page of another site asks for this, which could use up IDs or read the state of the service: enter the address in the browser yourself, or ask from a program. Nothing was issued")
	case a.opts.Loopback && !IsLoopback(r.Host):
		a.refuse(c, errForeign, fmt.Sprintf("shardid listens for this machine only (server.addr) and was asked for the host %s, as a page of another site could: ask for 127.0.0.1 or localhost, have a proxy send such a Host, or let server.addr listen for other machines. Nothing was issued", quote(r.Host)))
	}
}

// refuse answers in place of the handler.
func (a *API) refuse(c *gin.Context, e apiError, message string) {
	a.writeError(c, e, message)
	c.Abort()
}

// isHealth says whether a path is asked for by what starts and watches processes, which
// may use any name.
func isHealth(path string) bool {
	switch path {
	case "/livez", "/readyz", "/healthz":
		return true
	}
	return false
}

// IsLoopback says whether a host, with a port or without, is this machine's own by its
// address or as localhost. A client that names none is no browser, so it counts.
func IsLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil { // no port
		name = strings.Trim(host, "[]")
	}
	if name == "" || strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
