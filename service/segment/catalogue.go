package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// A tag is read from the table when somebody asks for it, and is in use from then on. Callers who ask while a
// statement is under way share the next one. A statement that fails, or finds no row of some name, holds up the next
// one, so names that nobody provisioned cost ten readings a second, however many they are. Every Options.Reload the
// rows of all tags in use are read again, to see what was changed or removed.

const (
	// readTimeout bounds one statement.
	readTimeout = 3 * time.Second
	// missEvery is the shortest time from the start of a statement that did not find all rows to the next one.
	missEvery = 100 * time.Millisecond
	// readAtOnce bounds the names of one statement.
	readAtOnce = 1000
	// reloadRetry is the pause before the rows of tags in use that could not be read are read again.
	reloadRetry = 2 * time.Second
)

// lookup is a caller that waits for the row of a name.
type lookup struct {
	name string
	done chan error // gets the outcome of a reading that begins later
}

// findTag returns a tag, whose row is read if it is not in use. Errors: model.ErrNotReady, ErrUnknownTag,
// ErrSegmentEmpty, or that of a ctx that was canceled.
func (s *Service) findTag(ctx context.Context, name string) (*Tag, error) {
	if t, found := s.tags.Load(name); found {
		return t, nil
	}
	if !s.answered.Load() {
		return nil, s.background.NotReady()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.opts.Timeout, errNoAnswer)
	defer cancel()
	l := &lookup{strings.Clone(name), make(chan error, 1)}
	s.lookups.Add(l, false)
	err := s.background.Await(ctx, l.done)
	t, found := s.tags.Load(name)
	switch {
	case found:
		return t, nil
	case err == nil:
		return nil, model.UnknownTag(name)
	case s.background.Context().Err() != nil:
		return nil, background.ErrStopping
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: tag %q is not known and its row cannot be read now: %w", model.ErrSegmentEmpty, name,
		err)
}

// readAsked reads the rows of names that callers wait for.
func (s *Service) readAsked(asked []*lookup) {
	names := make([]string, len(asked))
	for i, l := range asked {
		names[i] = l.name
	}
	slices.Sort(names)
	began := time.Now()
	all, err := s.readRows(slices.Compact(names))
	for _, l := range asked {
		l.done <- err
	}
	if !all {
		s.background.Sleep(time.Until(began.Add(missEvery)))
	}
}

// Reload reads the row of a tag now, after a change of it that is committed; a tag that is not in use needs none
// of it. Errors: model.ErrNotReady, *model.StoreError, or that of ctx, when it may still take place.
func (s *Service) Reload(ctx context.Context, name string) error {
	if !s.answered.Load() {
		return s.background.NotReady()
	}
	if _, found := s.tags.Load(name); !found {
		return nil
	}
	return s.background.Do(ctx, func() error {
		_, err := s.readRows([]string{name})
		return err
	})
}

// NextReload is by when every replica of this configuration begins to read the tags anew after now.
func (s *Service) NextReload(now time.Time) time.Time { return now.Add(s.opts.Reload) }

// reloadTags reads the rows of all tags in use again and again.
func (s *Service) reloadTags() {
	for pause := s.opts.Reload; s.background.Sleep(pause); {
		var names []string
		for _, t := range s.tags.All() {
			names = append(names, t.name)
		}
		_, err := s.readRows(names)
		if pause = s.opts.Reload; err != nil {
			pause = reloadRetry
		}
		if s.background.Context().Err() == nil {
			s.opts.Reporter.Report(ConditionReload, err)
		}
	}
}

// readRows reads the rows of names. Those that have one are in use from now on, others are removed; all says that
// there were none of these.
func (s *Service) readRows(names []string) (all bool, err error) {
	all = true
	for part := range slices.Chunk(names, readAtOnce) {
		found, err := s.readPart(part)
		if err != nil {
			return false, err
		}
		all = all && found
	}
	return all, nil
}

// readPart is readRows with one statement. Readings exclude each other, so that none takes over what is older than
// what another has.
func (s *Service) readPart(names []string) (all bool, err error) {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-s.background.Context().Done():
		return false, background.ErrStopping
	}
	ctx, cancel := context.WithTimeout(s.background.Context(), readTimeout)
	defer cancel()
	s.reads.Add(1)
	rows, err := s.opts.Table.TagsNamed(ctx, names)
	if err != nil {
		return false, err
	}
	s.answered.Store(true)
	found := make(map[string]model.Tag, len(rows)) // the table may take other names for the same
	for _, row := range rows {
		found[row.Name] = row
	}
	all = true
	for _, name := range names {
		row, exists := found[name]
		numbers, err := row.Numbers()
		t, inUse := s.tags.Load(name)
		if err != nil || inUse && exists && (!t.numbers.Same(numbers) || t.shardBits != row.ShardBits()) {
			s.events.Log(slog.LevelError, "add a tag of another name: this one is skipped, as its pattern or shard "+
				"bits in shardid_number cannot be used, or are not those that it had, which never change", "tag", name,
				"error", err)
			exists = false
		}
		switch {
		case exists && inUse:
			t.takeOver(row)
		case exists:
			s.tags.Store(name, newTag(s, row, numbers))
		case inUse:
			t.mu.Lock()
			t.remove()
			t.mu.Unlock()
		}
		all = all && exists
	}
	return all, nil
}
