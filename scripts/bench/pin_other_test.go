//go:build unix && !linux

package bench

// cores is empty: nothing can be pinned here.
func cores(int) []int { return nil }

func onCore(_ int, f func()) error {
	f()
	return nil
}
