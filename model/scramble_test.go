package model_test

import (
	"encoding/json"
	"math/bits"
	"os"
	"os/exec"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

const scrambleSecret = "0123456789abcdef0123456789abcdef"

func scrambled(key model.ListKey, index int64) int64 {
	return model.NewScrambler(scrambleSecret, key, model.Region{}).Scramble(index)
}

// TestScrambleZero: the index whose image would be 0 has the image of 0.
func TestScrambleZero(t *testing.T) {
	s := model.NewScrambler(scrambleSecret, model.ListKey{App: 1}, model.Region{})
	image := s.Scramble(0) // never issued; its image is that of another index
	index := s.Unscramble(image)
	if index == 0 || s.Scramble(index) != image {
		t.Errorf("0 has the image %d, which is of index %d", image, index)
	}
}

// The first and the last of 2^20 indices, and those between, have different images.
func TestScrambleRepeatsNothing(t *testing.T) {
	const n = 1 << 20
	s := model.NewScrambler(scrambleSecret, model.ListKey{App: 7, Shard: 63}, model.Region{})
	seen := make(map[int64]struct{}, n)
	for i := range int64(n / 2) {
		seen[s.Scramble(1+i)] = struct{}{}
		seen[s.Scramble(model.MaxIndex-i)] = struct{}{}
	}
	check.Equal(t, len(seen), n, "images")
}

// TestScrambleShowsNothing: of neighbours every bit of the difference is as often set as
// not, half of the images rise, and the images of the first indices spread over the whole
// range. Each bound is about five standard deviations.
func TestScrambleShowsNothing(t *testing.T) {
	check.Deep(t)
	const n = 100_000
	s := model.NewScrambler(scrambleSecret, model.ListKey{App: 9, Shard: 5}, model.Region{})
	var set [49]int
	var buckets [100]int
	rises, differ := 0, 0
	before := s.Scramble(1)
	for index := int64(2); index < n+2; index++ {
		now := s.Scramble(index)
		for bit := range set {
			set[bit] += int((now ^ before) >> bit & 1)
		}
		differ += bits.OnesCount64(uint64(now ^ before))
		if now > before {
			rises++
		}
		buckets[now*100>>49]++
		before = now
	}
	for bit, times := range set {
		if times < n/2-800 || times > n/2+800 {
			t.Errorf("bit %d of neighbours differs %d times of %d", bit, times, n)
		}
	}
	if rises < n/2-800 || rises > n/2+800 {
		t.Errorf("%d of %d neighbours rise", rises, n)
	}
	for at, times := range buckets {
		if times < n/100-160 || times > n/100+160 {
			t.Errorf("%d of %d images are in part %d of 100", times, n, at)
		}
	}
	if other := scrambled(model.ListKey{App: 9, Shard: 6}, 1); other == scrambled(model.ListKey{App: 9, Shard: 5}, 1) {
		t.Error("two shards have one image for index 1")
	}
}

// TestScrambleVectors: IDs that other programs can be compared with.
func TestScrambleVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/scramble.json")
	check.Must(t, err)
	var file struct {
		Secret  string
		Vectors []struct {
			App, Shard uint8
			Index, ID  int64 `json:",string"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Vectors) < 8 {
		t.Fatal(err, len(file.Vectors))
	}
	for _, v := range file.Vectors {
		key := model.ListKey{App: v.App, Shard: v.Shard}
		s := model.NewScrambler(file.Secret, key, model.Region{})
		check.Equal(t, key.Compose(s.Scramble(v.Index)), v.ID, "ID of list", key, "index", v.Index)
	}
}

// TestScrambleElsewhere: the programs of docs/examples that scramble give the same IDs.
func TestScrambleElsewhere(t *testing.T) {
	check.Deep(t)
	for program, c := range map[string]struct{ command, flag, have, check string }{
		"node/scramble.js": {"node", "-e", "0", `
for (const v of JSON.parse(require("fs").readFileSync("testdata/scramble.json")).vectors) {
  const id = scramble("` + scrambleSecret + `", v.app, v.shard, BigInt(v.index));
  if (String(id) !== v.id) throw new Error(JSON.stringify(v) + " is " + id);
  console.log(id);
}`},
		"python/scramble.py": {"python3", "-c", "import cryptography", `
import json
for v in json.load(open("testdata/scramble.json"))["vectors"]:
    id = scramble("` + scrambleSecret + `", v["app"], v["shard"], int(v["index"]))
    assert str(id) == v["id"], (v, id)
    print(id)
`},
	} {
		t.Run(program, func(t *testing.T) {
			if err := exec.Command(c.command, c.flag, c.have).Run(); err != nil {
				t.Skip("not installed:", c.command, c.have)
			}
			text, err := os.ReadFile("../docs/examples/" + program)
			check.Must(t, err)
			out, err := exec.Command(c.command, c.flag, string(text)+c.check).CombinedOutput()
			if err != nil || strings.Count(string(out), "\n") < 8 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func FuzzScramble(f *testing.F) {
	f.Add("secret", uint8(1), uint8(2), int64(3))
	f.Fuzz(func(t *testing.T, secret string, app, shard uint8, index int64) {
		index = 1 + (index&model.MaxIndex)%model.MaxIndex
		s := model.NewScrambler(secret, model.ListKey{App: app, Shard: shard % model.Shards}, model.Region{})
		image := s.Scramble(index)
		if image < 1 || image > model.MaxIndex || s.Unscramble(image) != index {
			t.Errorf("index %d: image %d, back %d", index, image, s.Unscramble(image))
		}
	})
}

func BenchmarkScramble(b *testing.B) {
	s := model.NewScrambler(scrambleSecret, model.ListKey{App: 1}, model.Region{})
	b.ReportAllocs()
	for i := int64(1); b.Loop(); i++ {
		s.Scramble(i)
	}
}
