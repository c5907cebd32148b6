//go:build unix

package bench

import (
	"fmt"
	"os"
	"testing"

	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) {
	if err := testserver.Tidy("bench-"); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	_ = os.Setenv(testserver.DataVariable, os.TempDir()) // a commit takes what it takes on a disk
	testserver.Main(m)
}
