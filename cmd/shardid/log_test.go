package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/scripts/check"
)

// Whatever the zone of the machine, lines have UTC.
func TestLogIsInUTC(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 18, 0, 0, time.FixedZone("", 8*3600))
	for _, asText := range []bool{true, false} {
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelInfo, "said", 0)
		r.Add("until", at)
		if err := newLogHandler(&out, asText, slog.LevelInfo).Handle(t.Context(), r); err != nil ||
			strings.Count(out.String(), "2026-11-20T00:18:00") != 2 || strings.Contains(out.String(), "+08") {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// A line begins with what to do about its error, which has no line end.
func TestLogBeginsWithWhatToDo(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newLogHandler(&out, true, slog.LevelInfo)).With("mode", "queue")
	away := &model.StoreError{Store: "redis", Op: "check", Advice: "start Redis", Err: errors.New("refused")}
	log.Warn("refill fails", "error", fmt.Errorf("list 1_0: %w", away), "n", 1)
	log.Warn("refill fails", "error", errors.New("two\nlines"))
	for _, want := range []string{
		` msg="start Redis: refill fails" mode=queue error="list 1_0: redis: check: refused" n=1` + "\n",
		` msg="refill fails" mode=queue error="two; lines"` + "\n",
	} {
		check.Has(t, out.String(), want)
	}
}

// What the log shows follows the level; who changes it is shown at every level.
func TestLoggerFollowsItsLevel(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	defer f.Close()
	log, level := newLogger(f, config.Log{Level: "error", Format: "auto"})
	log.Warn("before")
	level.Current.Set(slog.LevelDebug)
	log.Debug("during")
	level.Current.Set(level.Configured)
	log.Warn("after")
	level.Audit.Info("changed")
	raw, err := os.ReadFile(f.Name())
	check.Must(t, err)
	got := string(raw)
	if strings.Contains(got, "before") || strings.Contains(got, "after") || !strings.Contains(got, `"msg":"during"`) ||
		!strings.Contains(got, `"msg":"changed"`) {
		t.Error(got)
	}
}

// Many rows that cannot be used do not fill the disk.
func TestBadRowsAreToldSparsely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tell := tellBadRows(slog.New(slog.NewTextHandler(&log, nil)))
		for i := range 500 {
			tell(fmt.Errorf("app_id 301, shard_id %d", i))
		}
		check.Equal(t, strings.Count(log.String(), "app_id 301"), badRowLines, "lines about many")
		time.Sleep(badRowEvery)
		tell(errors.New("app_id 302"))
		if !strings.Contains(log.String(), `error="app_id 302" more_since_the_last_line=436`) {
			t.Error(log.String())
		}
	})
}
