//go:build unix

// Instances of the snowflake mode: places with a folder, settings and an address that outlive their processes.

package stories_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/rig"
)

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
