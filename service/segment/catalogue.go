package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// current is the present catalogue, or model.ErrNotReady.
func (s *Service) current() (*catalogue, error) {
	if c := s.catalogue.Load(); c != nil {
		return c, nil
	}
	return nil, s.background.NotReady()
}

// find looks up a tag that was not there a moment ago, after a reload: one that was
// added since works at once. Nothing is kept of unknown names.
func (s *Service) find(ctx context.Context, name string) (*Tag, error) {
	if err := model.CheckTag(name); err != nil {
		return nil, err
	}
	if _, err := s.current(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if err := s.reloads.Do(ctx); err != nil {
		return nil, fmt.Errorf("%w: tag %q is not known and the tags cannot be read now: %w", model.ErrSegmentEmpty, name, err)
	}
	return s.catalogue.Load().find(name)
}

// Reload reads the tags now, after a change that is committed; a reload that is under
// way and may have missed it is followed by another. Errors: model.ErrNotReady,
// *model.StoreError, or that of ctx, when it may still take place.
func (s *Service) Reload(ctx context.Context) error {
	if _, err := s.current(); err != nil {
		return err
	}
	return s.background.Do(ctx, s.reloadAndReport)
}

// NextReload is by when every replica of this configuration has read the tags anew
// after now.
func (s *Service) NextReload(now time.Time) time.Time { return now.Add(s.opts.Reload) }

// reloadAndReport is reload for a service that is running; at the start the
// database's own probe reports.
func (s *Service) reloadAndReport() error {
	err := s.reload()
	if s.background.Context().Err() == nil {
		s.reloadFails.Store(err != nil)
		s.opts.Reporter.Report(ConditionReload, err)
	}
	return err
}

// reload reads the tags and takes them over. After an error all stays as it is.
func (s *Service) reload() error {
	select {
	case s.reloading <- struct{}{}:
		defer func() { <-s.reloading }()
	case <-s.background.Context().Done():
		return s.background.Context().Err()
	}
	old := s.catalogue.Load()
	if old == nil {
		old = &catalogue{}
	}
	for _, t := range old.known {
		t.mu.Lock()
		t.floorAtReload = t.floor // a segment that is taken meanwhile may or may not show in the reading
		t.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(s.background.Context(), reloadTimeout)
	defer cancel()
	rows, err := s.opts.Table.Tags(ctx)
	if err != nil {
		return err
	}
	s.adopt(old, rows)
	return nil
}

// adopt publishes the tags of a reading and closes those that are gone.
func (s *Service) adopt(old *catalogue, rows []model.Tag) {
	next := &catalogue{live: make(map[string]*Tag, len(rows)), known: maps.Clone(old.known)}
	if next.known == nil {
		next.known = map[string]*Tag{}
	}
	for _, row := range rows {
		t := next.known[row.Name]
		numbers, err := row.Numbers()
		if err == nil && t != nil && !t.numbers.Same(numbers) {
			err = errors.New("it is not the one that the tag had, and a pattern never changes: add a tag of another name")
		}
		if err != nil {
			s.events.Log(slog.LevelError, "a tag is left out: its pattern in shardid_number cannot be used", "tag", row.Name, "error", err)
			continue
		}
		if t == nil {
			t = newTag(s, row.Name, numbers)
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
