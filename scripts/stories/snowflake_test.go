//go:build unix

// Snowflakes, as Leaf makes them: an instance keeps its worker ID by its folder, whatever registry gave it.

package stories_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
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
