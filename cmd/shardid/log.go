package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"shardid/cmd/shardid/config"
)

// How many lines about rows that cannot be used there are at once, those of an app, and
// how often one more. The rows are read every other minute, and up to twice a second
// while somebody asks for an app that does not exist.
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
	opts := &slog.HandlerOptions{Level: level}
	if asText {
		return slog.NewTextHandler(w, opts)
	}
	return slog.NewJSONHandler(w, opts)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// badRows tells of rows of id_alloc that cannot be used. Safe for concurrent use.
type badRows struct {
	log     *slog.Logger
	limiter *rate.Limiter
	skipped atomic.Int64
}

func newBadRows(log *slog.Logger) *badRows {
	return &badRows{log: log, limiter: rate.NewLimiter(rate.Every(badRowEvery), badRowLines)}
}

// tell logs one, or counts it towards the next line.
func (b *badRows) tell(err error) {
	if !b.limiter.Allow() {
		b.skipped.Add(1)
		return
	}
	b.log.Warn("row of id_alloc left out: mend or delete it", "error", err, "more_since_the_last_line", b.skipped.Swap(0))
}
