//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestAPopGivesWhatIsThere: whatever another program pushes and pops at either end, or changes in the middle, a pop
// gives just what is there, also where it does not read it.
func TestAPopGivesWhatIsThere(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	s := open(t, o)
	for seed := range uint64(150) {
		do(t, c, "FLUSHDB")
		listtest.Fill(t, s, key(), 1, 3)
		rng, mark, made := rand.New(rand.NewPCG(seed, 1)), int64(3), [][]any{}
		some := func() int64 { return 1 + rng.Int64N(15) }
		for range 8 {
			if rng.IntN(2) == 0 { // ours
				first := mark + 1 + some()/8
				mark = first + some()/2
				listtest.Fill(t, s, key(), first, mark)
				made = append(made, []any{"push", first, mark})
			} else {
				command := [][]any{
					{"RPUSH", listName, some()}, {"LPUSH", listName, some()}, {"RPUSH", listName, mark, some()},
					{"LPOP", listName, some() / 2}, {"RPOP", listName, some() / 4}, {"LREM", listName, 1, some()},
					{"LINSERT", listName, "BEFORE", some(), some()}, {"LTRIM", listName, some() / 5, -1},
					{"HDEL", metaName, "r"}, {"HSET", metaName, "w", some()},
				}[rng.IntN(10)]
				if command[0] == "HSET" {
					mark = command[3].(int64)
				}
				_ = c.Do(t.Context(), command...).Err() // some of it fails, as on a list that is not there
				made = append(made, command)
			}
			if rng.IntN(3) > 0 {
				continue
			}
			n := 1 + rng.IntN(12)
			want := c.LRange(t.Context(), listName, 0, -1).Val()
			p := listtest.Pop(t, s, key(), n)
			n = min(n, len(want))
			if fmt.Sprint(p.Indices) != fmt.Sprint(want[:n]) || p.Len != int64(len(want)-n) {
				t.Fatalf(
					"seed %d, after %v: pop of %v gave %v and says %d are left",
					seed,
					made,
					want,
					p.Indices,
					p.Len,
				)
			}
		}
	}
}

// TestARunIsFastAgain: after another service wrote, a pop reads no further than to where our own run begins.
func TestARunIsFastAgain(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	listtest.Fill(t, s, key(), 1, 100)
	do(t, c, "RPUSH", listName, 201, 202)
	listtest.Fill(t, s, key(), 301, 400)
	listtest.Fill(t, s, key(), 401, 500)
	check.Equal(t, len(listtest.Pop(t, s, key(), 102).Indices), 102, "indices")
	check.Equal(t, commandCalls(t, c, "ltrim"), 0, "before our run")
	listtest.Expect(t, listtest.Pop(t, s, key(), 200).Indices, 301, 500)
	check.Equal(t, commandCalls(t, c, "ltrim"), 1, "in our run")
}

// commandCalls is how often a command was run since the server's start.
func commandCalls(t *testing.T, c *redis.Client, command string) (calls int) {
	stats := c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_"+command]
	_, _ = fmt.Sscanf(stats, "calls=%d", &calls)
	return calls
}

// TestIndicesAreInPlainDigits: Lua, and some versions of Redis, like to write round numbers with an exponent, which
// other programs that read the list would not understand.
func TestIndicesAreInPlainDigits(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	s := open(t, o)
	for _, middle := range []int64{1, 100, 1000, 1e8, 1e9, 2e10, 1e14, model.MaxIndex} {
		var want []string
		first, last := max(1, middle-105), min(middle+105, model.MaxIndex)
		for i := first; i <= last; i++ {
			want = append(want, strconv.FormatInt(i, 10))
		}
		do(t, c, "FLUSHDB")
		listtest.Fill(t, s, key(), first, last)
		check.Equal(t, slices.Equal(c.LRange(t.Context(), listName, 0, -1).Val(), want), true, "around", middle)
	}
}

// TestALongSegmentGoesInPieces: Redis serves others in between, and after each piece the mark is the last index of the
// list. What happens meanwhile ends the push, and the rest of the segment is given up.
func TestALongSegmentGoesInPieces(t *testing.T) {
	for name, c := range map[string]struct {
		happens []any
		want    error
	}{
		"nothing happens":       {[]any{"PING"}, nil},
		"the meta hash is lost": {[]any{"DEL", metaName}, model.ErrLifeChanged},
		"another history":       {[]any{"HSET", metaName, "h", "5f5f"}, model.ErrLifeChanged},
		"another push":          {[]any{"HSET", metaName, "w", 30_000}, model.ErrNotAboveHighWater},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, client := lend(t)
			var marks []string
			o.Observe = func(ctx context.Context, _, op string) (context.Context, func(error)) {
				if op == "push" {
					w, last := client.HGet(ctx, metaName, "w").Val(), client.LIndex(ctx, listName, -1).Val()
					check.Equal(t, w, last, "the mark")
					if marks = append(marks, w); len(marks) == 4 {
						do(t, client, c.happens...)
					}
				}
				return ctx, func(error) {}
			}
			s := open(t, o)
			err := pushErr(t, s, request(t, s, 1, 20_000))
			st := listtest.State(t, s, key())
			if c.want == nil {
				check.Equal(t, len(marks) >= 10 && err == nil && st.Len == 20_000, true, "marks", marks, err, st)
				return
			}
			check.Is(t, err, c.want)
			check.Equal(t, len(marks), 4, "pieces")
			check.Equal(t, st.Len < 20_000 && (st.Len == 0 || !errors.Is(err, model.ErrLifeChanged)), true, st)
		})
	}
}

// TestLocks: a lock whose key is something else's is held by that, and the others are freed all the same. One that is
// no list's is the deployment's own.
func TestLocks(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	ours, theirs := of(t, o, "ours"), of(t, o, "theirs")
	do(t, c, "HSET", "id.gen.lock_1_3", "not", "a lock")
	names := []string{"1_3", "1_2", "sweep", "reload"}
	for _, try := range []struct {
		s     *redisstore.Store
		token string
		want  []bool
	}{
		{ours, "a", []bool{false, true, true, true}},
		{ours, "b", []bool{false, false, false, false}},
		{theirs, "c", []bool{false, false, true, true}},
	} {
		got, err := try.s.TryLock(t.Context(), names, try.token, time.Minute)
		check.Must(t, err)
		check.Equal(t, fmt.Sprint(got), fmt.Sprint(try.want), try.token)
	}
	wantAdvice(t, ours.Unlock(t.Context(), names, "a"), "WRONGTYPE")
	left := c.Keys(t.Context(), "id.gen.lock_*").Val()
	slices.Sort(left)
	check.Equal(t, fmt.Sprint(left), "[id.gen.lock_1_3 id.gen.lock_reload_theirs id.gen.lock_sweep_theirs]")
}
