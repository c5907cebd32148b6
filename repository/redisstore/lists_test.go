//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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

// Lua, and some versions of Redis, like to write round numbers with an exponent, which
// other programs that read the list would not understand.
func TestIndicesAreInPlainDigits(t *testing.T) {
	server := emptied(t)
	s, c := openAt(t, server.Addr), server.Client()
	for _, middle := range []int64{1, 100, 1000, 100_000_000, 1_000_000_000, 20_000_000_000, 100_000_000_000_000, model.MaxIndex} {
		seg := model.Segment{First: max(1, middle-105), Last: min(middle+105, model.MaxIndex)}
		do(t, c, "DEL", listName, metaName)
		listtest.Fill(t, s, key(), seg.First, seg.Last)
		var want []string
		for i := seg.First; i <= seg.Last; i++ {
			want = append(want, strconv.FormatInt(i, 10))
		}
		if got := c.LRange(t.Context(), listName, 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("%v was pushed as %v", seg, got)
		}
	}
}

// longest is as long as queue.max_step lets a segment become.
const longest = 1_000_000

// Redis serves others between the pieces of a long segment.
func TestALongSegmentGoesInPieces(t *testing.T) {
	server := testserver.Redis(t)
	s, c := openAt(t, server.Addr), server.Client()
	listtest.Fill(t, s, key(), 1, 100_000)
	stats := c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	var calls int
	_, err := fmt.Sscanf(stats, "calls=%d", &calls)
	check.Must(t, err)
	if calls < 50 {
		t.Errorf("%d pieces, want at least 50: Redis does nothing else during one", calls)
	}
}

// Each piece is judged by itself: what happens to the list between two of them
// ends the push, and the rest of the segment is given up.
func TestAPieceIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		happens []any
		want    error
	}{
		"the meta hash is lost": {[]any{"DEL", metaName}, model.ErrLifeChanged},
		"another history":       {[]any{"HSET", metaName, "h", "8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb"}, model.ErrLifeChanged},
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
			if st.Len >= longest || errors.Is(test.want, model.ErrLifeChanged) && st.Len > 0 {
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
	check.Eventually(t, "the first piece", func() error {
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

// A lock whose key is something else's is held by that; the others are freed all the same.
func TestLockAfterFailure(t *testing.T) {
	server := emptied(t)
	s, c := openAt(t, server.Addr), server.Client()
	do(t, c, "SET", "id.gen.lock_1_2", "bob")
	do(t, c, "HSET", "id.gen.lock_1_3", "not", "a lock")
	got, err := s.TryLock(t.Context(), []string{"1_1", "1_2", "1_3"}, "me", time.Minute)
	if err != nil || !got[0] || got[1] || got[2] {
		t.Fatal(got, err)
	}
	wantAdvice(t, s.Unlock(t.Context(), []string{"1_3", "1_2", "1_1"}, "me"), "WRONGTYPE")
	if n := do(t, c, "EXISTS", "id.gen.lock_1_1", "id.gen.lock_1_2"); n != int64(1) {
		t.Errorf("%v locks are left, want bob's", n)
	}
}

// A lock that is no list's is the deployment's own.
func TestLocksOfDeployments(t *testing.T) {
	server := emptied(t)
	one, other := of(t, server, "one"), of(t, server, "other")
	for _, c := range []struct {
		s     *redisstore.Store
		token string
		want  []bool
	}{
		{one, "a", []bool{true, true, true}},
		{one, "b", []bool{false, false, false}},
		{other, "c", []bool{true, true, false}},
	} {
		got, err := c.s.TryLock(t.Context(), []string{"sweep", "reload", "1_2"}, c.token, time.Minute)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v, %v, want %v", got, err, c.want)
		}
	}
	check.Must(t, one.Unlock(t.Context(), []string{"sweep"}, "a"))
	if n := do(t, server.Client(), "EXISTS", "id.gen.lock_sweep_one", "id.gen.lock_sweep_other"); n != int64(1) {
		t.Errorf("%v locks of the sweep are left, want the other's", n)
	}
}

func of(t *testing.T, server *testserver.RedisServer, deployment string) *redisstore.Store {
	t.Helper()
	s := openAt(t, server.Addr)
	s.SetDeployment(deployment)
	return s
}

func TestNothingIsDoneBeforeTheDeploymentIsKnown(t *testing.T) {
	server := emptied(t)
	s := of(t, server, "")
	_, life := s.Marks().Life(t.Context())
	for _, err := range []error{popErr(t, s), s.State(t.Context(), []model.ListKey{key()})[0].Err, s.Delete(t.Context(), []model.ListKey{key()}), life} {
		wantAdvice(t, err, "not known yet", "database")
	}
	check.OK(t, s.Check(t.Context()), "the server can be used")
	check.Equal(t, do(t, server.Client(), "DBSIZE"), any(int64(0)), "keys were written")
}

// A second deployment on one Redis is refused, by each call, and changes nothing: not
// even after a restart, when lists are purged.
func TestTwoDeploymentsOnOneRedis(t *testing.T) {
	server := testserver.Redis(t)
	one, two := of(t, server, "one"), of(t, server, "two")
	listtest.Fill(t, one, key(), 1, 1000)
	request := model.PushRequest{Key: key(), Life: listtest.State(t, one, key()).Life, Segment: model.Segment{First: 5000, Last: 5999}, Cap: 9999}
	refuse := func() {
		t.Helper()
		before := do(t, server.Client(), "HGETALL", metaName)
		for _, err := range []error{
			popErr(t, two),
			two.State(t.Context(), []model.ListKey{key()})[0].Err,
			two.Probe(t.Context(), []model.ListKey{key()})[0].Err,
			two.Push(t.Context(), []model.PushRequest{request})[0],
			two.Delete(t.Context(), []model.ListKey{key()}),
		} {
			wantAdvice(t, err, "deployment one", "this one, two", "redis.db", "shardid confirm --deployment")
			check.Is(t, err, model.ErrForeign)
		}
		if after := do(t, server.Client(), "HGETALL", metaName); !reflect.DeepEqual(before, after) {
			t.Errorf("the meta hash was %v and is %v", before, after)
		}
	}
	refuse()
	listtest.Expect(t, listtest.Pop(t, one, key(), 10).Indices, 1, 10)
	restartSaved(t, server)
	check.Eventually(t, "the restart", func() error { return one.Check(t.Context()) })
	refuse()
	check.Equal(t, do(t, server.Client(), "LLEN", listName), any(int64(990)),
		"indices that the other deployment left")
	if st := listtest.State(t, one, key()); st.Purged != 990 || st.HighWater != 1000 {
		t.Errorf("state %+v", st)
	}
	refuse()
}

func TestWorkersOfTwoDeployments(t *testing.T) {
	server := emptied(t)
	one, two := of(t, server, "one").Workers(redisstore.WorkersOptions{Name: "x"}), of(t, server, "two").Workers(redisstore.WorkersOptions{Name: "x"})
	check.Must(t, check.Err(one.Acquire(t.Context(), model.Owner{Address: "a:1", Token: "t"})))
	_, err := two.Acquire(t.Context(), model.Owner{Address: "a:2", Token: "u"})
	wantAdvice(t, err, "deployment one", "this one, two")
	check.Is(t, check.Err(two.Peers(t.Context())), model.ErrForeign)
}

func TestMarks(t *testing.T) {
	server := testserver.Redis(t)
	one, two := of(t, server, "one").Marks(), of(t, server, "two").Marks()
	ctx := t.Context()
	life, err := one.Life(ctx)
	check.Must(t, err)
	const highest = 1<<63 - 1
	for _, raise := range []struct{ value, before int64 }{{9, 0}, {100, 9}, {11, 100}, {highest, 100}, {5, highest}} {
		before, err := one.Raise(ctx, life, []model.Mark{{Counter: "t:a b", Value: raise.value}, {Counter: "l:1_0", Value: 3}})
		if err != nil || before[0] != raise.before {
			t.Errorf("raise to %d: before %d, %v", raise.value, before, err)
		}
	}
	got, err := one.Marks(ctx, life, []string{"h", "t:a b", "", "l:1_0"})
	if err != nil || !slices.Equal(got, []int64{0, highest, 0, 3}) {
		t.Errorf("marks %v, %v", got, err)
	}
	others, err := two.Life(ctx)
	check.Must(t, err)
	if got, err := two.Marks(ctx, others, []string{"t:a b"}); err != nil || got[0] != 0 {
		t.Errorf("another deployment: %v, %v", got, err)
	}
	inLife := func(life string) error {
		_, read := one.Marks(ctx, life, []string{"t:a b"})
		_, raise := one.Raise(ctx, life, []model.Mark{{Counter: "t:new", Value: 1}})
		_, _, scan := one.Scan(ctx, life, 0)
		check.Is(t, raise, read)
		check.Is(t, scan, read)
		return read
	}
	check.Must(t, inLife(life))
	check.Is(t, inLife(life+"0"), model.ErrLifeChanged, "another life")
	restartSaved(t, server)
	again := ""
	check.Eventually(t, "a new life", func() error { again, err = one.Confirm(ctx); return err })
	check.Is(t, inLife(life), model.ErrLifeChanged, "after a restart")
	if got, err := one.Marks(ctx, again, []string{"t:a b", "t:new"}); err != nil || got[0] != 0 || got[1] != 0 {
		t.Errorf("marks of an earlier life: %v, %v", got, err)
	}
	do(t, server.Client(), "DEL", "id.gen.marks_{one}")
	check.Is(t, inLife(again), model.ErrLifeChanged, "after the hash was deleted")
}

// A scan gives every mark, whatever bytes the names of tags have.
func TestMarksScan(t *testing.T) {
	marks := of(t, emptied(t), "one").Marks()
	life, err := marks.Life(t.Context())
	check.Must(t, err)
	want := map[string]int64{"t:a b": 5, "t:3:x\n7 ": 6, "t:": 7}
	for i := range 3000 {
		want[fmt.Sprint("t:", i)] = int64(i + 1)
	}
	for counter, value := range want {
		check.Must(t, check.Err(marks.Raise(t.Context(), life, []model.Mark{{Counter: counter, Value: value}})))
	}
	got := map[string]int64{}
	for next, calls := uint64(0), 0; calls == 0 || next != 0; calls++ {
		var page []model.Mark
		page, next, err = marks.Scan(t.Context(), life, next)
		check.Must(t, err)
		for _, m := range page {
			got[m.Counter] = m.Value
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d marks, want %d", len(got), len(want))
	}
}

// A record is there until it is removed or too old; each deployment has its own.
func TestReplicas(t *testing.T) {
	server := emptied(t)
	r, other := of(t, server, "one").Replicas(), of(t, server, "two").Replicas()
	all := func() map[string]time.Duration {
		t.Helper()
		records, err := r.All(t.Context(), time.Second)
		check.Must(t, err)
		return records
	}
	put := func(replica, record string) {
		t.Helper()
		check.Must(t, r.Put(t.Context(), replica, record, time.Second))
	}
	put("a", `{"n": 1}`)
	put("b", "two words")
	put("a", `{"n": 2}`)
	if got := all(); len(got) != 2 || got[`{"n": 2}`] > 500*time.Millisecond || got["two words"] > time.Second {
		t.Fatalf("%v", got)
	}
	if got, err := other.All(t.Context(), time.Second); err != nil || len(got) != 0 {
		t.Errorf("another deployment sees %v, %v", got, err)
	}
	check.Must(t, r.Remove(t.Context(), "b", time.Second))
	check.Equal(t, len(all()), 1, "after the removal")
	time.Sleep(600 * time.Millisecond)
	put("c", "younger")
	if age, there := all()[`{"n": 2}`]; !there || age < 600*time.Millisecond {
		t.Errorf("a record of 0.6 s is %v old, %v", age, there)
	}
	time.Sleep(600 * time.Millisecond)
	check.Equal(t, len(all()), 1, "a record of more than a second is kept")
	time.Sleep(600 * time.Millisecond)
	check.Equal(t, do(t, server.Client(), "DBSIZE"), any(int64(0)), "keys are left when all records are too old")
}

// However many replicas crash under ever new names, the hash stays small.
func TestReplicasAreBounded(t *testing.T) {
	server := emptied(t)
	r := of(t, server, "one").Replicas()
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = r.Put(t.Context(), fmt.Sprint(n), strings.Repeat("x", 100), time.Minute)
	}
	if n != 257 || !strings.Contains(err.Error(), "256 replicas") {
		t.Errorf("the %dth is refused with %v", n, err)
	}
	check.OK(t, r.Put(t.Context(), "0", "anew", time.Minute), "one that has a record may replace it")
	for _, bad := range []string{"", "two\nlines", strings.Repeat("x", 5000)} {
		check.Is(t, r.Put(t.Context(), "a", bad, time.Minute), model.ErrInvalidArgument,
			"a record of", len(bad), "bytes")
	}
}

// A user that may do what the documentation says may also keep records; what something
// else wrote is not read.
func TestReplicasOfARestrictedUser(t *testing.T) {
	server := testserver.Redis(t)
	r := of(t, server, "one").Replicas()
	do(t, server.Client(), "HSET", "id.gen.replicas_{one}", "x", "nonsense")
	do(t, server.Client(), "ACL", "SETUSER", "default", "-pexpire", "-hdel")
	check.Must(t, r.Put(t.Context(), "a", "record", time.Second))
	if got, err := r.All(t.Context(), time.Second); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReplicasOnCluster(t *testing.T) {
	setup := testserver.Cluster(t)
	r := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs}).Replicas()
	check.Must(t, r.Put(t.Context(), "a", "record", time.Minute))
	if got, err := r.All(t.Context(), time.Minute); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// A script is observed under the name of its file, and failed when Redis could not be used.
func TestObserve(t *testing.T) {
	var seen []string
	observe := func(ctx context.Context, store, op string) (context.Context, func(error)) {
		return ctx, func(failure error) { seen = append(seen, fmt.Sprintf("%s %s %t", store, op, failure == nil)) }
	}
	s := open(t, redisstore.Options{Mode: "single", Addrs: []string{emptied(t).Addr}, Observe: observe})
	_, err := s.Pop(t.Context(), key(), 1)
	check.Must(t, err)
	_ = s.State(t.Context(), []model.ListKey{key()})
	_, err = s.TryLock(t.Context(), []string{"1_2"}, "token", time.Second)
	check.Must(t, err)
	nobody := open(t, redisstore.Options{Mode: "single", Addrs: []string{"127.0.0.1:1"}, Observe: observe})
	if _, err := nobody.Pop(t.Context(), key(), 1); err == nil {
		t.Error("a port where nobody listens answers")
	}
	check.Equal(t, strings.Join(seen, ", "), "redis pop true, redis state true, redis lock true, redis pop false")
}
