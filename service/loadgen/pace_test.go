package loadgen

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
)

// paceRun runs the pacer of a run at 10000 a second that has begun.
func paceRun(t *testing.T, ctx func(*run) context.Context, from, end int64, due chan int64) (r *run, wait func()) {
	t.Helper()
	timer, err := newTimer()
	check.Must(t, err)
	t.Cleanup(timer.close)
	r = &run{Load: &Load{opts: Options{Rate: 10_000}}, clock: clock{time.Now()}, account: newAccount(0), from: from, end: end}
	var wg sync.WaitGroup
	wg.Go(func() { r.pace(ctx(r), timer, due) })
	return r, wg.Wait
}

// TestPacer: the times are those of the schedule, none of them comes early, and a
// taker that was away for a while still gets every one.
func TestPacer(t *testing.T) {
	due := make(chan int64)
	r, wait := paceRun(t, func(*run) context.Context { return t.Context() }, 0, 2e8, due)
	var got []int64
	for at := range due {
		if now := r.now(); now < at {
			t.Errorf("%d came at %d", at, now)
		}
		if got = append(got, at); len(got) == 100 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	wait()
	var want []int64
	for n := range int64(2000) {
		want = append(want, n*1e5)
	}
	if !slices.Equal(got, want) || r.unsent != 0 {
		t.Errorf("%d times, want %d; %d unsent", len(got), len(want), r.unsent)
	}
}

// TestPacerLeft: what no connection took is counted with how long it had waited,
// without the warm-up.
func TestPacerLeft(t *testing.T) {
	r, wait := paceRun(t, func(r *run) context.Context {
		ctx, cancel := context.WithDeadline(t.Context(), r.base.Add(2e8))
		t.Cleanup(cancel)
		return ctx
	}, 1e8, 2e8, make(chan int64))
	wait()
	if r.unsent != 1000 || r.latency.TotalCount() != 1000 || r.latency.Max() < 99e6 || r.latency.Max() > 101e6 || r.latency.Min() > 1e6 {
		t.Errorf("%d left, latencies %d…%d ns", r.unsent, r.latency.Min(), r.latency.Max())
	}
}

// TestStall: a stall of the server counts for every request that was due in it, not
// only for the few that were in flight.
func TestStall(t *testing.T) {
	const stall, rate = 300 * time.Millisecond, 1000
	var g gate
	var held sync.WaitGroup
	s := &issuer{spoil: func(_ http.ResponseWriter, _ *http.Request, n int64) bool {
		if n == 200 {
			held.Go(func() { g.shutFor(stall) })
		}
		g.pass()
		return false
	}}
	o := brief(serve(t, s))
	o.Rate, o.Duration = rate, 1200*time.Millisecond
	r, ran := execute(t, o)
	held.Wait()
	slow := ran.slowerThan(10 * time.Millisecond)
	t.Logf("%d of %d requests were slow, %d unsent, p50 %v, max %v", slow, r.Requests, r.Unsent, r.Latency.P50, r.Latency.Max)
	if slow < 280 || r.Latency.Max < stall*9/10 {
		t.Errorf("%d slow requests, the slowest %v", slow, r.Latency.Max)
	}
	if r.Requests+r.Unsent != 1200 || r.Rate != rate {
		t.Errorf("%d sent and %d not, want 1200", r.Requests, r.Unsent)
	}
}

// TestTooSlow: a server that cannot keep up shows in the rate that is achieved, and
// in the latencies, also of what was never sent.
func TestTooSlow(t *testing.T) {
	s := &issuer{spoil: func(http.ResponseWriter, *http.Request, int64) bool {
		time.Sleep(10 * time.Millisecond)
		return false
	}}
	o := brief(serve(t, s))
	o.Warmup, o.Duration, o.Concurrency, o.Rate = 100*time.Millisecond, 500*time.Millisecond, 2, 10_000
	r := mustRun(t, o)
	if r.Requests < 1 || r.AchievedRate() > 250 || r.Requests+r.Unsent < 4990 || r.Requests+r.Unsent > 5010 {
		t.Errorf("%d requests, %.0f/s, %d unsent", r.Requests, r.AchievedRate(), r.Unsent)
	}
	if r.Latency.P50 < 200*time.Millisecond || r.Latency.P50 > 300*time.Millisecond || r.Latency.Max < 450*time.Millisecond {
		t.Errorf("%+v", r.Latency)
	}
}

// TestOutage: a server that goes away and comes back is connected to again; what was
// due meanwhile is late, not lost.
func TestOutage(t *testing.T) {
	s := newRestartable(t, &issuer{})
	o := brief("http://" + s.addr)
	o.Rate, o.Duration = 500, 1500*time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(300 * time.Millisecond)
		s.stop()
		time.Sleep(300 * time.Millisecond)
		s.start()
	})
	r := mustRun(t, o)
	wg.Wait()
	if r.Errors[kindConnect] == 0 || r.Latency.Max < 200*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if lost := r.Errors[kindClosed]; r.Requests+r.Unsent+lost != 750 || r.Requests < 300 {
		t.Errorf("%d requests, %d closed, %d unsent, want 750", r.Requests, lost, r.Unsent)
	}
}
