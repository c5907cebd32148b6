//go:build unix

package e2e_test

import (
	"encoding/json"
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/testserver"

	"github.com/go-zookeeper/zk"
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

// TestE2ELeafTreeOfJava: a Java Leaf's node keeps its address' worker ID, and stays
// readable to it. While its last report is fresh, the Java Leaf may live.
func TestE2ELeafTreeOfJava(t *testing.T) {
	story(t)
	server := testserver.SharedZooKeeper(t)
	s := onZooKeeper("zk", server.Addr())
	conn := zooClient(t, server)
	dir := path.Join("/snowflake", s["SNOWFLAKE_NAME"], "forever")
	node := path.Join(dir, address(1)+"-0000000005")
	for _, at := range []string{"/snowflake", path.Dir(dir), dir} {
		makeNode(t, conn, at, "")
	}
	makeNode(t, conn, node, `{"ip":"10.0.0.1","port":"8080","timestamp":1567733700834}`)

	i := newInstance(t, "instance", address(1), nil, s)
	i.start()
	notReadyFor(t, i, "taken", address(1))
	if worker := i.serves(takeover); worker != 5 {
		t.Errorf("worker ID %d, Leaf's node says 5", worker)
	}
	i.books.Settle(t, "the address")
	wantLeafs(t, conn, dir, node)
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func zooClient(t *testing.T, server *testserver.ZooKeeperServer) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// makeNode makes a node; others may have made it before.
func makeNode(t *testing.T, conn *zk.Conn, at, data string) {
	t.Helper()
	_, err := conn.Create(at, []byte(data), 0, zk.WorldACL(zk.PermAll))
	if err != nil && (data != "" || !errors.Is(err, zk.ErrNodeExists)) {
		t.Fatalf("%s: %v", at, err)
	}
}

// wantLeafs: there is one node, and in it are Leaf's fields and no others, as its
// decoder refuses any; the report is new.
func wantLeafs(t *testing.T, conn *zk.Conn, dir, node string) {
	t.Helper()
	names, _, err := conn.Children(dir)
	if err != nil || !slices.Equal(names, []string{path.Base(node)}) {
		t.Errorf("%v: %v", names, err)
	}
	data, _, err := conn.Get(node)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	at, isNumber := fields["timestamp"].(float64)
	want := map[string]any{"ip": "10.0.0.1", "port": "8080", "timestamp": at}
	if !isNumber || !maps.Equal(fields, want) || time.Since(time.UnixMilli(int64(at))).Abs() > time.Minute {
		t.Errorf("%s", data)
	}
}
