package worker

import (
	"errors"
	"fmt"
	"time"

	"shardid/model"
)

// ErrClockOff says that this machine's clock is too far from the registry's.
var ErrClockOff = errors.New("the clock is off")

// clockReading is a moment at which the registry's clock was known.
type clockReading struct {
	server int64         // Unix ms
	mono   time.Duration // when that was
	offset time.Duration // how far this clock was ahead of it
}

// markTime notes the registry's clock from an answer to a call that started at the
// given reading, and refuses one that is too far from ours. The truth lies
// between the start and the end of the call; the smaller difference counts.
func (k *Keeper) markTime(server, wall int64) error {
	if server == 0 {
		return nil
	}
	wallNow, monoNow := k.opts.Now()
	atStart, atEnd := millis(wall)-server, millis(wallNow)-server
	offset := max(min(atStart, atEnd), min(max(atStart, atEnd), 0)) // 0 where one is ahead and one behind
	k.clock = clockReading{server: server, mono: monoNow, offset: time.Duration(offset) * time.Millisecond}
	return k.checkOffset(k.clock.offset)
}

func (k *Keeper) checkOffset(offset time.Duration) error {
	if offset.Abs() <= k.opts.MaxClockOffset {
		return nil
	}
	direction := "ahead of"
	if offset < 0 {
		direction = "behind"
	}
	return fmt.Errorf("%w: %w: it is %v %s the registry's, more than snowflake.max_clock_offset %v",
		model.Do("set the clocks (NTP)"),
		ErrClockOff, offset.Abs().Round(time.Millisecond), direction, k.opts.MaxClockOffset)
}

// jumped refuses a clock that moved against the registry's since the last answer: the
// time it would reserve might be another instance's.
func (k *Keeper) jumped(wall int64, mono time.Duration) error {
	if k.clock.server == 0 {
		return nil
	}
	expected := k.clock.server + (mono - k.clock.mono).Milliseconds()
	return k.checkOffset(time.Duration(millis(wall)-expected) * time.Millisecond)
}

// settling is how long after the layout was recorded, which is before the first
// worker ID is asked for, a registry may have come to hold its first one.
const settling = time.Second

// doubt is the time, Unix ms, up to which a registry that forgot something may
// have promised IDs to others, and 0 without doubt: it has forgotten nothing since
// the first ID may have been issued, layoutAge ago. An instance that can reach the registry has
// learned within that time that its worker ID is gone. An instance that can do
// without its registry learns it once it reaches it again, so then the time counts
// from now, until all of those must have stopped.
func (k *Keeper) doubt(lease model.Lease, layoutAge time.Duration) int64 {
	kept := time.Duration(lease.ServerTime-lease.KeptSince) * time.Millisecond
	if lease.KeptSince == 0 || kept+settling >= layoutAge {
		return 0
	}
	from := lease.KeptSince
	if k.file != nil && kept < k.opts.Expiry {
		from = lease.ServerTime
	}
	return from + Ahead.Milliseconds() + k.opts.MaxClockOffset.Milliseconds()
}
