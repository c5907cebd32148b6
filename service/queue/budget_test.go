package queue

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
)

// Pushes that fail all day cost a list a budget, and the error says for how long it
// waits. The first failures cost no more than a pause.
func TestFailedPushesHaveABudget(t *testing.T) {
	for name, test := range map[string]struct {
		limit  model.Limit
		length int64 // of each segment
		hour   int64 // most indices an hour
	}{
		"wide":   {model.Limit{}, 1000, 61_000},
		"narrow": {model.Limit{MaxID: 1 << 31}, 1000, 131_071/20 + 1000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(Options{Log: slog.New(slog.DiscardHandler), Timeout: 1, LowWatermark: 0.5, PrefetchMax: 1, MaxStep: 1000, RefillCron: "@yearly", ReloadCron: "@yearly"})
				if err != nil {
					t.Fatal(err)
				}
				l := newList(s, model.ListConfig{Limit: test.limit, Step: 1})
				oom, began := errors.New("OOM"), time.Now()
				fail := func() error {
					time.Sleep(time.Until(l.pauseUntil))
					return l.pushFailed(test.length, oom)
				}
				for range 5 {
					if err := fail(); !errors.Is(err, oom) {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				}
				lost := 5 * test.length
				for time.Since(began) < 12*time.Hour {
					if err := fail(); !errors.Is(err, oom) {
						t.Fatal(err)
					}
					lost += test.length
				}
				if most := 13 * test.hour; lost > most {
					t.Errorf("%d indices are lost in 12 h, want at most %d", lost, most)
				}
				if time.Until(l.pauseUntil) < 30*time.Second {
					t.Errorf("the list waits %v", time.Until(l.pauseUntil))
				}
				time.Sleep(3 * time.Hour)
				if err := fail(); !errors.Is(err, oom) {
					t.Errorf("the budget is back after a while: %v", err)
				}
				s.cancel()
			})
		})
	}
}
