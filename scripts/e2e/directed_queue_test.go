//go:build unix

package e2e_test

import (
	"syscall"
	"testing"

	"shardid/scripts/check"
)

// narrow is the limit of an app whose IDs must fit into 31 bits: 131,071 indices for
// each shard.
const narrow = "2147483647"

// sweeping makes the sweep and the reload run each second.
func sweeping() settings {
	return settings{"QUEUE_REFILL_CRON": "* * * * * *", "QUEUE_RELOAD_CRON": "* * * * * *", "QUEUE_TIMEOUT": "500ms"}
}

// TestDirectedRestartsOfAnEmbeddedServer: 131 restarts used up a 32-bit app although
// nobody asked for an ID. A restart without one now loses nothing, any other one at most 20 indices of a
// narrow list.
func TestDirectedRestartsOfAnEmbeddedServer(t *testing.T) {
	check.Deep(t)
	story(t)
	dir, books := t.TempDir(), &ledger{}
	shardidIn(t, dir, nil, "provision", "--app", "1", "--name", "test", "--max-limit-id", narrow)
	restart := func(times, ids int, stop func(*daemon)) {
		t.Helper()
		for range times {
			d := serveIn(t, dir, nil)
			d.ready()
			if ids > 0 {
				take(d, books, ids)
			}
			stop(d)
			d.Kill()
		}
	}
	orderly := func(d *daemon) { d.stops(syscall.SIGTERM, startLimit) }
	highest := func() (index int64) {
		t.Helper()
		d := serveIn(t, dir, nil)
		take(d, books, 1)
		orderly(d)
		return books.Last() >> 14
	}
	restart(10, 0, orderly)
	restart(10, 0, func(*daemon) {}) // killed
	if at := highest(); at != 1 {
		t.Errorf("20 restarts without an ID: index %d", at)
	}
	restart(40, 1, orderly)
	if at := highest(); at > 40*20 {
		t.Errorf("40 orderly restarts: index %d", at)
	}
	before := highest()
	restart(20, 1, func(*daemon) {})
	if at := highest(); at > before+20*20 {
		t.Errorf("20 crashes: index %d, before %d", at, before)
	}
	t.Logf("%d IDs in some 85 lives, highest index %d", books.Count(), highest())
	books.Settle(t)
}
