//go:build unix

package e2e_test

import (
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// trio is three instances with one kind of registry, which is away at their start.
type trio struct {
	stopped *instance // was stopped in good order a moment ago
	killed  *instance // was killed a moment ago
	fresh   *instance // has no worker file
	store   string    // that is away
}

// TestE2ELeafStartsWithoutRegistry: with a valid worker file an instance serves,
// with the worker ID of its last life; without one it waits and says for what.
func TestE2ELeafStartsWithoutRegistry(t *testing.T) {
	story(t)
	zoo, db := testserver.ZooKeeper(t), testserver.MariaDB(t)
	trios := []trio{
		newTrio(t, "zookeeper", func() settings { return onZooKeeper("zk", zoo.Addr()) }),
		newTrio(t, "database", func() settings {
			s := onMariaDB(db.NewDatabase(t))
			must(t, s, "migrate")
			return s
		}),
	}
	for _, trio := range trios {
		trio.firstLife()
	}
	zoo.Kill()
	db.Kill()
	for _, trio := range trios {
		trio.start()
		trio.waits(t)
	}
	for _, trio := range trios {
		trio.servesOffline(t)
	}
	zoo.Restart()
	db.Restart()
	for _, trio := range trios {
		trio.joins(t)
	}
}

// newTrio gives each instance a namespace of its own in the registry: they need
// not wait for each other.
func newTrio(t *testing.T, store string, namespace func() settings) trio {
	t.Helper()
	at := func(n int, what string) *instance {
		return newInstance(t, store+" "+what, address(n), nil, namespace().With(closeClocks()))
	}
	return trio{store: store, stopped: at(1, "stopped"), killed: at(2, "killed"), fresh: at(3, "fresh")}
}

// firstLife leaves worker files.
func (t trio) firstLife() {
	for _, i := range []*instance{t.killed, t.stopped} {
		i.start(t.demo()...)
		i.serves(takeover)
	}
	t.killed.kill()
	t.stopped.stop()
}

// demo are the arguments of a process with an embedded database.
func (t trio) demo() []string {
	if t.store == "database" {
		return nil
	}
	return []string{"--demo"}
}

func (t trio) start() {
	for _, i := range []*instance{t.stopped, t.killed, t.fresh} {
		i.start(t.demo()...)
	}
}

// waits: nothing but the snowflakes waits for the registry, which their readiness names.
func (t trio) waits(test *testing.T) {
	test.Helper()
	d := t.fresh.now.Load()
	eventually(test, takeover, "/readyz/snowflake names "+t.store, func() bool {
		a := d.get("/readyz/snowflake")
		return a.status == 503 && a.Status == "not ready" && strings.Contains(a.Message, t.store) &&
			strings.Contains(a.body, `{"name":"snowflake","ok":false`)
	})
	if a, came := t.fresh.flake(); came {
		test.Errorf("%s: a snowflake without a worker ID: %s", t.fresh.name, a.body)
	} else if !strings.Contains(a.Message, t.store) {
		test.Errorf("%s: the refusal does not name its cause: %s", t.fresh.name, a.body)
	}
	if t.store == "database" {
		if a := d.want(segmentGet+demoTag, 503, -1); a.header.Get("Retry-After") == "" || !strings.Contains(a.Message, "database") {
			test.Errorf("segment mode: %v %s", a.header, a.body)
		}
		return
	}
	eventually(test, startLimit, "the other modes serve, and the replica is in service", func() bool {
		return d.get(aliceGet).status == 200 && d.get(segmentGet+demoTag).status == 200 && d.get("/readyz").Status == "degraded"
	})
}

func (t trio) servesOffline(test *testing.T) {
	test.Helper()
	for _, i := range []*instance{t.stopped, t.killed} {
		before := workerOf(i.last)
		worker, state := i.serves(takeover), i.now.Load().flakeStatus().State
		if worker != before || state != "offline" {
			test.Errorf("%s: worker ID %d, it was %d; %q", i.name, worker, before, state)
		}
	}
	if _, came := t.fresh.flake(); came {
		test.Errorf("%s: a snowflake without a worker ID", t.fresh.name)
	}
}

// joins: the registry has come and all serve by it, without a restart.
func (t trio) joins(test *testing.T) {
	test.Helper()
	for _, i := range []*instance{t.stopped, t.killed, t.fresh} {
		i.serves(takeover)
		d := i.now.Load()
		eventually(test, takeover, i.name+" is confirmed", func() bool { return d.flakeStatus().State == "serving" })
		eventually(test, takeover, i.name+" is ready", func() bool { return d.get("/readyz").Status == "ok" })
		i.flake()
		i.books.Settle(test, i.name)
	}
}
