//go:build unix

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestE2EUIDDatabaseAway: with the database dead, who has a worker ID goes on, and
// who starts is not ready and says why; when it is back, he serves without a
// restart, and who came with another layout ends.
func TestE2EUIDDatabaseAway(t *testing.T) {
	check.Deep(t)
	story(t)
	db := testserver.MariaDB(t)
	s := uidAlone(db.NewDatabase(t))
	must(t, s, "migrate")
	books := &uidBooks{bits: uidDefaults()}
	var running []*daemon
	for _, mode := range []string{"cached", "default"} {
		running = append(running, serveUID(t, t.TempDir(), s.With(settings{"UID_MODE": mode}), books))
	}
	db.Kill()
	eventually(t, startLimit, "it is noticed", func() bool { return strings.Contains(running[0].get("/healthz").Message, "database") })
	late, changed := serve(t, s), serve(t, s.With(settings{"UID_EPOCH": "2026-02-01"}))
	for begun := time.Now(); time.Since(begun) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		for _, d := range running {
			if a := takeUIDs(d, books, 100); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	for _, d := range []*daemon{late, changed} {
		if a := d.want(uidTarget(1), 503, -1); !strings.Contains(a.Message, "database") || a.header.Get("Retry-After") == "" {
			t.Errorf("%v %s", a.header, a.body)
		}
		if a := d.want("/readyz", 503, 0); !strings.Contains(a.body, `{"name":"uid","ok":false`) {
			t.Errorf("/readyz: %s", a.body)
		}
	}

	db.Restart()
	took := eventually(t, 15*time.Second, "the late one serves", func() bool { return takeUIDs(late, books, 1).status == 200 })
	t.Logf("served %v after the database was back", took.Round(time.Millisecond))
	if code := changed.Exit(15 * time.Second); code != 1 || !strings.Contains(changed.Output(), "uid IDs have been issued with") {
		t.Errorf("exit %d:\n%s", code, changed.Output())
	}
	for i, d := range append(running, late) {
		// The late one's is higher than 3 when no other store vouches for the crashed database.
		if a, v := takeUIDs(d, books, 100), uidStatus(t, d); a.status != 200 || v.WorkerID < int64(i+1) || (d != late && v.WorkerID > int64(i+1)) {
			t.Errorf("replica %d: %d, %+v", i, a.status, v)
		}
		eventually(t, 15*time.Second, "ready", func() bool { return d.get("/readyz").Status == "ok" })
	}
	books.Settle(t)
}
