//go:build unix

// The embedded service, which has only its folder: it is killed while it works, and started again.

package stories_test

import (
	"testing"

	"shardid/scripts/rig"
)

// TestKilledUnderLoad: the embedded stores survive kill -9 and orderly stops in turns. No ID of any mode comes twice,
// the numbers of a key rise, and each life has a worker ID of the UID mode of its own.
func TestKilledUnderLoad(t *testing.T) {
	story(t)
	p, queue, tag, flakes, uids := newPlace(t, "embedded", nil, "--demo"), &ledger{}, &ledger{}, &ledger{}, &ledger{}
	var numbered rig.Order
	for life := range 4 {
		p.settings = settings{"UID_MODE": []string{"cached", "default"}[life%2]}
		p.start().ready()
		draws := []draw{
			{place: p, target: aliceGet, batch: 10, books: queue},
			{place: p, target: segmentGet + demoTag, batch: 10, books: tag},
			{place: p, target: snowflakeGet, batch: 10, books: flakes},
			{place: p, target: uidGet, batch: 7, books: uids},
		}
		callers, numberers := gather(t, 4, draws...), number(p, &numbered)
		for _, w := range draws {
			reach(t, w.books, w.books.Count()+1000)
		}
		reach(t, &numbered, numbered.Count()+1000)
		if life%2 == 0 {
			p.kill()
		} else {
			p.stop()
		}
		callers.Stop()
		numberers.Stop()
		if workers := uidWorkers(uids); len(workers) != life+1 {
			t.Errorf("UIDs by worker ID after %d lives: %v", life+1, workers)
		}
	}
	for name, books := range map[string]*ledger{"queue": queue, "tag": tag, "snowflake": flakes, "UID": uids} {
		books.Settle(t, name)
	}
	numbered.Settle(t, "sequences")
}

const uidGet = "/api/uid/get"

// uidWorkerOf takes a UID of Baidu's widths apart, without the help of shardid: below the worker ID are 13 bits.
func uidWorkerOf(id int64) int64 { return id >> 13 & (1<<22 - 1) }

// uidWorkers counts UIDs by their worker IDs.
func uidWorkers(books *ledger) map[int64]int {
	counts := map[int64]int{}
	for _, id := range books.IDs() {
		counts[uidWorkerOf(id)]++
	}
	return counts
}
