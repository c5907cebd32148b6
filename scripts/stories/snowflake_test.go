//go:build unix

// Snowflakes, as Leaf makes them: an instance keeps its worker ID by its folder, whatever registry gave it. When the
// registry dies, one with a worker file continues by it.

package stories_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestLeafReplicas: three instances with each kind of registry, one of which is killed under load and comes back in its
// folder and at its address. One that gets its worker ID back issues nothing of the time that its earlier life has
// reserved.
func TestLeafReplicas(t *testing.T) {
	story(t)
	for _, r := range registries(t) {
		t.Run(r.mode, func(t *testing.T) {
			t.Parallel()
			const enough = 20_000
			s := onMariaDB(migrated(t)).With(onlyLeaf()).With(closeClocks()).With(r.settings)
			f := newFleet(t, s, snowflakeGet)
			books := f.books[snowflakeGet]
			f.add(3)
			wantDistinct := func() {
				t.Helper()
				holders := map[int64]string{}
				for _, p := range f.places {
					worker := workerOf(p.now.Load().firstFlake(books))
					if other := holders[worker]; other != "" {
						t.Errorf("%s and %s both have worker ID %d", p.name, other, worker)
					}
					holders[worker] = p.name
				}
			}
			wantDistinct()
			reach(t, books, enough/3)
			lost := f.places[0]
			before := lost.now.Load().flakeStatus()
			lost.kill()
			first := lost.start().firstFlake(books)
			if got := workerOf(first); r.keeps && got != before.WorkerID {
				t.Errorf("worker ID %d before kill -9, %d after", before.WorkerID, got)
			}
			if at := timeOf(first); r.keeps && !at.After(before.ReservedUntil) {
				t.Errorf("an ID of %v, and the time up to %v was reserved before", at, before.ReservedUntil)
			}
			wantDistinct()
			reach(t, books, enough)
			f.settle()
		})
	}
}

// TestLeafRegistryDies: without its registry an instance with a worker file continues, also over a restart. One that
// starts without a file waits, and says for what. The other modes do not care. When the registry is back, all continue
// where they were.
func TestLeafRegistryDies(t *testing.T) {
	story(t)
	registry, books := testserver.ZooKeeper(t), &ledger{}
	s := onlyLeaf().With(onZooKeeper("zk", registry.Addr())).With(closeClocks())
	instance := func(n int) *place {
		return newPlace(t, address(n), s.With(settings{"SNOWFLAKE_ADVERTISE": address(n)}), "--demo")
	}
	p := instance(1)
	d := p.start()
	worker := workerOf(d.firstFlake(books))
	others := []string{segmentGet + demoTag, aliceGet}
	for _, target := range others {
		eventuallyID(t, d, target)
	}
	const batch, pause = 200, 20 * time.Millisecond // enough, and cores are left for others
	callers := gather(t, 1, draw{place: p, target: snowflakeGet, batch: batch, books: books, pause: pause})
	registry.Kill()
	reserved := d.flakeStatus().ReservedUntil
	eventually(t, takeover, "snowflakes of times that the registry has not heard of", func() bool {
		id, _ := d.flake()
		return id != 0 && timeOf(id).After(reserved.Add(time.Second))
	})
	eventually(t, startLimit, "its file is enough", func() bool { return d.flakeStatus().State == "offline" })
	check.Has(t, d.get("/readyz").body, `{"name":"snowflake worker ID","ok":false`, "readiness")
	d.want("/healthz", 503, 0)
	for _, target := range append(others, "/readyz", "/livez") {
		d.want(target, 200, 0)
	}
	p.kill()
	d = p.start()
	if got := workerOf(d.firstFlake(books)); got != worker || d.flakeStatus().State != "offline" {
		t.Errorf("after kill -9: worker ID %d, want %d: %+v", got, worker, d.flakeStatus())
	}
	fresh := instance(2).start()
	eventually(t, startLimit, "a fresh instance waits for ZooKeeper", func() bool {
		a := fresh.get("/readyz/snowflake")
		return a.status == 503 && strings.Contains(a.Message, "zookeeper")
	})
	if id, _ := fresh.flake(); id != 0 {
		t.Errorf("a fresh instance without a registry gives snowflake %d", id)
	}
	registry.Restart()
	fresh.firstFlake(books)
	check.Equal(t, workerOf(d.firstFlake(books)), worker, "the worker ID, which is as before")
	eventually(t, takeover, "the registry confirms, and all is well", func() bool {
		return d.flakeStatus().State == "serving" && d.get("/readyz").Status == "ok"
	})
	callers.Stop()
	books.Settle(t)
}

// takeover is how long an instance may be kept waiting by what others, or its
// earlier life, have reserved: 6 s, and as long again as clocks may differ; the
// rest is for a busy machine.
const takeover = 40 * time.Second

// registry is where the instances of a deployment get their worker IDs.
type registry struct {
	mode     string
	settings settings
	keeps    bool // an instance that was killed gets its worker ID back
}

// address is that of the n-th instance of every deployment.
func address(n int) string { return fmt.Sprintf("10.0.0.%d:8080", n) }

// closeClocks: the less clocks may differ, the less is waited for others. Less than
// this could be a busy machine's pause.
func closeClocks() settings { return settings{"SNOWFLAKE_MAX_CLOCK_OFFSET": "2s"} }

// onZooKeeper is a mode of its own namespace.
func onZooKeeper(mode, addr string) settings {
	name := mode + "-" + strings.ToLower(rand.Text())
	return settings{"SNOWFLAKE_WORKER_MODE": mode, "ZOOKEEPER_ADDRS": addr, "SNOWFLAKE_NAME": name}
}

// registries are all there are, on servers that stay.
func registries(t *testing.T) []registry {
	t.Helper()
	zoo := testserver.SharedZooKeeper(t).Addr()
	local := settings{"SNOWFLAKE_WORKER_MODE": "local",
		"SNOWFLAKE_WORKER_LOCAL_MAP": address(1) + "=7," + address(2) + "=0," + address(3) + "=1023"}
	return []registry{
		{"zk", onZooKeeper("zk", zoo), true},
		{"zk_recycle", onZooKeeper("zk_recycle", zoo), true},
		{"zk_ephemeral", onZooKeeper("zk_ephemeral", zoo), false},
		{"mysql", settings{"SNOWFLAKE_WORKER_MODE": "mysql"}, true},
		{"local", local, true},
	}
}

// flake asks for one snowflake, for the goroutine of the test; 0 is a refusal.
func (d *daemon) flake() (id int64, a answer) {
	d.t.Helper()
	ids, a, err := d.take(snowflakeGet, 0)
	switch {
	case err != nil:
		d.t.Fatalf("%s: %v", d.url, err)
	case ids != nil:
		id = ids[0]
	case !a.comesAgain() || a.Code != -8:
		d.t.Fatalf("%s: %d %v %s", d.url, a.status, a.header, a.body)
	}
	return id, a
}

// firstFlake waits until the process issues snowflakes, and until /api/status tells the worker ID in them, too.
func (d *daemon) firstFlake(books *ledger) (id int64) {
	d.t.Helper()
	eventually(d.t, takeover, "a snowflake", func() bool { id, _ = d.flake(); return id != 0 })
	books.Add(d.url, plain, id)
	// The first ID comes before the step that made it possible has ended, which says so.
	eventually(d.t, takeover, fmt.Sprint("/api/status has worker ID ", workerOf(id)), func() bool {
		return d.flakeStatus().WorkerID == workerOf(id)
	})
	return id
}
