//go:build unix

// Snowflakes, as Leaf makes them: an instance keeps its worker ID by its folder, whatever registry gave it. When the
// registry dies, one with a worker file goes on by it, and one with a lease stops before another could follow.

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

// TestLeafRegistriesDie: without its registry an instance with a worker file goes on, also over a restart,
// and one with a lease stops. One that starts without a file waits, and says for what. The other modes do not
// care. When the registry is back, all go on where they were.
func TestLeafRegistriesDie(t *testing.T) {
	story(t)
	for _, c := range []struct {
		name   string
		deep   bool
		leased bool // it may not go on without its registry
		start  func(*testing.T) (server, settings)
	}{
		{name: "zookeeper", start: zooVictim("zk")},
		{name: "redis", leased: true, start: redisVictim},
		{name: "zookeeper, recycled", deep: true, start: zooVictim("zk_recycle")},
		{name: "zookeeper, ephemeral", deep: true, leased: true, start: zooVictim("zk_ephemeral")},
		{name: "database", deep: true, start: databaseVictim},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.deep {
				check.Deep(t)
			}
			t.Parallel()
			registry, s := c.start(t)
			i := newInstance(t, c.name, address(1), nil, s.With(closeClocks()))
			i.start(demo(i.settings)...)
			worker := i.serves(takeover)
			for _, target := range []string{segmentGet + demoTag, aliceGet} {
				eventuallyID(t, i.now.Load().daemon, target)
			}
			callers := gather(t, 1, i)
			registry.Kill()
			var fresh *instance
			if store, _, _ := strings.Cut(c.name, ","); c.leased {
				i.fallsSilent()
			} else {
				i.goesOn()
				fresh = i.startsAgain(worker, store)
			}
			registry.Restart()
			if fresh != nil {
				fresh.serves(takeover)
				fresh.books.Settle(t, fresh.name)
			}
			i.now.Load().worker.Store(-1) // a lease may be of another one now
			if got := i.serves(takeover); !c.leased && got != worker {
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

// server is what a story takes away.
type server interface {
	Kill()
	Restart()
}

// The victims have embedded stores beside their registry, but that of the database, which has all in one.

func zooVictim(mode string) func(*testing.T) (server, settings) {
	return func(t *testing.T) (server, settings) {
		zoo := testserver.ZooKeeper(t)
		return zoo, onZooKeeper(mode, zoo.Addr())
	}
}

// demo is what fills embedded stores; a database has been filled.
func demo(s settings) []string {
	if s["DATABASE_DSN"] != "" {
		return nil
	}
	return []string{"--demo"}
}

func redisVictim(t *testing.T) (server, settings) {
	redis := testserver.Redis(t)
	return redis, byRedis(redis.Addr)
}

func databaseVictim(t *testing.T) (server, settings) {
	db := testserver.MariaDB(t)
	s := onMariaDB(db.NewDatabase(t))
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	must(t, s, "tags", "add", "--tag", demoTag)
	return db, s
}

// fallsSilent: the lease runs out, which the health endpoints tell, and the other modes go on.
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
			i.t.Fatalf("no snowflake while the registry is away: %s", a.body)
		}
		return timeOf(i.last).After(reserved.Add(time.Second))
	})
	i.tells("offline")
	for _, target := range []string{segmentGet + demoTag, aliceGet, "/readyz"} {
		i.now.Load().want(target, 200, 0)
	}
}

// tells wants a state of /api/status, and health endpoints that tell what is away.
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
func (i *instance) startsAgain(worker int64, store string) (fresh *instance) {
	i.t.Helper()
	i.kill()
	i.start(demo(i.settings)...)
	if got := i.serves(takeover); got != worker || i.now.Load().flakeStatus().State != "offline" {
		i.t.Errorf("after kill -9: worker ID %d, want %d: %+v", got, worker, i.now.Load().flakeStatus())
	}
	elsewhere := i.settings.With(settings{"SNOWFLAKE_ADVERTISE": address(2)})
	fresh = newInstance(i.t, i.name+", fresh", address(2), nil, elsewhere)
	fresh.start(demo(elsewhere)...)
	fresh.waits(store)
	return fresh
}
