//go:build unix

package e2e_test

import (
	"fmt"
	"sync"
	"testing"
	"unicode/utf16"
)

// ledger holds every ID that any process issued and what was wrong with one.
// Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	seen     map[int64]struct{}
	problems []string
}

func newLedger() *ledger { return &ledger{seen: map[int64]struct{}{}} }

// enter notes IDs issued to pass by app.
func (l *ledger) enter(app int64, pass string, ids ...int64) {
	shard := shardOf(pass)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if _, twice := l.seen[id]; twice {
			l.blame("ID %d came twice, now for app %d, %q", id, app, pass)
		}
		l.seen[id] = struct{}{}
		if id>>14 < 1 || id&0xff != app || id>>8&0x3f != shard {
			l.blame("ID %d is index %d, shard %d, app %d; wanted shard %d, app %d for %q", id, id>>14, id>>8&0x3f, id&0xff, shard, app, pass)
		}
	}
}

// complain notes something else that must not happen.
func (l *ledger) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blame(format, args...)
}

func (l *ledger) blame(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// highest is the highest index of all.
func (l *ledger) highest() (index int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.seen {
		index = max(index, id>>14)
	}
	return index
}

// settle fails the test for what is in the ledger's list of problems.
func (l *ledger) settle(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.problems {
		if i == 10 {
			t.Errorf("and %d problems more", len(l.problems)-i)
			break
		}
		t.Error(p)
	}
	t.Logf("%d distinct IDs", len(l.seen))
}

// shardOf is the contract's: Java's String.hashCode over UTF-16, its magnitude
// modulo 64.
func shardOf(pass string) int64 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(pass)) {
		h = 31*h + uint32(unit)
	}
	n := int64(int32(h))
	return max(n, -n) % 64
}

func TestE2EShardVectors(t *testing.T) {
	story(t)
	for pass, want := range map[string]int64{"a": 33, "hello": 18, "张三": 41, "alice": 0, "polygenelubricants": 0} {
		if got := shardOf(pass); got != want {
			t.Errorf("%s: shard %d, want %d", pass, got, want)
		}
	}
}

// TestE2ELedgerNotices: a ledger that saw nothing wrong would prove nothing.
func TestE2ELedgerNotices(t *testing.T) {
	story(t)
	books := newLedger()
	books.enter(1, "alice", 1<<14|1, 2<<14|1)
	books.enter(1, "hello", 1<<14|18<<8|1)
	if len(books.problems) != 0 {
		t.Errorf("%v", books.problems)
	}
	for i, id := range []int64{2<<14 | 1, 3<<14 | 2, 3<<14 | 1<<8 | 1, 1, 0, -1<<14 | 1} {
		if books.enter(1, "alice", id); len(books.problems) != i+1 {
			t.Errorf("ID %d: %v", id, books.problems)
		}
	}
}
