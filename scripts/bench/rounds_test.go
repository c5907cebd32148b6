//go:build unix

package bench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
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
	Rounds []figures
	// Noisy says that a figure comes from a measurement that others disturbed.
	Noisy bool
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
