package issuer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"shardid/model"
)

// Row is a row of the public error table: a code with one of its statuses of HTTP.
type Row struct {
	Code, Status int     // of the answer; the status is HTTP's
	Retry        bool    // a client may try again soon: HTTP sets Retry-After
	answers      []error // match with errors.Is
	Means, Do    string  // for people: what the code says, and what the client is to do
}

// The codes of answers, from -1 on; the table below says what each means.
const (
	CodeNotReady = -1 - iota
	CodeUnknown
	CodeUnknownShard
	CodeEmpty
	CodeLimit
	CodeInvalid
	CodeToken
	CodeUnavailable
	CodeDisabled
	CodeNoRoute
	CodeInternal // its text is not for clients
	CodeTooMany
	CodeRefused
	CodeLeaseLost

	LastCode = CodeLeaseLost // the lowest there is
)

// Errors that only HTTP has, and that a message wraps.
var (
	ErrNoPath = errors.New("no such path")
	ErrBody   = errors.New("this body cannot be read")
)

// table is the public error table, by which every front end answers. docs/api.md and openapi.yaml show it: make
// references. An error may wrap several of those that have a row; the first row here counts. So what the service
// lacks comes before what the caller did: a store's reason for an empty segment is not the caller's fault.
var table = []Row{
	{CodeNotReady, http.StatusServiceUnavailable, true, []error{model.ErrNotReady},
		"not initialised yet, and the message says what it waits for, or a store cannot be read",
		"try again, or ask another replica"},
	{CodeEmpty, http.StatusServiceUnavailable, true,
		[]error{model.ErrQueueEmpty, model.ErrSegmentEmpty, model.ErrNoNumber},
		"no index, segment or number of a sequence could be had within `server.request_timeout`; nothing was issued",
		"try again; if it lasts, look at the stores; what waits for `shardid confirm` says so"},
	{CodeUnavailable, http.StatusServiceUnavailable, true, []error{model.ErrClockBack, model.ErrTooEarly,
		model.ErrTimeExhausted, model.ErrNoLease, model.ErrSaturated, model.ErrRingEmpty, model.ErrLeaseStore,
		model.ErrNoWorkerID},
		"snowflake, UID and leases refuse for now: the clock went back, no worker ID is held or free, the ring is " +
			"empty, or the database that has the leases is unreachable", "try again, another replica first"},
	{CodeUnknown, http.StatusNotFound, false,
		[]error{model.ErrUnknownApp, model.ErrUnknownTag, model.ErrUnknownName, model.ErrUnknownSpace},
		"the app, the tag, the name of worker IDs, or the space of sequences is not provisioned",
		"create it, or correct the request"},
	{CodeUnknownShard, http.StatusNotFound, false, []error{model.ErrUnknownShard},
		"the app is provisioned, this shard of it is not, or its row cannot be used",
		"add its row to `id_alloc`, or correct it as the message says"},
	{CodeLimit, http.StatusConflict, false, []error{model.ErrLimitReached},
		"the app reached its `max_limit_id`, or a tag or a space its last number",
		"raise the limit, or use another app, tag or space"},
	{CodeInvalid, http.StatusBadRequest, false, []error{model.ErrInvalidArgument},
		"a parameter is missing, malformed, unknown or given twice", "correct what the message names"},
	{CodeInvalid, http.StatusRequestURITooLong, false, nil, "the URL is longer than 8192 bytes",
		"send the parameters in the body of a POST"},
	{CodeInvalid, http.StatusUnsupportedMediaType, false, []error{ErrBody}, "the body is neither JSON nor a form",
		"send one of them, or the parameters in the URL"},
	{CodeDisabled, http.StatusNotFound, false, []error{model.ErrModeDisabled},
		"the mode is disabled, or sequences have no Redis", "enable the mode, or set `redis.url`"},
	{CodeToken, http.StatusUnauthorized, false, []error{model.ErrNoToken}, "the token is missing or unknown",
		"send `Authorization: Bearer TOKEN`"},
	{CodeToken, http.StatusForbidden, false, []error{model.ErrForbidden}, "the token does not allow this; no token " +
		"for administration is configured; or a page of another site asks",
		"use a token that allows it, or change what the message names"},
	{CodeNoRoute, http.StatusNotFound, false, []error{ErrNoPath}, "no such path", "take one of `/openapi.yaml`"},
	{CodeNoRoute, http.StatusMethodNotAllowed, false, nil, "the path does not take this method",
		"use one that the header `Allow` names"},
	{CodeInternal, http.StatusInternalServerError, false, nil, "a fault of shardid",
		"try again, and report what the log says"},
	{CodeTooMany, http.StatusTooManyRequests, true, []error{model.ErrTooMany}, "the token's rate or a quota of IDs " +
		"is used up, or too many batches of more than 128 IDs are being made or read", "slow down, or ask for fewer"},
	// On the paths of IDs ErrLayoutChanged is the reason of a -1, -4 or -8.
	{CodeRefused, http.StatusConflict, false, []error{model.ErrExists, model.ErrRefused, model.ErrLayoutChanged},
		"administration: the app, tag, name or space exists already, is in use, or the change would let an ID " +
			"repeat; nothing was done", "do what the message says"},
	{CodeLeaseLost, http.StatusConflict, false, []error{model.ErrLeaseLost}, "the lease of a worker ID is lost: it " +
		"has ended, was released, or has another secret", "issue nothing more, and get a new lease"},
}

// Table is the public error table, by code and status.
func Table() []Row {
	return slices.SortedStableFunc(slices.Values(table), func(a, b Row) int { return b.Code - a.Code })
}

// RowFor finds the row of a code and a status.
func RowFor(code, status int) Row {
	i := slices.IndexFunc(table, func(r Row) bool { return r.Code == code && r.Status == status })
	if i < 0 {
		panic(fmt.Sprintf("the error table has no code %d with status %d", code, status))
	}
	return table[i]
}

// RowOf finds the row of an error; false for one that has none.
func RowOf(err error) (Row, bool) {
	i := slices.IndexFunc(table, func(r Row) bool {
		return slices.ContainsFunc(r.answers, func(is error) bool { return errors.Is(err, is) })
	})
	if i < 0 {
		return Row{}, false
	}
	return table[i], true
}

// Code is the code of an error, CodeInternal for one that has none.
func Code(err error) int {
	if row, found := RowOf(err); found {
		return row.Code
	}
	return CodeInternal
}

// Message is an error for callers, in one line: where no remedy is known, it says whether to try again.
func Message(err error) string {
	text := model.Message(err)
	row, _ := RowOf(err)
	if _, known := errors.AsType[model.Remedy](err); row.Retry && !known {
		text = "try again: " + text
	}
	return text
}

// Failed says whether a code means that this replica could not serve for now; the others
// are for the caller to change.
func Failed(code int) bool {
	return code == CodeNotReady || code == CodeEmpty || code == CodeUnavailable || code == CodeInternal
}
