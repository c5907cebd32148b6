//go:build unix

package e2e_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestE2EFirstMinute: an empty folder, one command, one curl. The first UID, for which the ring is filled
// only then, raises no alarm; and the log names the store that keeps the worker IDs.
func TestE2EFirstMinute(t *testing.T) {
	story(t)
	begun := time.Now()
	d := serve(t, nil, "--demo")
	var a answer
	eventually(t, startLimit, "the first ID", func() bool {
		a = d.get("/get?appId=1&gatePass=alice")
		return a.status == 200
	})
	t.Logf("first ID %v after exec", time.Since(begun).Round(time.Millisecond))
	if want := `{"code":0,"id":16385,"idStr":"16385"}`; a.body != want {
		t.Errorf("got %s, want %s", a.body, want)
	}
	eventuallyID(t, d, snowflakeGet)
	d.want("/api/uid/get", 200, 0)
	if names := d.alarms(); len(names) > 0 {
		t.Errorf("alarms of a demo: %v", names)
	}
	if !strings.Contains(d.Output(), `"registry":"sqlite"`) {
		t.Errorf("the log: %s", d.Output())
	}
}

// TestE2EKilledUnderLoad: the embedded stores survive kill -9 without an ID
// that comes twice.
func TestE2EKilledUnderLoad(t *testing.T) {
	story(t)
	dir, books := t.TempDir(), &ledger{}
	for range 6 {
		d := serveIn(t, dir, nil, "--demo")
		d.ready()
		killedUnderLoad(t, &load{replicas: []*daemon{d}, apps: []int64{1}, books: books}, 4000)
	}
	books.Settle(t)
}

// killedUnderLoad kills the replica of a load once so many more IDs have come.
func killedUnderLoad(t *testing.T, l *load, ids int) {
	t.Helper()
	var dying atomic.Bool
	trouble := l.trouble
	l.trouble = func(a answer, err error) bool { return err != nil && dying.Load() || trouble != nil && trouble(a, err) }
	l.start(t, 16)
	l.reach(t, l.books.Count()+ids)
	dying.Store(true)
	l.replicas[0].Kill()
	l.stop()
}
