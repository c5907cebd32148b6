//go:build unix

package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"shardid/scripts/check"
)

// figures are what one measurement found, by name.
type figures map[string]float64

// othersShare is a figure that every measurement has: what others used of a core.
const othersShare = "cores used by others"

// contender is one that takes its turn in each round.
type contender struct {
	name string
	run  func() figures
}

// series are the figures of a contender over the rounds of a contest.
type series struct {
	Rounds []figures `json:"rounds"`
	// Noisy says that a figure comes from a measurement that others disturbed.
	Noisy bool `json:"noisy"`
}

// median of one figure; NaN when no round has it.
func (s series) median(name string) float64 {
	var values []float64
	for _, f := range s.Rounds {
		if v, ok := f[name]; ok {
			values = append(values, v)
		}
	}
	return median(values)
}

// largest of one figure; NaN when no round has it.
func (s series) largest(name string) float64 {
	largest := math.NaN()
	for _, f := range s.Rounds {
		if v, ok := f[name]; ok && !(v <= largest) { // the negation holds for NaN
			largest = v
		}
	}
	return largest
}

func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// referee repeats what others disturbed, within bounds.
type referee struct {
	busy  float64       // share of a core that others may use
	tries int           // at most, for one measurement
	wait  time.Duration // at most, for a quiet moment before one
	until time.Time     // from then on nothing is waited for or repeated
	watch func(f func()) (share float64, known bool)
	pause func() // between two looks for a quiet moment

	discarded, noisy, measured int
	unknown                    bool // the machine does not say what others do
}

// measure returns the figures of a quiet run, or of the quietest there was; noisy
// says that others used too much of a core even then.
func (r *referee) measure(run func() figures) (best figures, noisy bool) {
	r.measured++
	least := math.Inf(1)
	for try := 0; try == 0 || try < r.tries && time.Now().Before(r.until); try++ {
		r.awaitQuiet()
		var got figures
		share, known := r.watch(func() { got = run() })
		maps.DeleteFunc(got, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) // of nothing
		if !known {
			r.unknown = true
			return got, false
		}
		got[othersShare] = share
		if share < least {
			best, least = got, share
		}
		if share <= r.busy {
			return best, false
		}
		r.discarded++
	}
	r.discarded-- // the best of them is used
	r.noisy++
	return best, true
}

// awaitQuiet waits until others use little.
func (r *referee) awaitQuiet() {
	for end := time.Now().Add(r.wait); time.Now().Before(end) && time.Now().Before(r.until); {
		if share, known := r.watch(r.pause); !known || share <= r.busy {
			return
		}
	}
}

// contest lets the contenders take turns; round n begins with the n-th.
func (r *referee) contest(title string, rounds int, contenders []contender) map[string]series {
	out := map[string]series{}
	for round := range rounds {
		for i := range contenders {
			c := contenders[(round+i)%len(contenders)]
			fmt.Fprintf(os.Stderr, "bench: %s, round %d of %d: %s\n", title, round+1, rounds, c.name)
			got, noisy := r.measure(c.run)
			s := out[c.name]
			out[c.name] = series{append(s.Rounds, got), s.Noisy || noisy}
		}
	}
	return out
}

func TestContest(t *testing.T) {
	var order string
	busy := map[string]float64{"a1": 0.5, "a2": 0.01} // the first run of a is disturbed
	runs := map[string]int{}
	now := ""
	r := &referee{busy: 0.07, tries: 3, until: time.Now().Add(time.Hour), watch: func(f func()) (float64, bool) {
		f()
		return busy[now], true
	}}
	turn := func(name string) contender {
		return contender{name, func() figures {
			runs[name]++
			now = fmt.Sprint(name, runs[name])
			order += name
			return figures{"x": float64(runs[name])}
		}}
	}
	got := r.contest("test", 3, []contender{turn("a"), turn("b"), turn("c")})
	check.Equal(t, order, "aabc"+"bca"+"cab", "order")
	if r.discarded != 1 || r.noisy != 0 || r.measured != 9 || got["a"].Noisy {
		t.Errorf("%+v", r)
	}
	if m, l := got["a"].median("x"), got["a"].largest("x"); m != 3 || l != 4 { // of 2, 3, 4
		t.Errorf("median %v, largest %v", m, l)
	}
	if l := got["a"].largest("y"); !math.IsNaN(l) {
		t.Errorf("largest of nothing is %v", l)
	}
}

func TestMeasureTakesTheQuietestOfNoisyRuns(t *testing.T) {
	shares := []float64{0.9, 0.3, 0.6, 0.1}
	runs := 0
	r := &referee{busy: 0.07, tries: 3, until: time.Now().Add(time.Hour), watch: func(f func()) (float64, bool) {
		f()
		return shares[runs-1], true
	}}
	got, noisy := r.measure(func() figures { runs++; return figures{"x": float64(runs), "y": math.Inf(1), "z": math.NaN()} })
	if len(got) != 2 || !noisy || got["x"] != 2 || runs != 3 || r.discarded != 2 || r.noisy != 1 {
		t.Errorf("%v, noisy %v, %d runs, %+v", got, noisy, runs, r)
	}
	r.until = time.Now().Add(-time.Second) // no time left: one run, whatever it is
	if got, noisy = r.measure(func() figures { runs = 3; return figures{"x": 7} }); !noisy || got["x"] != 7 || r.discarded != 2 {
		t.Errorf("%v, noisy %v, %+v", got, noisy, r)
	}
}

// A machine that gets slower from round to round changes no ratio.
func TestRatioIsOfEachRound(t *testing.T) {
	slower := func(values ...float64) (s series) {
		for i, v := range values {
			s.Rounds = append(s.Rounds, figures{"x": v / float64(1+i)})
		}
		return s
	}
	own, bare := slower(9, 9, 9, 8, 20), slower(10, 10, 10, 10, 10)
	check.Equal(t, ratio(own, bare, "x"), 0.9, "ratio")
	if got := spread(own, bare, "x"); got != "; half of the rounds had 0.90 to 0.90" {
		t.Error(got)
	}
	for name, nothing := range map[string]series{"without the figure": {Rounds: []figures{{"y": 1}}}, "of none": {}, "of zero": slower(0)} {
		if got := ratio(own, nothing, "x"); !math.IsNaN(got) || spread(own, nothing, "x") != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		check.Equal(t, median(c.values), c.want, c.values)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}

// tick is the unit of /proc, USER_HZ: 100 on all that Linux runs on today.
const tick = 10 * time.Millisecond

// usage is the CPU time that others have used: processes that are not below this
// one, and the hypervisor.
//
// It is summed up from the processes, to whom time is charged exactly, and not taken
// from the totals of /proc/stat, which are sampled and can be an eighth of a core off.
// The threads of the kernel are left out: most of what they do here is our own.
type usage struct {
	at     time.Time
	others time.Duration
}

// readUsage reads it from a /proc, for self and all that it started.
func readUsage(proc string, self int) (u usage, err error) {
	u.at = time.Now()
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return u, err
	}
	total, err := fs.Stat()
	if err != nil {
		return u, err
	}
	processes, err := fs.AllProcs()
	if err != nil {
		return u, err
	}
	all := map[int]procfs.ProcStat{}
	for _, p := range processes {
		stat, err := p.Stat()
		switch {
		case err == nil:
			all[p.PID] = stat
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH): // it has just ended
			return u, fmt.Errorf("process %d: %w", p.PID, err)
		}
	}
	// What the hypervisor gave to others while a process was waiting to run.
	u.others = time.Duration(math.Round(total.CPUTotal.Steal*float64(time.Second/tick))) * tick
	for pid, stat := range all {
		if !descends(all, pid, self) && !descends(all, pid, kernelThreads) {
			u.others += used(stat)
		}
	}
	return u, nil
}

// used is the CPU time of a process, and of its children that have ended.
func used(p procfs.ProcStat) time.Duration {
	return time.Duration(int(p.UTime+p.STime)+p.CUTime+p.CSTime) * tick
}

// kernelThreads is the parent of the kernel's threads.
const kernelThreads = 2

// descends says whether pid is ancestor or below it. Two readings of one /proc can
// make a circle, so the steps are bounded.
func descends(all map[int]procfs.ProcStat, pid, ancestor int) bool {
	for range len(all) {
		if pid == ancestor {
			return true
		}
		p, known := all[pid]
		if !known {
			return false
		}
		pid = p.PPID
	}
	return false
}

// others is the share of a core that they used between two readings. A sum that sank
// is of somebody who ended and whose time no parent took over: nobody knows what they
// did meanwhile, so it counts as all of a core.
func others(before, after usage) float64 {
	elapsed, used := after.at.Sub(before.at), after.others-before.others
	if used < 0 || elapsed <= 0 {
		return 1
	}
	return used.Seconds() / elapsed.Seconds()
}

// watchNoise runs f and says how busy others were meanwhile; known is false where
// the machine does not tell.
func watchNoise(f func()) (share float64, known bool) {
	before, errBefore := readUsage("/proc", os.Getpid())
	f()
	after, errAfter := readUsage("/proc", os.Getpid())
	return others(before, after), errBefore == nil && errAfter == nil
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		check.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	line := func(pid int, name string, parent, utime, stime, cutime, cstime int) {
		put(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 %d %d %d %d 20 0 1"+strings.Repeat(" 0", 24),
			pid, name, parent, utime, stime, cutime, cstime))
	}
	put("stat", "cpu  100 20 30 9000 7 4 5 41 0 0\ncpu0 1 2 3\n")
	line(1, "init", 0, 1000, 100, 10, 1)
	line(2, "kthreadd", 0, 10_000, 0, 0, 0)
	line(3, "kworker/0:0", 2, 10_000, 0, 0, 0)
	line(10, "bench", 1, 1, 2, 3, 4)
	line(11, "odd ) name (", 10, 10, 20, 0, 0)
	line(12, "grandchild", 11, 100, 0, 0, 0)
	line(20, "stranger", 1, 500, 0, 0, 0)
	u, err := readUsage(dir, 10)
	if want := (41 + 1111 + 500) * tick; err != nil || u.others != want {
		t.Errorf("others used %v, want %v; %v", u.others, want, err)
	}
	for later, want := range map[usage]float64{
		{u.at.Add(2 * time.Second), u.others + 40*tick}: 0.2,
		{u.at.Add(2 * time.Second), u.others}:           0,
		{u.at.Add(2 * time.Second), u.others - tick}:    1,
	} {
		if got := others(u, later); math.Abs(got-want) > 1e-9 {
			t.Errorf("others used %v of a core, want %v", got, want)
		}
	}
	line(13, "short", 10, 1, 1, 1, 1)
	put("13/stat", "13 (short) S 10")
	if _, err := readUsage(dir, 10); err == nil {
		t.Error("a line that is cut off was read")
	}
}
