//go:build unix

package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// writers are two replicas and another service on one list. The other service takes
// segments from the same counter, pushes them without guards, whole or index by index,
// and pops at either end.
type writers struct {
	t       *testing.T
	rng     *rand.Rand
	store   *redisstore.Store
	client  *redis.Client
	counter int64
	ours    []model.PushRequest // allocated, not pushed yet
	foreign []model.Segment
	highest [2]int64 // of each replica, its tripwire
	seen    map[int64]bool
	refused int
}

func (w *writers) allocate() model.Segment {
	n := 1 + w.rng.Int64N(8)
	w.counter += n
	return model.Segment{First: w.counter - n + 1, Last: w.counter}
}

func (w *writers) deliver(index int64) {
	if w.seen[index] {
		w.t.Fatalf("index %d came twice", index)
	}
	w.seen[index] = true
}

func (w *writers) step() {
	switch w.rng.IntN(8) {
	case 0:
		st := listtest.State(w.t, w.store, key())
		w.counter = max(w.counter, st.HighWater)
		w.ours = append(w.ours, model.PushRequest{Key: key(), Life: st.Life, Segment: w.allocate(), Cap: 1000})
	case 1:
		if len(w.ours) > 0 {
			w.store.Push(w.t.Context(), w.ours[:1])
			w.ours = w.ours[1:]
		}
	case 2:
		w.foreign = append(w.foreign, w.allocate())
	case 3, 4:
		w.pushForeign()
	case 5:
		end := []string{"LPOP", "LPOP", "RPOP"}[w.rng.IntN(3)]
		if text, ok := do(w.t, w.client, end, listName).(string); ok {
			index, err := strconv.ParseInt(text, 10, 64)
			check.Must(w.t, err)
			w.deliver(index)
		}
	default:
		replica := w.rng.IntN(len(w.highest))
		for _, index := range listtest.Pop(w.t, w.store, key(), 1+w.rng.IntN(12)).Indices {
			if index <= w.highest[replica] {
				w.refused++
				continue
			}
			w.highest[replica] = index
			w.deliver(index)
		}
	}
}

// pushForeign pushes some of what the other service holds, in any order of segments.
func (w *writers) pushForeign() {
	if len(w.foreign) == 0 {
		return
	}
	i := w.rng.IntN(len(w.foreign))
	seg := &w.foreign[i]
	n := seg.Len()
	if w.rng.IntN(2) == 0 {
		n = 1 + w.rng.Int64N(n)
	}
	args := []any{"RPUSH", listName}
	for range n {
		args = append(args, seg.First)
		seg.First++
	}
	do(w.t, w.client, args...)
	if seg.First > seg.Last {
		w.foreign = slices.Delete(w.foreign, i, i+1)
	}
}

// TestAnotherWriter: whatever another service pushes to a list, and pops from it, no
// index is handed out twice: a pop reads what is not known to be a run of our own.
func TestAnotherWriter(t *testing.T) {
	server := testserver.SharedRedis(t)
	s, c := openAt(t, server.Addr), server.Client()
	refused := 0
	for seed := range uint64(300) {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			server.FlushAll()
			w := &writers{t: t, rng: rand.New(rand.NewPCG(seed, 1)), store: s, client: c, seen: map[int64]bool{}}
			for range 150 {
				w.step()
			}
			refused += w.refused
		})
		if !ok {
			return
		}
	}
	if refused == 0 {
		t.Error("no tripwire refused anything: the writers did not meet")
	}
}

// TestALengthThatFits: the lists are as long as the run would be, and are none.
func TestALengthThatFits(t *testing.T) {
	server := testserver.SharedRedis(t)
	for name, test := range map[string]struct {
		before [2]int64
		writes [][]any
		after  [2]int64
		later  [][]any
		want   string
	}{
		"others replaced the last ones": {[2]int64{6, 10}, [][]any{{"RPOP", listName, 2}, {"RPUSH", listName, 1, 2}},
			[2]int64{11, 14}, nil, "[6 7 8 1 2 11 12 13 14]"},
		"one in place of a gap": {[2]int64{1, 10}, nil, [2]int64{21, 23},
			[][]any{{"LPOP", listName, 9}, {"LPUSH", listName, 19}}, "[19 10 21 22 23]"},
		"a segment out of order": {[2]int64{1, 3}, nil, [2]int64{7, 9},
			[][]any{{"RPUSH", listName, 4, 5, 6}}, "[1 2 3 7 8 9 4 5 6]"},
	} {
		t.Run(name, func(t *testing.T) {
			server.FlushAll()
			s, c := openAt(t, server.Addr), server.Client()
			listtest.Fill(t, s, key(), test.before[0], test.before[1])
			for _, write := range test.writes {
				do(t, c, write...)
			}
			listtest.Fill(t, s, key(), test.after[0], test.after[1])
			for _, write := range test.later {
				do(t, c, write...)
			}
			check.Equal(t, fmt.Sprint(listtest.Pop(t, s, key(), 100).Indices), test.want)
		})
	}
}

// TestARunIsFastAgain: after another service wrote, a pop reads no further than to
// where our own run begins.
func TestARunIsFastAgain(t *testing.T) {
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	ltrims := func() string {
		return c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_ltrim"]
	}
	listtest.Fill(t, s, key(), 1, 100)
	do(t, c, "RPUSH", listName, 201, 202)
	listtest.Fill(t, s, key(), 301, 400)
	listtest.Fill(t, s, key(), 401, 500)
	check.Equal(t, len(listtest.Pop(t, s, key(), 102).Indices), 102, "indices")
	if got := ltrims(); got != "" {
		t.Errorf("ltrim %q before our run", got)
	}
	listtest.Expect(t, listtest.Pop(t, s, key(), 200).Indices, 301, 500)
	if ltrims() == "" {
		t.Error("no ltrim in our run")
	}
}
