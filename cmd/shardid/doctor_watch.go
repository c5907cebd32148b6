package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"shardid/model"
)

// askAgain is the pause before a store that was away is asked again.
const askAgain = 2 * time.Second

// settingsWatch asks each store for its settings until it has answered once, and
// logs every finding that endangers IDs once. It keeps quiet about stores that
// are away: the health monitor tells of them.
type settingsWatch struct {
	log    *slog.Logger
	stores []inspection
	ctx    context.Context // ends at Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	found map[string][]model.Finding // by store, as it last answered
}

func newSettingsWatch(log *slog.Logger, stores ...inspection) *settingsWatch {
	ctx, cancel := context.WithCancel(context.Background())
	return &settingsWatch{log: log, stores: stores, ctx: ctx, cancel: cancel, found: map[string][]model.Finding{}}
}

// Start returns at once. Call it at most once, and not while Stop runs.
func (w *settingsWatch) Start() {
	for _, s := range w.stores {
		w.wg.Go(func() { w.run(s) })
	}
}

// Stop ends the questions and waits. It may be called twice, and without Start.
func (w *settingsWatch) Stop() {
	w.cancel()
	w.wg.Wait()
}

func (w *settingsWatch) run(s inspection) {
	said := map[string]bool{}
	for w.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(w.ctx, inspectTimeout)
		found, err := s.ask(ctx)
		cancel()
		w.note(s.store, found)
		for _, f := range found {
			if key := f.Node + " " + f.Setting; !said[key] {
				said[key] = w.say(f)
			}
		}
		if err == nil {
			return
		}
		w.log.Debug("the settings of a store cannot be read yet", "store", s.store, "error", err)
		select {
		case <-time.After(askAgain):
		case <-w.ctx.Done():
		}
	}
}

// note keeps what a store said; a store that said nothing leaves what it said before.
func (w *settingsWatch) note(store string, found []model.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(found) > 0 {
		w.found[store] = found
	}
}

// Findings are what the stores said of their settings, when last asked, in the order
// of the stores. Safe for concurrent use.
func (w *settingsWatch) Findings() (all []model.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stores {
		all = append(all, w.found[s.store]...)
	}
	return all
}

// say logs a finding that matters and tells whether it did.
func (w *settingsWatch) say(f model.Finding) bool {
	if f.Level != model.LevelUnsafe && f.Level != model.LevelWarn {
		return false
	}
	line := "setting of a store is unsafe"
	if f.Level == model.LevelWarn {
		line = "setting of a store could be better"
	}
	w.log.Warn(line, "store", f.Store, "node", f.Node, "setting", f.Setting, "value", f.Value, "want", f.Want, "why", f.Why)
	return true
}
