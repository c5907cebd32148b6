package snowflake_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/service/snowflake"
)

func TestSystemClockIsTheMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, began := snowflake.SystemClock(), time.Now()
		for _, step := range []time.Duration{0, 1, time.Microsecond, 300 * time.Microsecond, time.Millisecond, time.Second, 1, time.Hour} {
			time.Sleep(step)
			wall, mono := clock()
			if now := time.Now(); wall != now.UnixNano() || mono != now.Sub(began) {
				t.Errorf("after %v: wall %d, monotonic %v; the machine says %d and %v", step, wall, mono, now.UnixNano(), now.Sub(began))
			}
		}
	})
}

func TestSystemClockIsSafeForConcurrentUse(t *testing.T) {
	clock := snowflake.SystemClock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
				before := time.Now()
				wall, mono := clock()
				if off := time.Duration(wall - before.UnixNano()); off < -5*time.Millisecond || off > 5*time.Second || mono < 0 {
					t.Errorf("off by %v, monotonic %v", off, mono)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkSystemClock(b *testing.B) {
	clock := snowflake.SystemClock()
	for b.Loop() {
		clock()
	}
}
