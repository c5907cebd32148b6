package access

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
)

// told keeps the latest report.
type told struct {
	mu    sync.Mutex
	count int
	err   error
}

func (r *told) report(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.err = r.count+1, err
}

func (r *told) latest() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, r.err
}

// A story of one file: tokens come, go, and outlive a file that is bad or gone.
func TestTokensFollowTheFile(t *testing.T) {
	file := fileOf(t, one("old", ""))
	synctest.Test(t, func(t *testing.T) {
		var r told
		var log bytes.Buffer // written by the reloader alone, read while it waits
		g, err := NewGuard(Options{File: file, Report: r.report, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		g.Start()
		g.Start() // does nothing
		after := func(what string, change func(), problem string, good ...string) {
			t.Helper()
			log.Reset()
			change()
			time.Sleep(Period + time.Millisecond)
			synctest.Wait()
			if n := strings.Count(log.String(), "level=INFO msg=\"tokens are read again\""); n != strings.Count(log.String(), "\n") || n > 0 && problem != "" || n != 1 && problem == "" && what != "nothing" {
				t.Errorf("%s: %q", what, log.String())
			}
			if _, err := r.latest(); (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
				t.Errorf("%s: reported %v, want %q", what, err, problem)
			}
			for _, token := range []string{"old", "new"} {
				_, err := g.Client(with("Bearer " + token))
				if want := strings.Contains(strings.Join(good, " "), token); want != (err == nil) || err != nil && !errors.Is(err, model.ErrNoToken) {
					t.Errorf("%s: %s is %v", what, token, err)
				}
			}
		}
		after("nothing", func() {}, "", "old")
		if n, _ := r.latest(); n != 2 {
			t.Errorf("%d looks in one period, want one at each end", n)
		}
		after("both", func() { write(t, file, one("old", "")+one("new", "")) }, "", "old", "new")
		if !strings.Contains(log.String(), "tokens=2 added=1 removed=0") {
			t.Errorf("logged %s", log.String())
		}
		after("only the new one", func() { write(t, file, one("new", "")) }, "", "new")
		after("a bad file", func() { write(t, file, "- name: x y\n") }, "tokens.yaml:1: name: is not", "new")
		after("still bad", func() {}, "tokens.yaml:1: name: is not", "new")
		after("gone", func() { _ = os.Remove(file) }, "no such file", "new")
		after("back, as it was", func() { write(t, file, one("new", "")) }, "", "new")
		after("replaced by rename", func() {
			write(t, file+".new", one("old", ""))
			_ = os.Rename(file+".new", file)
		}, "", "old")
		after("emptied by accident", func() { write(t, file, "") }, "tokens.yaml:1: has no token", "old")
		after("none on purpose", func() { write(t, file, "[]") }, "")
		before, _ := r.latest()
		err = errors.Join(g.Stop(t.Context()), g.Stop(t.Context()))
		g.Start()
		time.Sleep(time.Minute)
		if n, _ := r.latest(); err != nil || n != before {
			t.Errorf("%d looks after Stop, %v", n-before, err)
		}
	})
}

// A file whose size and time stay the same and that is another one is read; one that
// stays the same is not, unless it could not be loaded: its permissions may be another's.
func TestReloaderSeesAnotherFile(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, file, "1")
	write(t, other, "2")
	long := time.Unix(1_000_000_000, 0)
	if err := errors.Join(os.Chtimes(file, long, long), os.Chtimes(other, long, long)); err != nil {
		t.Fatal(err)
	}
	loads, denied := 0, error(nil)
	var r told
	reloader := newReloader(func() error { loads++; return denied }, r.report, file, "")
	if err := reloader.reload(); err != nil {
		t.Fatal(err)
	}
	look := func(want int) {
		t.Helper()
		reloader.look()
		if _, err := r.latest(); loads != want || !errors.Is(err, denied) {
			t.Errorf("loaded %d times, want %d; reported %v", loads, want, err)
		}
	}
	look(1)
	look(1)
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	denied = errors.New("permission denied")
	look(2)
	look(3)
	denied = nil
	look(4)
	look(4)
}
