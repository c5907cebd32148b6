//go:build unix

package bench

import (
	"fmt"
	"testing"
	"time"
)

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
