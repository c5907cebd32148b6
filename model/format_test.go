package model_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
			check.Equal(t, len(padded[i]), len(padded[0]), f, id)
		}
		check.Equal(t, slices.IsSorted(padded), true, f)
		for range 1000 {
			id := rand.Int64() >> rand.IntN(63)
			for _, text := range []string{f.Text(id), f.Padded().Text(id)} {
				got, err := idtext.ParseID(text, f.String())
				check.OK(t, err, text)
				check.Equal(t, got, id, f, text)
			}
		}
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
	check.Is(t, check.Err(idtext.ParseID("1", "base64")), model.ErrInvalidArgument)
}

// The programs of docs/examples agree with the vectors. They are asked line by line.
func TestProgramsOfTheExamples(t *testing.T) {
	check.Deep(t)
	const harness = `
import sys
for line in sys.stdin:
    try: print(eval(line))
    except ValueError: print("refused")
`
	var asked, want []string
	ask := func(answer, format string, args ...any) {
		asked, want = append(asked, fmt.Sprintf(format, args...)), append(want, answer)
	}
	agrees := func(name string) {
		text, err := os.ReadFile("../docs/examples/python/" + name + ".py")
		check.Must(t, err)
		cmd := exec.CommandContext(t.Context(), "python3", "-c", string(text)+harness)
		cmd.Stdin = strings.NewReader(strings.Join(asked, "\n"))
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) || strings.Contains(string(out), "No module named") {
			t.Skip("not installed: ", string(out))
		}
		check.OK(t, err, name)
		check.Equal(t, strings.TrimSpace(string(out)), strings.Join(want, "\n"), name)
		asked, want = nil, nil
	}
	var texts formatVectors
	readVectors(t, "formats.json", &texts)
	for _, row := range texts.IDs {
		for _, f := range allFormats {
			for padded, suffix := range []string{"", " padded"} {
				ask(row[f.String()+suffix], "encode(%s, %q, %d)", row["id"], f, padded)
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
	var scrambled scrambleVectors
	readVectors(t, "scramble.json", &scrambled)
	for _, v := range scrambled.Vectors {
		ask(fmt.Sprint(v.ID), "scramble(%q, %d, %d, %d)", scrambled.Secret, v.App, v.Shard, v.Index)
	}
	agrees("scramble")
}

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
