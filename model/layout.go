package model

import (
	"fmt"
	"time"

	"shardid/client/idgen"
	"shardid/client/idtext"
)

// What is recorded of the layouts of snowflakes and UIDs, and a Decoder, which takes IDs of every kind apart. A layout
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

// snowflakeTimeBits is the width of the milliseconds: 69.7 years.
const snowflakeTimeBits = 41

// SnowflakeLayout is that of snowflakes: 41 bits of milliseconds since the epoch, in Unix ms, above the worker ID above
// the sequence.
func SnowflakeLayout(epochMs int64, workerBits, seqBits uint) idgen.Layout {
	return idgen.Layout{Unit: time.Millisecond, Epoch: epochMs, TimeBits: snowflakeTimeBits, WorkerBits: workerBits,
		SeqBits: seqBits}
}

// IsLeafs says whether the widths are those of Leaf's snowflakes.
func IsLeafs(l idgen.Layout) bool { return l.WorkerBits == LeafWorkerBits && l.SeqBits == LeafSeqBits }

// SnowflakeText is everything that decides what a snowflake means, as LayoutRecord wants it. Leaf's widths are left
// out, as in the records of versions that had no others.
func SnowflakeText(l idgen.Layout) string {
	if IsLeafs(l) {
		return fmt.Sprintf("epoch_ms=%d", l.Epoch)
	}
	return fmt.Sprintf("worker_bits=%d seq_bits=%d epoch_ms=%d", l.WorkerBits, l.SeqBits, l.Epoch)
}

// UIDLayout is that of Baidu's UIDs: the widths add up to 63, the time is in seconds since the epoch. Baidu's epochStr
// is a day in the zone of its JVM: 2016-05-20 in Shanghai is 2016-05-19 16:00 UTC, and only that instant takes apart
// the IDs that were issued there.
func UIDLayout(timeBits, workerBits, seqBits uint, epoch time.Time) idgen.Layout {
	return idgen.Layout{Unit: time.Second, Epoch: epoch.Unix(), TimeBits: timeBits, WorkerBits: workerBits,
		SeqBits: seqBits}
}

// UIDText is everything that decides what a UID means, as LayoutRecord wants it.
func UIDText(l idgen.Layout) string {
	return fmt.Sprintf("time_bits=%d worker_bits=%d seq_bits=%d epoch=%s",
		l.TimeBits, l.WorkerBits, l.SeqBits, l.Time(l.Epoch).Format(time.RFC3339))
}

// Kinds of ID that a Decoder takes apart.
const (
	KindQueue     = "queue"
	KindSegment   = "segment"
	KindSnowflake = "snowflake"
	KindUID       = "uid"
)

// Decoder takes IDs of every kind apart. It holds what an ID does not tell.
type Decoder struct {
	Snowflake, UID idgen.Layout
	Region         Region
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
		return nil, fmt.Errorf("%w: kind must be queue, segment, snowflake or uid, not %q", ErrInvalidArgument, kind)
	case id <= 0:
		return nil, fmt.Errorf("%w: give a positive ID, not %d", ErrInvalidArgument, id)
	case kind == KindSegment:
		number := id >> shardBits
		parts := []Part{{"number", number >> d.Region.Bits}, {"shard", id & (1<<shardBits - 1)}}
		if d.Region.Bits > 0 {
			parts = append([]Part{{"region", number & (d.Region.Stride() - 1)}}, parts...)
		}
		return parts, nil
	}
	l, sequence, format := d.Snowflake, "sequenceId", "2006-01-02T15:04:05.000Z07:00"
	if kind == KindUID {
		l, sequence, format = d.UID, "sequence", time.RFC3339
	}
	at, worker, seq := l.Split(id)
	return d.inRegion(worker, l.WorkerBits, []Part{
		{"timestamp", at}, {"time", l.Time(at).Format(format)}, {"workerId", worker}, {sequence, seq},
	}), nil
}

func (d Decoder) decodeQueue(id int64) ([]Part, error) {
	key, index, err := DecodeQueueID(id)
	if err != nil {
		return nil, err
	}
	if d.Scramble != nil {
		if secret := d.Scramble(key.App); secret != "" {
			low := NewScrambler(secret, key, d.Region).Unscramble(index & d.Region.MaxIndex())
			index = index&^d.Region.MaxIndex() | low
		}
	}
	return d.inRegion(index, indexBits, []Part{{"index", index}, {"shardId", int64(key.Shard)},
		{"appId", int64(key.App)}}), nil
}

// inRegion puts the region in front, which is in the highest of some bits of a value.
func (d Decoder) inRegion(value int64, bits uint, parts []Part) []Part {
	if d.Region.Bits == 0 || d.Region.Bits > bits {
		return parts
	}
	return append([]Part{{"region", d.Region.of(value, bits)}}, parts...)
}
