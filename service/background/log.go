package background

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

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
