//go:build unix

package redisstore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/model/witness"
	"shardid/repository/redisstore"
	"shardid/repository/sequencetest"
	"shardid/scripts/check"
)

// callErrs are the errors of all calls about what belongs to one deployment.
func callErrs(t *testing.T, s *redisstore.Store, l life) map[string]error {
	t.Helper()
	ctx, keys, q := t.Context(), []model.ListKey{key()}, s.Sequences()
	section := sequencetest.Key(0)
	push := model.SectionPush{Key: section, Life: l.section.Life, Term: 1, Segment: model.Segment{First: 11, Last: 20}}
	ask := model.SectionAsk{Key: section, Server: l.section.Server, Term: 1, Asks: sequencetest.Of("k", 1)}
	answer := q.Next(ctx, []model.SectionAsk{ask})[0]
	check.Equal(t, len(answer.Last), 0, "numbers with an error")
	return map[string]error{
		"pop": popErr(t, s), "state": s.State(ctx, keys)[0].Err, "probe": s.Probe(ctx, keys)[0].Err,
		"push": pushErr(t, s, l.push), "delete": s.Delete(ctx, keys),
		"sections": q.State(ctx, []model.SectionKey{section})[0].Err, "next": answer.Err,
		"push numbers": q.Push(ctx, []model.SectionPush{push})[0], "confirm": check.Err(q.Confirm(ctx, section)),
		"forget": q.Forget(ctx, model.Space{Name: "s", Sections: 1, Step: 1}),
	}
}

// dump is the content of a database.
func dump(t *testing.T, c *redis.Client) string {
	t.Helper()
	content := map[string]string{}
	for _, key := range c.Keys(t.Context(), "*").Val() {
		content[key] = c.Dump(t.Context(), key).Val()
	}
	return fmt.Sprintf("%q", content)
}

// TestDeployments: a second deployment on one Redis is refused by each call, and changes nothing: not even in another
// life of the server, when lists are purged. So is one that is not known yet. What names no deployment becomes ours.
func TestDeployments(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	unknown, ours, theirs := of(t, o, ""), of(t, o, "ours"), of(t, o, "theirs")
	errs := callErrs(t, unknown, life{
		push: model.PushRequest{Key: key(), Life: "x", Segment: model.Segment{First: 1, Last: 1}}})
	errs["marks"] = check.Err(unknown.Marks().Life(t.Context()))
	errs["replicas"] = check.Err(unknown.Replicas().Put(t.Context(), "a", "b", time.Second))
	for _, err := range errs {
		wantAdvice(t, err, "not known yet", "database")
	}
	check.OK(t, unknown.Check(t.Context()), "the server can be used")
	check.Equal(t, do(t, c, "DBSIZE"), any(int64(0)), "keys were written")

	l := live(t, ours)
	for _, change := range []func(){
		func() {},
		func() { do(t, c, "HSET", metaName, "h", strings.Repeat("5f", 20)) },
	} {
		change()
		before := dump(t, c)
		for what, err := range callErrs(t, theirs, l) {
			wantAdvice(t, err, "deployment ours", "this one, theirs", "redis.url", "shardid_deployment")
			check.Is(t, err, model.ErrForeign, what)
		}
		check.Equal(t, dump(t, c), before, "content")
	}
	do(t, c, "HDEL", metaName, "d")
	check.OK(t, popErr(t, ours), "of version 0.1")
	check.Equal(t, do(t, c, "HGET", metaName, "d"), "ours", "the deployment")
}

// TestMarks: a mark only rises, and each deployment has its own, up to the highest number and whatever bytes the names
// of counters have.
func TestMarks(t *testing.T) {
	t.Parallel()
	o, _ := lend(t)
	one, two := of(t, o, "one").Marks(), of(t, o, "two").Marks()
	ctx := t.Context()
	life, err := one.Life(ctx)
	check.Must(t, err)
	const highest = 1<<63 - 1
	for _, raise := range []struct{ value, before int64 }{{9, 0}, {100, 9}, {11, 100}, {highest, 100}, {5, highest}} {
		marks := []witness.Mark{{Counter: "t:a b", Value: raise.value}, {Counter: "l:1_0", Value: 3}}
		before, err := one.Raise(ctx, life, marks)
		check.Must(t, err)
		check.Equal(t, before[0], raise.before, "before", raise.value)
	}
	for _, in := range []string{life, ""} {
		got, err := read(t, one, in, "h", "t:a b", "", "l:1_0")
		check.Must(t, err)
		check.Equal(t, fmt.Sprint(got), fmt.Sprint([]int64{0, highest, 0, 3}))
	}
	got, err := read(t, two, "", "t:a b")
	check.Must(t, err)
	check.Equal(t, got[0], 0, "of another deployment")
	check.Is(t, check.Err(read(t, one, life+"0", "t:a b")), model.ErrLifeChanged)

	want := map[string]int64{"t:3:x\n7 ": 6, "t:": 7}
	for i := range 1500 {
		want[fmt.Sprint("t:", i)] = int64(i + 1)
	}
	var marks []witness.Mark
	for counter, value := range want {
		marks = append(marks, witness.Mark{Counter: counter, Value: value})
	}
	check.Must(t, check.Err(one.Raise(ctx, life, marks)))
	want["t:a b"], want["l:1_0"] = highest, 3
	seen := map[string]int64{}
	for next, calls := uint64(0), 0; calls == 0 || next != 0; calls++ {
		marks, next, err = one.Scan(ctx, life, next)
		check.Must(t, err)
		for _, m := range marks {
			seen[m.Counter] = m.Value
		}
	}
	check.Equal(t, maps.Equal(seen, want), true, "marks", len(seen), "want", len(want))
}

// read gives the marks of counters in a life.
func read(t *testing.T, m redisstore.Marks, life string, counters ...string) ([]int64, error) {
	marks := make([]witness.Mark, len(counters))
	for i, counter := range counters {
		marks[i].Counter = counter
	}
	return m.Raise(t.Context(), life, marks)
}

// TestReplicas: a record is there until it is removed or too old; each deployment has its own.
func TestReplicas(t *testing.T) {
	t.Parallel()
	o, c := lend(t)
	ctx, lasts := t.Context(), time.Hour
	r, other := of(t, o, "one").Replicas(), of(t, o, "two").Replicas()
	all := func(r *redisstore.Replicas) string {
		t.Helper()
		records, err := r.All(ctx, lasts)
		check.Must(t, err)
		return fmt.Sprint(slices.Sorted(maps.Keys(records)))
	}
	for _, put := range [][2]string{{"a", "1"}, {"b", "two words"}, {"a", `{"n": 2}`}} {
		check.Must(t, check.Err(r.Put(ctx, put[0], put[1], lasts)))
	}
	check.Equal(t, all(r), `[two words {"n": 2}]`)
	check.Equal(t, all(other), "[]", "of another deployment")
	check.Must(t, r.Remove(ctx, "b", lasts))
	check.Equal(t, all(r), `[{"n": 2}]`, "after the removal")

	const hash = "id.gen.replicas_{one}"
	now := c.Time(ctx).Val().UnixMilli()
	for field, record := range map[string]string{
		"old": fmt.Sprint(now-3_700_000, " old"), "older": fmt.Sprint(now-30_000, " older"), "x": "nonsense",
		"ahead": fmt.Sprint(now+3_700_000, " ahead"), // as when the clock was set back
	} {
		do(t, c, "HSET", hash, field, record)
	}
	ages, err := r.All(ctx, lasts)
	check.Must(t, err)
	check.Equal(t, len(ages), 2, "records that count")
	check.Equal(t, ages["older"] >= 30*time.Second, true, ages)
	others, err := r.Put(ctx, "a", "3", lasts)
	check.Must(t, err)
	check.Equal(t, fmt.Sprint(slices.Collect(maps.Keys(others))), "[older]", "the others")
	check.Equal(t, c.HLen(ctx, hash).Val(), 2, "records that are kept")
	left := c.PTTL(ctx, hash).Val()
	check.Equal(t, left > 0 && left <= lasts, true, "expires", left)
}
