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

// A store that answers in part is asked again, no finding is logged twice, and one that was mended is none any more,
// without a restart.
func TestSettingsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var asked atomic.Int32
		ask := func(context.Context) ([]model.Finding, error) {
			found := []model.Finding{
				{Node: "a", Setting: "policy", Level: model.LevelUnsafe},
				{Node: "a", Setting: "fine", Level: model.LevelOK},
				{Node: "a", Setting: "hidden", Level: model.LevelUnknown},
				{Node: "b", Setting: "policy", Level: model.LevelWarn},
			}
			switch asked.Add(1) {
			case 1:
				return nil, errors.New("unreachable")
			case 2:
				return found[:3], errors.New("one node is unreachable")
			case 3:
				return found, nil
			}
			found[0].Level = model.LevelOK
			return found, nil
		}
		w := newSettingsWatch(slog.New(slog.NewTextHandler(&out, nil)), inspection{"redis", ask})
		w.Start()
		time.Sleep(2*lookAgain + time.Second)
		got := w.Findings()
		if asked.Load() != 3 || len(got) != 4 || got[0].Level != model.LevelUnsafe || got[3].Node != "b" {
			t.Errorf("asked %d times, findings: %+v", asked.Load(), got)
		}
		time.Sleep(lookAgain)
		check.OK(t, w.Stop(t.Context(), nil))
		if got = w.Findings(); len(got) != 4 || got[0].Level != model.LevelOK {
			t.Errorf("later: %+v", got)
		}
		said := out.String()
		if strings.Count(said, "\n") != 2 || strings.Count(said, "node=a setting=policy") != 1 ||
			strings.Count(said, "node=b setting=policy") != 1 {
			t.Errorf("asked %d times: %s", asked.Load(), said)
		}
	})
}
