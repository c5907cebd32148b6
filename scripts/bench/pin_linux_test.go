package bench

import (
	"fmt"
	"runtime"

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
