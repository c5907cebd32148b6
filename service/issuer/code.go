package issuer

import (
	"errors"

	"shardid/model"
)

// Codes of errors that come from no mode.
const (
	CodeNoRoute  = -10 // no such path, method or command
	CodeInternal = -11 // a fault of ours, whose text is not for clients
	LastCode     = -13 // the lowest there is
)

// Code is the code of an error in the public error table, which every front end shows.
// An error may wrap several that have one: what the service lacks comes before what the
// caller did, since a store's reason for an empty segment is not the caller's fault.
func Code(err error) int {
	for _, group := range []struct {
		code int
		of   []error
	}{
		{-1, []error{model.ErrNotReady}},
		{-4, []error{model.ErrQueueEmpty, model.ErrSegmentEmpty}},
		{-8, []error{
			model.ErrClockBack, model.ErrTooEarly, model.ErrTimeExhausted, model.ErrNoLease, model.ErrSaturated, model.ErrRingEmpty,
		}},
		{-2, []error{model.ErrUnknownApp, model.ErrUnknownTag}},
		{-3, []error{model.ErrUnknownShard}},
		{-5, []error{model.ErrLimitReached}},
		{-6, []error{model.ErrInvalidArgument}},
		{-9, []error{model.ErrModeDisabled}},
		{-7, []error{model.ErrNoToken, model.ErrForbidden}},
		{-12, []error{model.ErrTooMany}},
		{-13, []error{model.ErrAppExists, model.ErrTagExists, model.ErrRefused}},
	} {
		for _, coded := range group.of {
			if errors.Is(err, coded) {
				return group.code
			}
		}
	}
	return CodeInternal
}
