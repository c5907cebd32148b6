//go:build unix

// Snowflakes, as Leaf makes them: an instance keeps its worker ID by its folder, whatever registry gave it.

package stories_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestLeafReplicas: three instances with each kind of registry, one of which is
// killed under load and comes back. The command lists them. The deployments run at the
// same time, as they wait most of it.
func TestLeafReplicas(t *testing.T) {
	story(t)
	const enough = 20_000
	var all []*deployment
	for _, r := range registries(t) {
		all = append(all, newDeployment(t, r, 3))
	}
	for _, d := range all {
		for _, i := range d.instances {
			i.start()
		}
	}
	for _, d := range all {
		d.serves(t)
	}
	for _, d := range all {
		d.loseOne(t, enough/3)
	}
	for _, d := range all {
		d.comesBack(t)
	}
	for _, d := range all {
		eventually(t, time.Minute, d.mode+": all the IDs", func() bool { return d.books.Count() >= enough })
		d.callers.Stop()
		d.books.Settle(t, d.mode)
	}
}

// TestLeafFolderTaken: two processes use one folder and address. The second one serves what needs no worker
// ID, and has that of the first as soon as it has stopped.
func TestLeafFolderTaken(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	first := newInstance(t, "first", address(1), nil, onMariaDB(dsn))
	second := newInstance(t, "second", address(1), first.books, onMariaDB(dsn))
	second.dir = first.dir
	first.start()
	worker := first.serves(takeover)
	second.start()
	second.waits("another process uses the folder", filepath.Join("data", "shardid", "8080"))
	eventuallyID(t, second.now.Load().daemon, aliceGet)
	first.flake()
	first.stop()
	if got := second.serves(takeover); got != worker {
		t.Errorf("worker ID %d, want %d, which the first one had", got, worker)
	}
	first.books.Settle(t)
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

// TestLeafAddresses: an instance is known by its folder. Two that come back with each other's address have
// their worker IDs back at once, and a third that comes from the address of one of them gets another.
func TestLeafAddresses(t *testing.T) {
	check.Deep(t)
	zoo := testserver.SharedZooKeeper(t).Addr()
	for _, r := range []registry{
		{mode: "zk", settings: onZooKeeper("zk", zoo)},
		{mode: "zk_recycle", settings: onZooKeeper("zk_recycle", zoo)},
		{mode: "mysql", settings: settings{"SNOWFLAKE_WORKER_MODE": "mysql"}},
	} {
		t.Run(r.mode, func(t *testing.T) {
			story(t)
			d := newDeployment(t, r, 3)
			comeTo := func(keep int, addresses ...string) { // so many have the worker IDs that they had
				for n, i := range d.instances[:keep] {
					i.kill()
					i.settings["SNOWFLAKE_ADVERTISE"] = addresses[n]
				}
				for n, addr := range addresses {
					i := d.instances[n]
					i.settings["SNOWFLAKE_ADVERTISE"] = addr
					i.start()
				}
				for n := range addresses {
					worker := d.instances[n].serves(takeover)
					if n < keep && worker != d.workers[n] {
						t.Errorf("instance %d: worker ID %d, want %d, as before", n, worker, d.workers[n])
					}
					d.workers[n] = worker
				}
			}
			comeTo(0, address(0), address(1))
			comeTo(2, address(1), address(0), address(0))
			d.apart(t)
			d.books.Settle(t)
		})
	}
}

// TestLeafRollingChange: a rolling update changes the registry, old and new instances side by side. The new
// ones wait for the last old one, and say so, and nothing comes twice.
func TestLeafRollingChange(t *testing.T) {
	check.Deep(t)
	story(t)
	redis := testserver.Redis(t).Addr
	byDatabase := onRedis(redis).With(settings{"SNOWFLAKE_WORKER_MODE": "mysql"})
	d := newDeployment(t, registry{mode: "mysql", settings: byDatabase}, 3)
	for _, i := range d.instances {
		i.start()
	}
	d.serves(t)
	change := func(i *instance) {
		i.stop()
		i.settings = i.settings.With(byRedis(redis))
		i.start()
	}
	change(d.instances[0])
	change(d.instances[1])
	d.instances[0].waits("another registry of worker IDs is in use", "confirm --registry")
	before := d.books.Count()
	eventually(t, takeover, "the old one goes on", func() bool { return d.books.Count() > before+2000 })
	if state := d.instances[0].now.Load().flakeStatus().State; state != "waiting" {
		t.Errorf("a new instance is %q beside an old one, want waiting", state)
	}
	change(d.instances[2])
	const grace = time.Minute // a file may be gone on with for so long after a stop
	for n, i := range d.instances {
		d.workers[n] = i.serves(takeover + grace)
	}
	d.apart(t)
	before = d.books.Count()
	eventually(t, takeover, "all go on", func() bool { return d.books.Count() > before+5000 })
	d.callers.Stop()
	d.books.Settle(t)
}
