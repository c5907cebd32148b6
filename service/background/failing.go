package background

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Failing remembers which of many things of a kind, such as lists, fail at present, and
// reports them as one condition, which works again when none of them fails. Safe for
// concurrent use.
type Failing[K comparable] struct {
	report func(error)

	mu      sync.Mutex
	errs    map[K]error
	shown   K           // the thing whose failure was reported
	working atomic.Bool // nothing fails, and that was reported
}

// NewFailing makes a Failing that calls report, which must not block.
func NewFailing[K comparable](report func(error)) *Failing[K] {
	return &Failing[K]{report: report, errs: map[K]error{}}
}

// Note takes the outcome of key, nil when it works.
func (f *Failing[K]) Note(key K, err error) {
	if err == nil && f.working.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.errs[key] = err
	} else {
		delete(f.errs, key)
	}
	if f.errs[f.shown] == nil { // the message stays that of one thing while it fails
		for f.shown = range f.errs {
			break
		}
	}
	f.working.Store(len(f.errs) == 0)
	f.report(f.errs[f.shown])
}

// Err is the failure that was reported last, nil when nothing fails.
func (f *Failing[K]) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs[f.shown]
}

// Errs are the latest failures of the things that fail.
func (f *Failing[K]) Errs() map[K]error {
	if f.working.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.errs)
}
