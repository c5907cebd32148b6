//go:build unix

// Snowflakes, as Leaf makes them: an instance keeps its worker ID by its folder, whatever registry gave it. When the
// registry dies, one with a worker file continues by it, and one with a lease stops before another could follow.

package stories_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
			s, books := onMariaDB(migrated(t)).With(closeClocks()).With(r.settings), &ledger{}
			var all []*instance
			for n := range 3 {
				all = append(all, newInstance(t, fmt.Sprint("instance ", n), address(n), books, s))
				all[n].start()
			}
			serve := func(instances ...*instance) {
				t.Helper()
				for _, i := range instances {
					worker := i.serves()
					for _, other := range all {
						if other != i && other.worker.Load() == worker {
							t.Errorf("%s and %s both have worker ID %d", i.name, other.name, worker)
						}
					}
				}
			}
			serve(all...)
			callers := gather(t, 2, flakes(all...)...)
			reach(t, books, enough/3)
			lost := all[0]
			before, reserved := lost.worker.Load(), lost.now.Load().flakeStatus().ReservedUntil
			lost.kill()
			lost.start()
			serve(lost)
			if after := lost.worker.Load(); r.keeps && after != before {
				t.Errorf("worker ID %d before kill -9, %d after", before, after)
			}
			if at := timeOf(lost.last); r.keeps && !at.After(reserved) {
				t.Errorf("an ID of %v, and the time up to %v was reserved before", at, reserved)
			}
			reach(t, books, enough)
			callers.Stop()
			books.Settle(t)
		})
	}
}

// waits until the readiness of the snowflake mode says that none are issued, and why.
func (i *instance) waits(reasons ...string) {
	i.t.Helper()
	var a answer
	defer func() { i.t.Logf("%s: %d %s", i.name, a.status, a.Message) }()
	eventually(i.t, 20*time.Second, i.name+" says why it is not ready: "+strings.Join(reasons, ", "), func() bool {
		a = i.now.Load().get("/readyz/snowflake")
		says := a.status == 503
		for _, r := range reasons {
			says = says && strings.Contains(a.Message, r)
		}
		return says
	})
	if a, came := i.flake(); came {
		i.t.Errorf("%s gives a snowflake: %s", i.name, a.body)
	}
}

// TestLeafRegistriesDie: without its registry an instance with a worker file continues, also over a restart,
// and one with a lease stops. One that starts without a file waits, and says for what. The other modes do not
// care. When the registry is back, all continue where they were.
func TestLeafRegistriesDie(t *testing.T) {
	story(t)
	for mode, isLeased := range map[string]bool{"zk": false, "zk_ephemeral": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			registry := testserver.ZooKeeper(t)
			i := newInstance(t, mode, address(1), nil, onZooKeeper(mode, registry.Addr()).With(closeClocks()))
			i.args = []string{"--demo"}
			i.start()
			worker := i.serves()
			for _, target := range []string{segmentGet + demoTag, aliceGet} {
				eventuallyID(t, i.now.Load(), target)
			}
			callers := gather(t, 1, flakes(i)...)
			registry.Kill()
			var fresh *instance
			if isLeased { // it may not continue without its registry
				i.fallsSilent()
			} else {
				i.goesOn()
				fresh = i.startsAgain(worker)
			}
			registry.Restart()
			if fresh != nil {
				fresh.serves()
				fresh.books.Settle(t, fresh.name)
			}
			i.worker.Store(-1) // a lease may be of another one now
			if got := i.serves(); !isLeased && got != worker {
				t.Errorf("worker ID %d, want %d, as before", got, worker)
			}
			eventually(t, takeover, "the registry confirms, and all is well", func() bool {
				d := i.now.Load()
				return d.flakeStatus().State == "serving" && d.get("/readyz").Status == "ok"
			})
			callers.Stop()
			i.books.Settle(t)
		})
	}
}

// fallsSilent: the lease runs out, which the health endpoints tell, and the other modes continue.
func (i *instance) fallsSilent() {
	i.t.Helper()
	d := i.now.Load()
	eventually(i.t, takeover, "the lease runs out", func() bool { _, came := i.flake(); return !came })
	i.tells("waiting")
	if a, came := i.flake(); came {
		i.t.Errorf("a snowflake after the lease had run out: %s", a.body)
	}
	d.want(segmentGet+demoTag, 200, 0)
	d.want("/readyz", 200, 0)
}

// goesOn: snowflakes of times come that the registry has not heard of.
func (i *instance) goesOn() {
	i.t.Helper()
	reserved := i.now.Load().flakeStatus().ReservedUntil
	eventually(i.t, takeover, "snowflakes beyond what was reserved", func() bool {
		if a, came := i.flake(); !came {
			i.t.Fatalf("no snowflake while the registry is unreachable: %s", a.body)
		}
		return timeOf(i.last).After(reserved.Add(time.Second))
	})
	i.tells("offline")
	for _, target := range []string{segmentGet + demoTag, aliceGet, "/readyz"} {
		i.now.Load().want(target, 200, 0)
	}
}

// tells wants a state of /api/status, and health endpoints that tell what is unreachable.
func (i *instance) tells(state string) {
	i.t.Helper()
	d := i.now.Load()
	eventually(i.t, startLimit, "the state is "+state, func() bool { return d.flakeStatus().State == state })
	if a := d.get("/readyz"); !strings.Contains(a.body, `{"name":"snowflake worker ID","ok":false`) {
		i.t.Errorf("/readyz does not tell that the worker ID is not confirmed: %s", a.body)
	}
	d.want("/healthz", 503, 0)
	d.want("/livez", 200, 0)
}

// startsAgain: the worker file is enough for its instance after kill -9; a fresh one, without a file, waits.
func (i *instance) startsAgain(worker int64) (fresh *instance) {
	i.t.Helper()
	i.kill()
	i.start()
	if got := i.serves(); got != worker || i.now.Load().flakeStatus().State != "offline" {
		i.t.Errorf("after kill -9: worker ID %d, want %d: %+v", got, worker, i.now.Load().flakeStatus())
	}
	elsewhere := i.settings.With(settings{"SNOWFLAKE_ADVERTISE": address(2)})
	fresh = newInstance(i.t, i.name+", fresh", address(2), nil, elsewhere)
	fresh.args = i.args
	fresh.start()
	fresh.waits("zookeeper")
	return fresh
}

// Deployments of the snowflake mode: instances that get their worker IDs from one registry. An instance is a place
// with a folder, settings and an address that outlive its processes.

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
		"SNOWFLAKE_WORKER_LOCAL_MAP": address(0) + "=7," + address(1) + "=0," + address(2) + "=1023"}
	return []registry{
		{"zk", onZooKeeper("zk", zoo), true},
		{"zk_recycle", onZooKeeper("zk_recycle", zoo), true},
		{"zk_ephemeral", onZooKeeper("zk_ephemeral", zoo), false},
		{"mysql", settings{"SNOWFLAKE_WORKER_MODE": "mysql"}, true},
		{"local", local, true},
	}
}

// instance is a place of a deployment. All its snowflakes are in books.
type instance struct {
	*place
	books  *ledger
	worker atomic.Int64 // ID that the present process serves with, -1 before
	last   int64        // latest snowflake of the test's own requests
}

// newInstance is an instance with an address that is not the one it listens on, and a series of IDs that it may share.
func newInstance(t *testing.T, name, address string, books *ledger, s settings) *instance {
	t.Helper()
	if books == nil {
		books = &ledger{}
	}
	own := onlyLeaf().With(settings{"SNOWFLAKE_ADVERTISE": address}).With(s)
	return &instance{place: newPlace(t, name, own), books: books}
}

// start runs a process, which need not serve.
func (i *instance) start() *daemon {
	i.t.Helper()
	i.worker.Store(-1)
	return i.place.start()
}

// flake asks for one snowflake, for the goroutine of the test, and says whether it
// came.
func (i *instance) flake() (answer, bool) {
	i.t.Helper()
	ids, a, err := i.now.Load().take(snowflakeGet, 0)
	switch {
	case err != nil:
		i.t.Fatalf("%s: %v", i.name, err)
	case len(ids) > 0:
		i.books.Rise(i.last, ids...)
		i.last = ids[0]
	case !a.comesAgain() || a.Code != -8:
		i.t.Fatalf("%s: %d %v %s", i.name, a.status, a.header, a.body)
	}
	return a, len(ids) > 0
}

// serves waits until the process issues snowflakes, and gives the worker ID in
// them, which /api/status tells too.
func (i *instance) serves() int64 {
	i.t.Helper()
	took := eventually(i.t, takeover, i.name+" serves", func() bool { _, ok := i.flake(); return ok })
	worker := workerOf(i.last)
	// The first ID comes before the step that made it possible has ended, which says so.
	eventually(i.t, takeover, fmt.Sprintf("%s: /api/status has worker ID %d", i.name, worker), func() bool {
		s := i.now.Load().flakeStatus()
		return s.WorkerID == worker && s.Address == i.settings["SNOWFLAKE_ADVERTISE"]
	})
	i.worker.Store(worker)
	i.t.Logf("%s: worker %d after %v", i.name, worker, took.Round(10*time.Millisecond))
	return worker
}

// flakes are what callers take of instances: batches whose IDs are of the worker, once that is known.
func flakes(instances ...*instance) (draws []draw) {
	for _, i := range instances {
		looks := func(ids []int64) {
			want := i.worker.Load()
			for _, id := range ids {
				if got := workerOf(id); want >= 0 && got != want {
					i.books.Complain("%s: ID %d of worker %d, not %d", i.name, id, got, want)
					return
				}
			}
		}
		const batch, pause = 200, 20 * time.Millisecond // enough, and cores are left for others
		draws = append(draws, draw{place: i.place, target: snowflakeGet, batch: batch, books: i.books, pause: pause,
			looks: looks})
	}
	return draws
}
