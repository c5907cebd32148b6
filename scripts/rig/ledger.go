package rig

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
)

// problemsKept bounds what is remembered of problems; all are counted.
const problemsKept = 20

// List names a series of numbers in which none may come twice: the indices of a shard of an
// app or, with an App below zero, the IDs of another mode.
type List struct{ App, Shard int64 }

// ID is that of a number of the list.
func (l List) ID(number int64) int64 {
	if l.App < 0 {
		return number
	}
	return number<<14 | l.Shard<<8 | l.App
}

// Ledger holds every ID that was delivered and what was wrong with one. It needs little more
// than a bit for a number, so an hour fits into some MB. Its zero value is ready; it is safe
// for concurrent use.
type Ledger struct {
	mu         sync.Mutex
	phase      string // what continues, for problems
	lists      map[List]*numbers
	ids        int // distinct
	duplicates int
	problems   []string
	unsaid     int
}

// numbers are those of one list, 64 in an entry.
type numbers struct {
	seen         map[int64]uint64
	highest, ids int64
}

// Queue notes IDs that by delivered for pass in app.
func (l *Ledger) Queue(by string, app int64, pass string, ids ...int64) {
	want := List{app, ShardOf(pass)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		index, got := id>>14, List{App: id & 0xff, Shard: id >> 8 & 0x3f}
		if index < 1 || got != want {
			l.blame("%s gave ID %d (index %d of %v) to %q of app %d, shard %d",
				by, id, index, got, pass, app, want.Shard)
			continue
		}
		l.note(by, want, index)
	}
}

// Add notes IDs that by delivered in a mode that is not the queue.
func (l *Ledger) Add(by string, in List, ids ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if id < 1 {
			l.blame("%s gave ID %d of mode %d", by, id, in.App)
			continue
		}
		l.note(by, in, id)
	}
}

// Rise is Add for the one series of a ledger, and the IDs of one caller, which rise and are
// above the one he had before.
func (l *Ledger) Rise(after int64, ids ...int64) {
	for _, id := range ids {
		if id <= after {
			l.Complain("ID %d came after %d", id, after)
		}
		after = id
	}
	l.Add("", List{App: -1}, ids...)
}

// note marks one number. Callers hold mu.
func (l *Ledger) note(by string, in List, number int64) {
	of := l.lists[in]
	if of == nil {
		of = &numbers{seen: map[int64]uint64{}}
		if l.lists == nil {
			l.lists = map[List]*numbers{}
		}
		l.lists[in] = of
	}
	word := of.seen[number/64]
	if bit := uint64(1) << (number % 64); word&bit == 0 {
		of.seen[number/64] = word | bit
		of.highest = max(of.highest, number)
		of.ids++
		l.ids++
		return
	}
	l.duplicates++
	l.blame("DUPLICATE: %s gave number %d of list %d_%d, ID %d; the list's highest so far is %d",
		by, number, in.App, in.Shard, in.ID(number), of.highest)
}

// Phase says what continues from now on.
func (l *Ledger) Phase(phase string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = "[" + phase + "] "
}

// Complain notes something else that must not happen.
func (l *Ledger) Complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blame(format, args...)
}

func (l *Ledger) blame(format string, args ...any) {
	if len(l.problems) == problemsKept {
		l.unsaid++
		return
	}
	l.problems = append(l.problems, l.phase+fmt.Sprintf(format, args...))
}

// Problems are the first of what was wrong.
func (l *Ledger) Problems() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problems)
}

// Count is how many distinct IDs came.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids
}

// Duplicates is how many came again.
func (l *Ledger) Duplicates() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.duplicates
}

// IDs are all that came, sorted.
func (l *Ledger) IDs() (ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for in, of := range l.lists {
		for word, seen := range of.seen {
			for ; seen != 0; seen &= seen - 1 {
				ids = append(ids, in.ID(word*64+int64(bits.TrailingZeros64(seen))))
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// Highest is the highest number delivered of each list.
func (l *Ledger) Highest() map[List]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[List]int64, len(l.lists))
	for in, of := range l.lists {
		out[in] = of.highest
	}
	return out
}

// Of is how many numbers of a list came, and the highest of them.
func (l *Ledger) Of(in List) (ids, highest int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.lists[in]; of != nil {
		return of.ids, of.highest
	}
	return 0, 0
}

// Settle fails the test for what was wrong; what names the series.
func (l *Ledger) Settle(t testing.TB, what ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	name := strings.Join(append(what, ""), ": ")
	for _, p := range l.problems {
		t.Error(name + p)
	}
	if l.unsaid > 0 {
		t.Errorf("%sand %d problems more", name, l.unsaid)
	}
	t.Logf("%s%d distinct IDs", name, l.ids)
}
