//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// uidBooks holds every UID that any process issued. Safe for concurrent use.
type uidBooks struct {
	bits uidBits

	mu       sync.Mutex
	ids      []int64
	problems []string
}

// enter notes the IDs of one answer.
func (b *uidBooks) enter(ids ...int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, id := range ids {
		if id <= 0 || i > 0 && id <= ids[i-1] {
			b.problems = append(b.problems, fmt.Sprintf("%d comes at place %d of %d", id, i, len(ids)))
		}
	}
	b.ids = append(b.ids, ids...)
}

// complain notes something else that must not happen.
func (b *uidBooks) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *uidBooks) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ids)
}

// by counts the IDs by something that they carry.
func (b *uidBooks) by(part func(id int64) int64) map[int64]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[int64]int{}
	for _, id := range b.ids {
		counts[part(id)]++
	}
	return counts
}

// lastSecond is the latest that any ID carries.
func (b *uidBooks) lastSecond() int64 {
	return slices.Max(slices.Collect(maps.Keys(b.by(b.bits.secondOf))))
}

// audit is what was wrong, repeats included.
func (b *uidBooks) audit() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := slices.Clone(b.problems)
	sorted := slices.Sorted(slices.Values(b.ids))
	for i, id := range sorted {
		if i > 0 && id == sorted[i-1] {
			found = append(found, fmt.Sprintf("UID %d came twice", id))
		}
	}
	return found
}

// settle fails the test for what was wrong.
func (b *uidBooks) settle(t *testing.T) {
	t.Helper()
	problems := b.audit()
	for _, p := range problems[:min(10, len(problems))] {
		t.Error(p)
	}
	t.Logf("%d UIDs, %d problems", b.count(), len(problems))
}

// TestE2EUIDLedgerNotices: a ledger that saw nothing wrong would prove nothing.
func TestE2EUIDLedgerNotices(t *testing.T) {
	story(t)
	good := &uidBooks{bits: uidDefaults()}
	good.enter(1<<35|1<<13, 1<<35|1<<13+1)
	good.enter(1<<35 | 2<<13)
	if found := good.audit(); len(found) != 0 || good.by(good.bits.workerOf)[1] != 2 || good.by(good.bits.secondOf)[1767225601] != 3 {
		t.Errorf("%v, %v", found, good.ids)
	}
	for _, answers := range [][][]int64{{{5, 6}, {6}}, {{0}}, {{-5}}, {{6, 5}}, {{5, 5}}} {
		bad := &uidBooks{bits: uidDefaults()}
		for _, ids := range answers {
			bad.enter(ids...)
		}
		if len(bad.audit()) == 0 {
			t.Errorf("nothing is wrong with %v", answers)
		}
	}
}

// uidTarget asks for a batch.
func uidTarget(count int) string { return "/api/uid/get?count=" + strconv.Itoa(count) }

// uidsOf reads an answer, which must be exactly count lines of digits.
func uidsOf(a answer, count int) ([]int64, error) {
	lines := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	if len(lines) != count || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		return nil, fmt.Errorf("%d lines of %s, want %d", len(lines), a.header.Get("Content-Type"), count)
	}
	ids := make([]int64, count)
	for i, line := range lines {
		id, err := strconv.ParseUint(line, 10, 63) // digits only
		if err != nil {
			return nil, err
		}
		ids[i] = int64(id)
	}
	return ids, nil
}

// takeUIDs asks for a batch and enters it; it gives the answer.
func takeUIDs(d *daemon, books *uidBooks, count int) answer {
	d.t.Helper()
	a := d.get(uidTarget(count))
	if a.status == http.StatusOK {
		ids, err := uidsOf(a, count)
		if err != nil {
			d.t.Fatalf("%v: %.200s", err, a.body)
		}
		books.enter(ids...)
	}
	return a
}

// uidRefused says whether a refusal tells the caller to try again.
func uidRefused(a answer) bool {
	return a.status == 503 && a.Code == -8 && a.header.Get("Retry-After") != "" && a.Message != ""
}

// uidLoad is callers, each of one replica, that ask for batches until they are
// told to stop.
type uidLoad struct {
	replicas []*daemon
	books    *uidBooks
	count    func(caller int) int
	// trouble says that a refusal, or a broken connection (the error), is what the
	// test expects; nil tolerates nothing.
	trouble func(answer, error) bool

	refused atomic.Int64
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// start begins; stop ends it, at the latest with the test.
func (l *uidLoad) start(t *testing.T, callers int) {
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	for i := range callers {
		l.wg.Go(func() {
			last := int64(0)
			for ctx.Err() == nil {
				last = l.ask(l.replicas[i%len(l.replicas)], l.count(i), last)
			}
		})
	}
	t.Cleanup(l.stop)
}

func (l *uidLoad) stop() {
	l.cancel()
	l.wg.Wait()
}

// reach waits until that many IDs have come.
func (l *uidLoad) reach(t *testing.T, ids int) {
	t.Helper()
	took := eventually(t, 2*time.Minute, fmt.Sprintf("%d UIDs", ids), func() bool { return l.books.count() >= ids })
	t.Logf("%d UIDs after %v, %d refusals", l.books.count(), took.Round(time.Millisecond), l.refused.Load())
}

// ask makes one request of a caller whose last ID is given; it gives the last now.
func (l *uidLoad) ask(d *daemon, count int, last int64) int64 {
	a, err := d.do(http.MethodGet, uidTarget(count))
	if err == nil && a.status == http.StatusOK {
		ids, err := uidsOf(a, count)
		if err != nil || ids[0] <= last {
			l.books.complain("after %d: %v: %.200s", last, err, a.body)
			return last
		}
		l.books.enter(ids...)
		return ids[count-1]
	}
	l.refused.Add(1)
	if l.trouble == nil || !l.trouble(a, err) {
		l.books.complain("%v, %d %.300s", err, a.status, a.body)
		time.Sleep(20 * time.Millisecond)
	}
	return last
}

// batchOf is a load whose callers all ask for as many.
func batchOf(count int) func(int) int { return func(int) int { return count } }
