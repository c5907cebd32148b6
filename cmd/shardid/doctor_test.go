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

// TestSettingsWatch: a store that answers in part is asked again, no finding is logged twice, and one that was mended
// is none any more, without a restart.
func TestSettingsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		asked := 0
		w := newSettingsWatch(slog.New(slog.NewTextHandler(&out, nil)), inspection{"redis", func(context.Context) ([]model.Finding, error) {
			found := []model.Finding{
				{Node: "a", Setting: "policy", Level: model.LevelUnsafe}, {Node: "a", Setting: "fine", Level: model.LevelOK},
				{Node: "a", Setting: "hidden", Level: model.LevelUnknown}, {Node: "b", Setting: "policy", Level: model.LevelWarn},
			}
			switch asked++; asked {
			case 1:
				return nil, errors.New("away")
			case 2, 3:
				return found[:3], errors.New("one node is away")
			case 4:
				return found, nil
			}
			found[0].Level = model.LevelOK
			return found, nil
		}})
		w.Start()
		time.Sleep(time.Minute)
		if got := w.Findings(); len(got) != 4 || got[0].Level != model.LevelUnsafe || got[3].Node != "b" {
			t.Errorf("findings: %+v", got)
		}
		time.Sleep(lookAgain)
		check.OK(t, errors.Join(w.Stop(t.Context(), nil), w.Stop(t.Context(), nil)))
		if got := w.Findings(); len(got) != 4 || got[0].Level != model.LevelOK {
			t.Errorf("a minute later: %+v", got)
		}
		said := out.String()
		if asked != 5 || strings.Count(said, "\n") != 2 || strings.Count(said, "node=a setting=policy") != 1 || strings.Count(said, "node=b setting=policy") != 1 {
			t.Errorf("asked %d times: %s", asked, said)
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
