//go:build unix

package redisstore_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
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
		check.Must(t, err)
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

// longest is as long as queue.max_step lets a segment become.
const longest = 1_000_000

// Redis serves others between the pieces of a long segment.
func TestALongSegmentGoesInPieces(t *testing.T) {
	at := singleSite(t)
	s := open(t, at.options)
	req := request(t, s, 1, 100_000)
	before := at.fault(false, false)
	check.Must(t, s.Push(t.Context(), []model.PushRequest{req})[0])
	if n := at.fault(false, false) - before; n < 50 {
		t.Errorf("%d pieces, want at least 50: Redis does nothing else during one", n)
	}
}

// Each piece is judged by itself: what happens to the list between two of them
// ends the push, and the rest of the segment is given up.
func TestAPieceIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		happens []any
		want    error
	}{
		"the meta hash is lost": {[]any{"DEL", metaName}, model.ErrHistoryChanged},
		"another history":       {[]any{"HSET", metaName, "h", "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb"}, model.ErrHistoryChanged},
		"another push":          {[]any{"HSET", metaName, "w", longest}, model.ErrNotAboveHighWater},
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t)
			s, c := openAt(t, server.Addr), server.Client()
			err := pushMeanwhile(t, s, c, func() { do(t, c, test.happens...) })
			if !errors.Is(err, test.want) {
				t.Fatalf("push: %v, want %v", err, test.want)
			}
			st := listtest.State(t, s, key())
			if st.Len >= longest || errors.Is(test.want, model.ErrHistoryChanged) && st.Len > 0 {
				t.Errorf("%+v: pieces came after the refusal", st)
			}
		})
	}
}

// pushMeanwhile pushes a long segment; the event happens when some of it is there.
func pushMeanwhile(t *testing.T, s *redisstore.Store, c *redis.Client, event func()) error {
	t.Helper()
	req := request(t, s, 1, longest)
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = s.Push(t.Context(), []model.PushRequest{req})[0] })
	eventually(t, "the first piece", func() error {
		if c.LLen(t.Context(), listName).Val() == 0 {
			return errors.New("nothing yet")
		}
		return nil
	})
	event()
	wg.Wait()
	return err
}

// After each piece the mark is the last index of the list, never below it.
func TestEachPieceRaisesTheMark(t *testing.T) {
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	seen := map[string]bool{}
	look := func() {
		tx := c.TxPipeline()
		w, last := tx.HGet(t.Context(), metaName, "w"), tx.LIndex(t.Context(), listName, -1)
		check.Must(t, check.Err(tx.Exec(t.Context())))
		if w.Val() != last.Val() {
			t.Fatalf("mark %s, last index %s", w.Val(), last.Val())
		}
		seen[w.Val()] = true
	}
	err := pushMeanwhile(t, s, c, func() {
		for !seen["1000000"] {
			look()
		}
	})
	check.Must(t, err)
	if len(seen) < 3 {
		t.Errorf("%d marks seen, want some on the way: %v", len(seen), seen)
	}
}
