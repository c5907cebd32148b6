//go:build unix

package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
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

// Whoever is stopped by a signal leaves no folder behind.
func TestSignalsLeaveNothing(t *testing.T) {
	if os.Getenv("BENCH_LINGER") != "" {
		fmt.Println("folder", t.TempDir())
		_, _ = io.Copy(io.Discard, os.Stdin) // until the signal comes
		return
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		dir := filepath.Dir(filepath.Dir(stopped(t, signal))) // that of all its folders
		rig.Until(t, startLimit, fmt.Sprint(signal, " leaves nothing"), func() error {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is left", dir)
			}
			return nil
		})
	}
}

// stopped runs this test, sends it a signal while it has a folder, and says which.
func stopped(t *testing.T, signal syscall.Signal) (dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "BENCH_LINGER=1")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	check.Must(t, errors.Join(errIn, errOut, cmd.Start()))
	defer in.Close()
	bound := time.AfterFunc(startLimit, func() { _ = cmd.Process.Kill() })
	defer bound.Stop()
	if _, err := fmt.Fscanf(out, "folder %s\n", &dir); err != nil || !strings.Contains(dir, "bench-") {
		t.Fatalf("folder %q, %v", dir, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Signal(signal)
	_ = cmd.Wait() // the status is that of the signal
	return dir
}
