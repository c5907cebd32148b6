// Package model holds what every part of shardid shares and nothing that does I/O: how IDs are made up and taken apart,
// counters with what a database may have forgotten of them, what may be said of apps, tags,
// names and spaces, leases of worker IDs, and the errors that callers tell apart.
package model

import (
	"fmt"
	"math"

	"shardid/client/idtext"
)

// The layout of a queue ID, the original article's: a positive 64-bit integer
// of 49 bits of index, 6 bits of shard and 8 bits of app. Every other number
// about it is derived from these two.
const (
	appBits   = 8
	shardBits = 6
	indexBits = 63 - shardBits - appBits
)

const (
	// Apps is how many appIds there are: 0…255.
	Apps = 1 << appBits
	// Shards is how many shards an app has: 0…63.
	Shards = 1 << shardBits
	// IndexStride is how far apart the IDs of two successive indices of a shard are.
	IndexStride int64 = 1 << (shardBits + appBits)
	// MaxIndex is the highest index an ID can hold, 2^49-1. The lowest is 1.
	MaxIndex int64 = 1<<indexBits - 1
	// MaxBatch is the most IDs one call may ask for, in every mode.
	MaxBatch = 10_000
)

// The clients have as many shards.
var _ [idtext.Shards]struct{} = [Shards]struct{}{}

// ListKey names one list of indices: a shard of an app.
type ListKey struct {
	App   uint8
	Shard uint8 // below Shards
}

// NewListKey checks both ranges; the error is ErrInvalidArgument.
func NewListKey(app, shard int64) (ListKey, error) {
	if app < 0 || app >= Apps {
		return ListKey{}, fmt.Errorf("%w: appId must be in 0…%d, not %d", ErrInvalidArgument, Apps-1, app)
	}
	if shard < 0 || shard >= Shards {
		return ListKey{}, fmt.Errorf("%w: shardId must be in 0…%d, not %d", ErrInvalidArgument, Shards-1, shard)
	}
	return ListKey{App: uint8(app), Shard: uint8(shard)}, nil
}

// String gives "<app>_<shard>", the form used in store keys and logs.
func (k ListKey) String() string { return fmt.Sprintf("%d_%d", k.App, k.Shard) }

// Compose builds the ID of an index: index<<14 | shard<<8 | app. The index must
// be in 1…MaxIndex, which the allocation guarantees; Compose does not check it.
func (k ListKey) Compose(index int64) int64 {
	return index<<(shardBits+appBits) | k.low()
}

// low is the part of the ID that the key alone decides.
func (k ListKey) low() int64 { return int64(k.Shard)<<appBits | int64(k.App) }

// LastIndexWithin is the highest index whose ID does not exceed limit, which is
// 0 when even the first one would. A limit of 0 means none.
func (k ListKey) LastIndexWithin(limit int64) int64 {
	if limit == 0 {
		return MaxIndex
	}
	if limit < k.low() {
		return 0
	}
	return (limit - k.low()) >> (shardBits + appBits)
}

// DecodeQueueID takes an ID apart, into its list and its index, 1…MaxIndex. IDs below 1<<14 hold index 0, which is
// never issued, and are refused like negative ones with ErrInvalidArgument.
//
// An ID of an app with the wrap policy is folded by its limit, so its parts are
// those of the folded number. The index of a scrambled app is its image; see Scrambler.
func DecodeQueueID(id int64) (key ListKey, index int64, err error) {
	if id < 1<<(shardBits+appBits) {
		return ListKey{}, 0, fmt.Errorf("%w: give a queue ID, from %d to %d, or another kind: %d is none",
			ErrInvalidArgument, 1<<(shardBits+appBits), int64(math.MaxInt64), id)
	}
	key = ListKey{App: uint8(id & (Apps - 1)), Shard: uint8(id >> appBits & (Shards - 1))}
	return key, id >> (shardBits + appBits), nil
}

// ListState is what a store of lists tells about one list.
type ListState struct {
	// Life names the time in which the store forgot nothing of the list: Redis'
	// replication ID and since when the list is kept, or the embedded store's process. It changes whenever the
	// store may have gone back in time, and when the list's marks were lost.
	Life      string
	Len       int64 // indices held
	HighWater int64 // highest index ever pushed; 0 before the first
	Purged    int64 // indices dropped by this call because they were of another life
	Err       error // set when this list could not be asked
}

// Popped is the answer to a pop.
type Popped struct {
	Life    string
	Indices []int64 // oldest first; empty when the list is
	Len     int64   // indices left in the list
	Purged  int64   // indices dropped by this call because they were of another life
}

// PushRequest appends a segment to a list.
type PushRequest struct {
	Key     ListKey
	Life    string // as State gave it before the segment was allocated
	Segment Segment
	Cap     int64 // a list that holds this many or more is not pushed to
}
