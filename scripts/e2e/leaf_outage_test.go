//go:build unix

package e2e_test

import (
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// outage is how long registries stay away: more than an instance reserves in
// advance, and than a lease without a file lasts.
const outage = 15 * time.Second

// victim is an instance whose registry dies.
type victim struct {
	*instance
	leased  bool   // it may not go on without its registry
	lists   bool   // its queue mode has a store
	silent  bool   // it has refused since the registry died
	store   string // of its registry, as messages name it
	args    []string
	callers *rig.Callers
	fresh   *instance // has no worker file, and starts without the registry
}

// TestE2ELeafRegistriesDie: without its registry an instance with a worker file
// goes on, also over a restart, in order or by kill -9; one with a lease stops before
// another could follow; one that starts without a file waits, and says for what; and the
// other modes do not care. When the registry is back, all go on where they were.
func TestE2ELeafRegistriesDie(t *testing.T) {
	story(t)
	zoo, db, redis := testserver.ZooKeeper(t), testserver.MariaDB(t), testserver.Redis(t)
	victims := []*victim{
		embeddedVictim(t, victim{lists: true, store: "zookeeper"}, "zk", onZooKeeper("zk", zoo.Addr())),
		embeddedVictim(t, victim{lists: true, store: "zookeeper"}, "zk_recycle", onZooKeeper("zk_recycle", zoo.Addr())),
		embeddedVictim(t, victim{lists: true, leased: true}, "zk_ephemeral", onZooKeeper("zk_ephemeral", zoo.Addr())),
		embeddedVictim(t, victim{leased: true}, "redis", byRedis(redis.Addr)), // its lists die too
		databaseVictim(t, db),
	}
	for _, v := range victims {
		v.serves(takeover)
		v.callers = gather(t, 1, v.instance)
	}
	for _, server := range []interface{ Kill() }{zoo, db, redis} {
		server.Kill()
	}
	for begun := time.Now(); time.Since(begun) < outage; time.Sleep(500 * time.Millisecond) {
		for _, v := range victims {
			v.endures()
		}
	}
	for n, v := range victims {
		if v.says(t); !v.leased {
			v.startsAgain(t, n%2 == 0)
		}
	}
	for _, server := range []interface{ Restart() }{zoo, db, redis} {
		server.Restart()
	}
	for _, v := range victims {
		v.recovers(t)
	}
}

// embeddedVictim has embedded stores beside its registry.
func embeddedVictim(t *testing.T, v victim, name string, s settings) *victim {
	t.Helper()
	v.instance = newInstance(t, name, address(1), nil, s.With(closeClocks()).With(settings{"QUEUE_TIMEOUT": "300ms"}))
	v.args = []string{"--demo"}
	v.start(v.args...)
	return &v
}

// databaseVictim has its worker ID, its tags and its apps in one database.
func databaseVictim(t *testing.T, db *testserver.MariaDBServer) *victim {
	t.Helper()
	s := onMariaDB(db.NewDatabase(t))
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	must(t, s, "tags", "add", "--tag", demoTag)
	v := &victim{lists: true, store: "database"}
	v.instance = newInstance(t, "mysql", address(1), nil, s)
	v.start()
	eventually(t, startLimit, "the lists are filled", func() bool { return v.now.Load().get(aliceGet).status == 200 })
	eventually(t, startLimit, "a segment is held", func() bool { return v.now.Load().get(segmentGet+demoTag).status == 200 })
	return v
}

// endures asks all modes once during the outage.
func (v *victim) endures() {
	v.t.Helper()
	d := v.now.Load()
	a, came := v.flake()
	switch {
	case !came && !v.leased:
		v.t.Fatalf("%s: no snowflake: %s", v.name, a.body)
	case came && v.silent:
		v.t.Fatalf("%s: a snowflake after it was refused, from a registry that is away", v.name)
	}
	v.silent = !came
	if a := d.get(segmentGet + demoTag); a.status != 200 {
		v.t.Fatalf("%s: no segment ID: %d %s", v.name, a.status, a.body)
	}
	if a := d.get(aliceGet); v.lists && a.status != 200 {
		v.t.Fatalf("%s: no queue ID: %d %s", v.name, a.status, a.body)
	}
}

// says checks what the health endpoints tell at the end of the outage.
func (v *victim) says(t *testing.T) {
	t.Helper()
	d := v.now.Load()
	state := d.flakeStatus().State
	if v.silent != v.leased || v.leased != (state == "waiting") || !v.leased && state != "offline" {
		t.Errorf("%s: %q, silent %v", v.name, state, v.silent)
	}
	ready := d.get("/readyz")
	if v.lists && (ready.status != 200 || v.leased && !strings.Contains(ready.Message, "snowflake")) {
		t.Errorf("%s: /readyz: %d %s", v.name, ready.status, ready.body)
	}
	if !strings.Contains(ready.body, `{"name":"snowflake worker ID","ok":false`) {
		t.Errorf("%s: /readyz: %s", v.name, ready.body)
	}
	d.want("/healthz", 503, 0)
	d.want("/livez", 200, 0)
}

// startsAgain: the worker file is enough for its instance; without one nothing but the snowflakes
// waits for the registry, which the readiness and the refusal name.
func (v *victim) startsAgain(t *testing.T, crash bool) {
	t.Helper()
	v.callers.Stop()
	before := workerOf(v.last)
	if crash {
		v.kill()
	} else {
		v.stop()
	}
	v.start(v.args...)
	v.fresh = newInstance(t, v.name+", fresh", address(2), nil, v.settings.With(settings{"SNOWFLAKE_ADVERTISE": address(2)}))
	d := v.fresh.start(v.args...)
	notReadyFor(t, v.fresh, v.store)
	if a, _ := v.fresh.flake(); !strings.Contains(a.Message, v.store) {
		t.Errorf("%s: the refusal does not name its cause: %s", v.fresh.name, a.body)
	}
	if v.args != nil {
		eventually(t, startLimit, "the other modes serve, and the replica is in service", func() bool {
			return d.get(aliceGet).status == 200 && d.get(segmentGet+demoTag).status == 200 && d.get("/readyz").Status == "degraded"
		})
	} else if a := d.want(segmentGet+demoTag, 503, -1); a.header.Get("Retry-After") == "" || !strings.Contains(a.Message, v.store) {
		t.Errorf("segment mode: %v %s", a.header, a.body)
	}
	if worker, state := v.serves(takeover), v.now.Load().flakeStatus().State; worker != before || state != "offline" {
		t.Errorf("%s: worker ID %d, it was %d; %q", v.name, worker, before, state)
	}
	v.callers = gather(t, 1, v.instance)
}

// recovers waits until the process serves by its registry again, and one that waited for it, too.
func (v *victim) recovers(t *testing.T) {
	t.Helper()
	v.now.Load().worker.Store(-1) // a lease may be of another one now
	before := workerOf(v.last)
	if worker := v.serves(takeover); !v.leased && worker != before {
		t.Errorf("%s: worker ID %d, it was %d", v.name, worker, before)
	}
	eventually(t, takeover, v.name+" is confirmed by its registry", func() bool { return v.now.Load().flakeStatus().State == "serving" })
	var ready answer
	defer func() {
		if t.Failed() {
			t.Logf("%s: /readyz: %s", v.name, ready.body)
		}
	}()
	eventually(t, takeover, v.name+" is ready", func() bool {
		ready = v.now.Load().get("/readyz")
		return ready.Status == "ok"
	})
	if v.fresh != nil {
		v.fresh.serves(takeover)
		v.fresh.books.Settle(t, v.fresh.name)
	}
	v.callers.Stop()
	v.books.Settle(t, v.name)
}
