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

// Rows of the error table for what only HTTP knows.
var (
	rowClosed   = issuer.RowFor(issuer.CodeToken, http.StatusForbidden)
	rowLongURL  = issuer.RowFor(issuer.CodeInvalid, http.StatusRequestURITooLong)
	rowNoPath   = issuer.RowFor(issuer.CodeNoRoute, http.StatusNotFound)
	rowNoMethod = issuer.RowFor(issuer.CodeNoRoute, http.StatusMethodNotAllowed)
	rowFault    = issuer.RowFor(issuer.CodeInternal, http.StatusInternalServerError)
	// rowStore: a store could not be read, and nothing about IDs is wrong. So it has the code of what is not there
	// yet.
	rowStore = issuer.RowFor(issuer.CodeNotReady, http.StatusServiceUnavailable)
	// rowGaveUp: the request ended first. A client that has only closed its sending half still reads the answer, and
	// must not take it for an ID.
	rowGaveUp = issuer.RowFor(issuer.CodeEmpty, http.StatusServiceUnavailable)
)

const (
	// retryAfter is what a client is asked to wait, in seconds.
	retryAfter = "1"
	// reasonHidden stands for what only operators may see.
	reasonHidden = "read the log, or send a token to /readyz, to see the reason"
	// internalError stands for what is only logged.
	internalError = "try again: internal error, which has been logged"
)

// noSuchPath is issuer.ErrNoPath for the path of a request.
func noSuchPath(c *gin.Context) error {
	return fmt.Errorf("take a path of /openapi.yaml: %w: %.64q", issuer.ErrNoPath, c.Request.URL.Path)
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
	row, message := a.explain(c, err)
	a.writeError(c, row, message)
}

// explain gives the error's row of the table, and what the caller may read of it. An error
// without a code is a fault of ours: it is logged and not shown.
func (a *API) explain(c *gin.Context, err error) (issuer.Row, string) {
	if ended := c.Request.Context().Err(); ended != nil && errors.Is(err, ended) {
		return rowGaveUp, "try again: the request was given up while it waited: nothing was issued"
	}
	if row, found := issuer.RowOf(err); found {
		row.Retry = row.Retry && !errors.Is(err, model.ErrUnconfirmed) // an operator has to do something first
		a.opts.Log.Debug("request refused", "path", c.Request.URL.Path, "code", row.Code, "error", err, "request_id",
			a.requestID(c))
		return row, a.PublicText(err)
	}
	store, away := errors.AsType[*model.StoreError](err)
	switch {
	case away && c.GetBool(operatorKey):
		return rowStore, issuer.Message(store)
	case away:
		return rowStore, a.PublicText(store)
	case errors.Is(err, context.DeadlineExceeded):
		return rowStore, "try again: a store has not answered in time"
	}
	a.fault(c, "request failed", "error", err)
	return rowFault, internalError
}

// PublicText is an error as callers may see it. With server.protect_monitoring they do not
// learn what a store said, which holds its address; the log has it.
func (a *API) PublicText(err error) string {
	store, ok := errors.AsType[*model.StoreError](err)
	if !ok || !a.opts.ProtectMonitoring {
		return issuer.Message(err)
	}
	chain, _, _ := strings.Cut(err.Error(), store.Error())
	return reasonHidden + ": " + chain + store.Store + " cannot be used"
}

// writeError answers {"code":N,"message":"…"} and nothing that could be taken
// for an ID.
func (a *API) writeError(c *gin.Context, row issuer.Row, message string) {
	a.noteCode(c, row.Code)
	if row.Retry && c.Writer.Header().Get("Retry-After") == "" {
		c.Header("Retry-After", retryAfter)
	}
	body := append([]byte(`{"code":`), strconv.Itoa(row.Code)...)
	body = append(body, `,"message":`...)
	body = appendJSON(body, message)
	a.writeBody(c, row.Status, typeJSON, append(body, '}'))
}

// noteCode has the log, the trace and the counters of the mode know the code of an error.
func (a *API) noteCode(c *gin.Context, code int) {
	c.Set(codeKey, code)
	a.requestID(c) // by which the caller's operator finds it in the log
}
