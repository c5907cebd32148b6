package load

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// maxExamples is how many repeated IDs a report names.
const maxExamples = 5

// Duplicates are the IDs that came more than once.
type Duplicates struct {
	// Count is how many IDs came that had come before.
	Count int64
	// First are the lowest of them, at most five.
	First []int64
}

// findDuplicates compares all IDs of the blocks exactly. It sorts each block where
// it is and merges them, so it needs no memory beyond theirs; 50 million IDs take a
// few seconds.
func findDuplicates(blocks [][]int64) Duplicates {
	sortAll(blocks)
	m := newMerge(blocks)
	var found Duplicates
	last, any := int64(0), false
	for len(m) > 0 {
		id := m.next()
		if any && id == last {
			found.add(id)
		}
		last, any = id, true
	}
	return found
}

func (d *Duplicates) add(id int64) {
	d.Count++
	if n := len(d.First); n < maxExamples && (n == 0 || d.First[n-1] != id) {
		d.First = append(d.First, id)
	}
}

// sortAll sorts each block, on all processors.
func sortAll(blocks [][]int64) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(len(blocks)); i = next.Add(1) {
				slices.Sort(blocks[i-1])
			}
		})
	}
	wg.Wait()
}

// merge is a heap of what is left of sorted blocks, none of them empty: the block
// with the lowest ID is first, and none is lower than that at (i-1)/2.
type merge [][]int64

func newMerge(blocks [][]int64) merge {
	m := make(merge, 0, len(blocks))
	for _, b := range blocks {
		if len(b) > 0 {
			m = append(m, b)
		}
	}
	for i := len(m)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	return m
}

// next takes the lowest ID of all.
func (m *merge) next() int64 {
	h := *m
	id := h[0][0]
	if h[0] = h[0][1:]; len(h[0]) == 0 {
		h[0] = h[len(h)-1]
		h = h[:len(h)-1]
		*m = h
	}
	h.sink(0)
	return id
}

// sink moves the block at i down to its place.
func (m merge) sink(i int) {
	for {
		low := 2*i + 1
		if low >= len(m) {
			return
		}
		if low+1 < len(m) && m[low+1][0] < m[low][0] {
			low++
		}
		if m[i][0] <= m[low][0] {
			return
		}
		m[i], m[low] = m[low], m[i]
		i = low
	}
}
