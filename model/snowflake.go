package model

import (
	"fmt"
	"time"
)

// Widths of Leaf's and Twitter's snowflakes, in bits.
const (
	LeafWorkerBits = 10
	LeafSeqBits    = 12
)

const (
	// SnowflakeTimeBits is the width of the milliseconds: 69.7 years.
	SnowflakeTimeBits = 41
	// maxWorkerBits bounds the registries, whose tables and scripts have 1024 worker IDs.
	maxWorkerBits = 10
	// maxSeqBits is as recorded layouts have had it: more would take the place of worker IDs.
	maxSeqBits = 14
)

// SnowflakeLayout is the layout of a snowflake: 41 bits of milliseconds since the epoch
// above the worker ID above the sequence. What is left of 63 bits is 0.
type SnowflakeLayout struct {
	EpochMs             int64 // Unix milliseconds
	WorkerBits, SeqBits uint
}

// Check refuses, with ErrInvalidArgument, a layout that gives no valid IDs.
func (l SnowflakeLayout) Check() error {
	if l.WorkerBits < 1 || l.WorkerBits > maxWorkerBits || l.SeqBits < 1 || l.SeqBits > maxSeqBits ||
		l.WorkerBits+l.SeqBits > 63-SnowflakeTimeBits {
		return fmt.Errorf("%w: snowflakes of %d worker bits and %d sequence bits: there are 1…%d and 1…%d, %d "+
			"together at most",
			ErrInvalidArgument, l.WorkerBits, l.SeqBits, maxWorkerBits, maxSeqBits, 63-SnowflakeTimeBits)
	}
	return nil
}

// IsLeaf says whether the widths are those of Leaf.
func (l SnowflakeLayout) IsLeaf() bool {
	return l.WorkerBits == LeafWorkerBits && l.SeqBits == LeafSeqBits
}

// String is everything that decides what an ID means, as LayoutRecord wants it. Leaf's
// widths are left out, as in the records of versions that had no others.
func (l SnowflakeLayout) String() string {
	if l.IsLeaf() {
		return fmt.Sprintf("epoch_ms=%d", l.EpochMs)
	}
	return fmt.Sprintf("worker_bits=%d seq_bits=%d epoch_ms=%d", l.WorkerBits, l.SeqBits, l.EpochMs)
}

// Workers is how many worker IDs there are: 0…Workers-1.
func (l SnowflakeLayout) Workers() int { return 1 << l.WorkerBits }

// Sequences is how many IDs a worker has in a millisecond.
func (l SnowflakeLayout) Sequences() int { return 1 << l.SeqBits }

// MaxMs is the last Unix millisecond that IDs can carry.
func (l SnowflakeLayout) MaxMs() int64 { return l.EpochMs + 1<<SnowflakeTimeBits - 1 }

// worker is the worker ID of an ID.
func (l SnowflakeLayout) worker(id int64) int64 { return id >> l.SeqBits & int64(l.Workers()-1) }

// decode takes an ID apart. Of one with more bits than the layout has, the time is later
// than any that is issued.
func (l SnowflakeLayout) decode(id int64) []Part {
	ms := id>>(l.WorkerBits+l.SeqBits) + l.EpochMs
	return []Part{
		{"timestamp", ms},
		{"time", time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")},
		{"workerId", l.worker(id)},
		{"sequenceId", id & int64(l.Sequences()-1)},
	}
}
