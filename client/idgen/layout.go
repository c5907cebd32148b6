package idgen

import (
	"fmt"
	"slices"
	"time"
)

// Layout says what the bits of an ID are: from the highest on the time since Epoch, the worker ID and the sequence.
// What is left of 63 bits is 0. Its JSON is that of a lease.
type Layout struct {
	// Unit of the time: a millisecond for snowflakes, a second for UIDs. It divides a second.
	Unit time.Duration `json:"-"`
	// Epoch is where the time begins, in units since 1970-01-01 UTC.
	Epoch int64 `json:"epoch,string"`
	// TimeBits, WorkerBits and SeqBits are the widths of the parts: at least 1 each, and 63 together at most.
	TimeBits   uint `json:"-"`
	WorkerBits uint `json:"workerBits"`
	SeqBits    uint `json:"seqBits"`
	// ShardBits is how many of the lowest SeqBits, but not all, hold the bits of a shard key. They are 0 in the IDs of
	// a Generator: its caller joins the bits of a key.
	ShardBits uint `json:"shardBits,omitempty"`
}

// InMillis is a layout with all bits that are left for the time, in milliseconds.
func (l Layout) InMillis() Layout {
	l.Unit, l.TimeBits = time.Millisecond, 63-l.WorkerBits-l.SeqBits
	return l
}

// Check refuses widths beyond their ranges.
func (l Layout) Check() error {
	widths := []uint{l.TimeBits, l.WorkerBits, l.SeqBits}
	if slices.Min(widths) < 1 || slices.Max(widths) > 61 || l.TimeBits+l.WorkerBits+l.SeqBits > 63 ||
		l.ShardBits >= l.SeqBits {
		return fmt.Errorf("IDs of %d bits of time, %d of the worker ID and %d of the sequence",
			l.TimeBits, l.WorkerBits, l.SeqBits)
	}
	return nil
}

// Workers is how many worker IDs there are: 0…Workers-1.
func (l Layout) Workers() int64 { return 1 << l.WorkerBits }

// Sequences is how many IDs a worker has in a unit of time, with each shard key.
func (l Layout) Sequences() int64 { return 1 << (l.SeqBits - l.ShardBits) }

// MaxTime is the last time that IDs can carry, in units since 1970.
func (l Layout) MaxTime() int64 { return l.Epoch + 1<<l.TimeBits - 1 }

// Time is when a unit since 1970 begins.
func (l Layout) Time(at int64) time.Time {
	second := int64(time.Second / l.Unit)
	return time.Unix(at/second, at%second*int64(l.Unit)).UTC()
}

// Compose is the ID of a time in units since 1970, a worker ID and a sequence, which it does not check. The IDs of one
// time and worker are consecutive numbers.
func (l Layout) Compose(at, worker, seq int64) int64 {
	return (at-l.Epoch)<<(l.WorkerBits+l.SeqBits) | worker<<l.SeqBits | seq
}

// Split takes an ID apart, into what Compose takes. Of an ID with more bits than the layout has, the time is later than
// any that is issued.
func (l Layout) Split(id int64) (at, worker, seq int64) {
	return id>>(l.WorkerBits+l.SeqBits) + l.Epoch, id >> l.SeqBits & (l.Workers() - 1), id & (1<<l.SeqBits - 1)
}
