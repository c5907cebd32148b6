package main

import (
	"io"
	"log/slog"
	"os"
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
func newLogger(f *os.File, cfg config.Log) (*slog.Logger, *httpapi.LogLevel) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // the configuration is checked
	asText := cfg.Format == "text"
	if info, err := f.Stat(); err == nil && cfg.Format == "auto" {
		asText = info.Mode()&os.ModeCharDevice != 0
	}
	control := &httpapi.LogLevel{Configured: level, Audit: slog.New(newLogHandler(f, asText, slog.LevelInfo))}
	control.Current.Set(level)
	return slog.New(newLogHandler(f, asText, &control.Current)), control
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

// tellBadRows tells of rows that cannot be used, each time that they are read. Safe for concurrent use.
func tellBadRows(log *slog.Logger) func(error) {
	limited := &background.RateLimitedLog{Logger: log, Every: badRowEvery, Burst: badRowLines}
	return func(err error) { limited.Log(slog.LevelWarn, "row skipped: correct or delete it", "error", err) }
}
