//go:build unix

package client

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// holderURL makes the process of a test one that prints IDs until it is killed.
const holderURL = "SHARDID_TEST_HOLDER_URL"

// A process that is stopped past the end of its lease goes on with another worker ID, and no ID is
// of a time that was not granted.
func TestGeneratorOfAFrozenProcess(t *testing.T) {
	if url := os.Getenv(holderURL); url != "" {
		g := newGenerator(t, url)
		for ; ; time.Sleep(100 * time.Microsecond) {
			if id, err := g.Next(); err == nil {
				fmt.Println(id)
			}
		}
	}
	s := &lessor{hold: 500 * time.Millisecond, renew: 150 * time.Millisecond}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestGeneratorOfAFrozenProcess$")
	cmd.Env = append(os.Environ(), holderURL+"="+s.start(t))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []int64
	lines := bufio.NewScanner(out)
	read := func(workers int64) {
		for worker := int64(-1); worker < workers && lines.Scan(); {
			id, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				t.Error(lines.Text())
			}
			ids = append(ids, id)
			worker = id >> 12 & 1023
		}
	}
	for workers := range int64(3) {
		read(workers)
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(800 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	read(3)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.check(t, ids)
	if len(ids) < 4 {
		t.Errorf("%d IDs", len(ids))
	}
}
