package model

import (
	"errors"
	"fmt"
	"strings"

	"shardid/client/idgen"
	"shardid/client/idtext"
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
	ErrInvalidArgument = idtext.ErrInvalidArgument
	// ErrPattern: numbers were asked of a tag whose IDs are texts (code -6).
	ErrPattern = fmt.Errorf("%w: the tag has a pattern", ErrInvalidArgument)
	// ErrModeDisabled: the ID mode is switched off, or not part of this version
	// (code -9).
	ErrModeDisabled = errors.New("mode is disabled")

	// ErrNoToken: the bearer token is missing or unknown (code -7, 401).
	ErrNoToken = errors.New("no valid token")
	// ErrForbidden: the token is valid and does not allow this (code -7, 403).
	ErrForbidden = errors.New("not allowed")
	// ErrTooMany: the token's rate or a quota is used up (code -12, 429).
	ErrTooMany = errors.New("too many requests")
	// ErrRefused: a change that would let IDs repeat, or break those in use (code
	// -13, 409).
	ErrRefused = errors.New("refused")

	// ErrUnknownTag: the segment tag has no row in leaf_alloc (code -2).
	ErrUnknownTag = errors.New("tag is not provisioned")
	// ErrSegmentEmpty: no segment could be had within the deadline (code -4).
	ErrSegmentEmpty = errors.New("no segment is left")
	// ErrClockBack: the clock is behind the time of an ID that was issued or
	// reserved (code -8).
	ErrClockBack = idgen.ErrClockBack
	// ErrTooEarly: the present time may have been used with this worker ID before
	// it was taken over (code -8).
	ErrTooEarly = idgen.ErrTooEarly
	// ErrTimeExhausted: the clock is before the epoch, or past what the bits of
	// the ID's time can hold (code -8).
	ErrTimeExhausted = idgen.ErrTimeExhausted
	// ErrNoLease: no worker ID is held, or it is not trusted any more (code -8).
	ErrNoLease = idgen.ErrNoLease
	// ErrSaturated: callers ask for more than 4096 IDs a millisecond (code -8).
	ErrSaturated = errors.New("every ID of each millisecond is taken")
	// ErrRingEmpty: the ring of prepared IDs ran dry (code -8).
	ErrRingEmpty = errors.New("the ring is empty")

	// ErrUnknownName: there are no worker IDs of that name (code -2).
	ErrUnknownName = errors.New("name is not provisioned")

	// ErrLeaseStore: what keeps the leases of names cannot be used (code -8).
	ErrLeaseStore = errors.New("leases cannot be stored for now")
	// ErrLeaseLost: the registry, or shardid for a name, no longer holds the lease for this
	// owner (code -14).
	ErrLeaseLost = errors.New("the worker ID was lost")
	// ErrNoWorkerID: every worker ID is taken.
	ErrNoWorkerID = errors.New("no worker ID is free")
	// ErrAddressTaken: another program, a Java Leaf, reports from the owner's address.
	ErrAddressTaken = errors.New("the address is taken")
	// ErrRegistryInUse: others issue IDs with worker IDs of another registry, or may still do so.
	ErrRegistryInUse = errors.New("another registry of worker IDs is in use")
	// ErrLayoutChanged: IDs of another layout or epoch have been issued.
	ErrLayoutChanged = errors.New("the layout of issued IDs may not change")

	// ErrUnconfirmed: a list's max_id may have gone back in time by an unknown
	// amount, and leaving out enough would burn much of a small ID space: an
	// operator must confirm it. Callers get ErrQueueEmpty meanwhile.
	ErrUnconfirmed = errors.New("max_id awaits an operator's confirmation")
	// ErrJumping: the database has just changed its server and no witness vouches for
	// the row, so that numbers are skipped, and a moment must pass first. Callers get
	// ErrQueueEmpty or ErrSegmentEmpty meanwhile.
	ErrJumping = errors.New("waiting before numbers are skipped, as the database server has changed")
	// ErrRate: the counter has issued as many numbers as it may for now. Callers
	// get ErrQueueEmpty or ErrSegmentEmpty meanwhile.
	ErrRate = errors.New("the highest rate is reached")
	// ErrClockApart: the clocks of the database server and of this machine differ by
	// more than MaxClockApart, so that the age of a copy could not be told.
	ErrClockApart = errors.New("the clocks of the database server and of this machine differ")
	// ErrPartlyAway: some servers of a store cannot be used, and others serve.
	ErrPartlyAway = errors.New("a part of it cannot be used")
	// ErrForeign: what was found belongs to another deployment.
	ErrForeign = errors.New("it belongs to another deployment")

	// ErrExists: the app, tag, name or space has been provisioned before (code -13).
	ErrExists = errors.New("already provisioned")

	// ErrLifeChanged: the list is in another life than the one that was named; the
	// segment must be dropped.
	ErrLifeChanged = errors.New("the list began another life")
	// ErrNotAboveHighWater: a segment starts at or below an index pushed before;
	// it must be dropped.
	ErrNotAboveHighWater = errors.New("segment is not above the high-water mark")
	// ErrListFull: the list holds enough; the segment must be dropped.
	ErrListFull = errors.New("list is full")
)

// StoreError is the failure of a store together with advice for the operator.
// It unwraps to its cause and never holds a password.
type StoreError struct {
	Store  string // "redis", "database" or "zookeeper"
	Op     string // what was tried, for example "pop"
	Advice string // what an operator should do; may be empty
	Err    error
}

// Error gives one line: store, operation, cause, advice.
func (e *StoreError) Error() string {
	text := strings.ReplaceAll(fmt.Sprintf("%s: %s: %v", e.Store, e.Op, e.Err), "\n", "; ")
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// NotBegunError is in the error of a store that could not begin with a call: it has stored nothing of it.
type NotBegunError struct{ Err error }

// Error is that of the reason.
func (e *NotBegunError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NotBegunError) Unwrap() error { return e.Err }

// MayBeStored says whether an error is that of a store which may have stored what it was asked to.
func MayBeStored(err error) bool {
	var away *StoreError
	var notBegun *NotBegunError
	return errors.As(err, &away) && !errors.As(err, &notBegun)
}
