package loadgen

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
			if got := (&ledger{blocks: c.blocks}).duplicates(); got.Count != c.count || !slices.Equal(got.First, c.first) {
				t.Errorf("%+v, want %d, %v", got, c.count, c.first)
			}
		})
	}
}

// TestDuplicatesRandom holds the comparing against a map.
func TestDuplicatesRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		l := ledger{bound: 1 << 40}
		times := map[int64]int64{}
		for range rnd.IntN(200_000) {
			id := rnd.Int64N(100_000) << 14 // as of one shard and app
			times[id]++
			l.add([]int64{id})
		}
		var want Duplicates
		for id, n := range times {
			if want.Count += n - 1; n > 1 {
				want.First = append(want.First, id)
			}
		}
		slices.Sort(want.First)
		want.First = want.First[:min(5, len(want.First))]
		if got := l.duplicates(); got.Count != want.Count || !slices.Equal(got.First, want.First) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
}

// TestLedger: every ID is kept, in the order it came, up to the bound; the rest is
// counted.
func TestLedger(t *testing.T) {
	for _, bound := range []int64{0, 5, 150_000, 1 << 40} {
		l := ledger{bound: bound}
		var want []int64
		for n := int64(0); n < 200_000; n += 999 {
			batch := make([]int64, 999)
			for i := range batch {
				batch[i] = n + int64(i)
			}
			l.add(batch)
			want = append(want, batch...)
		}
		kept := min(bound, int64(len(want)))
		if got := slices.Concat(l.blocks...); !slices.Equal(got, want[:kept]) || l.kept != kept || l.kept+l.left != int64(len(want)) {
			t.Errorf("bound %d: %d IDs, kept %d, left %d, want %d", bound, len(got), l.kept, l.left, kept)
		}
	}
}

// BenchmarkDuplicates compares IDs as the queue mode gives them to 64 connections.
func BenchmarkDuplicates(b *testing.B) {
	const ids = 1 << 20
	l := ledger{bound: ids}
	for n := range int64(ids) {
		l.add([]int64{(n/64)<<14 | rand.Int64N(64)<<8 | n%64})
	}
	for b.Loop() {
		l.duplicates()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ids, "ns/ID")
}
