package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"shardid/model"
)

const (
	// reloadTimeout bounds one reload.
	reloadTimeout = 5 * time.Second
	// unknownReloadEvery is the shortest time between two reloads that requests
	// for unknown apps cause.
	unknownReloadEvery = 500 * time.Millisecond
	// reloadLock names the lock of whoever cleans the lists of removed apps.
	reloadLock = "reload"
)

// catalogue is one reading of the configuration; it is never changed.
type catalogue struct {
	apps [model.Apps]*app
}

type app struct {
	name  string
	lists [model.Shards]*list // nil where the shard is not provisioned
}

// find returns a list, model.ErrUnknownApp or model.ErrUnknownShard.
func (c *catalogue) find(key model.ListKey) (*list, error) {
	a := c.apps[key.App]
	if a == nil {
		return nil, fmt.Errorf("%w: appId %d: provision it with `shardid provision --app %d --name NAME`", model.ErrUnknownApp, key.App, key.App)
	}
	if l := a.lists[key.Shard]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: appId %d has no row for shard %d in id_alloc: add it", model.ErrUnknownShard, key.App, key.Shard)
}

// all returns every list.
func (c *catalogue) all() []*list {
	var out []*list
	for _, a := range c.apps {
		if a == nil {
			continue
		}
		for _, l := range a.lists {
			if l != nil {
				out = append(out, l)
			}
		}
	}
	return out
}

// reloadGate lets one reload run at a time and limits those that requests for
// unknown apps cause.
type reloadGate struct {
	running sync.Mutex // held during a reload

	mu       sync.Mutex
	inFlight chan struct{} // a reload caused by an unknown app
	last     time.Time     // when the last such reload began
	err      error         // how it ended
}

// find looks a list up, once more after a reload when it is not known: an app
// that was provisioned a moment ago works at once.
func (s *Service) find(ctx context.Context, key model.ListKey) (*list, error) {
	c := s.catalogue.Load()
	if c == nil {
		return nil, s.notReady()
	}
	l, err := c.find(key)
	if err == nil {
		return l, nil
	}
	if err := s.reloadForUnknown(ctx); err != nil {
		return nil, fmt.Errorf("%w: list %s is not known and the configuration cannot be read now: %w", model.ErrQueueEmpty, key, err)
	}
	return s.catalogue.Load().find(key)
}

// reloadForUnknown reloads, or waits for the reload in flight; soon after one it
// does nothing but repeat how that went.
func (s *Service) reloadForUnknown(ctx context.Context) error {
	g := &s.reloading
	g.mu.Lock()
	if g.inFlight == nil {
		if time.Since(g.last) < unknownReloadEvery {
			defer g.mu.Unlock()
			return g.err
		}
		done := make(chan struct{})
		if s.spawn(func() { s.reloadInFlight(done) }) {
			g.inFlight, g.last = done, time.Now()
		}
	}
	done := g.inFlight
	g.mu.Unlock()
	if done == nil { // stopping
		return nil
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (s *Service) reloadInFlight(done chan struct{}) {
	err := s.reloadAndReport()
	s.reloading.mu.Lock()
	defer s.reloading.mu.Unlock()
	s.reloading.inFlight, s.reloading.err = nil, err
	close(done)
}

// reloadAndReport is reload for a service that is running; at the start the
// database's own probe reports.
func (s *Service) reloadAndReport() error {
	err := s.reload(s.ctx)
	if s.ctx.Err() == nil {
		s.reloadFails.Store(err != nil)
		s.opts.Reporter.Report(ConditionReload, err)
	}
	return err
}

// reload reads the configuration and takes it over. Lists keep what they hold;
// those of removed apps are closed and deleted.
func (s *Service) reload(ctx context.Context) error {
	s.reloading.running.Lock()
	defer s.reloading.running.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	configs, err := s.opts.Catalogue.Load(ctx)
	if err != nil {
		return err
	}
	s.clean(ctx, s.adopt(configs))
	return nil
}

// adopt publishes a new catalogue and returns the lists that are gone.
func (s *Service) adopt(configs []model.ListConfig) []*list {
	old := s.catalogue.Load()
	if old == nil {
		old = &catalogue{}
	}
	next := &catalogue{}
	for _, cfg := range configs {
		next.add(s, old, cfg)
	}
	s.catalogue.Store(next)
	return old.missing(next)
}

// add enters one list, the one that old holds if there is one.
func (c *catalogue) add(s *Service, old *catalogue, cfg model.ListConfig) {
	a := c.apps[cfg.Key.App]
	if a == nil {
		a = &app{name: cfg.AppName}
		c.apps[cfg.Key.App] = a
		s.warnWrap(old, cfg)
	}
	if l, err := old.find(cfg.Key); err == nil {
		l.configure(cfg)
		a.lists[cfg.Key.Shard] = l
		return
	}
	a.lists[cfg.Key.Shard] = newList(s, cfg)
}

// warnWrap says once, when an app appears or is switched to it, that its IDs will
// repeat.
func (s *Service) warnWrap(old *catalogue, cfg model.ListConfig) {
	before, err := old.find(cfg.Key)
	if cfg.Limit.Policy == model.LimitWrap && (err != nil || !before.wraps()) {
		s.opts.Log.Warn("app has the wrap policy: its IDs repeat once they pass the limit",
			"app", cfg.Key.App, "name", cfg.AppName, "max_limit_id", cfg.Limit.MaxID)
	}
}

func (l *list) wraps() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.Limit.Policy == model.LimitWrap
}

// missing returns the lists that next does not have.
func (c *catalogue) missing(next *catalogue) []*list {
	var gone []*list
	for _, l := range c.all() {
		if _, err := next.find(l.key); err != nil {
			gone = append(gone, l)
		}
	}
	return gone
}

// clean closes lists that are gone and, if no other replica is at it, deletes
// them from the store. Their high-water marks stay: should the app come back, it
// goes on above them.
func (s *Service) clean(ctx context.Context, gone []*list) {
	if len(gone) == 0 {
		return
	}
	keys := make([]model.ListKey, len(gone))
	for i, l := range gone {
		l.close(fmt.Errorf("%w: appId %d was removed", model.ErrUnknownApp, l.key.App))
		keys[i] = l.key
	}
	if err := s.deleteLists(ctx, keys); err != nil {
		s.opts.Log.Warn("lists of removed apps were not deleted", "lists", len(keys), "error", err)
	}
}
