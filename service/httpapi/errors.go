package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// apiError is what an error looks like to a client.
type apiError struct {
	err    error // matches with errors.Is
	code   int
	status int
	retry  bool // Retry-After is set
}

// apiErrors is the public error table with the statuses of HTTP.
func apiErrors() []apiError {
	var all []apiError
	for _, c := range issuer.Errors() {
		e := apiError{err: c.Err, code: c.Code}
		switch c.Code {
		case -1, -4, -8:
			e.status, e.retry = http.StatusServiceUnavailable, true
		case -2, -3, -9:
			e.status = http.StatusNotFound
		case -5, -13, -14:
			e.status = http.StatusConflict
		case -6:
			e.status = http.StatusBadRequest
		case -7:
			if e.status = http.StatusForbidden; errors.Is(c.Err, model.ErrNoToken) {
				e.status = http.StatusUnauthorized
			}
		case -12:
			e.status, e.retry = http.StatusTooManyRequests, true
		}
		all = append(all, e)
	}
	return append(all, errStoreAway, errFull, errNoAdmin, errForeign, errURLTooLong, errBodyType, errNoRoute, errNoMethod, errInternal)
}

// Errors that only HTTP knows. Codes -10 and -11 are beyond the table that the
// modes share: no path or method, and a fault of ours; -12 and -13 are of access
// and administration.
var (
	errNoAdmin = apiError{errors.New("administration is closed"), -7, http.StatusForbidden, false}
	// errForeign: a browser sends what a page of another site makes it send, or the
	// client's certificate is not trusted any more.
	errForeign    = apiError{errors.New("not from here"), -7, http.StatusForbidden, false}
	errURLTooLong = apiError{errors.New("URL too long"), -6, http.StatusRequestURITooLong, false}
	errBodyType   = apiError{errors.New("this body cannot be read"), -6, http.StatusUnsupportedMediaType, false}
	errNoRoute    = apiError{errors.New("no such path"), -10, http.StatusNotFound, false}
	errNoMethod   = apiError{errors.New("no such method"), -10, http.StatusMethodNotAllowed, false}
	errInternal   = apiError{errors.New("internal error"), -11, http.StatusInternalServerError, false}
	// errStoreAway: a page that only reads a store could not. Nothing about IDs is
	// wrong, so it has the code of what is not there yet.
	errStoreAway = apiError{errors.New("the store cannot be read"), -1, http.StatusServiceUnavailable, true}
	// errFull: the connection is one too many.
	errFull = apiError{errors.New("too many connections"), -1, http.StatusServiceUnavailable, true}
	// errGaveUp: the request ended first. A client that has only closed its
	// sending half still reads the answer, and must not take it for an ID.
	errGaveUp = apiError{context.Canceled, -4, http.StatusServiceUnavailable, true}
)

const (
	// retryAfter is what a client is asked to wait, in seconds.
	retryAfter = "1"
	// reasonHidden stands for what only operators may see.
	reasonHidden = "the log says why, and /readyz to who sends a token"
	// internalError stands for what is only logged.
	internalError = "internal error: it has been logged, try again"
)

// noSuchPath is errNoRoute for the path of a request.
func noSuchPath(c *gin.Context) error {
	advice := "/openapi.yaml lists the paths"
	if near := nearestPath(c.Request.URL.Path); near != "" {
		advice = "did you mean " + near + "?"
	}
	return fmt.Errorf("%w %s: %s", errNoRoute.err, quote(c.Request.URL.Path), advice)
}

// fail answers with the error's code and status, and says how a token is sent or when the
// next request may come.
func (a *API) fail(c *gin.Context, err error) {
	if errors.Is(err, model.ErrNoToken) {
		c.Header("WWW-Authenticate", "Bearer")
	}
	if many, ok := errors.AsType[*access.TooManyError](err); ok {
		c.Header("Retry-After", strconv.Itoa(int(math.Ceil(max(1, many.After.Seconds())))))
	}
	e, message := a.explain(c, err)
	a.writeError(c, e, message)
}

// explain gives the error's entry in the table, and what the caller may read of it. An error
// without a code is a fault of ours: it is logged and not shown.
func (a *API) explain(c *gin.Context, err error) (apiError, string) {
	if ended := c.Request.Context().Err(); ended != nil && errors.Is(err, ended) {
		return errGaveUp, "the request was given up while it waited: nothing was issued, try again"
	}
	for _, e := range a.errors {
		if errors.Is(err, e.err) {
			a.opts.Log.Debug("request refused", "path", c.Request.URL.Path, "code", e.code, "error", err, "request_id", a.requestID(c))
			return e, a.PublicText(err)
		}
	}
	a.fault(c, "request failed", "error", err)
	return errInternal, internalError
}

// PublicText is an error as callers may see it. With server.protect_monitoring they do not
// learn what a store said, which holds its address; the log has it.
func (a *API) PublicText(err error) string {
	text := err.Error()
	store, ok := errors.AsType[*model.StoreError](err)
	if !ok || !a.opts.ProtectMonitoring {
		return text
	}
	at := max(0, strings.Index(text, store.Error()))
	return text[:at] + store.Store + " cannot be used: " + reasonHidden
}

// failStore is fail for a page that reads a store: the store's own message is
// shown, as its reader is the operator. A deadline is that of the reading.
func (a *API) failStore(c *gin.Context, err error) {
	var store *model.StoreError
	asked := errors.Is(err, model.ErrInvalidArgument) || errors.Is(err, errNoRoute.err)
	switch gone := c.Request.Context().Err(); {
	case gone != nil && !asked:
		a.fail(c, gone) // whatever ended a reading that others wait for too
	case errors.As(err, &store):
		a.writeError(c, errStoreAway, store.Error())
	case errors.Is(err, context.DeadlineExceeded):
		a.writeError(c, errStoreAway, "the database has not answered within "+readTimeout.String())
	default:
		a.fail(c, err)
	}
}

// writeError answers {"code":N,"message":"…"} and nothing that could be taken
// for an ID.
func (a *API) writeError(c *gin.Context, e apiError, message string) {
	a.count(c, e)
	if e.retry && c.Writer.Header().Get("Retry-After") == "" {
		c.Header("Retry-After", retryAfter)
	}
	body := append([]byte(`{"code":`), strconv.Itoa(e.code)...)
	body = append(body, `,"message":`...)
	body = appendJSON(body, message)
	a.writeBody(c, e.status, typeJSON, append(body, '}'))
}

// count counts an error, and has the log, the trace and the counters of the mode know its
// code.
func (a *API) count(c *gin.Context, e apiError) {
	a.answers.Add(e.code)
	c.Set(codeKey, e.code)
	a.requestID(c) // by which the caller's operator finds it in the log
}
