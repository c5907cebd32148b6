package model

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart with errors.Is. The HTTP front end maps the
// first group to the codes of the public error table; an error never travels
// with a usable ID.
var (
	// ErrNotReady: the service has not been initialised yet (code -1).
	ErrNotReady = errors.New("not initialised yet")
	// ErrUnknownApp: no shard of the app is provisioned (code -2).
	ErrUnknownApp = errors.New("app is not provisioned")
	// ErrUnknownShard: the app is provisioned, this shard of it is not (code -3).
	ErrUnknownShard = errors.New("shard is not provisioned")
	// ErrQueueEmpty: no index could be had within the deadline (code -4).
	ErrQueueEmpty = errors.New("queue is empty")
	// ErrLimitReached: the next ID would exceed the app's limit (code -5).
	ErrLimitReached = errors.New("app reached its limit")
	// ErrInvalidArgument: a parameter is missing or malformed (code -6).
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrModeDisabled: the ID mode is switched off, or not part of this version
	// (code -9).
	ErrModeDisabled = errors.New("mode is disabled")

	// ErrUnconfirmed: a list's max_id may have gone back in time, nobody can tell
	// how far, and leaving out enough would burn much of a small ID space: an
	// operator must confirm it. Callers get ErrQueueEmpty meanwhile.
	ErrUnconfirmed = errors.New("max_id awaits an operator's confirmation")

	// ErrAppExists: the app has been provisioned before.
	ErrAppExists = errors.New("app is already provisioned")

	// ErrHistoryChanged: the store's history is not the one that was named; the
	// segment must be dropped.
	ErrHistoryChanged = errors.New("history changed")
	// ErrHistoryHidden: the store does not tell its history, so nothing it holds
	// can be trusted.
	ErrHistoryHidden = errors.New("history cannot be read")
	// ErrNotAboveHighWater: a segment starts at or below an index pushed before;
	// it must be dropped.
	ErrNotAboveHighWater = errors.New("segment is not above the high-water mark")
	// ErrListFull: the list holds enough; the segment must be dropped.
	ErrListFull = errors.New("list is full")
)

// StoreError is the failure of a store together with advice for the operator.
// It unwraps to its cause and never holds a password.
type StoreError struct {
	Store  string // "redis" or "database"
	Op     string // what was tried, for example "pop"
	Advice string // what an operator should do; may be empty
	Err    error
}

// Error gives one line: store, operation, cause, advice.
func (e *StoreError) Error() string {
	if e.Advice == "" {
		return fmt.Sprintf("%s: %s: %v", e.Store, e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v: %s", e.Store, e.Op, e.Err, e.Advice)
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }
