package issuer

import (
	"errors"
	"strconv"

	"shardid/model"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// Codes counts answers by their code in the public error table, 0 for IDs. Safe for
// concurrent use.
type Codes [1 - LastCode]prometheus.Counter // by the code's magnitude

// NewCodes makes the counters, one for each code, which the registry exports; nil for none.
func NewCodes(registry prometheus.Registerer, name, help string) Codes {
	return codesFrom(0, promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
		[]string{"code"}))
}

// codesFrom takes the counters of a code and those below it. All are made at once, so that a first error is a
// rise.
func codesFrom(first int, of *prometheus.CounterVec) (codes Codes) {
	for code := first; code >= LastCode; code-- {
		codes[-code] = of.WithLabelValues(strconv.Itoa(code))
	}
	return codes
}

// Add counts one answer.
func (c *Codes) Add(code int) { c[-code].Inc() }
