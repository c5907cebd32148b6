package model

import "fmt"

// Kinds of ID that a Decoder takes apart.
const (
	KindQueue     = "queue"
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

// Decode returns the parts of an ID in the order of their bits. The error is
// ErrInvalidArgument for an unknown kind or a number that is no such ID.
func (d Decoder) Decode(kind string, id int64) ([]Part, error) {
	switch kind {
	case KindQueue:
		return d.decodeQueue(id)
	case KindSnowflake, KindUID:
		if id <= 0 {
			return nil, fmt.Errorf("%w: %d is not an ID: IDs are positive", ErrInvalidArgument, id)
		}
		if kind == KindUID {
			second, worker, seq := d.UID.split(id)
			return d.inRegion(worker, d.UID.WorkerBits, []Part{
				{"timestamp", second}, {"time", utc(second)}, {"workerId", worker}, {"sequence", seq},
			}), nil
		}
		return d.inRegion(d.Snowflake.worker(id), d.Snowflake.WorkerBits, d.Snowflake.decode(id)), nil
	default:
		return nil, fmt.Errorf("%w: kind %q is none of queue, snowflake, uid", ErrInvalidArgument, kind)
	}
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

// LayoutRecord is the shape of the IDs that a mode has issued, as the database
// remembers it.
type LayoutRecord struct {
	Kind string // KindSnowflake or KindUID
	// Layout is everything that decides what an ID means, as text: widths and
	// epoch.
	Layout string
}
