//go:build unix

package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

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
	if u.others, err = stolen(proc); err != nil {
		return u, err
	}
	all, err := readProcesses(proc)
	for pid, p := range all {
		if !descends(all, pid, self) && !descends(all, pid, kernelThreads) {
			u.others += p.used
		}
	}
	return u, err
}

// kernelThreads is the parent of the kernel's threads.
const kernelThreads = 2

// stolen is what the hypervisor gave to others while a process was waiting to run.
func stolen(proc string) (time.Duration, error) {
	raw, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return 0, err
	}
	// cpu user nice system idle iowait irq softirq steal
	fields := strings.Fields(strings.SplitN(string(raw), "\n", 2)[0])
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("%s/stat has an unknown form", proc)
	}
	return ticks(fields[8])
}

func ticks(fields ...string) (sum time.Duration, err error) {
	for _, f := range fields {
		n, parseErr := strconv.ParseInt(f, 10, 64)
		err = errors.Join(err, parseErr)
		sum += time.Duration(n) * tick
	}
	return sum, err
}

// process is what a line of /proc/PID/stat says.
type process struct {
	parent int
	used   time.Duration // by it, and by its children that have ended
}

func readProcesses(proc string) (map[int]process, error) {
	names, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it has just ended
		}
		pid, p, err := parseProcess(string(raw))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[pid] = p
	}
	return all, nil
}

// parseProcess reads "PID (name) state ppid …": the name may hold anything.
func parseProcess(line string) (pid int, p process, err error) {
	open, end := strings.Index(line, " ("), strings.LastIndex(line, ") ")
	if open < 0 || end < open {
		return 0, p, errors.New("no name in parentheses")
	}
	fields := strings.Fields(line[end+2:])
	if len(fields) < 15 {
		return 0, p, errors.New("too few fields")
	}
	pid, err = strconv.Atoi(line[:open])
	if err == nil {
		p.parent, err = strconv.Atoi(fields[1])
	}
	if err == nil { // utime, stime, cutime, cstime
		p.used, err = ticks(fields[11:15]...)
	}
	return pid, p, err
}

// descends says whether pid is ancestor or below it. Two readings of one /proc can
// make a circle, so the steps are bounded.
func descends(all map[int]process, pid, ancestor int) bool {
	for range len(all) {
		if pid == ancestor {
			return true
		}
		p, known := all[pid]
		if !known {
			return false
		}
		pid = p.parent
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
		put(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (%s) S %d 1 1 0 -1 0 0 0 0 0 %d %d %d %d 20 0 1",
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
