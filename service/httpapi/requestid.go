package httpapi

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

const (
	// requestIDHeader is where a caller and we say which request something is about.
	requestIDHeader = "X-Request-Id"
	// maxRequestID is the longest ID of a caller that is taken over, in bytes: more
	// than any tool makes, and little enough for every line of a log.
	maxRequestID = 128
)

// identify answers with the request's own ID, when it has one that can be used.
// Without one it costs a look into the head.
func (a *API) identify(c *gin.Context) {
	if given := c.Request.Header[requestIDHeader]; len(given) == 1 && isRequestID(given[0]) {
		c.Writer.Header()[requestIDHeader] = given
	}
}

// isRequestID says whether a text can be in a head and a line of a log as it is:
// visible ASCII.
func isRequestID(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxRequestID
}

// requestID is the ID of the request, which it shows to the caller: its own, that of
// its trace, or a new one.
func (a *API) requestID(c *gin.Context) string {
	if known := knownID(c); known != "" {
		return known
	}
	id := traceID(c)
	if id == "" {
		id = rand.Text()
	}
	c.Writer.Header()[requestIDHeader] = []string{id}
	return id
}

// knownID is the ID that the answer shows; "" for none yet.
func knownID(c *gin.Context) string {
	if shown := c.Writer.Header()[requestIDHeader]; len(shown) == 1 {
		return shown[0]
	}
	return ""
}

// traceID is the ID of the request's trace: ours, or the caller's where we keep none.
// "" for none.
func traceID(c *gin.Context) string {
	if id := c.GetString(traceKey); id != "" {
		return id
	}
	return parentID(c.Request.Header)
}

// parentID is the trace that a W3C traceparent names, of version 00 or a later one:
// version, 32 hex digits of the trace, 16 of the span, flags.
func parentID(h http.Header) string {
	const from, to, shortest = 3, 35, 55
	given := h["Traceparent"]
	if len(given) != 1 || len(given[0]) < shortest || given[0][from-1] != '-' || given[0][to] != '-' {
		return ""
	}
	id := given[0][from:to]
	if strings.Trim(id, "0") == "" || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}
