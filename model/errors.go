package model

import (
	"errors"
	"fmt"
	"strings"

	"shardid/client/idgen"
	"shardid/client/idtext"
)

// Errors that callers tell apart with errors.Is. Package issuer has the codes of the public error table. An error never
// travels with a usable ID.
var (
	ErrNotReady        = errors.New("not initialised yet")
	ErrModeDisabled    = errors.New("mode is disabled")
	ErrInvalidArgument = idtext.ErrInvalidArgument
	// ErrPattern: numbers were asked of a tag whose IDs are texts.
	ErrPattern = fmt.Errorf("%w: the tag has a pattern", ErrInvalidArgument)

	ErrNoToken   = errors.New("no valid token")
	ErrForbidden = errors.New("not allowed")       // the token is valid
	ErrTooMany   = errors.New("too many requests") // for the token's rate, or for now
	// ErrRefused: a change would let IDs repeat, or break those in use.
	ErrRefused = errors.New("refused")

	ErrExists       = errors.New("already provisioned")
	ErrUnknownApp   = errors.New("app is not provisioned")
	ErrUnknownShard = errors.New("shard is not provisioned") // of an app that is
	ErrUnknownTag   = errors.New("tag is not provisioned")
	ErrUnknownName  = errors.New("name is not provisioned") // of worker IDs
	ErrUnknownSpace = errors.New("space is not provisioned")

	ErrLimitReached = errors.New("app reached its limit") // the next ID would exceed it
	// Callers get these where nothing could be had within the deadline, also while something else is waited for.
	ErrQueueEmpty   = errors.New("queue is empty")
	ErrSegmentEmpty = errors.New("no segment is left")
	ErrNoNumber     = errors.New("no number of the sequence can be had for now")

	ErrClockBack     = idgen.ErrClockBack
	ErrTooEarly      = idgen.ErrTooEarly
	ErrTimeExhausted = idgen.ErrTimeExhausted
	ErrNoLease       = idgen.ErrNoLease
	ErrSaturated     = errors.New("every ID of each millisecond is taken")
	ErrRingEmpty     = errors.New("the ring is empty") // of prepared UIDs

	ErrLeaseStore = errors.New("leases cannot be stored for now") // those of names
	ErrLeaseLost  = errors.New("the worker ID was lost")          // the owner holds the lease no longer
	ErrNoWorkerID = errors.New("no worker ID is free")
	// ErrAddressTaken: another program, a Java Leaf, reports from the owner's address.
	ErrAddressTaken = errors.New("the address is taken")
	// ErrRegistryInUse: others issue IDs with worker IDs of another registry, or may still do so.
	ErrRegistryInUse = errors.New("another registry of worker IDs is in use")
	// ErrLayoutChanged: IDs of another layout or epoch have been issued.
	ErrLayoutChanged = errors.New("the layout of issued IDs may not change")

	// ErrUnconfirmed: a counter may have gone back in time by an unknown amount, and leaving out enough would burn much
	// of a small ID space: an operator must confirm it. It is waited for.
	ErrUnconfirmed = errors.New("max_id awaits an operator's confirmation")
	// ErrJumping: the database has just changed its server and no witness vouches for the row, so that numbers are
	// skipped, and a moment must pass first. It is waited for.
	ErrJumping = errors.New("waiting before numbers are skipped, as the database server has changed")
	// ErrRate: the counter has issued as many numbers as it may for now. It is waited for.
	ErrRate = errors.New("the highest rate is reached")
	// ErrFence: a Redis that was replaced may still answer, or it is not known that none does. It is waited for.
	ErrFence = errors.New("what Redis knew before may still give numbers")
	// ErrSectionBusy: another replica has taken numbers for the section a moment ago, which have not arrived yet.
	ErrSectionBusy = errors.New("another replica is filling the section")
	// ErrClockApart: the clocks of the database server and of this machine differ by more than MaxClockApart, so that
	// the age of a copy could not be told.
	ErrClockApart = errors.New("the clocks of the database server and of this machine differ")
	ErrPartlyAway = errors.New("a part of it cannot be used") // other servers of the store serve
	ErrForeign    = errors.New("it belongs to another deployment")

	// With these a list or a section refuses a segment, which must be dropped.
	ErrLifeChanged       = errors.New("the list began another life")
	ErrNotAboveHighWater = errors.New("segment is not above the high-water mark") // of what was pushed before
	ErrListFull          = errors.New("list is full")
)

// UnknownApp is ErrUnknownApp of an app, with what to do. The three below are its like.
func UnknownApp(id uint8) error {
	do := Do("see `shardid apps`, or provision it with `shardid provision --app %d --name NAME`", id)
	return fmt.Errorf("%w: %w: app %d", do, ErrUnknownApp, id)
}

// UnknownTag is ErrUnknownTag of a tag.
func UnknownTag(name string) error {
	do := Do("see `shardid tags`, or add it with `shardid tags add --tag NAME --step 2000`")
	return fmt.Errorf("%w: %w: %q", do, ErrUnknownTag, name)
}

// UnknownName is ErrUnknownName of a name.
func UnknownName(name string) error {
	return fmt.Errorf("%w: %w: %q", Do("see `shardid names`, or add it with `shardid names add --name %s`", name),
		ErrUnknownName, name)
}

// UnknownSpace is ErrUnknownSpace of a space.
func UnknownSpace(name string) error {
	return fmt.Errorf("%w: %w: %q", Do("see `shardid spaces`, or add it with `shardid spaces add --space %s`", name),
		ErrUnknownSpace, name)
}

// StoreError is the failure of a store together with advice for the operator.
// It unwraps to its cause and never holds a password.
type StoreError struct {
	Store  string // "redis", "database" or "zookeeper"
	Op     string // what was tried, for example "pop"
	Advice string // what an operator should do; may be empty
	Err    error
}

// Error gives one line: advice, store, operation, cause.
func (e *StoreError) Error() string {
	text := strings.ReplaceAll(fmt.Sprintf("%s: %s: %v", e.Store, e.Op, e.Err), "\n", "; ")
	if e.Advice != "" {
		text = e.Advice + ": " + text
	}
	return text
}

// As says that the advice is a Remedy.
func (e *StoreError) As(target any) bool {
	remedy, ok := target.(*Remedy)
	if ok = ok && e.Advice != ""; ok {
		*remedy = Remedy(e.Advice)
	}
	return ok
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

// A message for people says first what to do, then what happened, then the chain of causes, on one line. An error
// carries what to do as a Remedy, wherever in the chain it is known, and whatever shows an error takes its Message.

// Remedy is the part of an error that says what to do about it. It holds no password.
type Remedy string //nolint:errname // it is a part of one

// Do makes a Remedy, to be wrapped as in fmt.Errorf("%w: %w: app %d", Do("provision it"), ErrUnknownApp, 7).
func Do(format string, args ...any) Remedy { return Remedy(fmt.Sprintf(format, args...)) }

// Error is the remedy itself.
func (r Remedy) Error() string { return string(r) }

// Message is an error for people, in one line that begins with the outermost Remedy, if there is one. It leaves the
// text of ErrInvalidArgument out, which says nothing that the rest does not. It is "" for no error.
func Message(err error) string {
	if err == nil {
		return ""
	}
	text := strings.NewReplacer("\r\n", "; ", "\n", "; ", ErrInvalidArgument.Error()+": ", "").Replace(err.Error())
	do, known := errors.AsType[Remedy](err)
	if !known {
		return text
	}
	before, after, _ := strings.Cut(text, string(do))
	return strings.TrimSuffix(string(do)+": "+before+strings.TrimPrefix(after, ": "), ": ")
}
