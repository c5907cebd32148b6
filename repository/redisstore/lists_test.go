//go:build unix

package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestAPopGivesWhatIsThere: whatever another program pushes and pops at the ends of a list, a pop gives just what is
// there, also where it does not read it. The other one has numbers of its own, and brings back one of ours at most.
func TestAPopGivesWhatIsThere(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	s := open(t, o)
	listtest.Fill(t, s, key(), 1, 10)
	do(t, c, "LPOP", listName, 9)
	listtest.Fill(t, s, key(), 21, 23)
	do(t, c, "LPUSH", listName, 19) // as long as a run from 19 to 23
	check.Equal(t, fmt.Sprint(listtest.Pop(t, s, key(), 100).Indices), "[19 10 21 22 23]")
	for seed := range uint64(150) {
		rng, mark, brought := rand.New(rand.NewPCG(seed, 1)), int64(103), false
		some := func(n int64) int64 { return rng.Int64N(n) }
		do(t, c, "FLUSHDB")
		listtest.Fill(t, s, key(), 101, mark)
		made := []string{}
		for range 8 {
			theirs := func() {
				command := [][]any{
					{"RPUSH", listName, 1 + some(15)}, {"RPUSH", listName, 1 + some(15), 1 + some(15)},
					{"LPOP", listName, some(6)},
					{"RPOP", listName, some(4)}, {"LPUSH", listName, mark - some(8)}, {"HDEL", metaName, "r"},
					{"HSET", metaName, "w", mark + some(9) - 4}, {"LSET", listName, -1, 1 + some(15)},
				}[some(8)]
				switch command[0] {
				case "HSET":
					mark = command[3].(int64)
				case "LPUSH":
					if brought {
						return
					}
					brought = true
				}
				_ = c.Do(t.Context(), command...).Err() // some of it fails, as on a list that is not there
				made = append(made, fmt.Sprint(command...))
			}
			ours := func() {
				first := mark + 1 + some(4)*some(2) // with a gap or none
				mark = first + some(6)
				listtest.Fill(t, s, key(), first, mark)
				made = append(made, fmt.Sprint("push ", first, mark))
			}
			[]func(){ours, theirs}[some(2)]()
			if some(3) > 0 {
				continue
			}
			n := 1 + rng.IntN(12)
			want := c.LRange(t.Context(), listName, 0, -1).Val()
			p := listtest.Pop(t, s, key(), n)
			n = min(n, len(want))
			got := fmt.Sprint(p.Indices, p.Len)
			check.Equal(t, got, fmt.Sprint(want[:n], int64(len(want)-n)), "seed", seed, "after", made, "of", want)
		}
	}
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
		{ours, "a", []bool{false, true, true, true}}, // as after an answer that was lost
		{ours, "b", []bool{false, false, false, false}},
		{theirs, "c", []bool{false, false, true, true}},
	} {
		got, err := try.s.TryLock(t.Context(), names, try.token, time.Minute)
		check.Must(t, err)
		check.Equal(t, fmt.Sprint(got), fmt.Sprint(try.want), try.token)
	}
	check.Must(t, ours.Unlock(t.Context(), []string{"1_2"}, "b")) // which is not b's
	check.Equal(t, do(t, c, "GET", "id.gen.lock_1_2"), "a", "the holder")
	wantAdvice(t, ours.Unlock(t.Context(), names, "a"), "WRONGTYPE")
	left := c.Keys(t.Context(), "id.gen.lock_*").Val()
	slices.Sort(left)
	check.Equal(t, fmt.Sprint(left), "[id.gen.lock_1_3 id.gen.lock_reload_theirs id.gen.lock_sweep_theirs]")
	ends := c.PTTL(t.Context(), "id.gen.lock_sweep_theirs").Val()
	check.Equal(t, ends > 0 && ends <= time.Minute, true, "ends", ends)
}

// TestARepeatChangesNothing: the client repeats what it gets no answer to. A push whose answer is lost, or that arrives
// after the next one, is in its list once; a lock belongs to the one that asked for it; a pop leaves a gap.
func TestARepeatChangesNothing(t *testing.T) {
	t.Parallel()
	f := &faults{}
	o := single(f.proxy(t, testserver.Redis(t).Addr))
	s := open(t, o)
	push := func(first, last int64) error { return pushErr(t, s, request(t, s, first, last)) }
	check.Must(t, push(1, 10))
	unanswered := request(t, s, 11, 20)
	f.loses.Store(1 << 30)
	check.Equal(t, pushErr(t, s, unanswered) != nil, true, "an error for want of an answer")
	f.loses.Store(0)
	check.Eventually(t, "it is executed", func() error {
		if st := listtest.State(t, s, key()); st.HighWater != 20 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	check.Is(t, push(20, 30), model.ErrNotAboveHighWater)
	check.Must(t, push(21, 30))

	listtest.Expect(t, listtest.Pop(t, s, key(), 5).Indices, 1, 5) // first the server has to learn a script
	f.loses.Store(1)
	listtest.Expect(t, listtest.Pop(t, s, key(), 5).Indices, 11, 15)
	for _, name := range []string{"1_2", "1_3"} { // likewise
		got, err := s.TryLock(t.Context(), []string{name}, "me", time.Minute)
		check.Must(t, err)
		check.Equal(t, got[0], true, "the lock", name)
		f.loses.Store(1)
	}
	f.loses.Store(0)

	late := &hold{make(chan struct{}), make(chan struct{})}
	req := request(t, s, 31, 40)
	f.hold.Store(late)
	delayed := make(chan error)
	go func() { delayed <- pushErr(t, s, req) }()
	<-late.sent
	listtest.Fill(t, open(t, o), key(), 41, 50)
	close(late.arrive)
	check.Is(t, <-delayed, model.ErrNotAboveHighWater)
	listtest.Expect(t, listtest.Pop(t, s, key(), 15).Indices, 16, 30)
	listtest.Expect(t, listtest.Pop(t, s, key(), 100).Indices, 41, 50)
}

// faults are what the proxy of a Redis does.
type faults struct {
	loses atomic.Int64         // to how many scripts the answer is lost
	hold  atomic.Pointer[hold] // of the next script, or nil
}

// hold keeps back a script: sent is closed once it was sent, and it arrives when arrive is closed.
type hold struct{ sent, arrive chan struct{} }

// proxy forwards to a Redis, and gives its own address.
func (f *faults) proxy(t *testing.T, to string) string {
	t.Helper()
	return testserver.Fake(t, func(client net.Conn) {
		var muted atomic.Bool
		testserver.Forward(client, to, func(request []byte) []byte {
			low := bytes.ToLower(request)
			if bytes.Contains(low, []byte("\neval")) {
				if h := f.hold.Swap(nil); h != nil {
					close(h.sent)
					<-h.arrive
				}
				muted.Store(f.loses.Add(-1) >= 0)
			}
			return request
		}, func(reply []byte) []byte {
			if !muted.Load() {
				return reply
			}
			time.Sleep(20 * time.Millisecond) // a pipeline is executed to its end
			_ = client.Close()
			return nil
		})
	})
}
