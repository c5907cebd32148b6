package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/queue"
)

// A change that is committed counts as soon as Reload has returned.
func TestReloadTakesAChangeOver(t *testing.T) {
	db := newTable(1)
	r := ready(t, newLists(), db)
	if _, err := r.one(1, "alice"); err != nil {
		t.Fatal(err)
	}
	db.change(func(rows map[model.ListKey]model.AllocState) { clear(rows) })
	if err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, err := r.one(1, "alice"); !errors.Is(err, model.ErrUnknownApp) {
		t.Errorf("got %d, %v of a removed app", id, err)
	}
	db.fail(errAway)
	if err := r.Reload(t.Context()); !errors.Is(err, errAway) || !errors.Is(r.reports.of(queue.ConditionReload), errAway) {
		t.Errorf("%v, reported %v", err, r.reports.of(queue.ConditionReload))
	}
	stop(t, r.Service)
	if err := r.Reload(t.Context()); !errors.Is(err, model.ErrNotReady) {
		t.Errorf("after the end: %v", err)
	}
}

// Before the stores have answered there is nothing to reload, and readiness does not
// come by this way.
func TestReloadBeforeTheStart(t *testing.T) {
	l := newLists()
	l.err = errAway
	r := start(t, l, newTable(1))
	if err := r.Reload(t.Context()); !errors.Is(err, model.ErrNotReady) || r.Ready() == nil {
		t.Errorf("%v, ready %v", err, r.Ready())
	}
}

func TestNextReload(t *testing.T) {
	r := ready(t, newLists(), newTable(1))
	at := time.Date(2026, 11, 20, 16, 0, 31, 0, time.Local)
	if got, want := r.NextReload(at), time.Date(2026, 11, 20, 16, 2, 30, 0, time.Local); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// warnings is a log of which only the warnings are kept.
type warnings struct {
	slog.Handler
	mu   sync.Mutex
	said []string
}

func (*warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Level == slog.LevelWarn {
		w.said = append(w.said, r.Message)
	}
	return nil
}

// Whoever switches an app to wrap is warned once, as at a start.
func TestSwitchToWrapWarns(t *testing.T) {
	db, log := newTable(1), &warnings{Handler: slog.DiscardHandler}
	r := ready(t, newLists(), db, func(o *queue.Options) { o.Log = slog.New(log) })
	db.change(func(rows map[model.ListKey]model.AllocState) {
		for key, row := range rows {
			row.Limit = model.Limit{MaxID: 1 << 40, Policy: model.LimitWrap}
			rows[key] = row
		}
	})
	for range 3 {
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if len(log.said) != 1 || !strings.Contains(log.said[0], "wrap policy") {
		t.Errorf("warned %q", log.said)
	}
}
