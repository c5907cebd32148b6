//go:build unix

package nemesis

import (
	"fmt"
	"sync"
	"testing"
)

const (
	shards = 64
	// pageLen is how many indices one page of a list holds, a bit each.
	pageLen = 512
	// problemsKept bounds what is remembered of problems; all are counted.
	problemsKept = 20
)

// list names one list: a shard of an app, or another mode, below zero.
type list struct{ app, shard int64 }

// ledger holds every ID that was delivered and what was wrong with one. It needs
// a bit for an index, so an hour fits into some MB. Safe for concurrent use.
type ledger struct {
	mu         sync.Mutex
	phase      string // what goes on, for problems
	delivered  map[list]*indices
	ids        int64 // distinct
	duplicates int64
	problems   []string
	unsaid     int
}

// indices are those of one list, in pages as gaps may be huge.
type indices struct {
	pages   map[int64]*[pageLen / 64]uint64
	highest int64
	ids     int64
}

func newLedger() *ledger { return &ledger{phase: "start", delivered: map[list]*indices{}} }

// enter notes IDs that by delivered for pass in app.
func (l *ledger) enter(by string, app int64, pass string, ids []int64) {
	want := list{app, shardOf(pass)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		index, got := id>>14, list{app: id & 0xff, shard: id >> 8 & 0x3f}
		if index < 1 || got != want {
			l.blame("%s gave ID %d (index %d of %v) to %q of app %d", by, id, index, got, pass, app)
			continue
		}
		l.note(by, want, index)
	}
}

// enterAll notes IDs that by delivered in a mode that is not the queue.
func (l *ledger) enterAll(by string, in list, ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if id < 1 {
			l.blame("%s gave ID %d of mode %d", by, id, in.app)
			continue
		}
		l.note(by, in, id)
	}
}

// note marks one index. Callers hold mu.
func (l *ledger) note(by string, in list, index int64) {
	of := l.delivered[in]
	if of == nil {
		of = &indices{pages: map[int64]*[pageLen / 64]uint64{}}
		l.delivered[in] = of
	}
	if of.mark(index) {
		l.ids++
		of.ids++
		return
	}
	l.duplicates++
	l.blame("DUPLICATE: %s gave index %d of list %d_%d, the list's highest so far is %d", by, index, in.app, in.shard, of.highest)
}

// mark says whether the index is new.
func (s *indices) mark(index int64) bool {
	page := s.pages[index/pageLen]
	if page == nil {
		page = new([pageLen / 64]uint64)
		s.pages[index/pageLen] = page
	}
	word, bit := &page[index%pageLen/64], uint64(1)<<(index%64)
	isNew := *word&bit == 0
	*word |= bit
	s.highest = max(s.highest, index)
	return isNew
}

// enterPhase says what goes on from now on.
func (l *ledger) enterPhase(phase string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = phase
}

// complain notes something else that must not happen.
func (l *ledger) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blame(format, args...)
}

func (l *ledger) blame(format string, args ...any) {
	if len(l.problems) == problemsKept {
		l.unsaid++
		return
	}
	l.problems = append(l.problems, "["+l.phase+"] "+fmt.Sprintf(format, args...))
}

// counts gives the distinct IDs and the duplicates so far.
func (l *ledger) counts() (ids, duplicates int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids, l.duplicates
}

// gaps is how many indices below the highest of each list were not delivered.
func (l *ledger) gaps() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for in, of := range l.delivered {
		if in.app >= 0 {
			n += of.highest - of.ids
		}
	}
	return n
}

// ofQueue is how many of the IDs are the queue's.
func (l *ledger) ofQueue() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for in, of := range l.delivered {
		if in.app >= 0 {
			n += of.ids
		}
	}
	return n
}

// highest is the highest index delivered for each list.
func (l *ledger) highest() map[list]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[list]int64, len(l.delivered))
	for in, of := range l.delivered {
		out[in] = of.highest
	}
	return out
}

// settle fails the test for what is in the ledger's list of problems.
func (l *ledger) settle(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.problems {
		t.Error(p)
	}
	if l.unsaid > 0 {
		t.Errorf("and %d problems more", l.unsaid)
	}
}

// shardOf is Java's String.hashCode modulo 64, here for ASCII only.
func shardOf(pass string) int64 {
	var h int32
	for _, c := range []byte(pass) {
		h = 31*h + int32(c)
	}
	return max(int64(h), -int64(h)) % shards
}

// TestLedgerNotices: a ledger that sees nothing wrong would prove nothing.
func TestLedgerNotices(t *testing.T) {
	l := newLedger()
	l.enter("me", 1, "alice", []int64{1<<14 | 1, 5000<<14 | 1, 1<<60 | 1})
	l.enter("me", 1, "hello", []int64{1<<14 | 18<<8 | 1})
	if ids, duplicates := l.counts(); ids != 4 || duplicates != 0 || len(l.problems) != 0 {
		t.Fatalf("%d IDs, %d duplicates, %v", ids, duplicates, l.problems)
	}
	for i, id := range []int64{5000<<14 | 1, 1<<60 | 1, 3<<14 | 2, 3<<14 | 1<<8 | 1, 1, 0, -1<<14 | 1} {
		if l.enter("me", 1, "alice", []int64{id}); len(l.problems) != i+1 {
			t.Errorf("ID %d: %v", id, l.problems)
		}
	}
	if _, duplicates := l.counts(); duplicates != 2 {
		t.Errorf("%d duplicates, want 2", duplicates)
	}
}
