package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
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
	asText := cfg.Format == "text" || cfg.Format == "auto" && isTerminal(f)
	control := &httpapi.LogLevel{Configured: level, Audit: slog.New(newLogHandler(f, asText, slog.LevelInfo))}
	control.Current.Set(level)
	return slog.New(newLogHandler(f, asText, &control.Current)), control
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func newLogHandler(w io.Writer, asText bool, level slog.Leveler) slog.Handler {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: inUTC}
	if asText {
		return remedyFirst{slog.NewTextHandler(w, opts)}
	}
	return remedyFirst{slog.NewJSONHandler(w, opts)}
}

// remedyFirst writes errors as messages for people: what to do about one comes first in its line.
type remedyFirst struct{ slog.Handler }

// Handle implements slog.Handler.
func (h remedyFirst) Handle(ctx context.Context, r slog.Record) error {
	hasError := false
	r.Attrs(func(a slog.Attr) bool {
		_, hasError = a.Value.Any().(error)
		return !hasError
	})
	if !hasError { // as of most lines, which are written as they are
		return h.Handler.Handle(ctx, r)
	}
	said := r
	r = slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	said.Attrs(func(a slog.Attr) bool {
		if err, is := a.Value.Any().(error); is {
			text := model.Message(err)
			if do, known := errors.AsType[model.Remedy](err); known {
				r.Message, text = string(do)+": "+r.Message, strings.TrimPrefix(text, string(do)+": ")
			}
			a.Value = slog.StringValue(text)
		}
		r.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h remedyFirst) WithAttrs(attrs []slog.Attr) slog.Handler {
	return remedyFirst{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h remedyFirst) WithGroup(name string) slog.Handler {
	return remedyFirst{h.Handler.WithGroup(name)}
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
	return func(err error) {
		limited.Log(slog.LevelWarn, "correct the row, or delete it: it is skipped", "error", err)
	}
}
