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

// errorCode is a row of the public error table: a code with one of its statuses of HTTP.
type errorCode struct {
	code, status int
	retry        bool // Retry-After is set
	means, do    string
}

// errorCodes is the public error table, by which errors are answered. docs/api.md and
// openapi.yaml show it: make references.
var errorCodes = []errorCode{
	{-1, http.StatusServiceUnavailable, true, "not initialised yet, and the message says what it waits for, or a " +
		"store cannot be read", "try again, or ask another replica"},
	{-2, http.StatusNotFound, false, "the app, the tag, the name of worker IDs, or the space of sequences is not " +
		"provisioned", "create it, or correct the request"},
	{-3, http.StatusNotFound, false, "the app is provisioned, this shard of it is not, or its row cannot be used",
		"add its row to `id_alloc`, or correct it as the message says"},
	{-4, http.StatusServiceUnavailable, true, "no index, segment or number of a sequence could be had within " +
		"`server.request_timeout`; nothing was issued", "try again; if it lasts, look at the stores; what waits " +
		"for `shardid confirm` says so"},
	{-5, http.StatusConflict, false, "the app reached its `max_limit_id`, or a tag or a space its last number",
		"raise the limit, or use another app, tag or space"},
	{-6, http.StatusBadRequest, false, "a parameter is missing, malformed, unknown or given twice",
		"correct what the message names"},
	{-6, http.StatusRequestURITooLong, false, "the URL is longer than 8192 bytes", "send the parameters in the " +
		"body of a POST"},
	{-6, http.StatusUnsupportedMediaType, false, "the body is neither JSON nor a form",
		"send one of them, or the parameters in the URL"},
	{-7, http.StatusUnauthorized, false, "the token is missing or unknown", "send `Authorization: Bearer TOKEN`"},
	{-7, http.StatusForbidden, false, "the token does not allow this; no token for administration is configured; " +
		"or a page of another site asks", "use a token that allows it, or change what the message names"},
	{-8, http.StatusServiceUnavailable, true, "snowflake, UID and leases refuse for now: the clock went back, no " +
		"worker ID is held or free, the ring is empty, or the database that has the leases is unreachable",
		"try again, another replica first"},
	{-9, http.StatusNotFound, false, "the mode is disabled, or sequences have no Redis", "enable the mode, or set " +
		"`redis.url`"},
	{-10, http.StatusNotFound, false, "no such path", "take one of `/openapi.yaml`"},
	{-10, http.StatusMethodNotAllowed, false, "the path does not take this method",
		"use one that the header `Allow` names"},
	{-11, http.StatusInternalServerError, false, "a fault of shardid", "try again, and report what the log says"},
	{-12, http.StatusTooManyRequests, true, "the token's rate or a quota of IDs is used up, or too many batches of " +
		"more than 128 IDs are being made or read", "slow down, or ask for fewer"},
	{-13, http.StatusConflict, false, "administration: the app, tag, name or space exists already, is in use, or the " +
		"change would let an ID repeat; nothing was done", "do what the message says"},
	{-14, http.StatusConflict, false, "the lease of a worker ID is lost: it has ended, was released, or has " +
		"another secret", "issue nothing more, and get a new lease"},
}

// apiError is what an error looks like to a client.
type apiError struct {
	err error // matches with errors.Is
	errorCode
}

// coded gives an error its row of the table: the first one of the code for the status 0.
func coded(err error, code, status int) apiError {
	for _, row := range errorCodes {
		if row.code == code && (status == 0 || row.status == status) {
			return apiError{err, row}
		}
	}
	panic(fmt.Sprintf("the error table has no code %d with status %d", code, status))
}

// apiErrors are the errors that have a code.
func apiErrors() []apiError {
	var all []apiError
	for _, c := range issuer.Errors() {
		status := 0
		if errors.Is(c.Err, model.ErrForbidden) {
			status = http.StatusForbidden
		}
		all = append(all, coded(c.Err, c.Code, status))
	}
	return append(all, errStoreAway, errNoAdmin, errForeign, errURLTooLong, errBodyType, errNoRoute, errNoMethod,
		errInternal)
}

// Errors that only HTTP knows. Codes -10 and -11 are beyond the table that the
// modes share: no path or method, and a fault of ours; -12 and -13 are of access
// and administration.
var (
	errNoAdmin = coded(errors.New("administration is closed"), -7, http.StatusForbidden)
	// errForeign: a browser sends what a page of another site makes it send.
	errForeign    = coded(errors.New("not from here"), -7, http.StatusForbidden)
	errURLTooLong = coded(errors.New("URL too long"), -6, http.StatusRequestURITooLong)
	errBodyType   = coded(errors.New("this body cannot be read"), -6, http.StatusUnsupportedMediaType)
	errNoRoute    = coded(errors.New("no such path"), issuer.CodeNoRoute, http.StatusNotFound)
	errNoMethod   = coded(errors.New("no such method"), issuer.CodeNoRoute, http.StatusMethodNotAllowed)
	errInternal   = coded(errors.New("internal error"), issuer.CodeInternal, 0)
	// errStoreAway: a store could not be read, and nothing about IDs is wrong. So it has the code of what is not
	// there yet.
	errStoreAway = coded(errors.New("the store cannot be read"), -1, 0)
	// errGaveUp: the request ended first. A client that has only closed its
	// sending half still reads the answer, and must not take it for an ID.
	errGaveUp = coded(context.Canceled, -4, 0)
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
	return fmt.Errorf("%w %s: /openapi.yaml lists the paths", errNoRoute.err, quote(c.Request.URL.Path))
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
			e.retry = e.retry && !errors.Is(err, model.ErrUnconfirmed) // an operator has to do something first
			a.opts.Log.Debug("request refused", "path", c.Request.URL.Path, "code", e.code, "error", err, "request_id",
				a.requestID(c))
			return e, a.PublicText(err)
		}
	}
	store, away := errors.AsType[*model.StoreError](err)
	switch {
	case away && c.GetBool(operatorKey):
		return errStoreAway, store.Error()
	case away:
		return errStoreAway, a.PublicText(store)
	case errors.Is(err, context.DeadlineExceeded):
		return errStoreAway, "a store has not answered in time: try again"
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

// writeError answers {"code":N,"message":"…"} and nothing that could be taken
// for an ID.
func (a *API) writeError(c *gin.Context, e apiError, message string) {
	a.noteCode(c, e)
	if e.retry && c.Writer.Header().Get("Retry-After") == "" {
		c.Header("Retry-After", retryAfter)
	}
	body := append([]byte(`{"code":`), strconv.Itoa(e.code)...)
	body = append(body, `,"message":`...)
	body = appendJSON(body, message)
	a.writeBody(c, e.status, typeJSON, append(body, '}'))
}

// noteCode has the log, the trace and the counters of the mode know the code of an error.
func (a *API) noteCode(c *gin.Context, e apiError) {
	c.Set(codeKey, e.code)
	a.requestID(c) // by which the caller's operator finds it in the log
}
