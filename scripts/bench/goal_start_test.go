//go:build unix

package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/rig"
)

// inUse is how many of 256 apps are asked for IDs: 1024 lists of 16 384.
const inUse = 16

// measureStart is goal 9: the first ID, and the memory of a service with all apps.
func measureStart(t *testing.T, s *suite) {
	const title = "start to first ID"
	got := s.referee.contest(title, s.plan.starts, []contender{{title, func() figures { return firstID(t, s) }}})
	s.report.Contests[title] = got
	s.report.goal(9, got[title]).atMost("embedded, from the start to the first ID", got[title].median("ms"), 300, "ms", fmt.Sprintf("median of %d", s.plan.starts))
	memory := memoryOfAll(t, s)
	if memory == 0 {
		s.report.goal(9).absent("memory with 16 384 lists, 1024 in use", "the system does not tell")
		return
	}
	s.report.goal(9).atMost("memory with 16 384 lists, 1024 in use", memory, 64, "MiB", "resident")
}

// firstID starts the embedded service in an empty folder.
func firstID(t *testing.T, s *suite) figures {
	t.Helper()
	d := serve(t, nil, s.shardid, "serve", "--demo", "--server.addr", "127.0.0.1:0")
	defer d.Kill()
	rig.Until(t, startLimit, "the first ID comes", func() error { return answers(d.url + queuePath(1, "alice")) })
	return figures{"ms": float64(time.Since(d.Begun).Microseconds()) / 1000}
}

// memoryOfAll is the resident set, in MiB, of a service over real stores with all
// apps, after some seconds of requests.
func memoryOfAll(t *testing.T, s *suite) float64 {
	t.Helper()
	own := s.serveShardid(t, s.deploy(t, apps(model.Apps)).settings(), singleApp)
	own.awaitFilled(model.Apps)
	useApps(t, own, s.plan.load)
	return float64(own.Memory("VmRSS")) / (1 << 20)
}

// apps are the first n, with a step as in production.
func apps(n int) map[uint8]int64 {
	steps := map[uint8]int64{}
	for app := range n {
		steps[uint8(app)] = 1000
	}
	return steps
}

// awaitFilled returns when the service, over empty stores, has filled all lists of n
// apps.
func (d *daemon) awaitFilled(n int) {
	d.t.Helper()
	measurable(d.t, 3*time.Minute, "all lists are filled", func() error {
		if filled := d.metric("shardid_queue_refills_total"); filled < float64(n*model.Shards) {
			time.Sleep(100 * time.Millisecond)
			return fmt.Errorf("%v of %d", filled, n*model.Shards)
		}
		return nil
	})
}

// useApps asks all lists of some apps, for a while.
func useApps(t *testing.T, own *daemon, length time.Duration) {
	t.Helper()
	var callers sync.WaitGroup
	for app := range inUse {
		callers.Go(func() {
			for end, n := time.Now().Add(length), 0; time.Now().Before(end) || n < 1000; n++ {
				if err := answers(own.url + queuePath(app, fmt.Sprint("user", n))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}
