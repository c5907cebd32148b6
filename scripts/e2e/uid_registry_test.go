//go:build unix

package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// uidTakeover is how long a start in default mode may wait after a crash until the clock
// has passed the mark; the rest is for a busy machine.
const uidTakeover = 40 * time.Second

// TestE2EUIDRegistry: with each kind of registry an instance that is restarted, in order
// and by kill -9, keeps its worker ID; no ID comes twice, and the snowflake mode's worker
// IDs are left alone. A registry that keeps nothing for one that was killed gives another
// place, and so another worker ID, until its lease has run out.
func TestE2EUIDRegistry(t *testing.T) {
	story(t)
	for _, r := range registries(t) {
		dsn, dir, books := migrated(t), t.TempDir(), &uidBooks{bits: uidDefaults()}
		s := onMariaDB(dsn).With(r.settings).With(closeClocks()).With(settings{
			"UID_WORKER": "registry", "SNOWFLAKE_ADVERTISE": address(0), "SERVER_DRAIN_DELAY": "0s"})
		if r.mode == "mysql" {
			s = s.With(settings{"UID_MODE": "default"})
		}
		workers := map[int64]bool{}
		for round := range 5 {
			d := serveIn(t, dir, s)
			eventually(t, uidTakeover, r.mode+": UIDs", func() bool { return takeUIDs(d, books, 100).status == 200 })
			for range 20 {
				takeUIDs(d, books, 500)
			}
			workers[uidStatus(t, d).WorkerID] = true
			eventually(t, takeover, r.mode+": ready", func() bool { return d.get("/readyz/uid").status == 200 })
			if round%2 == 0 {
				d.Kill()
			} else {
				d.stops(syscall.SIGTERM, startLimit)
			}
		}
		rows := number(t, dsn, "SELECT COUNT(*) FROM WORKER_NODE")
		if r.keeps && (rows != 1 || len(workers) != 1 || !workers[1]) || rows != int64(len(workers)) || rows > 3 {
			t.Errorf("%s: %d rows, worker IDs %v", r.mode, rows, workers)
		}
		t.Logf("%s: worker IDs %v", r.mode, workers)
		books.Settle(t)
	}
}

// TestE2EUIDRegistryAway: while the registry is away and its lease lasts, UIDs go on; when
// it has lost what it held, the worker ID is another place's, and no ID comes twice.
func TestE2EUIDRegistryAway(t *testing.T) {
	story(t)
	redis := testserver.Redis(t)
	dsn, books := migrated(t), &uidBooks{bits: uidDefaults()}
	s := onMariaDB(dsn).With(byRedis(redis.Addr)).With(closeClocks()).With(settings{
		"UID_WORKER": "registry", "SNOWFLAKE_WORKER_LEASE": "5s", "SNOWFLAKE_ADVERTISE": address(0)})
	d := serveUID(t, t.TempDir(), s, books)
	redis.Kill()
	eventually(t, startLimit, "the lease ends", func() bool { return takeUIDs(d, books, 1).status == 503 })
	for _, a := range []answer{d.want("/readyz/uid", 503, 0), d.want(uidTarget(1), 503, -8)} {
		if !strings.Contains(a.Message, "worker ID 0 of the registry was not renewed in time") {
			t.Errorf("no reason: %s", a.body)
		}
	}
	redis.Restart()
	eventually(t, takeover, "UIDs again", func() bool { return takeUIDs(d, books, 1000).status == 200 })
	t.Logf("%+v", uidStatus(t, d))
	books.Settle(t)
}
