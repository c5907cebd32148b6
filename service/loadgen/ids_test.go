package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardid/scripts/check"
)

func TestDecodeLines(t *testing.T) {
	for body, want := range map[string][]int64{
		"1":                          {1},
		"1\n":                        {1},
		"16385\n16386\n7\n":          {16385, 16386, 7},
		"9223372036854775807":        {9223372036854775807},
		"0":                          {0},
		"-5\n6":                      {-5, 6},
		"":                           nil,
		"\n":                         nil,
		"1\n\n":                      nil,
		"1 ":                         nil,
		"1\r\n":                      nil,
		"01":                         nil,
		"+1":                         nil,
		"-":                          nil,
		"9223372036854775808":        nil,
		"99999999999999999999999999": nil,
		"no ID today":                nil,
		"12345678\n1234567890":       {12345678, 1234567890},
		"12345678x":                  nil,
		"1\nno more":                 nil,
	} {
		got, err := decodeLines([]byte(body), nil)
		if want == nil {
			check.Is(t, err, errUnreadable, body, got)
		} else if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", body, got, err, want)
		}
	}
}

func TestDecodeJSON(t *testing.T) {
	for body, want := range map[string][]int64{
		`{"code":0,"id":16385,"idStr":"16385"}`:            {16385},
		`{"code":0,"id":-1,"idStr":"-1"}`:                  {-1},
		`{ "code": 0, "idStr": "7", "id": 7, "more": [] }`: {7},
		`{"code":0,"id":7}`:                                {7},
		`{"code":0,"ids":[1,2,9223372036854775807]}`:       {1, 2, 9223372036854775807},
		`{"code":0,"ids":["1","2"]}`:                       {1, 2},
		`{"code":0,"ids":["12345678901"]}`:                 {12345678901},
		"{\"code\":0,\"ids\":[ 1, 2 ]}\n":                  {1, 2},
		`{"code":0,"ids":[]}`:                              {},
		`{"code":0}`:                                       {},
	} {
		got, err := decodeJSON([]byte(body), nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", body, got, err, want)
		}
	}
	for body, want := range map[string]error{
		`{"code":0,"id":7,"idStr":"8"}`:            errTwoIDs,
		`{"code":0,"id":7,"idStr":"70"}`:           errTwoIDs,
		`{"id":7,"idStr":"7"}`:                     errUnreadable,
		`{"code":0,"id":7,"idStr":"7"`:             errUnreadable,
		`{"code":0,"ids":[1,2]`:                    errUnreadable,
		`{"code":0,"ids":[1,1.5]}`:                 errUnreadable,
		`{"code":0,"ids":[1,9223372036854775808]}`: errUnreadable,
		`<html>`: errUnreadable,
		``:       errUnreadable,
	} {
		if got, err := decodeJSON([]byte(body), nil); !errors.Is(err, want) || len(got) > 0 {
			t.Errorf("%s: %v, %v, want %v", body, got, err, want)
		}
	}
}

// FuzzDecodeJSON: the short cuts read what encoding/json reads.
func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte(`{"code":0,"id":16385,"idStr":"16385"}`))
	f.Add([]byte(`{"code":0,"ids":[1,2,3]}`))
	f.Add([]byte(`{"code":0,"ids":["1"]}`))
	f.Add([]byte(`{"code":0,"ids":[-1,00,9223372036854775808]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := decodeQuickly(body, nil)
		if !ok {
			return
		}
		want, err := decodeJSON(append([]byte(" "), body...), nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, encoding/json says %v, %v", body, got, want, err)
		}
	})
}

// FuzzDecodeLines: what is read is written the same way.
func FuzzDecodeLines(f *testing.F) {
	f.Add([]byte("1\n2\n"))
	f.Add([]byte("-9223372036854775807"))
	f.Add([]byte("1234567890123456\n12345678"))
	f.Fuzz(func(t *testing.T, body []byte) {
		ids, err := decodeLines(body, nil)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, id := range ids {
			again.WriteString(strconv.FormatInt(id, 10) + "\n")
		}
		if got, want := again.String(), strings.TrimSuffix(string(body), "\n")+"\n"; got != want && !strings.Contains(want, "-0") {
			t.Errorf("%q read as %v", body, ids)
		}
	})
}

// Every byte, in every place.
func TestParseEight(t *testing.T) {
	for place := range 8 {
		for value := range 256 {
			text := []byte("98765432")
			text[place] = byte(value)
			want, err := strconv.ParseUint(string(text), 10, 64)
			if got, ok := parseEight(text); ok != (err == nil) || ok && got != want {
				t.Errorf("%q is %d, %v", text, got, ok)
			}
		}
	}
}

type answer struct {
	status int
	body   []byte
}

func TestJudge(t *testing.T) {
	queue := &target{decode: decodeJSON, count: 1}
	lines := &target{decode: decodeLines, count: 2}
	raw := &target{count: 1}
	for _, c := range []struct {
		name string
		t    *target
		a    answer
		ids  []int64
		want string // kind; empty for none
	}{
		{"one", queue, answer{200, []byte(`{"code":0,"id":7,"idStr":"7"}`)}, []int64{7}, ""},
		{"two", lines, answer{200, []byte("7\n8\n")}, []int64{7, 8}, ""},
		{"too few", lines, answer{200, []byte("7\n")}, []int64{7}, errWrongCount.Error()},
		{"too many", lines, answer{200, []byte("7\n8\n9\n")}, []int64{7, 8, 9}, errWrongCount.Error()},
		{"none", queue, answer{200, []byte(`{"code":0}`)}, nil, errWrongCount.Error()},
		{"zero", lines, answer{200, []byte("7\n0\n")}, []int64{7, 0}, errBelowOne.Error()},
		{"negative", queue, answer{200, []byte(`{"code":0,"id":-7,"idStr":"-7"}`)}, []int64{-7}, errBelowOne.Error()},
		{"text", queue, answer{200, []byte("hello")}, nil, errUnreadable.Error()},
		{"refused", queue, answer{503, []byte(`{"code":-4,"message":"empty"}`)}, nil, "503 code -4"},
		{"refused with 200", queue, answer{200, []byte(`{"code":-4,"message":"empty"}`)}, nil, "200 code -4"},
		{"refused with an ID", queue, answer{503, []byte(`{"code":-4,"id":7}`)}, nil, errIDInError.Error()},
		{"refused with IDs", queue, answer{503, []byte(`{"code":-4,"ids":[7]}`)}, nil, errIDInError.Error()},
		{"refused with an ID and 200", queue, answer{200, []byte(`{"code":-4,"idStr":"7"}`)}, nil, errIDInError.Error()},
		{"refused with a line", lines, answer{500, []byte("7")}, nil, errIDInError.Error()},
		{"no shardid", lines, answer{404, []byte("<h1>not here</h1>")}, nil, "404"},
		{"redirected", queue, answer{301, nil}, nil, "301"},
		{"raw", raw, answer{200, []byte("pong")}, nil, ""},
		{"raw refused", raw, answer{500, []byte("7")}, nil, "500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids, err := c.t.judge(c.a.status, c.a.body, nil)
			if !slices.Equal(ids, c.ids) || kindName(err) != c.want {
				t.Errorf("%v, %v, want %v, %q", ids, err, c.ids, c.want)
			}
		})
	}
}

func kindName(err error) string {
	if b, ok := errors.AsType[breach](err); ok || err == nil {
		return string(b)
	}
	return kindOf(err)
}

// TestRefusalMessage: the first error is for people, so it shows what the server
// said, on one line.
func TestRefusalMessage(t *testing.T) {
	message, err := json.Marshal("app is not provisioned: 9")
	check.Must(t, err)
	for body, want := range map[string]string{
		fmt.Sprintf(`{"code":-2,"message":%s}`, message):    "the server answered: app is not provisioned: 9",
		"Client sent an HTTP request to an HTTPS server.\n": "the server answered: Client sent an HTTP request to an HTTPS server.",
		"<html>\n</html>": "the server answered 404 Not Found",
		"a\x1b[2J\nb":     `the server answered: a\x1b[2J`,
	} {
		q := &target{decode: decodeJSON, count: 1}
		check.Equal(t, q.refused(404, []byte(body)).Error(), want, body)
	}
}

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
			if count, first := (&ledger{blocks: c.blocks}).duplicates(); count != c.count || !slices.Equal(first, c.first) {
				t.Errorf("%d, %v, want %d, %v", count, first, c.count, c.first)
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
		var want int64
		var lowest []int64
		for id, n := range times {
			if want += n - 1; n > 1 {
				lowest = append(lowest, id)
			}
		}
		slices.Sort(lowest)
		lowest = lowest[:min(5, len(lowest))]
		if count, first := l.duplicates(); count != want || !slices.Equal(first, lowest) {
			t.Fatalf("%d, %v, want %d, %v", count, first, want, lowest)
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
