package background

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// logEvery is the default of RateLimitedLog.Every: a failover
// empties thousands of lists at once.
const logEvery = time.Second

// RateLimitedLog logs each message at most once in a while, and says with the next line
// how many were left out. Safe for concurrent use.
type RateLimitedLog struct {
	Logger *slog.Logger
	Every  time.Duration // 0: a second

	mu       sync.Mutex
	messages map[string]*logged
}

type logged struct {
	last    time.Time
	skipped int // since then
}

// Log logs the message with its attributes, or counts it towards its next line.
func (l *RateLimitedLog) Log(level slog.Level, message string, args ...any) {
	l.mu.Lock()
	m := l.messages[message]
	if m == nil {
		if l.messages == nil {
			l.messages = map[string]*logged{}
		}
		m = &logged{}
		l.messages[message] = m
	}
	now := time.Now()
	if now.Sub(m.last) < cmp.Or(l.Every, logEvery) {
		m.skipped++
		l.mu.Unlock()
		return
	}
	skipped := m.skipped
	m.skipped, m.last = 0, now
	l.mu.Unlock()
	if skipped > 0 {
		args = append(args, "more_since_the_last_line", skipped)
	}
	l.Logger.Log(context.Background(), level, message, args...)
}
