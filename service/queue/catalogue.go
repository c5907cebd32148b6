package queue

import (
	"context"
	"fmt"
	"time"

	"shardid/model"
)

const (
	// reloadTimeout bounds one reload.
	reloadTimeout = 5 * time.Second
	// reloadEvery is the shortest time between the beginnings of two reloads, and reloadShare the share of the
	// time, one part in so many, that they may take.
	reloadEvery = 100 * time.Millisecond
	reloadShare = 5
	// failedReload is how long after a reload of the schedule that failed the next one is.
	failedReload = 2 * time.Second
)

// catalogue is one reading of the configuration; it is never changed.
type catalogue struct {
	apps [model.Apps]*app
}

type app struct {
	name string
	// secret is that of a scrambled app, "" for others.
	secret string
	lists  [model.Shards]*list // nil where the shard is not provisioned
	// refused says why the rows of some other shards cannot be used.
	refused map[uint8]error
}

// find returns a list, model.ErrUnknownApp or model.ErrUnknownShard.
func (c *catalogue) find(key model.ListKey) (*list, error) {
	a := c.apps[key.App]
	if a == nil {
		return nil, model.UnknownApp(key.App)
	}
	if l := a.lists[key.Shard]; l != nil {
		return l, nil
	}
	if err := a.refused[key.Shard]; err != nil {
		// which wraps another code
		return nil, fmt.Errorf("%w: %w: %s", model.Do("correct its row"), model.ErrUnknownShard, model.Message(err))
	}
	return nil, fmt.Errorf("%w: %w: app %d has no row for shard %d", model.Do("add its row to id_alloc"),
		model.ErrUnknownShard, key.App, key.Shard)
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

// current is the present catalogue, or model.ErrNotReady.
func (s *Service) current() (*catalogue, error) {
	if c := s.catalogue.Load(); c != nil {
		return c, nil
	}
	return nil, s.background.NotReady()
}

// find looks a list up, once more after a reload that begins now, or when one is due, if it is not
// known: an app that was provisioned a moment ago works.
func (s *Service) find(ctx context.Context, key model.ListKey) (*list, error) {
	c, err := s.current()
	if err != nil {
		return nil, err
	}
	l, err := c.find(key)
	if err == nil {
		return l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if err := s.Reload(ctx); err != nil {
		return nil, fmt.Errorf("%w: list %s is not known and the configuration cannot be read now: %w",
			model.ErrQueueEmpty, key, err)
	}
	return s.catalogue.Load().find(key)
}

// Reload reads the configuration, after a change that is committed. The reading begins after the call, as soon
// as one is due, and all who wait share it. Errors: model.ErrNotReady, *model.StoreError, or that of ctx, when
// it may still take place.
func (s *Service) Reload(ctx context.Context) error {
	if _, err := s.current(); err != nil {
		return err
	}
	outcome := make(chan error, 1)
	s.reloads.Add(outcome, false)
	return s.background.Await(ctx, outcome)
}

// reloadOnSchedule reads the configuration until that succeeds.
func (s *Service) reloadOnSchedule() {
	for {
		err := s.Reload(s.background.Context())
		if s.background.Context().Err() != nil {
			return
		}
		s.opts.Reporter.Report(ConditionReload, err)
		if err == nil || !s.background.Sleep(failedReload) {
			return
		}
	}
}

// reloadFor reads the configuration for all who wait. It ends when the next reload is due.
func (s *Service) reloadFor(waiting []chan error) {
	began := time.Now()
	err := s.reload()
	for _, outcome := range waiting {
		outcome <- err
	}
	s.background.Sleep(time.Until(began.Add(max(reloadEvery, reloadShare*time.Since(began)))))
}

// NextReload is when every replica of this configuration reads the apps anew after
// now.
func (s *Service) NextReload(now time.Time) time.Time {
	return s.cron.Entry(s.reloadJob).Schedule.Next(now)
}

// reload reads the configuration and takes it over. Lists keep what they hold. Those whose rows are gone or cannot be
// used are closed; those whose rows are gone are also deleted from the store.
func (s *Service) reload() error {
	ctx, cancel := context.WithTimeout(s.background.Context(), reloadTimeout)
	defer cancel()
	configs, err := s.opts.Catalogue.Load(ctx)
	if err != nil {
		return err
	}
	old := s.catalogue.Load()
	if old == nil {
		old = &catalogue{}
	}
	next := &catalogue{}
	for _, cfg := range configs {
		next.add(s, old, cfg)
	}
	s.catalogue.Store(next)
	var gone []model.ListKey
	for _, l := range old.all() {
		if _, err := next.find(l.key); err != nil {
			l.close(err)
			s.stats.issued.Add(l.counts().Issued)
			s.stats.dropped.Add(l.counts().Dropped)
			if a := next.apps[l.key.App]; a == nil || a.refused[l.key.Shard] == nil {
				gone = append(gone, l.key)
			}
		}
	}
	s.clean(ctx, gone)
	return nil
}

// add enters one list, the one that old holds if there is one, or why its row cannot be used.
// It warns once, when an app appears or is switched to wrap, that its IDs will repeat.
func (c *catalogue) add(s *Service, old *catalogue, cfg model.ListConfig) {
	a := c.apps[cfg.Key.App]
	if a == nil {
		a = &app{name: cfg.AppName, refused: map[uint8]error{}}
		c.apps[cfg.Key.App] = a
	}
	if cfg.Err != nil {
		a.refused[cfg.Key.Shard] = cfg.Err
		return
	}
	l, err := old.find(cfg.Key)
	if err != nil {
		l = &list{svc: s, key: cfg.Key, depth: -1}
	}
	wrapped := l.configure(cfg)
	if a.lists == [model.Shards]*list{} && cfg.Limit.Policy == model.LimitWrap && !wrapped {
		s.opts.Log.Warn("use the limit policy reject, unless IDs may repeat: those of an app with wrap do, past its "+
			"limit",
			"app", cfg.Key.App, "name", cfg.AppName, "max_limit_id", cfg.Limit.MaxID)
	}
	a.secret, a.lists[cfg.Key.Shard] = cfg.Scramble, l
}

// clean deletes lists that are gone from the store; another replica may do so as well.
// Their high-water marks stay: should the app come back, it continues above them.
func (s *Service) clean(ctx context.Context, keys []model.ListKey) {
	if len(keys) == 0 {
		return
	}
	s.opts.Log.Info("deleting the lists of removed apps", "lists", len(keys))
	if err := s.opts.Lists.Delete(ctx, keys); err != nil {
		s.opts.Log.Warn("lists of removed apps stay in Redis: they could not be deleted",
			"lists", len(keys), "error", err)
	}
}
