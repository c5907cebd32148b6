package model

import (
	"fmt"
	"time"

	"shardid/client/idtext"
)

// The layouts of snowflakes and UIDs say what their bits mean, and a Decoder takes IDs of every kind apart. A layout
// that has issued IDs is recorded in the database, and never changes.

// LayoutRecord is the shape of the IDs that a mode has issued, as the database
// remembers it.
type LayoutRecord struct {
	Kind string // KindSnowflake or KindUID
	// Layout is everything that decides what an ID means, as text: widths and
	// epoch.
	Layout string
}

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

func utc(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }

// Kinds of ID that a Decoder takes apart.
const (
	KindQueue     = "queue"
	KindSegment   = "segment"
	KindSnowflake = "snowflake"
	KindUID       = "uid"
)

// Decoder takes IDs of every kind apart. It holds what an ID does not tell.
type Decoder struct {
	Snowflake SnowflakeLayout
	UID       UIDLayout
	Region    Region
	// Scramble gives the secret of a scrambled app, "" for others. nil: no app is.
	Scramble func(app uint8) (secret string)
}

// Part is a named part of an ID; Value is an int64 or a string.
type Part struct {
	Name  string
	Value any
}

// Decode returns the parts of an ID in the order of their bits. shardBits are those of the tag of an ID of KindSegment.
// The error is ErrInvalidArgument.
func (d Decoder) Decode(kind string, id int64, shardBits int) ([]Part, error) {
	switch {
	case shardBits < 0 || shardBits > idtext.MaxShardBits || shardBits > 0 && kind != KindSegment:
		return nil, fmt.Errorf("%w: give 0 to %d shard bits, as `shardid tags` shows them, of IDs of the kind %s",
			ErrInvalidArgument, idtext.MaxShardBits, KindSegment)
	case kind == KindQueue:
		return d.decodeQueue(id)
	case kind != KindSegment && kind != KindSnowflake && kind != KindUID:
		return nil, fmt.Errorf("%w: kind %q is none of queue, segment, snowflake, uid", ErrInvalidArgument, kind)
	case id <= 0:
		return nil, fmt.Errorf("%w: %d is not an ID: IDs are positive", ErrInvalidArgument, id)
	case kind == KindSegment:
		number := id >> shardBits
		parts := []Part{{"number", number >> d.Region.Bits}, {"shard", id & (1<<shardBits - 1)}}
		if d.Region.Bits > 0 {
			parts = append([]Part{{"region", number & (d.Region.Stride() - 1)}}, parts...)
		}
		return parts, nil
	case kind == KindUID:
		l := d.UID
		second, worker := id>>(l.WorkerBits+l.SeqBits)+l.Epoch.Unix(), id>>l.SeqBits&(l.Workers()-1)
		return d.inRegion(worker, l.WorkerBits, []Part{
			{"timestamp", second}, {"time", utc(second)}, {"workerId", worker}, {"sequence", id & (l.Sequences() - 1)},
		}), nil
	}
	l := d.Snowflake // of an ID with more bits than it has, the time is later than any that is issued
	ms, worker := id>>(l.WorkerBits+l.SeqBits)+l.EpochMs, id>>l.SeqBits&int64(l.Workers()-1)
	return d.inRegion(worker, l.WorkerBits, []Part{
		{"timestamp", ms}, {"time", time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")},
		{"workerId", worker}, {"sequenceId", id & int64(l.Sequences()-1)},
	}), nil
}

func (d Decoder) decodeQueue(id int64) ([]Part, error) {
	q, err := DecodeQueueID(id)
	if err != nil {
		return nil, err
	}
	if d.Scramble != nil {
		if secret := d.Scramble(q.App); secret != "" {
			low := NewScrambler(secret, q.ListKey, d.Region).Unscramble(q.Index & d.Region.MaxIndex())
			q.Index = q.Index&^d.Region.MaxIndex() | low
		}
	}
	return d.inRegion(q.Index, indexBits, []Part{{"index", q.Index}, {"shardId", int64(q.Shard)},
		{"appId", int64(q.App)}}), nil
}

// inRegion puts the region in front, which is in the highest of some bits of a value.
func (d Decoder) inRegion(value int64, bits uint, parts []Part) []Part {
	if d.Region.Bits == 0 || d.Region.Bits > bits {
		return parts
	}
	return append([]Part{{"region", d.Region.of(value, bits)}}, parts...)
}
