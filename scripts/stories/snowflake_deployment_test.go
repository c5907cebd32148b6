//go:build unix

// Deployments of the snowflake mode: instances that get their worker IDs from one registry. An instance is a place
// with a folder, settings and an address that outlive its processes.

package stories_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

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

// byRedis is the mode redis.
func byRedis(addr string) settings {
	return onRedis(addr).With(settings{"SNOWFLAKE_WORKER_MODE": "redis"})
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
		{"redis", byRedis(testserver.Redis(t).Addr), false},
		{"local", local, true},
	}
}

// deployment is instances that share a registry and a database.
type deployment struct {
	registry
	dsn       string
	books     *ledger
	instances []*instance
	workers   []int64 // theirs
	callers   *rig.Callers
	reserved  time.Time // by the instance that was killed
}

func newDeployment(t *testing.T, r registry, size int) *deployment {
	t.Helper()
	d := &deployment{registry: r, dsn: migrated(t), books: &ledger{}, workers: make([]int64, size)}
	s := onMariaDB(d.dsn).With(closeClocks()).With(r.settings)
	for n := range size {
		d.instances = append(d.instances, newInstance(t, fmt.Sprintf("%s %d", r.mode, n), address(n), d.books, s))
	}
	return d
}

// apart fails the test when two instances have one worker ID.
func (d *deployment) apart(t *testing.T) {
	t.Helper()
	holder := map[int64]int{}
	for n, worker := range d.workers {
		if other, taken := holder[worker]; taken {
			t.Errorf("%s: instances %d and %d both have worker ID %d", d.mode, other, n, worker)
		}
		holder[worker] = n
	}
}

// serves waits until all instances do, and begins to ask them.
func (d *deployment) serves(t *testing.T) {
	t.Helper()
	for n, i := range d.instances {
		d.workers[n] = i.serves(takeover)
	}
	d.apart(t)
	d.callers = gather(t, 2, d.instances...)
}

// loseOne kills the first instance in the middle of its work.
func (d *deployment) loseOne(t *testing.T, after int) {
	t.Helper()
	eventually(t, time.Minute, d.mode+": the first IDs", func() bool { return d.books.Count() > after })
	d.reserved = d.instances[0].now.Load().flakeStatus().ReservedUntil
	d.instances[0].kill()
}

// comesBack starts it again, in its folder and at its address. One that gets its
// worker ID back issues nothing of the time that its earlier life has reserved.
func (d *deployment) comesBack(t *testing.T) {
	t.Helper()
	before, i := d.workers[0], d.instances[0]
	i.start()
	d.workers[0] = i.serves(takeover)
	d.apart(t)
	if !d.keeps {
		return
	}
	if d.workers[0] != before {
		t.Errorf("%s: worker ID %d before kill -9, %d after", d.mode, before, d.workers[0])
	}
	if at := timeOf(i.last); !at.After(d.reserved) {
		t.Errorf("%s: an ID of %v, and the time up to %v was reserved before", d.mode, at, d.reserved)
	}
}

// instance is a place of a deployment: its folder, its settings and its address
// outlive its processes. All its snowflakes are in books.
type instance struct {
	t        *testing.T
	name     string
	dir      string
	settings settings
	books    *ledger
	now      atomic.Pointer[life] // nil while there is no process to ask
	last     int64                // latest snowflake of the test's own requests
}

// life is one process of an instance.
type life struct {
	*daemon
	worker atomic.Int64 // ID that it serves with, -1 before
	dying  atomic.Bool  // the test ends it: connections may break
}

// newInstance is an instance with a folder of its own, an address that is not the
// one it listens on, and a series of IDs that it may share.
func newInstance(t *testing.T, name, address string, books *ledger, s settings) *instance {
	t.Helper()
	if books == nil {
		books = &ledger{}
	}
	return &instance{t: t, name: name, dir: t.TempDir(), books: books,
		settings: onlyLeaf().With(settings{"SNOWFLAKE_ADVERTISE": address}).With(s)}
}

// start runs a process, which need not serve.
func (i *instance) start(args ...string) *daemon {
	i.t.Helper()
	l := &life{daemon: serveIn(i.t, i.dir, i.settings, args...)}
	l.worker.Store(-1)
	i.now.Store(l)
	return l.daemon
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
	case !noWorkerYet(a):
		i.t.Fatalf("%s: %d %v %s", i.name, a.status, a.header, a.body)
	}
	return a, len(ids) > 0
}

// serves waits until the process issues snowflakes, and gives the worker ID in
// them, which /api/status tells too.
func (i *instance) serves(limit time.Duration) int64 {
	i.t.Helper()
	took := eventually(i.t, limit, i.name+" serves", func() bool { _, ok := i.flake(); return ok })
	l := i.now.Load()
	worker := workerOf(i.last)
	// The first ID comes before the step that made it possible has ended, which says so.
	eventually(i.t, limit, fmt.Sprintf("%s: /api/status has worker ID %d", i.name, worker), func() bool {
		s := l.flakeStatus()
		return s.WorkerID == worker && s.Address == i.settings["SNOWFLAKE_ADVERTISE"]
	})
	l.worker.Store(worker)
	i.t.Logf("%s: worker %d after %v", i.name, worker, took.Round(10*time.Millisecond))
	return worker
}

// kill ends the process as a power cut does.
func (i *instance) kill() {
	l := i.now.Load()
	l.dying.Store(true)
	l.Kill()
	i.now.Store(nil)
}

// stop ends it as an operator does.
func (i *instance) stop() {
	i.t.Helper()
	l := i.now.Load()
	l.dying.Store(true)
	l.stops(syscall.SIGTERM, 20*time.Second)
	i.now.Store(nil)
}

// gather starts n callers for each instance, who take snowflakes until they are stopped. What
// is no refusal and no batch of IDs of the instance's worker is a problem.
func gather(t *testing.T, n int, instances ...*instance) *rig.Callers {
	c := &rig.Callers{}
	c.Start(t, n*len(instances), func(ctx context.Context, caller int) { instances[caller/n].feed(ctx) })
	return c
}

// feed is one caller: what he gets rises, over the lives of the instance too.
func (i *instance) feed(ctx context.Context) {
	const batch, pause = 200, 20 * time.Millisecond // enough, and cores are left for others
	var last int64
	for ; ctx.Err() == nil; time.Sleep(pause) {
		l := i.now.Load()
		if l == nil {
			continue
		}
		ids, a, err := l.take(snowflakeGet, batch)
		switch {
		case err != nil && l.dying.Load():
		case err != nil || ids == nil && !noWorkerYet(a):
			i.books.Complain("%s: %v, %d %s", i.name, err, a.status, a.body)
		case ids != nil:
			i.books.Rise(last, ids...)
			last = ids[batch-1]
			i.ofWorker(l.worker.Load(), ids)
		}
	}
}

// ofWorker checks who made the IDs of a batch, once that is known.
func (i *instance) ofWorker(want int64, ids []int64) {
	for _, id := range ids {
		if got := workerOf(id); want >= 0 && got != want {
			i.books.Complain("%s: ID %d of worker %d, not %d", i.name, id, got, want)
			return
		}
	}
}
