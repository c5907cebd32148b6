//go:build unix

package bench

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
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
	clientLibrary    = "client"
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
		{"Generator of the Go client", clientLibrary, "Generator/one-2 ns/op", "Generator/parallel-2 ns/op"},
	}
	for name, benchmark := range map[string]string{
		"bwmarrin/snowflake": "bwmarrin/snowflake", "rs/xid": "rs/xid", "oklog/ulid": "oklog/ulid", "google/uuid v4": "google/uuid_v4",
		"bwmarrin/snowflake, 21 bits of sequence": "bwmarrin/snowflake,_21_bits_of_sequence", "google/uuid v7": "google/uuid_v7", "segmentio/ksuid": "segmentio/ksuid", "sony/sonyflake": "sony/sonyflake",
	} {
		list = append(list, generator{name, peers, "Peer/" + benchmark + " ns/op", "Peer/" + benchmark + "-2 ns/op"})
	}
	slices.SortStableFunc(list[6:], func(a, b generator) int { return strings.Compare(a.name, b.name) })
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
		{name: clientLibrary, dir: "client", pattern: "Generator/(one|parallel)$", cpu: "2"},
		{name: peers, dir: "scripts/bench/peers", pattern: "Peer", cpu: "1,2"},
	} {
		contenders = append(contenders, l.contender(t, s.root, s.plan.bench))
	}
	got := s.contest(libraryContest, s.plan.rounds, contenders)
	judgeSegment(s.report, got[segmentLibrary])
	judgeSnowflake(s.report, got[snowflakeLibrary])
	judgeGenerator(s.report, got[clientLibrary], got[peers])
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

func judgeGenerator(r *report, s, peers series) {
	five := r.goal(5, s)
	one, theirs := s.median("Generator/one-2 ns/op"), peers.median("Peer/bwmarrin/snowflake,_21_bits_of_sequence ns/op")
	five.atMost("an ID of the client's Generator below the cap", one, 40, "ns", "")
	five.tell("the same, of bwmarrin/snowflake below its cap", one/theirs, "×", number(one)+" ns and "+number(theirs)+" ns")
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

// library is a Go package whose benchmarks take part.
type library struct {
	name    string
	dir     string // of the package, from the root of the repository
	pattern string // of benchmarks
	cpu     string // values of GOMAXPROCS
	time    string // -benchtime, if not that of the plan
}

// goBenchLimit bounds one run of a library's benchmarks.
const goBenchLimit = 4 * time.Minute

// contender compiles the benchmarks once and runs them each time.
func (l library) contender(t *testing.T, root, benchtime string) contender {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(l.dir)+".test")
	dir := filepath.Join(root, l.dir)
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = dir
	if _, err := run(build, goBenchLimit); err != nil {
		t.Fatal(err)
	}
	if l.time != "" {
		benchtime = l.time
	}
	return contender{l.name, func() figures {
		t.Helper()
		cmd := exec.Command(binary, "-test.run", "^$", "-test.bench", l.pattern, "-test.benchtime", benchtime, "-test.cpu", l.cpu)
		cmd.Dir = dir
		out, err := run(cmd, goBenchLimit)
		check.Must(t, err)
		got, err := parseGoBench(string(out))
		check.Must(t, err)
		return got
	}}
}

// parseGoBench reads lines such as "BenchmarkX/y-2  100  5.1 ns/op  3 B/op" into
// figures named "X/y-2 ns/op". As go test has it, no number is one processor.
func parseGoBench(out string) (figures, error) {
	got := figures{}
	for line := range strings.Lines(out) {
		name, isBenchmark := strings.CutPrefix(line, "Benchmark")
		fields := strings.Fields(name)
		if !isBenchmark || len(fields) < 4 {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", strings.TrimSpace(line), err)
			}
			got[fields[0]+" "+fields[i+1]] = value
		}
	}
	if len(got) == 0 {
		return nil, fmt.Errorf("no benchmark has run:\n%s", rig.LastLines(out, 5))
	}
	return got, nil
}

// BenchmarkSnowflake is the real generator with the real clock.
func BenchmarkSnowflake(b *testing.B) {
	b.Run("saturated", func(b *testing.B) {
		s := snowflake.NewService(newGenerator(b), time.Second, func() string { return "" }, func(context.Context) bool { return false })
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
// which does not count. It reports the median of the milliseconds: in some of them
// another process had the core.
func benchmarkBelowCap(b *testing.B) {
	g := newGenerator(b)
	var busy []float64 // ns per ID
	for left := b.N; left > 0; left -= 1024 {
		now := time.Now()
		time.Sleep(now.Truncate(time.Millisecond).Add(time.Millisecond).Sub(now))
		n := min(left, 1024)
		began := time.Now()
		for range n {
			if _, got, _, err := g.Take(1); err != nil || got != 1 {
				b.Fatal(got, err)
			}
		}
		busy = append(busy, float64(time.Since(began))/float64(n))
	}
	slices.Sort(busy)
	b.ReportMetric(busy[len(busy)/2], "busy-ns/ID")
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
