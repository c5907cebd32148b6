package model_test

import (
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

const scrambleSecret = "0123456789abcdef0123456789abcdef"

// Each index has an image of its own, from which it comes back, and those of a region stay in it. The index whose image
// would be 0 has the image of 0.
func TestScrambleRepeatsNothing(t *testing.T) {
	for _, region := range []model.Region{{}, {ID: 5, Bits: 6}} {
		const n = 1 << 18
		s, most := model.NewScrambler(scrambleSecret, model.ListKey{App: 7, Shard: 63}, region), region.MaxIndex()
		seen := make(map[int64]struct{}, n)
		for i := range int64(n / 2) {
			for _, index := range []int64{1 + i, most - i} {
				image := s.Scramble(index)
				if image < 1 || image > most || s.Unscramble(image) != index {
					t.Fatalf("region %v: index %d has the image %d, which is of %d", region, index, image,
						s.Unscramble(image))
				}
				seen[image] = struct{}{}
			}
		}
		check.Equal(t, len(seen), n, "images")
		zero := s.Scramble(0) // it is never issued, and its image is that of another index
		if index := s.Unscramble(zero); index == 0 || s.Scramble(index) != zero {
			t.Errorf("region %v: 0 has the image %d, which is of index %d", region, zero, index)
		}
	}
}

// scrambleVectors are those of testdata/scramble.json.
type scrambleVectors struct {
	Secret  string
	Vectors []struct {
		App, Shard uint8
		Index, ID  int64 `json:",string"`
	}
}

// TestScrambleVectors: IDs that other programs can be compared with.
func TestScrambleVectors(t *testing.T) {
	var file scrambleVectors
	readVectors(t, "scramble.json", &file)
	for _, v := range file.Vectors {
		key := model.ListKey{App: v.App, Shard: v.Shard}
		s := model.NewScrambler(file.Secret, key, model.Region{})
		check.Equal(t, key.Compose(s.Scramble(v.Index)), v.ID, "ID of list", key, "index", v.Index)
	}
}
