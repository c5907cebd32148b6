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
	"shardid/scripts/check"
)

// newTestLevel is a level whose changes are written to the buffer.
func newTestLevel(configured slog.Level) (*logLevel, *bytes.Buffer) {
	var log bytes.Buffer
	return newLogLevel(configured, slog.New(slog.NewTextHandler(&log, nil))), &log
}

// Whatever the zone of the machine, lines have UTC.
func TestLogIsInUTC(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 18, 0, 0, time.FixedZone("", 8*3600))
	for _, asText := range []bool{true, false} {
		var out bytes.Buffer
		r := slog.NewRecord(at, slog.LevelInfo, "said", 0)
		r.Add("until", at)
		if err := newLogHandler(&out, asText, slog.LevelInfo).Handle(t.Context(), r); err != nil || strings.Count(out.String(), "2026-11-20T00:18:00") != 2 || strings.Contains(out.String(), "+08") {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// A change ends by itself, and not before.
func TestLogLevelGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLevel(slog.LevelWarn)
		state := l.Set(slog.LevelDebug, time.Minute, "root", "a-1")
		if state.Level != "debug" || state.Configured != "warn" || time.Until(state.Until) != time.Minute {
			t.Errorf("state %+v", state)
		}
		time.Sleep(time.Minute - time.Millisecond)
		check.Equal(t, l.current.Level(), slog.LevelDebug, "before its end")
		time.Sleep(time.Second)
		synctest.Wait()
		if state := l.State(); l.current.Level() != slog.LevelWarn || state.Level != "warn" || !state.Until.IsZero() {
			t.Errorf("state %+v", state)
		}
		for _, want := range []string{
			`msg="log level changed" level=debug by=root for=1m0s request_id=a-1`, `msg="log level is as configured again" level=warn`,
		} {
			check.Equal(t, strings.Count(log.String(), want), 1, "lines in", log)
		}
	})
}

// The latest change counts, and the end of an earlier one does not end it.
func TestLogLevelLatestChangeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLevel(slog.LevelInfo)
		l.Set(slog.LevelDebug, time.Minute, "root", "")
		first := l.changes
		l.Set(slog.LevelError, time.Hour, "root", "")
		l.expire(first) // as a timer does that fired while the next change was made
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		check.Equal(t, l.current.Level(), slog.LevelError, "level")
		if state := l.Set(slog.LevelInfo, time.Hour, "root", ""); !state.Until.IsZero() || state.Level != "info" {
			t.Errorf("the configured level: %+v", state)
		}
		l.Set(slog.LevelDebug, time.Hour, "root", "")
		l.Stop()
		l.Stop()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		check.Equal(t, l.current.Level(), slog.LevelDebug, "changed after the stop")
	})
}

func TestLogLevelToggles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := newTestLevel(slog.LevelInfo)
		for _, want := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelDebug} {
			l.Toggle("signal")
			check.Equal(t, l.current.Level(), want, "level")
		}
		time.Sleep(toggleFor + time.Second)
		synctest.Wait()
		if l.current.Level() != slog.LevelInfo || strings.Count(log.String(), "by=signal") != 3 {
			t.Errorf("level %v, logged %s", l.current.Level(), log)
		}
	})
}

// What the log shows follows the level; who changed it is shown at every level.
func TestLoggerFollowsItsLevel(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	defer f.Close()
	log, level, err := newLogger(f, config.Log{Level: "error", Format: "auto"})
	check.Must(t, err)
	defer level.Stop()
	log.Warn("before")
	level.Set(slog.LevelDebug, time.Hour, "root", "")
	log.Debug("during")
	level.Set(slog.LevelError, time.Hour, "root", "")
	log.Warn("after")
	raw, err := os.ReadFile(f.Name())
	check.Must(t, err)
	got := string(raw)
	if strings.Contains(got, "before") || strings.Contains(got, "after") || !strings.Contains(got, `"msg":"during"`) || strings.Count(got, "log level changed") != 2 {
		t.Error(got)
	}
}

// A row that cannot be used is told of once, however often it is read, and many of them do not fill
// the disk.
func TestBadRowsAreToldSparsely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tell := tellBadRows(slog.New(slog.NewTextHandler(&log, nil)))
		for range 2 {
			tell(errors.New("app_id 300"))
			time.Sleep(time.Hour)
		}
		check.Equal(t, strings.Count(log.String(), "app_id 300"), 1, "lines about one row")
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
