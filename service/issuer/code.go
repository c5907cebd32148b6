package issuer

import (
	"errors"

	"shardid/model"
)

// Codes of errors that come from no mode.
const (
	CodeNoRoute  = -10 // no such path, method or command
	CodeInternal = -11 // a fault of ours, whose text is not for clients
	LastCode     = -14 // the lowest there is
)

// Coded is an error with its code in the public error table.
type Coded struct {
	Err  error // matches with errors.Is
	Code int
}

// Errors is the public error table, which every front end shows. An error may wrap several
// of them; the first one here counts. So what the service lacks comes before what the
// caller did: a store's reason for an empty segment is not the caller's fault.
func Errors() []Coded {
	return []Coded{
		{model.ErrNotReady, -1},
		{model.ErrQueueEmpty, -4},
		{model.ErrSegmentEmpty, -4},
		{model.ErrNoNumber, -4},
		{model.ErrClockBack, -8},
		{model.ErrTooEarly, -8},
		{model.ErrTimeExhausted, -8},
		{model.ErrNoLease, -8},
		{model.ErrSaturated, -8},
		{model.ErrRingEmpty, -8},
		{model.ErrLeaseStore, -8},
		{model.ErrNoWorkerID, -8},
		{model.ErrUnknownApp, -2},
		{model.ErrUnknownTag, -2},
		{model.ErrUnknownName, -2},
		{model.ErrUnknownSpace, -2},
		{model.ErrUnknownShard, -3},
		{model.ErrLimitReached, -5},
		{model.ErrInvalidArgument, -6},
		{model.ErrModeDisabled, -9},
		{model.ErrNoToken, -7},
		{model.ErrForbidden, -7},
		{model.ErrTooMany, -12},
		{model.ErrExists, -13},
		{model.ErrRefused, -13},
		{model.ErrLayoutChanged, -13}, // administration; on the paths of IDs it is the reason of a -1, -4 or -8
		{model.ErrLeaseLost, -14},
	}
}

// Code is the code of an error, CodeInternal for one that has none.
func Code(err error) int {
	for _, c := range Errors() {
		if errors.Is(err, c.Err) {
			return c.Code
		}
	}
	return CodeInternal
}

// Failed says whether a code means that this replica could not serve for now; the others
// are for the caller to change.
func Failed(code int) bool { return code == -1 || code == -4 || code == -8 || code == CodeInternal }
