package segment

import (
	"sync/atomic"

	"shardid/model"
)

// block is a committed range of numbers, [first, first+length), each an ID once the region has
// joined it, and how many of them are claimed. The caller that moves the counter owns the IDs it passed, so each is
// claimed once. Safe for concurrent use.
//
// The counter has a cache line (64 bytes) of its own. A caller that has moved it reads the
// rest, and would have to get the line back if another core moved the counter since.
type block struct {
	claimed atomic.Int64 // runs past length when more was asked for than was left
	_       [7]int64
	first   int64
	length  int64
	mark    int64 // with the mark-th ID it is time to load the next block
	region  model.Region
	_       [3]int64
}

// newBlock is the range [first, end); when the share preload of it is used, it is time to
// load the next.
func newBlock(first, end int64, preload float64, region model.Region) *block {
	length := end - first
	return &block{first: first, length: length, mark: max(1, int64(float64(length)*preload)), region: region}
}

// id is the ID of the offset.
func (b *block) id(at int64) int64 { return (b.first+at)<<b.region.Bits | int64(b.region.ID) }

// claimIDs takes as many IDs as are left, at most most, and none if those are fewer
// than least. The IDs begin at the returned offset.
func (b *block) claimIDs(least, most int64) (at, n int64, ok bool) {
	for {
		at = b.claimed.Load()
		n = max(0, min(most, b.length-at))
		if n < least {
			return 0, 0, false
		}
		if n == 0 || b.claimed.CompareAndSwap(at, at+n) {
			return at, n, true
		}
	}
}

// appendTo appends the n IDs from the offset on.
func (b *block) appendTo(dst []int64, at, n int64) []int64 {
	for end := at + n; at < end; at++ {
		dst = append(dst, b.id(at))
	}
	return dst
}

// used is how many IDs are claimed.
func (b *block) used() int64 { return min(b.claimed.Load(), b.length) }

// left is how many are not.
func (b *block) left() int64 { return b.length - b.used() }

// close gives up what is left and says how much that was and how much was used.
func (b *block) close() (left, used int64) {
	used = min(b.claimed.Swap(b.length), b.length)
	return b.length - used, used
}
