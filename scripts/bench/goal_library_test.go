//go:build unix

package bench

import (
	"math"
	"syscall"
	"testing"
	"time"

	"shardid/service/snowflake"
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

// libraryBars are what the picture shows.
var libraryBars = []struct{ name, contender, figure string }{
	{"atomic add, the floor", ringLibrary, "AtomicAdd/1-2 ns/op"},
	{"segment, by handle", segmentLibrary, "HandleAndAtomicAdd/handle-2 ns/op"},
	{"segment, by key", segmentLibrary, "HandleAndAtomicAdd/key-2 ns/op"},
	{"UID, cached", uidLibrary, "Cached/one,_1_goroutine-2 ns/ID"},
	{"snowflake, at its bound", snowflakeLibrary, "Snowflake/saturated-2 ns/op"},
	{"bwmarrin/snowflake", peers, "Peer/bwmarrin/snowflake ns/op"},
	{"rs/xid", peers, "Peer/rs/xid ns/op"},
	{"oklog/ulid", peers, "Peer/oklog/ulid ns/op"},
	{"google/uuid v4", peers, "Peer/google/uuid_v4 ns/op"},
	{"google/uuid v7", peers, "Peer/google/uuid_v7 ns/op"},
	{"segmentio/ksuid", peers, "Peer/segmentio/ksuid ns/op"},
	{"sony/sonyflake", peers, "Peer/sony/sonyflake ns/op"},
}

// measureLibraries is goals 4 to 6, without HTTP and stores.
func measureLibraries(t *testing.T, s *suite) {
	var contenders []contender
	for _, l := range []library{
		{name: segmentLibrary, dir: "service/segment", pattern: "HandleAndAtomicAdd|Issue/(atomic_add|handle|key)$/parallel", cpu: "2"},
		{name: snowflakeLibrary, dir: "scripts/bench", pattern: "Snowflake", cpu: "2"},
		{name: uidLibrary, dir: "service/uid", pattern: "Cached", cpu: "2"},
		{name: ringLibrary, dir: "service/ring", pattern: "AtomicAdd|Take$", cpu: "2"},
		{name: peers, dir: "scripts/bench/peers", pattern: "Peer", cpu: "1,2"},
	} {
		contenders = append(contenders, l.contender(t, s.root, s.plan.bench))
	}
	got := s.contest(libraryContest, contenders)
	judgeSegment(s.report, got[segmentLibrary])
	judgeSnowflake(s.report, got[snowflakeLibrary])
	judgeUID(s.report, got[uidLibrary], got[ringLibrary])
}

func judgeSegment(r *report, s series) {
	four := r.goal(4, s)
	add, handle, key := s.median("HandleAndAtomicAdd/atomic_add-2 ns/op"), s.median("HandleAndAtomicAdd/handle-2 ns/op"), s.median("HandleAndAtomicAdd/key-2 ns/op")
	four.atMost("segment by handle, of an atomic add", handle/add, 1.7, "×", number(handle)+" ns and "+number(add)+" ns")
	four.absent("segment by key, of Leaf in Java, 1 goroutine", reference(key, 25, "1.7 ×"))
	four.absent("the same, 2 goroutines", reference(s.median("Issue/key/parallel-2 ns/op"), 122, "11 ×"))
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
	got := s.contest("stores", []contender{l.contender(t, s.root, "")})[l.name]
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

// BenchmarkSnowflake is the real generator with the real clock.
func BenchmarkSnowflake(b *testing.B) {
	b.Run("saturated", func(b *testing.B) {
		s := snowflake.NewService(newGenerator(b), time.Second)
		ids := make([]int64, 0, 1)
		measureCap(b, 1, func() {
			if _, err := s.Next(b.Context(), 1, ids); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("batches", benchmarkBatches)
	b.Run("below the cap", benchmarkBelowCap)
}

// benchmarkBatches takes whole milliseconds.
func benchmarkBatches(b *testing.B) {
	g, whole := newGenerator(b), 0
	measureCap(b, 4096, func() {
		for {
			_, got, wait, err := g.Take(4096)
			if err != nil {
				b.Fatal(err)
			}
			if got > 0 {
				whole += got / 4096
				return
			}
			time.Sleep(wait)
		}
	})
	b.ReportMetric(float64(whole)/float64(b.N), "in-one-step")
}

// benchmarkBelowCap takes 1024 in each millisecond and sleeps for the rest of it,
// which does not count.
func benchmarkBelowCap(b *testing.B) {
	g := newGenerator(b)
	var taking time.Duration
	for left := b.N; left > 0; left -= 1024 {
		now := time.Now()
		time.Sleep(now.Truncate(time.Millisecond).Add(time.Millisecond).Sub(now))
		began := time.Now()
		for range min(left, 1024) {
			if _, got, _, err := g.Take(1); err != nil || got != 1 {
				b.Fatal(got, err)
			}
		}
		taking += time.Since(began)
	}
	b.ReportMetric(float64(taking)/float64(b.N), "busy-ns/ID")
}

// measureCap reports which share of the format's cap was reached by calls for n IDs
// each, and how many cores it took.
func measureCap(b *testing.B, n int, call func()) {
	began, before := time.Now(), cpuTime()
	for range b.N {
		call()
	}
	took := time.Since(began)
	b.ReportMetric(float64(b.N*n)/4096/max(1, float64(took)/1e6), "of-cap")
	b.ReportMetric(float64(cpuTime()-before)/float64(took), "cores")
}

// newGenerator is one with a worker ID for all of time.
func newGenerator(b *testing.B) *snowflake.Generator {
	b.Helper()
	g, err := snowflake.New(snowflake.Options{EpochMs: 1288834974657, SequenceStart: 100, Tolerance: 5 * time.Millisecond})
	if err != nil {
		b.Fatal(err)
	}
	g.Begin(1, 0)
	g.Extend(math.MaxInt64, math.MaxInt64)
	return g
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
