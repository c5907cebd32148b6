package background

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
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

// logEvery is the default of RateLimitedLog.Every: a failover
// empties thousands of lists at once.
const logEvery = time.Second

// moreLines is the attribute that tells how many lines were skipped before one.
const moreLines = "more_since_the_last_line"

// RateLimitedLog logs each message at most once in a while, and says with the next line
// how many were skipped. Safe for concurrent use.
type RateLimitedLog struct {
	Logger *slog.Logger
	Every  time.Duration // 0: a second
	Burst  int           // lines at once, after as many times Every without one; 0: one

	mu       sync.Mutex
	messages map[string]*logged
}

type logged struct {
	lines   *rate.Limiter
	skipped int // since the last line
}

// Log logs the message with its attributes, or counts it towards its next line.
func (l *RateLimitedLog) Log(level slog.Level, message string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.messages[message]
	if m == nil {
		if l.messages == nil {
			l.messages = map[string]*logged{}
		}
		m = &logged{lines: rate.NewLimiter(rate.Every(cmp.Or(l.Every, logEvery)), max(l.Burst, 1))}
		l.messages[message] = m
	}
	if !m.lines.Allow() {
		m.skipped++
		return
	}
	if m.skipped > 0 {
		args = append(args, moreLines, m.skipped)
		m.skipped = 0
	}
	l.Logger.Log(context.Background(), level, message, args...)
}
