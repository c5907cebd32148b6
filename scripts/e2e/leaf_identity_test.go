//go:build unix

package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// notReadyFor waits until the readiness of the snowflake mode says that none are issued,
// and why.
func notReadyFor(t *testing.T, i *instance, reasons ...string) {
	t.Helper()
	var a answer
	defer func() { t.Logf("%s: %d %s", i.name, a.status, a.Message) }()
	eventually(t, 20*time.Second, i.name+" says why it is not ready: "+strings.Join(reasons, ", "), func() bool {
		a = i.now.Load().get("/readyz/snowflake")
		says := a.status == 503
		for _, r := range reasons {
			says = says && strings.Contains(a.Message, r)
		}
		return says
	})
	if a, came := i.flake(); came {
		t.Errorf("%s: %s", i.name, a.body)
	}
}

// TestE2ELeafAddresses: an instance is known by its folder. Two that come back with
// each other's address have their worker IDs back at once, and a third that comes from
// the address of one of them gets another. All keep theirs at another port.
func TestE2ELeafAddresses(t *testing.T) {
	check.Deep(t)
	story(t)
	zoo := testserver.SharedZooKeeper(t).Addr()
	var all []*deployment
	for _, r := range []registry{
		{mode: "zk", settings: onZooKeeper("zk", zoo)},
		{mode: "zk_recycle", settings: onZooKeeper("zk_recycle", zoo)},
		{mode: "mysql", settings: settings{"SNOWFLAKE_WORKER_MODE": "mysql"}},
	} {
		all = append(all, newDeployment(t, r, 3))
	}
	port := func(n int) string { return strings.Replace(address(n), ":8080", ":9090", 1) }
	for _, round := range []struct {
		addresses []string // of the instances that start
		keep      int      // so many have the worker IDs that they had
	}{
		{[]string{address(0), address(1)}, 0},
		{[]string{address(1), address(0), address(0)}, 2},
		{[]string{port(1), port(0), port(2)}, 3},
	} {
		for _, d := range all {
			for n, addr := range round.addresses {
				if n < round.keep {
					d.instances[n].kill()
				}
				d.instances[n].settings["SNOWFLAKE_ADVERTISE"] = addr
			}
			for n := range round.addresses {
				d.instances[n].start()
			}
		}
		for _, d := range all {
			for n := range round.addresses {
				i := d.instances[n]
				worker := i.serves(takeover)
				if n < round.keep && worker != d.workers[n] {
					t.Errorf("%s: worker ID %d, it was %d", i.name, worker, d.workers[n])
				}
				d.workers[n] = worker
			}
		}
	}
	for _, d := range all {
		d.apart(t)
		d.books.Settle(t, d.mode)
	}
}

// TestE2ELeafFolderTaken: two processes on one folder and address. The second has
// the worker ID as soon as the first has stopped.
func TestE2ELeafFolderTaken(t *testing.T) {
	story(t)
	s := onMariaDB(testserver.MariaDB(t).NewDatabase(t))
	for _, args := range []string{"migrate", "provision --app 1 --name test", "tags add --tag " + demoTag} {
		must(t, s, strings.Fields(args)...)
	}
	first := newInstance(t, "first", address(1), nil, s)
	second := newInstance(t, "second", address(1), first.books, s)
	second.dir = first.dir
	first.start()
	worker := first.serves(takeover)
	second.start()
	notReadyFor(t, second, "another process uses the folder", filepath.Join("data", "shardid", "8080"))
	d := second.now.Load()
	eventuallyID(t, d.daemon, segmentGet+demoTag)
	eventuallyID(t, d.daemon, aliceGet)
	first.flake()
	first.stop()
	if got := second.serves(takeover); got != worker {
		t.Errorf("worker ID %d, the first one had %d", got, worker)
	}
	first.books.Settle(t, "the address")
}
