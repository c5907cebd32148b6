package model

import (
	"fmt"
	"time"
)

// uidBits is how many bits a UID has beside its sign: Baidu's BitsAllocator.
const uidBits = 63

// UIDLayout is the layout of a Baidu UID: the widths sum to 63, the time is in
// seconds since Epoch.
type UIDLayout struct {
	TimeBits, WorkerBits, SeqBits uint
	// Epoch is in whole seconds. Baidu's epochStr is a day in the zone of its JVM:
	// 2016-05-20 in Shanghai is 2016-05-19 16:00 UTC, and only that instant takes apart
	// the IDs that were issued there.
	Epoch time.Time
}

// Check refuses, with ErrInvalidArgument, a layout that gives no valid IDs.
func (l UIDLayout) Check() error {
	switch {
	case l.TimeBits < 1 || l.WorkerBits < 1 || l.SeqBits < 1 ||
		l.TimeBits > uidBits || l.WorkerBits > uidBits || l.SeqBits > uidBits:
		return fmt.Errorf("%w: UID layout %d/%d/%d: each width needs at least one bit and at most %d",
			ErrInvalidArgument, l.TimeBits, l.WorkerBits, l.SeqBits, uidBits-2)
	case l.TimeBits+l.WorkerBits+l.SeqBits != uidBits:
		return fmt.Errorf("%w: UID layout %d/%d/%d: the widths add up to %d instead of %d", ErrInvalidArgument,
			l.TimeBits, l.WorkerBits, l.SeqBits, l.TimeBits+l.WorkerBits+l.SeqBits, uidBits)
	case l.Epoch.IsZero() || l.Epoch.Nanosecond() != 0:
		return fmt.Errorf("%w: UID epoch %v: it must be a time in whole seconds", ErrInvalidArgument, l.Epoch)
	}
	return nil
}

// String is everything that decides what an ID means, as LayoutRecord wants it.
func (l UIDLayout) String() string {
	return fmt.Sprintf("time_bits=%d worker_bits=%d seq_bits=%d epoch=%s",
		l.TimeBits, l.WorkerBits, l.SeqBits, l.Epoch.UTC().Format(time.RFC3339))
}

// Workers is how many worker IDs there are: 0…Workers-1.
func (l UIDLayout) Workers() int64 { return 1 << l.WorkerBits }

// Sequences is how many IDs a worker has in a second.
func (l UIDLayout) Sequences() int64 { return 1 << l.SeqBits }

// MinSecond is the first Unix second that IDs can carry. The epoch itself is left
// out, because it would give worker 0 the ID 0.
func (l UIDLayout) MinSecond() int64 { return l.Epoch.Unix() + 1 }

// MaxSecond is the last Unix second that fits into the time bits.
func (l UIDLayout) MaxSecond() int64 { return l.Epoch.Unix() + 1<<l.TimeBits - 1 }

// CheckSecond says whether IDs can carry a Unix second; the error is
// ErrTimeExhausted.
func (l UIDLayout) CheckSecond(second int64) error {
	switch {
	case second < l.MinSecond():
		return fmt.Errorf("%w: %s is not after the epoch %s: set the clock", ErrTimeExhausted, utc(second),
			utc(l.Epoch.Unix()))
	case second > l.MaxSecond():
		return fmt.Errorf("%w: %s is past %s, the last second of %d bits since %s: use a layout with more time "+
			"bits, or a later epoch; IDs of two layouts can be equal, see docs/uid.md",
			ErrTimeExhausted, utc(second), utc(l.MaxSecond()), l.TimeBits, utc(l.Epoch.Unix()))
	}
	return nil
}

// Compose builds the ID of a Unix second, a worker ID and a sequence number. It
// does not check them: see CheckSecond, Workers and Sequences. The IDs of one
// second and worker are consecutive numbers.
func (l UIDLayout) Compose(second, worker, seq int64) int64 {
	return (second-l.Epoch.Unix())<<(l.WorkerBits+l.SeqBits) | worker<<l.SeqBits | seq
}

// split takes an ID apart: Unix second, worker ID and sequence number.
func (l UIDLayout) split(id int64) (second, worker, seq int64) {
	return id>>(l.WorkerBits+l.SeqBits) + l.Epoch.Unix(), id >> l.SeqBits & (l.Workers() - 1), id & (l.Sequences() - 1)
}

func utc(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }
