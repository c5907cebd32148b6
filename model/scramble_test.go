package model_test

import (
	"bytes"
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// ff1 encrypts a text of digits as NIST SP 800-38G, section 5.1, says it, step by step.
func ff1(key, tweak []byte, radix int, text string) string {
	block, _ := aes.NewCipher(key)
	n := len(text)
	u := n / 2
	v := n - u
	a, b := text[:u], text[u:]
	r := big.NewInt(int64(radix))
	num := func(s string) *big.Int { x, _ := new(big.Int).SetString(s, radix); return x }
	power := func(m int) *big.Int { return new(big.Int).Exp(r, big.NewInt(int64(m)), nil) }
	wide := (new(big.Int).Sub(power(v), big.NewInt(1)).BitLen() + 7) / 8
	d := 4*((wide+3)/4) + 4
	p := []byte{1, 2, 1, 0, 0, byte(radix), 10, byte(u), 0, 0, 0, byte(n), 0, 0, 0, byte(len(tweak))}
	for i := range 10 {
		q := append(bytes.Clone(tweak), make([]byte, ((-len(tweak)-wide-1)%16+16)%16)...)
		q = append(q, byte(i))
		q = append(q, num(b).FillBytes(make([]byte, wide))...)
		mac := make([]byte, 16)
		for _, chunk := range [][]byte{p, q[:16], q[16:]} {
			for ; len(chunk) > 0; chunk = chunk[16:] {
				for j := range mac {
					mac[j] ^= chunk[j]
				}
				block.Encrypt(mac, mac)
			}
		}
		s := bytes.Clone(mac)
		for j := byte(1); len(s) < d; j++ {
			more := bytes.Clone(mac)
			more[15] ^= j
			block.Encrypt(more, more)
			s = append(s, more...)
		}
		m := u
		if i%2 == 1 {
			m = v
		}
		c := new(big.Int).Add(num(a), new(big.Int).SetBytes(s[:d]))
		c.Mod(c, power(m))
		digits := c.Text(radix)
		a, b = b, strings.Repeat("0", m-len(digits))+digits
	}
	return a + b
}

// The samples of NIST for FF1 with AES-128 show that ff1 is right.
func TestFF1Samples(t *testing.T) {
	key, _ := hex.DecodeString("2B7E151628AED2A6ABF7158809CF4F3C")
	for _, c := range []struct {
		tweak, text string
		radix       int
		want        string
	}{
		{"", "0123456789", 10, "2433477484"},
		{"39383736353433323130", "0123456789", 10, "6124200773"},
		{"3737373770717273373737", "0123456789abcdefghi", 36, "a9tv40mll9kdu509eum"},
	} {
		tweak, _ := hex.DecodeString(c.tweak)
		check.Equal(t, ff1(key, tweak, c.radix, c.text), c.want, c.text)
	}
}

const scrambleSecret = "0123456789abcdef0123456789abcdef"

func scrambled(key model.ListKey, index int64) int64 {
	return model.NewScrambler(scrambleSecret, key, model.Region{}).Scramble(index)
}

// TestScrambleIsFF1: it is what the standard says, and what comes back is the index.
func TestScrambleIsFF1(t *testing.T) {
	for range 2000 {
		key := model.ListKey{App: uint8(rand.IntN(256)), Shard: uint8(rand.IntN(64))}
		index := 1 + rand.Int64N(model.MaxIndex)
		mac := hmac.New(sha256.New, []byte(scrambleSecret))
		mac.Write([]byte("shardid scramble app " + strconv.Itoa(int(key.App))))
		digits := strconv.FormatInt(index, 2)
		digits = strings.Repeat("0", 49-len(digits)) + digits
		want, _ := strconv.ParseInt(ff1(mac.Sum(nil)[:16], []byte{key.Shard}, 2, digits), 2, 64)
		s := model.NewScrambler(scrambleSecret, key, model.Region{})
		got := s.Scramble(index)
		if got != want || got < 1 || got > model.MaxIndex {
			t.Fatalf("list %s, index %d: %d, want %d", key, index, got, want)
		}
		if back := s.Unscramble(got); back != index {
			t.Fatalf("list %s, index %d: came back as %d", key, index, back)
		}
	}
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

// TestScrambleElsewhere: the programs of docs/id-layout.md give the same IDs.
func TestScrambleElsewhere(t *testing.T) {
	page, err := os.ReadFile("../docs/id-layout.md")
	check.Must(t, err)
	for language, c := range map[string]struct{ command, have, check string }{
		"js": {"node", "0", `
for (const v of JSON.parse(require("fs").readFileSync("testdata/scramble.json")).vectors) {
  const id = scramble("` + scrambleSecret + `", v.app, v.shard, BigInt(v.index));
  if (String(id) !== v.id) throw new Error(JSON.stringify(v) + " is " + id);
  console.log(id);
}`},
		"python": {"python3", "import cryptography", `
import json
for v in json.load(open("testdata/scramble.json"))["vectors"]:
    id = scramble("` + scrambleSecret + `", v["app"], v["shard"], int(v["index"]))
    assert str(id) == v["id"], (v, id)
    print(id)
`},
	} {
		t.Run(language, func(t *testing.T) {
			run := map[string]string{"js": "-e", "python": "-c"}[language]
			if err := exec.Command(c.command, run, c.have).Run(); err != nil {
				t.Skip("not installed:", c.command, c.have)
			}
			text := regexp.MustCompile("(?s)```" + language + " scramble\n(.*?)```").FindSubmatch(page)[1]
			out, err := exec.Command(c.command, run, string(text)+c.check).CombinedOutput()
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
