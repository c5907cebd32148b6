package workerfile

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestPowerCut: what may lie beside the file when the machine stops between two
// steps of a Store.
func TestPowerCut(t *testing.T) {
	newer := strings.Replace(good, "5000", "9000", 1)
	for name, temp := range map[string]string{
		"before the first byte": "",
		"in the middle":         newer[:len(newer)/2],
		"blocks not written":    string(make([]byte, len(newer))),
		"before the rename":     newer,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, fileName, good)
			put(t, dir, tempName, temp)
			f := open(t, options(dir))
			wantLease(t, f, 7, 5000)
			store(t, f, lease(7, 10_000))
			closeFile(t, f)
			wantLease(t, open(t, options(dir)), 7, 10_000)
		})
	}
	t.Run("in the first life", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, tempName, good[:50])
		if l, ok := open(t, options(dir)).Load(); ok {
			t.Errorf("loaded %+v", l)
		}
	})
}

// TestAlwaysWhole: at no moment does the file hold half a record.
func TestAlwaysWhole(t *testing.T) {
	dir := t.TempDir()
	f := open(t, options(dir))
	done := make(chan error)
	go func() {
		for i := range int64(300) {
			if err := f.Store(lease(7, i)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		select {
		case err := <-done:
			if err != nil || reads < 10 {
				t.Errorf("%d reads, %v", reads, err)
			}
			return
		default:
		}
		check.OK(t, check.Err(read(filepath.Join(dir, fileName))))
	}
}

// storeForEver is another process: it stores ever higher reservations and says
// which ones are done, until it is killed.
func storeForEver(dir string) error {
	f, err := Open(options(dir))
	if err != nil {
		return err
	}
	last, _ := f.Load()
	for i := last.Reserved + 1; ; i++ {
		if err := f.Store(lease(7, i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// TestKilled: kill -9 at any moment loses nothing that a Store has returned
// for, and frees the folder.
func TestKilled(t *testing.T) {
	dir, stored := t.TempDir(), int64(0)
	for round := range 8 {
		stored = killed(t, dir, 5+7*round)
		f := open(t, options(dir))
		got, ok := f.Load()
		if !ok || got.Reserved < stored || got.Reserved > stored+1000 {
			t.Fatalf("loaded %+v, %v, want at least %d", got, ok, stored)
		}
		closeFile(t, f)
	}
	if stored < 100 {
		t.Errorf("only %d were stored", stored)
	}
}

// killed runs storeForEver, kills it after so many reservations and returns the
// highest that was stored for sure.
func killed(t *testing.T, dir string, after int) (stored int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crasherEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	limit := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if stored, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			check.Is(t, check.Err(Open(options(dir))), ErrLocked, "opened what another process uses")
		}
		if n == after {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait() // reports the kill
	return stored
}
