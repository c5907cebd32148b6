//go:build unix

package e2e_test

import (
	"maps"
	"slices"
	"strconv"
)

// uidBits is how the stories take a UID apart, without the help of shardid.
type uidBits struct {
	worker, seq uint
	epoch       int64 // Unix seconds
}

// uidDefaults are Baidu's widths and shardid's epoch, 2026-01-01.
func uidDefaults() uidBits { return uidBits{worker: 22, seq: 13, epoch: 1767225600} }

func (b uidBits) workerOf(id int64) int64 { return id >> b.seq & (1<<b.worker - 1) }
func (b uidBits) secondOf(id int64) int64 { return id>>(b.worker+b.seq) + b.epoch }

// uidBooks holds every UID that any process issued.
type uidBooks struct {
	ledger
	bits uidBits
}

// by counts the IDs by something that they carry.
func (b *uidBooks) by(part func(id int64) int64) map[int64]int {
	counts := map[int64]int{}
	for _, id := range b.IDs() {
		counts[part(id)]++
	}
	return counts
}

// lastSecond is the latest that any ID carries.
func (b *uidBooks) lastSecond() int64 {
	return slices.Max(slices.Collect(maps.Keys(b.by(b.bits.secondOf))))
}

const uidGet = "/api/uid/get"

// uidTarget asks for a batch.
func uidTarget(count int) string { return uidGet + "?count=" + strconv.Itoa(count) }

// takeUIDs asks for a batch and enters it; it gives the answer.
func takeUIDs(d *daemon, books *uidBooks, count int) answer {
	d.t.Helper()
	ids, a, err := d.take(uidGet, count)
	if err != nil {
		d.t.Fatalf("%v: %.200s", err, a.body)
	}
	books.Rise(0, ids...)
	return a
}

// uidRefused says whether a refusal is the one for want of a worker ID, which tells the
// caller to try again.
func uidRefused(a answer) bool {
	return a.status == 503 && a.Code == -8 && a.header.Get("Retry-After") != "" && a.Message != ""
}

// uidLoad is a load of callers of UIDs.
func uidLoad(books *uidBooks, batch func(caller int) int, replicas ...*daemon) *load {
	return &load{replicas: replicas, books: &books.ledger, target: uidGet, batch: batch,
		trouble: func(a answer, err error) bool { return err == nil && uidRefused(a) }}
}

// batchOf is a load whose callers all ask for as many.
func batchOf(count int) func(int) int { return func(int) int { return count } }
