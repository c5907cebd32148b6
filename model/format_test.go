package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

var allFormats = []model.Format{model.Dec, model.Hex, model.Base36, model.Base62, model.Crockford}

func ExampleFormat() {
	const id = 16385
	fmt.Println(model.Base62.Text(id), model.Base62.Padded().Text(id))
	typed, _ := model.Crockford.Parse("g0-o1") // the letter O, and a hyphen
	fmt.Println(typed)
	// Output:
	// 4GH 000000004GH
	// 524289
}

// vectors are the pairs in testdata/formats.json, which other languages are tested with too.
type vectors struct {
	IDs               []map[string]string // "id", and for each format "name" and "name padded"
	Accepted, Refused []struct{ Format, Text, ID string }
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/formats.json")
	check.Must(t, err)
	check.Must(t, json.Unmarshal(raw, &v))
	if len(v.IDs) < 20 || len(v.Accepted) < 5 || len(v.Refused) < 20 {
		t.Fatal("testdata/formats.json lacks something")
	}
	return v
}

func TestFormatVectors(t *testing.T) {
	v := readVectors(t)
	for _, row := range v.IDs {
		id, err := strconv.ParseInt(row["id"], 10, 64)
		check.Must(t, err)
		for _, f := range allFormats {
			check.Equal(t, f.Text(id), row[f.String()], id, f)
			check.Equal(t, f.Padded().Text(id), row[f.String()+" padded"], id, f, "padded")
		}
	}
	for _, row := range v.Accepted {
		id, err := model.ParseID(row.Text, row.Format)
		check.OK(t, err)
		check.Equal(t, strconv.FormatInt(id, 10), row.ID, row)
	}
	for _, row := range v.Refused {
		f, err := model.ParseFormat(row.Format)
		check.Must(t, err)
		check.Is(t, check.Err(f.Parse(row.Text)), model.ErrInvalidArgument, row)
	}
}

// The programs of docs/examples agree with the vectors. Each prints how many it tried.
func TestProgramsOfTheExamples(t *testing.T) {
	check.Deep(t)
	v := readVectors(t)
	formats := len(v.IDs)*2*len(allFormats) + len(v.Accepted) + len(v.Refused)
	for program, c := range map[string]struct {
		command []string
		have    string // a program that ends without an error where all is installed
		want    int
		harness string
	}{
		"python/formats.py": {[]string{"python3", "-c"}, "0", formats, `
import json
v = json.load(open("testdata/formats.json"))
count = 0
for row in v["ids"]:
    for f in DIGITS:
        for name, padded in ((f, False), (f + " padded", True)):
            assert encode(int(row["id"]), f, padded) == row[name], (row["id"], name)
            assert decode(row[name], f) == int(row["id"]), (row["id"], name)
            count += 1
for row in v["accepted"]:
    assert decode(row["text"], row["format"]) == int(row["id"]), row
    count += 1
for row in v["refused"]:
    try:
        decode(row["text"], row["format"])
    except ValueError:
        count += 1
print(count)
`},
		"node/formats.js": {[]string{"node", "-e"}, "0", formats, `
const v = JSON.parse(require("fs").readFileSync("testdata/formats.json", "utf8"));
const equal = (got, want) => { if (got !== want) throw new Error(got + ", want " + want); };
let count = 0;
for (const row of v.ids) for (const f in DIGITS) for (const padded of [false, true]) {
  const text = row[f + (padded ? " padded" : "")];
  equal(encode(BigInt(row.id), f, padded), text);
  equal(decode(text, f), BigInt(row.id));
  count++;
}
for (const row of v.accepted) { equal(decode(row.text, row.format), BigInt(row.id)); count++; }
for (const row of v.refused) {
  try { decode(row.text, row.format); } catch (e) { if (e instanceof RangeError) count++; else throw e; }
}
console.log(count);
`},
		"python/scramble.py": {[]string{"python3", "-c"}, "import cryptography", scrambleVectors, `
import json
v = json.load(open("testdata/scramble.json"))
for row in v["vectors"]:
    id = scramble(v["secret"], row["app"], row["shard"], int(row["index"]))
    assert str(id) == row["id"], (row, id)
print(len(v["vectors"]))
`},
		"node/scramble.js": {[]string{"node", "-e"}, "0", scrambleVectors, `
const v = JSON.parse(require("fs").readFileSync("testdata/scramble.json"));
for (const row of v.vectors) {
  const id = scramble(v.secret, row.app, row.shard, BigInt(row.index));
  if (String(id) !== row.id) throw new Error(JSON.stringify(row) + " is " + id);
}
console.log(v.vectors.length);
`},
	} {
		t.Run(program, func(t *testing.T) {
			text, err := os.ReadFile("../docs/examples/" + program)
			check.Must(t, err)
			run := func(code string) ([]byte, error) {
				return exec.CommandContext(t.Context(), c.command[0], c.command[1], code).CombinedOutput()
			}
			if _, err := run(c.have); err != nil {
				t.Skip("not installed:", c.command[0], c.have)
			}
			out, err := run(string(text) + c.harness)
			if err != nil || string(out) != fmt.Sprintln(c.want) {
				t.Errorf("%v: %s, want %d", err, out, c.want)
			}
		})
	}
}

func TestPaddedTextsSort(t *testing.T) {
	ids := []int64{math.MaxInt64}
	for n := int64(1); n > 0; n = n*5 + 3 {
		ids = append(ids, n-1, n, n+1)
	}
	slices.Sort(ids)
	for _, f := range allFormats {
		check.Equal(t, len(f.Text(math.MaxInt64)), f.Width(), f)
		for i, id := range ids {
			text := f.Padded().Text(id)
			check.Equal(t, len(text), f.Width(), f, id)
			if i > 0 && id > ids[i-1] && text <= f.Padded().Text(ids[i-1]) {
				t.Errorf("%v: %s of %d does not follow %d", f, text, id, ids[i-1])
			}
		}
	}
}

func TestParseIDWithoutAFormat(t *testing.T) {
	for text, want := range map[string]int64{
		"16385": 16385, "9223372036854775807": math.MaxInt64, "-5": -5, "0": 0, "0000000000000016385": 16385, "000": 0,
		"7fffffffffffffff": math.MaxInt64, "1y2p0ij32e8e7": math.MaxInt64, "AzL8n0Y58m7": math.MaxInt64,
		"7ZZZZZZZZZZZZ": math.MaxInt64, "2c6949780002a001": 3200169789968523265, "0000000000400a0f": 0x400a0f,
	} {
		id, err := model.ParseID(text, "")
		check.OK(t, err, text)
		check.Equal(t, id, want, text)
	}
	for text, says := range map[string]string{
		"abc": `"abc" can be hex or base36 or base62: name its format`, "ABC": "base62 or crockford", "4GH": "base62 or crockford",
		"0000000000004001": "dec or hex", "00000016385": "dec or base62", "9223372036854775808": "below 2^63, not",
		"": `not ""`, "+1": `not "+1"`, "0x10": `not "0x10"`, "1 ": "not", "g-1": "not", strings.Repeat("z", 200): `zzz"…; name`,
	} {
		id, err := model.ParseID(text, "")
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %d, %v", text, id, err)
		}
	}
	check.Is(t, check.Err(model.ParseID("1", "base64")), model.ErrInvalidArgument)
}

// FuzzFormats: every number comes back from every text of it, and a text that is taken is
// that of its number.
func FuzzFormats(f *testing.F) {
	for _, seed := range []int64{0, 1, 16385, 1<<53 - 1, math.MaxInt64} {
		f.Add(seed, model.Base62.Text(seed))
	}
	for _, text := range []string{"", "-", "I-L-o", "zzzzzzzzzzzz", "0x1", "ſ", "K", "1\x00"} {
		f.Add(int64(7), text)
	}
	f.Fuzz(func(t *testing.T, id int64, text string) {
		id &= math.MaxInt64
		for _, format := range allFormats {
			for _, f := range []model.Format{format, format.Padded()} {
				written := f.Text(id)
				if got, err := f.Parse(written); err != nil || got != id {
					t.Fatalf("%v: %d became %s, %d, %v", f, id, written, got, err)
				}
				if got, err := model.ParseID(written, ""); err == nil && got != id && strconv.FormatInt(got, 10) != written {
					t.Fatalf("%s, which is %d in the format %v, was taken for %d", written, id, f, got)
				}
			}
			got, err := format.Parse(text)
			if err != nil {
				if !errors.Is(err, model.ErrInvalidArgument) {
					t.Fatalf("%v: %q: %v", format, text, err)
				}
				continue
			}
			plain := text
			switch format {
			case model.Crockford:
				plain = strings.NewReplacer("-", "", "I", "1", "L", "1", "O", "0").Replace(strings.ToUpper(text))
			case model.Hex, model.Base36:
				plain = strings.ToLower(text)
			}
			plain = strings.TrimLeft(plain[:len(plain)-1], "0") + plain[len(plain)-1:]
			if got < 0 || format.Text(got) != plain {
				t.Fatalf("%v: %q was read as %d, which is %s, not %s", format, text, got, format.Text(got), plain)
			}
		}
	})
}
