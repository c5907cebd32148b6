package load

import "sync/atomic"

// Blocks of a ledger, in IDs of eight bytes. They begin small, so that thousands of
// connections do not reserve what few would use.
const (
	firstBlock = 1 << 10
	lastBlock  = 64 << 10
)

// allowance is how many IDs may still be kept, for all ledgers of a run together.
type allowance struct{ left atomic.Int64 }

// take gives up to n.
func (a *allowance) take(n int64) int64 {
	for {
		left := a.left.Load()
		n = min(n, left)
		if n <= 0 || a.left.CompareAndSwap(left, left-n) {
			return max(n, 0)
		}
	}
}

// ledger keeps every ID that one connection received, in blocks that never move. It
// belongs to one goroutine.
type ledger struct {
	allowed *allowance
	full    [][]int64
	open    []int64
	kept    int64
	left    int64 // IDs that were not kept, because the allowance was used up
}

func (l *ledger) add(ids []int64) {
	for len(ids) > 0 {
		n := min(len(ids), cap(l.open)-len(l.open))
		if n == 0 {
			if !l.extend() {
				l.left += int64(len(ids))
				return
			}
			continue
		}
		l.open = append(l.open, ids[:n]...)
		l.kept += int64(n)
		ids = ids[n:]
	}
}

// extend opens the next block, as large as all so far.
func (l *ledger) extend() bool {
	size := l.allowed.take(min(max(l.kept, firstBlock), lastBlock))
	if size == 0 {
		return false
	}
	if len(l.open) > 0 {
		l.full = append(l.full, l.open)
	}
	l.open = make([]int64, 0, size)
	return true
}

// blocks are the IDs; the ledger must not be used afterwards.
func (l *ledger) blocks() [][]int64 {
	if len(l.open) == 0 {
		return l.full
	}
	return append(l.full, l.open)
}
