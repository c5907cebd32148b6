package health

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a probe that counts its runs and answers with err.
type counter struct {
	runs atomic.Int64
	err  error
}

func (c *counter) check(context.Context) error {
	c.runs.Add(1)
	return c.err
}

// Each store is probed at once and then every second; Stop ends it.
func TestProbesRunEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := &counter{}, &counter{err: errA}
		m := quietMonitor(Probe{"good", good.check}, Probe{"bad", bad.check})
		m.Start()
		synctest.Wait()
		if m.Err("good") != nil || m.Err("bad") == nil || good.runs.Load() != 1 {
			t.Errorf("at once: %v after %d runs", m.Conditions(), good.runs.Load())
		}
		time.Sleep(10*time.Second + time.Millisecond)
		m.Stop()
		time.Sleep(time.Minute)
		if good.runs.Load() != 11 || bad.runs.Load() != 11 {
			t.Errorf("%d and %d runs in 10 seconds, want 11", good.runs.Load(), bad.runs.Load())
		}
	})
}

// A probe that hangs counts as failed after three seconds and keeps no other
// probe waiting.
func TestProbeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &counter{}
		m := quietMonitor(Probe{"hangs", hang}, Probe{"other", other.check})
		m.Start()
		defer m.Stop()
		time.Sleep(probeTimeout - time.Millisecond)
		if got := m.Conditions(); len(got) != 1 || got[0].Name != "other" {
			t.Errorf("before the timeout: %v", got)
		}
		time.Sleep(2 * time.Millisecond)
		if got := m.Conditions(); len(got) != 2 || got[0].OK || got[0].Error != context.DeadlineExceeded.Error() {
			t.Errorf("after the timeout: %v", got)
		}
		if other.runs.Load() != 4 {
			t.Errorf("the other probe ran %d times in 3 s", other.runs.Load())
		}
	})
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Stop interrupts a probe, at once, and does not take that for a failure.
func TestStopInterruptsAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := quietMonitor(Probe{"hangs", hang})
		m.Start()
		time.Sleep(time.Second)
		before := time.Now()
		m.Stop()
		if took := time.Since(before); took != 0 || len(m.Conditions()) != 0 {
			t.Errorf("Stop took %v and left %v", took, m.Conditions())
		}
	})
}

func TestStartAndStopInAnyOrder(t *testing.T) {
	const start, stop = true, false
	for _, c := range []struct {
		name  string
		calls []bool
		runs  int64 // in the three seconds after each call
	}{
		{"Stop alone", []bool{stop, stop}, 0},
		{"Start twice", []bool{start, start, stop, stop}, 7},
		{"Start after Stop", []bool{stop, start}, 0},
		{"no restart", []bool{start, stop, start, stop}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				probe := &counter{}
				m := quietMonitor(Probe{"store", probe.check})
				for _, call := range c.calls {
					map[bool]func(){start: m.Start, stop: m.Stop}[call]()
					time.Sleep(3*time.Second + time.Millisecond)
				}
				if got := probe.runs.Load(); got != c.runs {
					t.Errorf("%d runs, want %d", got, c.runs)
				}
			})
		})
	}
}

// For the race detector: everything at the same time.
func TestConcurrentUse(t *testing.T) {
	m := quietMonitor(Probe{"store", nothing})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			m.Start()
			for j := range 200 {
				m.Report("redis", []error{nil, errors.New("x")}[(i+j)%2])
				_ = m.Err("redis")
				m.Conditions()
			}
			m.Stop()
		})
	}
	wg.Wait()
	if got := m.Conditions(); len(got) == 0 || got[0].Name != "redis" {
		t.Errorf("Conditions = %v", got)
	}
}
