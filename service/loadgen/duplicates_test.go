package load

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDuplicates(t *testing.T) {
	for name, c := range map[string]struct {
		blocks [][]int64
		count  int64
		first  []int64
	}{
		"nothing":             {nil, 0, nil},
		"empty blocks":        {[][]int64{{}, nil, {}}, 0, nil},
		"none":                {[][]int64{{3, 1}, {2}, {}}, 0, nil},
		"in a block":          {[][]int64{{5, 9, 5}}, 1, []int64{5}},
		"across blocks":       {[][]int64{{5, 9}, {1, 2}, {9}}, 1, []int64{9}},
		"three times":         {[][]int64{{5}, {5}, {5}}, 2, []int64{5}},
		"zero and negative":   {[][]int64{{0, -3}, {0}, {-3}}, 2, []int64{-3, 0}},
		"the first ID is 0":   {[][]int64{{0}, {1}}, 0, nil},
		"more than are named": {[][]int64{{1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1}}, 7, []int64{1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := findDuplicates(c.blocks); got.Count != c.count || !slices.Equal(got.First, c.first) {
				t.Errorf("%+v, want %d, %v", got, c.count, c.first)
			}
		})
	}
}

// TestDuplicatesRandom holds the merge against a map.
func TestDuplicatesRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		kept := &allowance{}
		kept.left.Store(1 << 40)
		seen, want := map[int64]bool{}, int64(0)
		var blocks [][]int64
		for range 1 + rnd.IntN(9) {
			l := ledger{allowed: kept}
			for range rnd.IntN(4000) {
				id := rnd.Int64N(20000)
				if seen[id] {
					want++
				}
				seen[id] = true
				l.add([]int64{id})
			}
			blocks = append(blocks, l.blocks()...)
		}
		if got := findDuplicates(blocks); got.Count != want {
			t.Fatalf("%d duplicates, want %d", got.Count, want)
		}
	}
}

// TestLedger: every ID is kept, in the order it came, however it is cut into blocks.
func TestLedger(t *testing.T) {
	kept := &allowance{}
	kept.left.Store(1 << 40)
	l := ledger{allowed: kept}
	var want []int64
	for n := int64(0); n < 200_000; n += 999 {
		batch := make([]int64, 999)
		for i := range batch {
			batch[i] = n + int64(i)
		}
		l.add(batch)
		want = append(want, batch...)
	}
	blocks := l.blocks()
	if got := slices.Concat(blocks...); !slices.Equal(got, want) || l.kept != int64(len(want)) || l.left != 0 {
		t.Errorf("%d IDs in %d blocks, kept %d, left %d, want %d", len(got), len(blocks), l.kept, l.left, len(want))
	}
	if len(blocks) > 12 {
		t.Errorf("%d blocks for %d IDs", len(blocks), len(want))
	}
}

// TestAllowance: two ledgers together keep no more than they may, and count the
// rest.
func TestAllowance(t *testing.T) {
	kept := &allowance{}
	kept.left.Store(1500)
	a, b := ledger{allowed: kept}, ledger{allowed: kept}
	a.add(make([]int64, 900))
	b.add(make([]int64, 900))
	if a.kept != 900 || b.kept != 1500-firstBlock || b.left != 900-b.kept {
		t.Errorf("kept %d and %d, left %d and %d", a.kept, b.kept, a.left, b.left)
	}
	a.add(make([]int64, 200))
	if a.kept != firstBlock || a.left != 1100-firstBlock {
		t.Errorf("kept %d, left %d", a.kept, a.left)
	}
	none := ledger{allowed: &allowance{}}
	if none.add([]int64{1, 1}); none.left != 2 || len(none.blocks()) != 0 {
		t.Errorf("%+v", none)
	}
}

// BenchmarkDuplicates compares IDs as the queue mode gives them to 64 connections.
func BenchmarkDuplicates(b *testing.B) {
	const ids = 1 << 20
	for b.Loop() {
		b.StopTimer()
		kept := &allowance{}
		kept.left.Store(1 << 40)
		ledgers := make([]ledger, 64)
		for n := range int64(ids) {
			l := &ledgers[rand.IntN(len(ledgers))]
			l.allowed = kept
			l.add([]int64{(n/64)<<14 | rand.Int64N(64)<<8 | n%64})
		}
		var blocks [][]int64
		for i := range ledgers {
			blocks = append(blocks, ledgers[i].blocks()...)
		}
		b.StartTimer()
		findDuplicates(blocks)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ids, "ns/ID")
}
