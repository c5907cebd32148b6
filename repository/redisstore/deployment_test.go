//go:build unix

package redisstore_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func of(t *testing.T, server *testserver.RedisServer, deployment string) *redisstore.Store {
	t.Helper()
	s := openAt(t, server.Addr)
	s.SetDeployment(deployment)
	return s
}

func TestNothingIsDoneBeforeTheDeploymentIsKnown(t *testing.T) {
	server := testserver.SharedRedis(t)
	server.FlushAll()
	s := of(t, server, "")
	_, _, _, peek := s.Marks().Peek(t.Context(), "a")
	for _, err := range []error{popErr(t, s), s.State(t.Context(), []model.ListKey{key()})[0].Err, s.Delete(t.Context(), []model.ListKey{key()}), peek} {
		wantAdvice(t, err, "not known yet", "database")
	}
	check.OK(t, s.Check(t.Context()), "the server can be used, whoever asks:")
	check.Equal(t, do(t, server.Client(), "DBSIZE"), any(int64(0)), "keys were written")
}

// A second deployment on one Redis is refused, by each call, and changes nothing: not
// even after a restart, when lists are purged.
func TestTwoDeploymentsOnOneRedis(t *testing.T) {
	server := testserver.Redis(t)
	one, two := of(t, server, "one"), of(t, server, "two")
	listtest.Fill(t, one, key(), 1, 1000)
	request := model.PushRequest{Key: key(), History: listtest.State(t, one, key()).History, Segment: model.Segment{First: 5000, Last: 5999}, Cap: 9999}
	refuse := func() {
		t.Helper()
		before := do(t, server.Client(), "HGETALL", metaName)
		for _, err := range []error{
			popErr(t, two),
			two.State(t.Context(), []model.ListKey{key()})[0].Err,
			two.Probe(t.Context(), []model.ListKey{key()})[0].Err,
			two.Push(t.Context(), []model.PushRequest{request})[0],
			two.Mark(t.Context(), []model.MarkRequest{{Key: key(), History: request.History, Index: 5000}})[0],
			two.Delete(t.Context(), []model.ListKey{key()}),
		} {
			wantAdvice(t, err, "deployment one", "this one, two", "redis.db", "shardid confirm --deployment")
			check.Is(t, err, model.ErrForeign)
		}
		if after := do(t, server.Client(), "HGETALL", metaName); !equal(before, after) {
			t.Errorf("the meta hash was %v and is %v", before, after)
		}
	}
	refuse()
	listtest.Expect(t, listtest.Pop(t, one, key(), 10).Indices, 1, 10)
	do(t, server.Client(), "SAVE")
	server.Kill()
	server.Restart()
	eventually(t, "the restart", func() error { return one.Check(t.Context()) })
	refuse()
	if n := do(t, server.Client(), "LLEN", listName); n != int64(990) {
		t.Errorf("the other deployment left %v of 990 indices", n)
	}
	if st := listtest.State(t, one, key()); st.Purged != 990 || st.HighWater != 1000 {
		t.Errorf("state %+v", st)
	}
	refuse()
}

func TestWorkersOfTwoDeployments(t *testing.T) {
	server := testserver.SharedRedis(t)
	server.FlushAll()
	one, two := of(t, server, "one").Workers(redisstore.WorkersOptions{Name: "x"}), of(t, server, "two").Workers(redisstore.WorkersOptions{Name: "x"})
	check.Must(t, check.Err(one.Acquire(t.Context(), model.Owner{Address: "a:1", Token: "t"})))
	_, err := two.Acquire(t.Context(), model.Owner{Address: "a:2", Token: "u"})
	wantAdvice(t, err, "deployment one", "this one, two")
	check.Is(t, check.Err(two.Peers(t.Context())), model.ErrForeign)
}

func equal(a, b any) bool {
	x, y := a.(map[any]any), b.(map[any]any)
	for k, v := range x {
		if y[k] != v {
			return false
		}
	}
	return len(x) == len(y)
}

// old runs a script of version 0.1, as a replica that was not replaced yet does.
func old(t *testing.T, c redis.UniversalClient, script string, args ...any) string {
	t.Helper()
	text := ""
	for _, name := range []string{"prelude", script} {
		part, err := os.ReadFile("testdata/v0.1/" + name + ".lua")
		check.Must(t, err)
		text += string(part)
	}
	return do(t, c, append([]any{"EVAL", text, 2, listName, metaName, ""}, args...)...).(string)
}

// Replicas of version 0.1 and of this one serve the same lists during a rollout.
func TestBesideVersionOne(t *testing.T) {
	server := testserver.Redis(t)
	s, c := of(t, server, "ours"), server.Client()
	history := func() string { return strings.Fields(old(t, c, "state"))[0] }
	if got := old(t, c, "push", history(), 1, 100, 1000); got != "ok" {
		t.Fatal(got)
	}
	listtest.Expect(t, listtest.Pop(t, s, key(), 10).Indices, 1, 10) // taken over, not purged
	check.Equal(t, do(t, c, "HGET", metaName, "d"), "ours", "the hash belongs to")
	if got := old(t, c, "pop", 10); !strings.HasSuffix(got, " 80 9 11") {
		t.Errorf("popped %q", got)
	}
	listtest.Fill(t, s, key(), 101, 200)
	check.Equal(t, old(t, c, "push", history(), 150, 250, 1000), "highwater")
	if st := listtest.State(t, s, key()); st.History != history() || st.Len != 180 {
		t.Errorf("state %+v, history %s", st, history())
	}
	do(t, c, "SAVE")
	server.Kill()
	server.Restart()
	eventually(t, "the restart", func() error { return s.Check(t.Context()) })
	if got := old(t, c, "pop", 10); !strings.Contains(got, " 180 0 0") {
		t.Errorf("popped %q", got)
	}
	if st := listtest.State(t, s, key()); st.History != history() || st.Len != 0 || st.HighWater != 200 {
		t.Errorf("state %+v", st)
	}
	do(t, c, "DEL", metaName) // an old replica makes a new hash, which names no deployment
	check.Equal(t, old(t, c, "push", history(), 201, 300, 1000), "ok")
	listtest.Expect(t, listtest.Pop(t, s, key(), 500).Indices, 201, 300)
}

// Foreign counts what another deployment has, and changes nothing.
func TestForeign(t *testing.T) {
	server := testserver.Redis(t)
	one, two := of(t, server, "one"), of(t, server, "two")
	keys := []model.ListKey{{App: 1}, {App: 1, Shard: 1}, {App: 2}}
	listtest.State(t, one, keys[0])
	listtest.State(t, two, keys[2])
	for name, c := range map[string]struct {
		store *redisstore.Store
		lists int
		other string
	}{"one": {one, 1, "two"}, "two": {two, 1, "one"}, "three": {of(t, server, "three"), 2, ""}} {
		n, other, err := c.store.Foreign(t.Context(), keys)
		if err != nil || n != c.lists || c.other != "" && other != c.other {
			t.Errorf("%s: %d of %q, %v", name, n, other, err)
		}
	}
	check.Equal(t, server.Client().DBSize(t.Context()).Val(), 2, "keys")
}

func TestMarks(t *testing.T) {
	server := testserver.Redis(t)
	one, two := of(t, server, "one").Marks(), of(t, server, "two").Marks()
	ctx := t.Context()
	const never = 365 * 24 * time.Hour
	life, age, mark, err := one.Peek(ctx, "t:a b")
	if err != nil || age < never || mark != 0 || life == "" {
		t.Fatal(life, age, mark, err)
	}
	const highest = 1<<63 - 1
	for _, raise := range []struct{ value, before int64 }{{9, 0}, {100, 9}, {11, 100}, {highest, 100}, {5, highest}} {
		l, before, err := one.Raise(ctx, "t:a b", raise.value)
		if err != nil || before != raise.before || l != life {
			t.Errorf("raise to %d: life %s, before %d, %v", raise.value, l, before, err)
		}
	}
	for range 2 {
		if l, err := one.Beat(ctx, time.Minute); err != nil || l != life {
			t.Fatal(l, err)
		}
	}
	for counter, want := range map[string]int64{"t:a b": highest, "h": 0, "": 0} {
		l, since, got, err := one.Peek(ctx, counter)
		if err != nil || since > time.Minute || got != want || l != life {
			t.Errorf("peek %q: %s %v %d %v", counter, l, since, got, err)
		}
	}
	if _, since, got, err := two.Peek(ctx, "t:a b"); err != nil || since < never || got != 0 {
		t.Errorf("another deployment: %v %d %v", since, got, err)
	}
	time.Sleep(20 * time.Millisecond)
	after, err := one.Beat(ctx, 10*time.Millisecond)
	if err != nil || after == life {
		t.Errorf("after a break: %s, %v", after, err)
	}
	life = after
	if now, _, got, err := one.Peek(ctx, "t:a b"); now != life || got != highest {
		t.Errorf("the marks stay: %s %d %v", now, got, err)
	}
	do(t, server.Client(), "SAVE")
	server.Kill()
	server.Restart()
	var l string
	eventually(t, "a new life", func() error { l, age, mark, err = one.Peek(ctx, "t:a b"); return err })
	if l == life || age < never || mark != 0 {
		t.Errorf("after a restart: %s %v %d", l, age, mark)
	}
	if now, before, err := one.Raise(ctx, "t:a b", 7); err != nil || before != 0 || now == life {
		t.Error(now, before, err)
	}
	do(t, server.Client(), "DEL", "id.gen.marks_{one}")
	if again, _, mark, err := one.Peek(ctx, "t:a b"); err != nil || again == l || mark != 0 {
		t.Error("a hash that was deleted has another life:", again, mark, err)
	}
}
