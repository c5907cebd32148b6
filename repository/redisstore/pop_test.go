//go:build unix

package redisstore_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"shardid/repository/listtest"
	"shardid/scripts/testserver"
)

// Whatever a list holds, a pop gives just that, also what it does not read.
func TestAPopGivesWhatIsThere(t *testing.T) {
	server := testserver.SharedRedis(t)
	for name, test := range map[string]struct {
		second bool // another segment follows, with a gap before it
		then   [][]any
	}{
		"a run":                        {},
		"a gap":                        {second: true},
		"a gap that was reached":       {second: true, then: [][]any{{"LPOP", listName, 1000}}},
		"only the last segment":        {second: true, then: [][]any{{"LTRIM", listName, 1000, -1}}},
		"an index came back":           {then: [][]any{{"RPUSH", listName, 500}}},
		"some came back":               {then: [][]any{{"LPOP", listName, 5}, {"RPUSH", listName, 1, 2, 3, 4, 5}}},
		"one came back at the front":   {then: [][]any{{"LPOP", listName, 5}, {"LPUSH", listName, 3}}},
		"another service took some":    {then: [][]any{{"LPOP", listName, 7}}},
		"the last ones are missing":    {then: [][]any{{"RPOP", listName, 7}}},
		"one in the middle is missing": {then: [][]any{{"LREM", listName, 1, 400}}},
		"one is twice in the middle":   {then: [][]any{{"LINSERT", listName, "BEFORE", 400, 900}}},
		"the mark is too low":          {then: [][]any{{"HSET", metaName, "w", 900}}},
		"the mark is too high":         {then: [][]any{{"HSET", metaName, "w", 1100}}},
		"the mark is a word":           {then: [][]any{{"HSET", metaName, "w", "high"}}},
	} {
		t.Run(name, func(t *testing.T) {
			server.FlushAll()
			s, c := openAt(t, server.Addr), server.Client()
			listtest.Fill(t, s, key(), 1, 1000)
			if test.second {
				listtest.Fill(t, s, key(), 1501, 2000)
			}
			for _, damage := range test.then {
				do(t, c, damage...)
			}
			for _, n := range []int{1, 2, 600, 10_000} {
				want := indices(t, c, n)
				p := listtest.Pop(t, s, key(), n)
				if !slices.Equal(p.Indices, want) {
					t.Fatalf("pop %d gave %d indices, %v…, want %d, %v…", n, len(p.Indices), p.Indices[:1], len(want), want[:1])
				}
				if left := c.LLen(t.Context(), listName).Val(); p.Len != left {
					t.Errorf("pop %d says %d are left, there are %d", n, p.Len, left)
				}
			}
		})
	}
}

// indices are the first n of the list.
func indices(t *testing.T, c *redis.Client, n int) (out []int64) {
	t.Helper()
	for _, text := range c.LRange(t.Context(), listName, 0, int64(n-1)).Val() {
		index, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, index)
	}
	return out
}

// No script reads a thousand indices one by one when two numbers tell them.
func TestARunIsNotRead(t *testing.T) {
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	calls := func(command string) string {
		return c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_"+command]
	}
	listtest.Fill(t, s, key(), 1, 5000)
	listtest.Fill(t, s, key(), 5001, 9000)
	listtest.Expect(t, listtest.Pop(t, s, key(), 1000).Indices, 1, 1000)
	listtest.Expect(t, listtest.Pop(t, s, key(), 8000).Indices, 1001, 9000)
	if lpop, ltrim := calls("lpop"), calls("ltrim"); lpop != "" || ltrim == "" {
		t.Errorf("lpop %q, ltrim %q: want no LPOP", lpop, ltrim)
	}
}

func TestAListThatStartsWithAWord(t *testing.T) {
	server := testserver.SharedRedis(t)
	for _, word := range []string{"two", "1.0", "0x1", " 1", "1e0", "-1", "01", "1+3", ""} {
		t.Run(strconv.Quote(word), func(t *testing.T) {
			server.FlushAll()
			s, c := openAt(t, server.Addr), server.Client()
			listtest.Fill(t, s, key(), 1, 4)
			do(t, c, "LSET", listName, 0, word)
			p, err := s.Pop(t.Context(), key(), 3)
			wantAdvice(t, err, "something else writes")
			if len(p.Indices) > 0 {
				t.Errorf("%v came with an error", p.Indices)
			}
		})
	}
}
