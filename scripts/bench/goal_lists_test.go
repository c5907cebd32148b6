//go:build unix

package bench

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// measureIdle is goal 2: a list that is hardly used is not drained by batches.
func measureIdle(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	own := s.serveShardid(t, d.settings(), singleApp)
	length := func() int64 { return d.length(t, singleApp, pass) }
	rig.Until(t, startLimit, "the list is filled", func() error {
		if length() == 0 {
			return errors.New("it is empty")
		}
		return nil
	})
	url := own.url + queuePath(singleApp, pass)
	before := length()
	for range s.plan.idle {
		time.Sleep(time.Second)
		check.Must(t, answers(url))
	}
	two := s.report.goal(2)
	two.atMost("indices a request takes at one a second", float64(before-length())/float64(s.plan.idle), 1, "",
		fmt.Sprintf("%d requests", s.plan.idle))
	time.Sleep(time.Second)
	two.tell("pops for 64 callers at once on an idle list", popsOfCrowd(t, own, url), "", "")
}

// popsOfCrowd is how often Redis is asked when 64 callers come at the same time.
func popsOfCrowd(t *testing.T, own *daemon, url string) float64 {
	t.Helper()
	before := own.metric("shardid_queue_pops_total")
	var crowd sync.WaitGroup
	for range concurrency {
		crowd.Go(func() {
			check.OK(t, answers(url))
		})
	}
	crowd.Wait()
	return own.metric("shardid_queue_pops_total") - before
}

// The load of goal 8, in requests a second, is a fraction of what a core can do, so
// that the tail shows the refills and not the queue before a busy server. With the
// small step each of the 64 lists is refilled every 1.3 s: 50 refills a second.
const (
	refillingRate = 10_000
	smallStep     = 250
	largeStep     = 100_000
)

// measureRefilling is goal 8: the tail of the latency while every list is being
// refilled.
func measureRefilling(t *testing.T, s *suite) {
	const steadyApp, refilledApp = 3, 4
	d := s.deploy(t, map[uint8]int64{steadyApp: largeStep, refilledApp: smallStep})
	steady := s.serveShardid(t, d.settings(), steadyApp)
	refilled := s.serveShardid(t, d.settings().With(settings{"QUEUE_MAX_STEP": fmt.Sprint(smallStep)}), refilledApp)
	length := 4 * s.plan.load
	ask := func(own *daemon, app int) func() figures {
		return func() figures {
			before := own.metric("shardid_queue_refills_total")
			r := request{mode: "queue", app: app, rate: refillingRate}
			got := s.load(t, own.url, r, time.Second, length).figures()
			got["refills"] = own.metric("shardid_queue_refills_total") - before
			return got
		}
	}
	got := s.contest("refilling", s.plan.rounds, []contender{{"full lists", ask(steady, steadyApp)}, {"lists being refilled", ask(refilled, refilledApp)}})
	quiet, busy := got["full lists"], got["lists being refilled"]
	eight := s.report.goal(8, quiet, busy)
	if n := busy.median("refills"); n < 64 || quiet.median("refills") > n/10 {
		t.Skipf("%v refills in one case and %v in the other measure nothing", n, quiet.median("refills"))
	}
	eight.atMost("p99.9 while every list is refilled, of that without", ratio(busy, quiet, "p99.9 ms"), 2, "×",
		fmt.Sprintf("%s ms and %s ms at %d a second; %s refills", number(busy.median("p99.9 ms")), number(quiet.median("p99.9 ms")), refillingRate, number(busy.median("refills"))))
}

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
	d := serve(t, nil, s.shardid, "serve", "--demo", "--set", "server.addr=127.0.0.1:0")
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
