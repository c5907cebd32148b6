package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// TestSettingsWatch: a store that answers in part is asked again, and no finding
// is logged twice.
func TestSettingsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		asked := 0
		w := newSettingsWatch(slog.New(slog.NewTextHandler(&out, nil)), inspection{"redis", func(context.Context) ([]model.Finding, error) {
			found := []model.Finding{
				{Node: "a", Setting: "policy", Level: model.LevelUnsafe}, {Node: "a", Setting: "fine", Level: model.LevelOK},
				{Node: "a", Setting: "hidden", Level: model.LevelUnknown}, {Node: "b", Setting: "policy", Level: model.LevelWarn},
			}
			if asked++; asked == 1 {
				return nil, errors.New("away")
			} else if asked < 4 {
				return found[:3], errors.New("one node is away")
			}
			return found, nil
		}})
		w.Start()
		time.Sleep(time.Minute)
		check.OK(t, errors.Join(w.Stop(t.Context(), nil), w.Stop(t.Context(), nil)))
		if got := w.Findings(); len(got) != 4 || got[0].Setting != "policy" || got[3].Node != "b" {
			t.Errorf("findings: %+v", got)
		}
		said := out.String()
		if asked != 4 || strings.Count(said, "\n") != 2 || strings.Count(said, "node=a setting=policy") != 1 || strings.Count(said, "node=b setting=policy") != 1 {
			t.Errorf("asked %d times: %s", asked, said)
		}
	})
}

// TestSettingsWatchSeesAMendedSetting: its alarm ends without a restart.
func TestSettingsWatchSeesAMendedSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w := newSettingsWatch(slog.New(slog.DiscardHandler), inspection{"redis", func(context.Context) ([]model.Finding, error) {
			if time.Since(begun) > time.Second {
				return []model.Finding{{Setting: "policy", Level: model.LevelOK}}, nil
			}
			return []model.Finding{{Setting: "policy", Level: model.LevelUnsafe}}, nil
		}})
		w.Start()
		synctest.Wait()
		if got := w.Findings(); len(got) != 1 || got[0].Level != model.LevelUnsafe {
			t.Errorf("findings: %+v", got)
		}
		time.Sleep(lookAgain + time.Second)
		check.OK(t, w.Stop(t.Context(), nil))
		if got := w.Findings(); len(got) != 1 || got[0].Level != model.LevelOK {
			t.Errorf("a minute later: %+v", got)
		}
	})
}

// TestSettingsWatchStops: while a store is asked, for whose end it waits, while
// one is away, and before the start.
func TestSettingsWatchStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		var asked atomic.Int32
		slow := func(ctx context.Context) ([]model.Finding, error) {
			asked.Add(1)
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil, ctx.Err()
		}
		away := func(context.Context) ([]model.Finding, error) { asked.Add(1); return nil, errors.New("away") }
		check.OK(t, newSettingsWatch(log).Stop(t.Context(), nil))
		w := newSettingsWatch(log, inspection{"database", slow}, inspection{"redis", away})
		w.Start()
		time.Sleep(time.Second)
		begun := time.Now()
		check.OK(t, w.Stop(t.Context(), nil))
		if asked.Load() != 2 || time.Since(begun) != time.Second {
			t.Errorf("asked %d times, stopped after %v", asked.Load(), time.Since(begun))
		}
	})
}

// TestExamineIsBounded: a store that never answers costs its ten seconds, once.
func TestExamineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) ([]model.Finding, error) { <-ctx.Done(); return nil, ctx.Err() }
		begun := time.Now()
		found, err := examine(t.Context(), []inspection{{"database", silent}, {"redis", silent}})
		if took := time.Since(begun); took != inspectTimeout || len(found) != 2 || err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v after %v: %v", found, took, err)
		}
	})
}
