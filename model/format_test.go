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

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
)

var allFormats = []idtext.Format{idtext.Dec, idtext.Hex, idtext.Base36, idtext.Base62, idtext.Crockford}

// formatVectors are those of testdata/formats.json.
type formatVectors struct {
	IDs               []map[string]string // "id", and for each format "name" and "name padded"
	Accepted, Refused []struct{ Format, Text, ID string }
}

// readVectors reads a file that other languages are tested with too.
func readVectors(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	check.Must(t, err)
	check.Must(t, json.Unmarshal(raw, into))
}

// Padded texts have one width, and sort as their numbers do.
func TestFormatVectors(t *testing.T) {
	var v formatVectors
	readVectors(t, "formats.json", &v)
	var ids []int64
	for _, row := range v.IDs {
		id, err := strconv.ParseInt(row["id"], 10, 64)
		check.Must(t, err)
		ids = append(ids, id)
		for _, f := range allFormats {
			check.Equal(t, f.Text(id), row[f.String()], id, f)
			check.Equal(t, f.Padded().Text(id), row[f.String()+" padded"], id, f, "padded")
		}
	}
	slices.Sort(ids)
	for _, f := range allFormats {
		padded := make([]string, len(ids))
		for i, id := range ids {
			padded[i] = f.Padded().Text(id)
			check.Equal(t, len(padded[i]), f.Width(), f, id)
		}
		check.Equal(t, slices.IsSorted(padded), true, f)
	}
	for _, row := range v.Accepted {
		id, err := idtext.ParseID(row.Text, row.Format)
		check.OK(t, err)
		check.Equal(t, strconv.FormatInt(id, 10), row.ID, row)
	}
	for _, row := range v.Refused {
		f, err := idtext.ParseFormat(row.Format)
		check.Must(t, err)
		check.Is(t, check.Err(f.Parse(row.Text)), model.ErrInvalidArgument, row)
	}
}

// The programs of docs/examples agree with the vectors. They are asked line by line.
func TestProgramsOfTheExamples(t *testing.T) {
	check.Deep(t)
	var texts formatVectors
	var scrambled scrambleVectors
	readVectors(t, "formats.json", &texts)
	readVectors(t, "scramble.json", &scrambled)
	for language, c := range map[string]struct{ program, flag, ext, big, harness string }{
		"python": {"python3", "-c", ".py", "", `
import sys
for line in sys.stdin:
    try: print(eval(line))
    except ValueError: print("refused")
`},
		"node": {"node", "-e", ".js", "n", `
for (const line of require("fs").readFileSync(0, "utf8").split("\n")) {
  try { console.log(String(eval(line))); } catch (e) { if (e instanceof RangeError) console.log("refused"); else throw e; }
}
`},
	} {
		t.Run(language, func(t *testing.T) {
			var asked, want []string
			ask := func(answer, format string, args ...any) {
				asked, want = append(asked, fmt.Sprintf(format, args...)), append(want, answer)
			}
			agrees := func(name string) {
				text, err := os.ReadFile("../docs/examples/" + language + "/" + name + c.ext)
				check.Must(t, err)
				cmd := exec.CommandContext(t.Context(), c.program, c.flag, string(text)+c.harness)
				cmd.Stdin = strings.NewReader(strings.Join(asked, "\n"))
				out, err := cmd.CombinedOutput()
				if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(out), "No module named") {
					t.Skip("not installed: ", c.program, string(out))
				}
				check.OK(t, err, name)
				check.Equal(t, strings.TrimSpace(string(out)), strings.Join(want, "\n"), name)
				asked, want = nil, nil
			}
			for _, row := range texts.IDs {
				for _, f := range allFormats {
					for padded, suffix := range []string{"", " padded"} {
						ask(row[f.String()+suffix], "encode(%s%s, %q, %d)", row["id"], c.big, f, padded)
						ask(row["id"], "decode(%q, %q)", row[f.String()+suffix], f)
					}
				}
			}
			for _, row := range texts.Accepted {
				ask(row.ID, "decode(%q, %q)", row.Text, row.Format)
			}
			for _, row := range texts.Refused {
				ask("refused", "decode(%q, %q)", row.Text, row.Format)
			}
			agrees("formats")
			for _, v := range scrambled.Vectors {
				ask(fmt.Sprint(v.ID), "scramble(%q, %d, %d, %d%s)", scrambled.Secret, v.App, v.Shard, v.Index, c.big)
			}
			agrees("scramble")
		})
	}
}

func TestParseIDWithoutAFormat(t *testing.T) {
	for text, want := range map[string]int64{
		"16385": 16385, "9223372036854775807": math.MaxInt64, "-5": -5, "0": 0, "0000000000000016385": 16385, "000": 0,
		"7fffffffffffffff": math.MaxInt64, "1y2p0ij32e8e7": math.MaxInt64, "AzL8n0Y58m7": math.MaxInt64,
		"7ZZZZZZZZZZZZ": math.MaxInt64, "2c6949780002a001": 3200169789968523265, "0000000000400a0f": 0x400a0f,
	} {
		id, err := idtext.ParseID(text, "")
		check.OK(t, err, text)
		check.Equal(t, id, want, text)
	}
	for text, says := range map[string]string{
		"abc": `"abc" can be hex or base36 or base62: name its format`, "ABC": "base62 or crockford",
		"4GH":              "base62 or crockford",
		"0000000000004001": "dec or hex", "00000016385": "dec or base62", "9223372036854775808": "below 2^63, not",
		"": `not ""`, "+1": `not "+1"`, "0x10": `not "0x10"`, "1 ": "not", "g-1": "not",
		strings.Repeat("z", 200): `zzz"…; name`,
	} {
		id, err := idtext.ParseID(text, "")
		if !errors.Is(err, model.ErrInvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %d, %v", text, id, err)
		}
	}
	check.Is(t, check.Err(idtext.ParseID("1", "base64")), model.ErrInvalidArgument)
}

// FuzzFormats: every number comes back from every text of it, and a text that is taken is
// that of its number.
func FuzzFormats(f *testing.F) {
	for _, seed := range []int64{0, 1, 16385, 1<<53 - 1, math.MaxInt64} {
		f.Add(seed, idtext.Base62.Text(seed))
	}
	for _, text := range []string{"", "-", "I-L-o", "zzzzzzzzzzzz", "0x1", "ſ", "K", "1\x00"} {
		f.Add(int64(7), text)
	}
	f.Fuzz(func(t *testing.T, id int64, text string) {
		id &= math.MaxInt64
		for _, format := range allFormats {
			for _, f := range []idtext.Format{format, format.Padded()} {
				written := f.Text(id)
				if got, err := f.Parse(written); err != nil || got != id {
					t.Fatalf("%v: %d became %s, %d, %v", f, id, written, got, err)
				}
				if got, err := idtext.ParseID(written, ""); err == nil && got != id &&
					strconv.FormatInt(got, 10) != written {
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
			case idtext.Crockford:
				plain = strings.NewReplacer("-", "", "I", "1", "L", "1", "O", "0").Replace(strings.ToUpper(text))
			case idtext.Hex, idtext.Base36:
				plain = strings.ToLower(text)
			}
			plain = strings.TrimLeft(plain[:len(plain)-1], "0") + plain[len(plain)-1:]
			if got < 0 || format.Text(got) != plain {
				t.Fatalf("%v: %q was read as %d, which is %s, not %s", format, text, got, format.Text(got), plain)
			}
		}
	})
}
