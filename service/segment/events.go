package segment

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// eventEvery is the shortest time between two log lines of one kind: a database
// that went back in time does so for thousands of tags at once.
const eventEvery = time.Second

// events logs what happens to single tags. Safe for concurrent use.
type events struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*eventKind // by message
}

type eventKind struct {
	last    time.Time
	skipped int // since then
}

func newEvents(log *slog.Logger) *events {
	return &events{log: log, kinds: map[string]*eventKind{}}
}

// add logs the event, or counts it towards the next line of its kind.
func (e *events) add(level slog.Level, message, tag string, args ...any) {
	skipped, ok := e.due(message, time.Now())
	if !ok {
		return
	}
	args = append([]any{"tag", tag}, args...)
	if skipped > 0 {
		args = append(args, "more_since_the_last_line", skipped)
	}
	e.log.Log(context.Background(), level, message, args...)
}

func (e *events) due(message string, now time.Time) (skipped int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[message]
	if k == nil {
		k = &eventKind{}
		e.kinds[message] = k
	}
	if now.Sub(k.last) < eventEvery {
		k.skipped++
		return 0, false
	}
	skipped, k.skipped, k.last = k.skipped, 0, now
	return skipped, true
}
