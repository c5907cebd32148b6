package model_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// Regions of the same bits share nothing, and region 0 has the IDs of a deployment alone where
// docs/regions.md says so.
func TestRegionsShareNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for bits := range uint(7) {
		indices, numbers, workers := map[int64]int{}, map[int64]int{}, map[int64]int{}
		for id := range 1 << bits {
			r := model.Region{ID: id, Bits: bits}
			for _, n := range []int64{1, 2, 1 + rnd.Int64N(r.MaxIndex()), r.MaxIndex()} {
				index := r.Index(n)
				if other, taken := indices[index]; taken && other != id || index < 1 || index > model.MaxIndex {
					t.Errorf("region %v: index %d is %d, as in region %d", r, n, index, other)
				}
				indices[index] = id
			}
			most := r.MaxNumber(math.MaxInt64)
			for _, n := range []int64{1, 2, 1 + rnd.Int64N(most), most} {
				number := r.Number(n)
				if other, taken := numbers[number]; taken && other != id || number < n {
					t.Errorf("region %v: number %d is %d, as in region %d", r, n, number, other)
				}
				numbers[number] = id
			}
			from, count := r.Workers(10)
			for w := from; w < from+count; w++ {
				if other, taken := workers[w]; taken || w > 1023 {
					t.Errorf("worker ID %d is of regions %d and %d", w, other, id)
				}
				workers[w] = id
			}
			if id == 0 && (r.Index(77) != 77 || from != 0) {
				t.Errorf("region %v: index 77 is %d, worker IDs begin at %d", r, r.Index(77), from)
			}
		}
		check.Equal(t, len(workers), 1024, "worker IDs")
	}
}

func TestRegionLimits(t *testing.T) {
	most := model.Region{ID: 63, Bits: 6}
	check.Equal(t, most.Number(most.MaxNumber(math.MaxInt64)), int64(math.MaxInt64), "highest number")
	if _, count := most.Workers(5); count != 0 {
		t.Errorf("5 bits have %d worker IDs of 64 regions", count)
	}
	for _, c := range []struct {
		r  model.Region
		l  model.Limit
		ok bool
	}{
		{model.Region{}, model.Limit{MaxID: 5, Policy: model.LimitWrap}, true},
		{model.Region{Bits: 2}, model.Limit{MaxID: 5, Policy: model.LimitReject}, true},
		{model.Region{Bits: 2}, model.Limit{MaxID: 5, Policy: model.LimitWrap}, false},
		{model.Region{ID: 1, Bits: 2}, model.Limit{MaxID: 5, Policy: model.LimitReject}, false},
		{model.Region{ID: 1, Bits: 2}, model.Limit{}, true},
	} {
		if err := c.r.Refuses(c.l); (err == nil) != c.ok {
			t.Errorf("%v, %+v: %v", c.r, c.l, err)
		}
	}
}

// The last number of a tag in a region is given, and no further one; that above shard bits is lower.
func TestRegionEnds(t *testing.T) {
	r, now := model.Region{ID: 2, Bits: 2}, time.Unix(1e9, 0)
	for bits, most := range map[uint]int64{0: model.MaxTagID - 1, 16: 1<<47 - 1} {
		last := r.MaxNumber(most)
		req := model.TagRequest{Tag: "a", Step: 10, Region: r, ShardBits: bits}
		seg, row, err := req.Next(model.Counter{Last: last - 1}, 10, 0, now, now)
		if err != nil || seg.End != last+1 || r.Number(last)<<bits < 0 {
			t.Errorf("%+v, %v", seg, err)
		}
		_, _, err = req.Next(row, 10, 0, now, now)
		check.Is(t, err, model.ErrLimitReached, "after the last number above", bits, "bits")
	}
}

// The parts of a scrambled ID of a region are the region and the index that was scrambled.
func TestRegionDecodes(t *testing.T) {
	r := model.Region{ID: 5, Bits: 6}
	d := model.Decoder{Region: r, Scramble: func(uint8) string { return scrambleSecret }}
	s := model.NewScrambler(scrambleSecret, model.ListKey{App: 3}, r)
	parts, err := d.Decode(model.KindQueue, model.ListKey{App: 3}.Compose(r.Index(s.Scramble(9))), 0)
	if err != nil || parts[0] != (model.Part{Name: "region", Value: int64(5)}) || parts[1].Value != r.Index(9) {
		t.Errorf("%v, %v", parts, err)
	}
}

// Business numbers have the region in their sequence, and a width holds as many fewer.
func TestRegionNumbers(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	seen := map[string]int{}
	for id := range 8 {
		tag := model.Tag{Name: "a", Step: 1, MaxID: 1, Region: model.Region{ID: id, Bits: 3},
			Numbering: model.Numbering{Pattern: "{yyyyMMdd}-{seq:2}", Reset: model.ResetDay,
				Overflow: model.OverflowRefuse}}
		n, err := tag.Numbers()
		check.Must(t, err)
		c := model.Counter{}
		for {
			seg, next, err := model.TagRequest{Tag: "a", Step: 1, Numbers: n, Region: tag.Region}.Next(c, 1, 0, now,
				now)
			if errors.Is(err, model.ErrLimitReached) {
				break
			}
			check.Must(t, err)
			text := string(n.Append(nil, seg.First, now))
			if other, taken := seen[text]; taken || len(text) != 11 {
				t.Fatalf("%q of regions %d and %d", text, other, id)
			}
			back, err := tag.ID(text)
			check.Must(t, err)
			check.Equal(t, back, seg.First, text)
			seen[text], c = id, next
		}
		_, err = tag.ID(fmt.Sprintf("20261124-%02d", 8+(id+1)%8))
		check.Is(t, err, model.ErrInvalidArgument, "a number of another region")
	}
	if len(seen) != 92 { // 99 less those below the first of each
		t.Errorf("%d texts of two digits", len(seen))
	}
}
