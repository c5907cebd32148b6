//go:build unix

package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) {
	pipe, err := tidyUp()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	testserver.Main(m)
	runtime.KeepAlive(pipe) // what is forgotten would be closed
}

// tidyScript waits for the end of a pipe and removes a folder, again while dying
// servers still write into it: 100 × 0.1 s at most.
const tidyScript = `
read -r _
n=0
while rm -rf "$1" 2>/dev/null; [ -e "$1" ] && [ "$n" -lt 100 ]; do
	n=$((n + 1))
	sleep 0.1
done
`

// tidyUp puts all temporary folders of this process into one, which goes with it: the
// kernel closes the pipe however the process ends, by Ctrl-C or kill -9 too.
func tidyUp() (pipe *os.File, err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), os.Remove(dir))
	}
	defer in.Close()
	keeper := exec.Command("/bin/sh", "-c", tidyScript, "bench-tidy", dir)
	keeper.Dir, keeper.Stdin = "/", in
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	if err := keeper.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start who tidies up: %w", err), pipe.Close(), os.Remove(dir))
	}
	return pipe, errors.Join(keeper.Process.Release(), os.Setenv("TMPDIR", dir))
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
