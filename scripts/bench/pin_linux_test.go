package bench

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// cores are those this process may use, at most n of them.
func cores(n int) (list []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for cpu := 0; len(list) < min(n, set.Count()); cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list
}

// onCore runs f on a thread of that core, so that what f starts stays on it.
func onCore(core int, f func()) (err error) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	one.Set(core)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("read the affinity: %w", err)
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("pin to core %d: %w", core, err)
	}
	// A thread that could not be given back its cores ends with this goroutine.
	defer func() {
		if err = unix.SchedSetaffinity(0, &before); err == nil {
			runtime.UnlockOSThread()
		}
	}()
	f()
	return nil
}

// What is started on a core stays there, and the one who started it does not.
func TestOnCore(t *testing.T) {
	all := cores(1 << 10)
	allowed := func() (list string) {
		out, err := exec.Command("cat", "/proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ = strings.Cut(string(out), "Cpus_allowed_list:")
		return strings.TrimSpace(strings.SplitN(list, "\n", 2)[0])
	}
	before := allowed()
	for _, core := range all {
		var got string
		if err := onCore(core, func() { got = allowed() }); err != nil || got != strconv.Itoa(core) {
			t.Errorf("core %d: started on %q, %v", core, got, err)
		}
	}
	if after := allowed(); len(all) == 0 || after != before {
		t.Errorf("%d cores; %q before and %q after", len(all), before, after)
	}
}
