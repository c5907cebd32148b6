package main

import (
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/service/background"
	"shardid/service/httpapi"
)

// How many lines about rows that cannot be used there are at once, those of an app, and
// how often one more.
const (
	badRowLines = 64
	badRowEvery = 10 * time.Second
)

// newLogger writes text to a terminal and JSON elsewhere, unless the format is
// chosen. The level can be changed while it is in use.
func newLogger(f *os.File, cfg config.Log) (*slog.Logger, *logLevel, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, nil, fmt.Errorf("log.level: %w", err)
	}
	asText := cfg.Format == "text" || cfg.Format == "auto" && isTerminal(f)
	control := newLogLevel(level, slog.New(newLogHandler(f, asText, slog.LevelInfo)))
	return slog.New(newLogHandler(f, asText, &control.current)), control, nil
}

func newLogHandler(w io.Writer, asText bool, level slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: inUTC}
	if asText {
		return slog.NewTextHandler(w, opts)
	}
	return slog.NewJSONHandler(w, opts)
}

// inUTC writes all times in UTC, as the console and the commands do.
func inUTC(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindTime {
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	}
	return a
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// tellBadRows tells of rows that cannot be used, of each once, however often it is read. Safe for
// concurrent use.
func tellBadRows(log *slog.Logger) func(error) {
	limited := &background.RateLimitedLog{Logger: log, Every: badRowEvery, Burst: badRowLines}
	var told sync.Map // by the hash of the error's text, which names the row: a table may have a million
	seed := maphash.MakeSeed()
	return func(err error) {
		if _, again := told.LoadOrStore(maphash.String(seed, err.Error()), true); !again {
			limited.Log(slog.LevelWarn, "row left out: mend or delete it", "error", err)
		}
	}
}

// toggleFor is how long a signal changes the level: long enough to look at something,
// and no one has to remember it.
const toggleFor = 10 * time.Minute

// logLevel is the level of the log. It goes back to the configured one by itself.
// Safe for concurrent use.
type logLevel struct {
	current    slog.LevelVar
	configured slog.Level
	audit      *slog.Logger // of the changes, which every level shows

	mu      sync.Mutex
	changes int         // so far, so that the end of one does not end the next
	until   time.Time   // when a change ends; zero without one
	timer   *time.Timer // that ends it
}

func newLogLevel(configured slog.Level, audit *slog.Logger) *logLevel {
	l := &logLevel{configured: configured, audit: audit}
	l.current.Set(configured)
	return l
}

// State implements httpapi.LogLevel.
func (l *logLevel) State() httpapi.LogState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state()
}

// state is State for callers that hold mu.
func (l *logLevel) state() httpapi.LogState {
	return httpapi.LogState{Level: levelName(l.current.Level()), Configured: levelName(l.configured), Until: l.until}
}

// Set implements httpapi.LogLevel.
func (l *logLevel) Set(level slog.Level, d time.Duration, by, requestID string) httpapi.LogState {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(level, d)
	args := []any{"level", levelName(level), "by", by}
	if !l.until.IsZero() {
		args = append(args, "for", d.String())
	}
	if requestID != "" {
		args = append(args, "request_id", requestID)
	}
	l.audit.Info("log level changed", args...)
	return l.state()
}

// set changes the level; an earlier change is forgotten. Callers hold mu.
func (l *logLevel) set(level slog.Level, d time.Duration) {
	l.current.Set(level)
	l.stop()
	if level == l.configured {
		return
	}
	l.until = time.Now().Add(d).UTC().Truncate(time.Millisecond)
	change := l.changes
	l.timer = time.AfterFunc(d, func() { l.expire(change) })
}

// expire goes back to the configured level, unless the change was changed.
func (l *logLevel) expire(change int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes != change {
		return
	}
	l.stop()
	l.current.Set(l.configured)
	l.audit.Info("log level is as configured again", "level", levelName(l.configured))
}

// stop forgets a change. Callers hold mu.
func (l *logLevel) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.until = nil, time.Time{}
	l.changes++
}

// Toggle turns debug on for toggleFor, or ends a change.
func (l *logLevel) Toggle(by string) {
	level := slog.LevelDebug
	if !l.State().Until.IsZero() {
		level = l.configured
	}
	l.Set(level, toggleFor, by, "")
}

// Stop forgets a change. It may be called twice.
func (l *logLevel) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// levelName is a level as the configuration has it.
func levelName(level slog.Level) string { return strings.ToLower(level.String()) }
