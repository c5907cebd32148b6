//go:build unix

package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// libraryContest is the contest of generators in the process. Contenders are
// packages, and figures their benchmarks.
const (
	libraryContest   = "libraries"
	segmentLibrary   = "segment"
	snowflakeLibrary = "snowflake"
	uidLibrary       = "UID"
	ringLibrary      = "ring"
	peers            = "peers"
)

// generator is a line of the table of generators.
type generator struct {
	name, contender string
	one, two        string // figures of one goroutine and of two; "" for none
}

// floor is what no generator that goroutines share can be below.
const floor = "atomic add, the floor"

func generators() []generator {
	list := []generator{
		{floor, segmentLibrary, "HandleAndAtomicAdd/atomic_add-2 ns/op", "Issue/atomic_add/parallel-2 ns/op"},
		{"segment, by handle", segmentLibrary, "HandleAndAtomicAdd/handle-2 ns/op", "Issue/handle/parallel-2 ns/op"},
		{"segment, by key", segmentLibrary, "HandleAndAtomicAdd/key-2 ns/op", "Issue/key/parallel-2 ns/op"},
		{"UID, cached", uidLibrary, "Cached/one,_1_goroutine-2 ns/ID", "Cached/one,_2_goroutines-2 ns/ID"},
		{"snowflake, at its bound", snowflakeLibrary, "Snowflake/saturated-2 ns/op", ""},
	}
	for name, benchmark := range map[string]string{
		"bwmarrin/snowflake": "bwmarrin/snowflake", "rs/xid": "rs/xid", "oklog/ulid": "oklog/ulid", "google/uuid v4": "google/uuid_v4",
		"google/uuid v7": "google/uuid_v7", "segmentio/ksuid": "segmentio/ksuid", "sony/sonyflake": "sony/sonyflake",
	} {
		list = append(list, generator{name, peers, "Peer/" + benchmark + " ns/op", "Peer/" + benchmark + "-2 ns/op"})
	}
	slices.SortStableFunc(list[5:], func(a, b generator) int { return strings.Compare(a.name, b.name) })
	return list
}

// generatorTable is nanoseconds for an ID; "" when they were not measured.
func (r *report) generatorTable() string {
	if r.Contests[libraryContest] == nil {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ns for an ID\tone goroutine\ttwo")
	for _, g := range generators() {
		s := r.Contests[libraryContest][g.contender]
		fmt.Fprintf(w, "%s\t%s\t%s\n", g.name, nanoseconds(s, g.one), nanoseconds(s, g.two))
	}
	_ = w.Flush() // into memory
	return b.String()
}

func nanoseconds(s series, figure string) string {
	if v := s.median(figure); !math.IsNaN(v) {
		return number(math.Round(v*10) / 10)
	}
	return ""
}

// measureLibraries is goals 4 to 6, without HTTP and stores.
func measureLibraries(t *testing.T, s *suite) {
	var contenders []contender
	for _, l := range []library{
		{name: segmentLibrary, dir: "service/segment", pattern: "HandleAndAtomicAdd|Issue/(atomic_add|handle|key)$/parallel", cpu: "2"},
		{name: snowflakeLibrary, dir: "scripts/bench", pattern: "Snowflake", cpu: "2"},
		{name: uidLibrary, dir: "service/uid", pattern: "Cached", cpu: "2"},
		{name: ringLibrary, dir: "service/uid", pattern: "AtomicAdd|Take$", cpu: "2"},
		{name: peers, dir: "scripts/bench/peers", pattern: "Peer", cpu: "1,2"},
	} {
		contenders = append(contenders, l.contender(t, s.root, s.plan.bench))
	}
	got := s.contest(libraryContest, s.plan.rounds, contenders)
	judgeSegment(s.report, got[segmentLibrary])
	judgeSnowflake(s.report, got[snowflakeLibrary])
	judgeUID(s.report, got[uidLibrary], got[ringLibrary])
}

func judgeSegment(r *report, s series) {
	four := r.goal(4, s)
	add, handle, key := s.median("HandleAndAtomicAdd/atomic_add-2 ns/op"), s.median("HandleAndAtomicAdd/handle-2 ns/op"), s.median("HandleAndAtomicAdd/key-2 ns/op")
	four.atMost("segment by handle, of an atomic add", handle/add, 1.7, "×", number(handle)+" ns and "+number(add)+" ns")
	both, addBoth := s.median("Issue/key/parallel-2 ns/op"), s.median("Issue/atomic_add/parallel-2 ns/op")
	four.atMost("segment by key on two goroutines, of an atomic add", both/addBoth, 2, "×", number(both)+" ns and "+number(addBoth)+" ns")
	four.absent("segment by key, of Leaf in Java, 1 goroutine", reference(key, 25, "1.7 ×"))
	four.absent("the same, 2 goroutines", reference(both, 122, "11 ×"))
}

func judgeSnowflake(r *report, s series) {
	five := r.goal(5, s)
	five.atLeast("snowflake when saturated, of 4096 a millisecond", s.median("Snowflake/saturated-2 of-cap"), 0.99, "×", "")
	five.tell("of a core used meanwhile, waiting included", s.median("Snowflake/saturated-2 cores"), "cores", "")
	five.tell("the same, taken 4096 at a time", s.median("Snowflake/batches-2 cores"), "cores", "")
	five.atMost("time for a snowflake below the cap", s.median("Snowflake/below_the_cap-2 busy-ns/ID"), 40, "ns", "at a quarter of it, in bursts of 1024")
	five.atLeast("a batch of 4096 comes in one step, share", s.median("Snowflake/batches-2 in-one-step"), 1, "", "")
}

func judgeUID(r *report, s, ring series) {
	six := r.goal(6, s)
	six.absent("UID cached, of Baidu's in Java, 1 goroutine", reference(s.median("Cached/one,_1_goroutine-2 ns/ID"), 70, "2 ×"))
	six.absent("the same, 2 goroutines", reference(s.median("Cached/one,_2_goroutines-2 ns/ID"), 118, "3 ×"))
	r.goal(6, ring).tell("the ring alone, 1 goroutine, filling included", ring.median("Take/1-2 ns/op"), "ns", "")
}

// reference is a figure that was published, or measured elsewhere, next to ours.
func reference(ours, theirs float64, target string) string {
	return number(math.Round(ours*10)/10) + " ns here; Java had " + number(theirs) + " ns or more on another machine, which would be " +
		number(theirs/ours) + " × (goal " + target + ")"
}

// measureStores is goal 7, the cost of the guards in Redis.
func measureStores(t *testing.T, s *suite) {
	times := map[string]string{"full": "10x", "quick": "3x"}[s.plan.name]
	l := library{name: "redisstore", dir: "repository/redisstore", pattern: "Push1024Times1000|StateOf16384", cpu: "2", time: times}
	got := s.contest("stores", s.plan.rounds, []contender{l.contender(t, s.root, "")})[l.name]
	seven := s.report.goal(7, got)
	for _, c := range []struct {
		what, ours, plain string
		target            float64
	}{
		{"filling 1024 lists with 1000, of RPUSH pipelined", "Push1024Times1000/guarded-2 ns/op", "Push1024Times1000/RPUSH_pipelined_by_64-2 ns/op", 1.5},
		{"state of 16 384 lists, of LLEN pipelined", "StateOf16384/guarded-2 ns/op", "StateOf16384/LLEN_pipelined_by_1024-2 ns/op", 5},
	} {
		ours, plain := got.median(c.ours), got.median(c.plain)
		seven.atMost(c.what, ours/plain, c.target, "×", number(math.Round(ours/1e5)/10)+" ms and "+number(math.Round(plain/1e5)/10)+" ms")
	}
}
