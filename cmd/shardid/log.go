package main

import (
	"fmt"
	"log/slog"
	"os"
)

// newLogger writes text to a terminal and JSON elsewhere, unless the format is
// chosen.
func newLogger(f *os.File, cfg LogConfig) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" || cfg.Format == "auto" && isTerminal(f) {
		return slog.New(slog.NewTextHandler(f, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(f, opts)), nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
