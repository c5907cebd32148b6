package segment

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"shardid/model"
)

const (
	// reloadTimeout bounds one reload.
	reloadTimeout = 3 * time.Second
	// unknownReloadEvery is the shortest time between two reloads that requests
	// for unknown tags cause.
	unknownReloadEvery = 500 * time.Millisecond
)

// catalogue is one reading of the tags; it is never changed.
type catalogue struct {
	live map[string]*Tag // by the exact name; only these are served
	// known also has the removed ones: one that comes back must go on above all
	// that this process issued. Only names that were in the table get here.
	known map[string]*Tag
}

// find returns a tag, model.ErrUnknownTag, or model.ErrInvalidArgument.
func (c *catalogue) find(name string) (*Tag, error) {
	if t := c.live[name]; t != nil {
		return t, nil
	}
	if err := model.CheckTag(name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %q: add it with `shardid tags add --tag NAME --step 2000`", model.ErrUnknownTag, name)
}

// reloadGate lets one reload run at a time and limits those that requests for
// unknown tags cause.
type reloadGate struct {
	running chan struct{} // holds one element during a reload

	mu       sync.Mutex
	inFlight chan struct{} // closed at the end of a reload caused by an unknown tag
	last     time.Time     // when the last such reload began
	err      error         // how it ended
}

// find looks a tag up, once more after a reload when it is not known: a tag that
// was added a moment ago works at once. Nothing is kept of unknown names.
func (s *Service) find(ctx context.Context, name string) (*Tag, error) {
	if err := model.CheckTag(name); err != nil {
		return nil, err
	}
	if s.catalogue.Load() == nil {
		return nil, s.notReady()
	}
	if err := s.reloadForUnknown(ctx); err != nil {
		return nil, fmt.Errorf("%w: tag %q is not known and the tags cannot be read now: %w", model.ErrSegmentEmpty, name, err)
	}
	return s.catalogue.Load().find(name)
}

// reloadForUnknown reloads, or waits for the reload in flight; soon after one it
// does nothing but repeat how that went.
func (s *Service) reloadForUnknown(ctx context.Context) error {
	done, err := s.reloading.join(s)
	if done == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.reloading.outcome()
}

// join returns the end of the reload in flight, which it starts if none is; or
// nil and how the last one ended, if that was a moment ago.
func (g *reloadGate) join(s *Service) (<-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight != nil {
		return g.inFlight, nil
	}
	if time.Since(g.last) < unknownReloadEvery {
		return nil, g.err
	}
	done := make(chan struct{})
	if !s.spawn(func() { g.finish(s.reloadAndReport()) }) {
		return nil, errStopping
	}
	g.inFlight, g.last = done, time.Now()
	return done, nil
}

func (g *reloadGate) finish(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	close(g.inFlight)
	g.inFlight = nil
}

func (g *reloadGate) outcome() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// reloadAndReport is reload for a service that is running; at the start the
// database's own probe reports.
func (s *Service) reloadAndReport() error {
	err := s.reload()
	if s.ctx.Err() == nil {
		s.reloadFails.Store(err != nil)
		s.opts.Reporter.Report(ConditionReload, err)
	}
	return err
}

// reload reads the tags and takes them over. After an error all stays as it is.
func (s *Service) reload() error {
	select {
	case s.reloading.running <- struct{}{}:
		defer func() { <-s.reloading.running }()
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	old := s.catalogue.Load()
	if old == nil {
		old = &catalogue{}
	}
	for _, t := range old.known {
		t.beforeReload()
	}
	ctx, cancel := context.WithTimeout(s.ctx, reloadTimeout)
	defer cancel()
	rows, err := s.opts.Table.Tags(ctx)
	if err != nil {
		return err
	}
	s.adopt(old, rows)
	return nil
}

// beforeReload notes what the row is at least, if the table has not gone back: a
// segment that is taken meanwhile may or may not show in the reading.
func (t *Tag) beforeReload() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floorAtReload = t.floor
}

// adopt publishes the tags of a reading and closes those that are gone.
func (s *Service) adopt(old *catalogue, rows []model.Tag) {
	next := &catalogue{live: make(map[string]*Tag, len(rows)), known: maps.Clone(old.known)}
	if next.known == nil {
		next.known = map[string]*Tag{}
	}
	for _, row := range rows {
		t := next.known[row.Name]
		if t == nil {
			t = newTag(s, row.Name)
			next.known[row.Name] = t
		}
		t.open(row)
		next.live[row.Name] = t
	}
	s.catalogue.Store(next)
	for name, t := range old.live {
		if next.live[name] == nil {
			t.close(fmt.Errorf("%w: %q was removed", model.ErrUnknownTag, name))
		}
	}
}
