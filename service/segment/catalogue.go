package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"shardid/model"
)

const (
	// readTimeout bounds one reading of rows.
	readTimeout = 3 * time.Second
	// lookupEvery is the shortest time from a lookup that found no row to the next one.
	lookupEvery = 500 * time.Millisecond
	// maxAsked is how many names one lookup takes.
	maxAsked = 1000
)

// catalogue is what is known of the tags.
type catalogue struct {
	live              int                 // tags that exist
	changes, sortedAt uint64              // how often one came or went, and had when sorted was made
	sorted            []string            // their names
	used              []*Tag              // those that were ever used, removed ones too; only appended to
	asked             map[string]struct{} // names that the next lookup takes
}

// exists says whether a tag is known to exist.
func (s *Service) exists(name string) bool {
	e := s.tags.find(name)
	return e != nil && e.seen.Load() != 0
}

// inUse returns a tag that exists and was used, or nil.
func (s *Service) inUse(name string) *Tag {
	if e := s.tags.find(name); e != nil && e.seen.Load() != 0 {
		return e.tag.Load()
	}
	return nil
}

// live is how many tags are known to exist.
func (s *Service) live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalogue.live
}

// everUsed returns all tags that were ever used.
func (s *Service) everUsed() []*Tag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.catalogue.used
}

// use returns a tag that exists, or nil. It is in use from now on.
func (s *Service) use(name string) *Tag {
	e := s.tags.find(name)
	if e == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.seen.Load() == 0:
		return nil
	case e.tag.Load() == nil:
		t := newTag(s, e)
		e.tag.Store(t)
		s.catalogue.used = append(s.catalogue.used, t)
	}
	return e.tag.Load()
}

// unknown is model.ErrUnknownTag or model.ErrInvalidArgument.
func unknown(name string) error {
	if err := model.CheckTag(name); err != nil {
		return err
	}
	return fmt.Errorf("%w: %q: add it with `shardid tags add --tag NAME --step 2000`", model.ErrUnknownTag, name)
}

// complete says whether all rows were read once.
func (s *Service) complete() bool { return s.reading.Load() > 1 }

// current is nil when rows were read, or else model.ErrNotReady.
func (s *Service) current() error {
	if s.reading.Load() > 0 {
		return nil
	}
	return s.background.NotReady()
}

// Known says whether a tag was found in the database since it was first asked for.
func (s *Service) Known(tag string) bool { return s.inUse(tag) != nil }

// find returns a tag that is not in use. Its row is read now if it was not there a moment
// ago: a tag that was added since, or that the first reading has not met yet, works at once.
func (s *Service) find(ctx context.Context, name string) (*Tag, error) {
	if err := model.CheckTag(name); err != nil {
		return nil, err
	}
	if err := s.current(); err != nil {
		return nil, err
	}
	if t := s.use(name); t != nil {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if err := s.ask(ctx, name); err != nil {
		return nil, fmt.Errorf("%w: tag %q is not known and the tags cannot be read now: %w", model.ErrSegmentEmpty, name, err)
	}
	if t := s.use(name); t != nil {
		return t, nil
	}
	return nil, unknown(name)
}

// ask waits until the row of a name was looked for since. Once all rows were read, a lookup that
// finds none holds up the next, so that names that do not exist cost two readings a second.
func (s *Service) ask(ctx context.Context, name string) error {
	for {
		s.mu.Lock()
		full := len(s.catalogue.asked) >= maxAsked // the next lookup is without it
		if !full {
			s.catalogue.asked[strings.Clone(name)] = struct{}{}
		}
		s.mu.Unlock()
		if err := s.lookups.Fresh(ctx); err != nil || !full {
			return err
		}
	}
}

// lookUp looks for the rows of the names that were asked for.
func (s *Service) lookUp() error {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.catalogue.asked))
	clear(s.catalogue.asked)
	s.mu.Unlock()
	began := time.Now()
	all, err := s.readNamed(names)
	if !all && s.complete() {
		s.lookups.Hold(began.Add(lookupEvery))
	}
	return err
}

// Reload reads the row of a tag now, after a change of it that is committed. Errors:
// model.ErrNotReady, *model.StoreError, or that of ctx, when it may still take place.
func (s *Service) Reload(ctx context.Context, name string) error {
	if err := s.current(); err != nil {
		return err
	}
	return s.background.Do(ctx, func() error {
		_, err := s.readNamed([]string{name})
		return err
	})
}

// NextReload is by when every replica of this configuration begins to read the tags anew
// after now.
func (s *Service) NextReload(now time.Time) time.Time { return now.Add(s.opts.Reload) }

// report tells how a reading went that is no part of the start, where the database's own
// probe reports.
func (s *Service) report(err error) {
	if s.background.Context().Err() == nil {
		s.reloadFails.Store(err != nil)
		s.opts.Reporter.Report(ConditionReload, err)
	}
}

// reload reads on until all rows were read. After an error the next call goes on there.
func (s *Service) reload() {
	var err error
	for n := s.reading.Load(); err == nil && s.reading.Load() == n; {
		err = s.readPart()
	}
	s.report(err)
}

// readPart reads the next rows of the present reading. The last ones end it: tags that it
// has not met are closed.
func (s *Service) readPart() error { return s.read(s.part) }

func (s *Service) part(ctx context.Context) error {
	rows, last, err := s.opts.Table.TagsAfter(ctx, s.after)
	if err != nil {
		return err
	}
	s.reading.CompareAndSwap(0, 1)
	for _, row := range rows {
		s.adopt(row)
	}
	s.whole = s.after == "" && last == ""
	if s.after = last; last != "" {
		return nil
	}
	for e := range s.tags.all() {
		if e.seen.Load() != s.reading.Load() {
			s.remove(e)
		}
	}
	s.reading.Add(1)
	return nil
}

// readNamed reads the rows of some names, and says whether all of them have one. A tag whose
// row is gone is closed. Where one part has all rows, that is read: it shows more.
func (s *Service) readNamed(names []string) (all bool, err error) {
	err = s.read(func(ctx context.Context) error {
		if s.whole {
			if err := s.part(ctx); err != nil || s.whole {
				return err
			}
		}
		rows, err := s.opts.Table.TagsNamed(ctx, names)
		if err != nil {
			return err
		}
		found := make(map[string]bool, len(rows))
		for _, row := range rows {
			found[row.Name] = s.adopt(row)
		}
		for _, name := range names {
			if e := s.tags.find(name); e != nil && !found[name] {
				s.remove(e)
			}
		}
		return nil
	})
	if err != nil {
		s.report(err)
		return false, err
	}
	return !slices.ContainsFunc(names, func(name string) bool { return !s.exists(name) }), nil
}

// read runs a reading of rows. They exclude each other, so that none takes over what is
// older than what another has.
func (s *Service) read(rows func(context.Context) error) error {
	select {
	case s.reloading <- struct{}{}:
		defer func() { <-s.reloading }()
	case <-s.background.Context().Done():
		return s.background.Context().Err()
	}
	ctx, cancel := context.WithTimeout(s.background.Context(), readTimeout)
	defer cancel()
	s.reads.Add(1)
	return rows(ctx)
}

// adopt takes a row over that was read, unless it cannot be used.
func (s *Service) adopt(row model.Tag) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.tags.find(row.Name)
	numbers, err := row.Numbers()
	if err == nil && e != nil && !e.numbers.Same(numbers) {
		err = errors.New("it is not the one that the tag had, and a pattern never changes: add a tag of another name")
	}
	if err != nil {
		s.events.Log(slog.LevelError, "a tag is left out: its pattern in shardid_number cannot be used", "tag", row.Name, "error", err)
		return false
	}
	if e == nil {
		e = &entry{name: row.Name, numbers: numbers}
		s.tags.add(e)
	}
	e.maxID = max(e.maxID, row.MaxID)
	e.step.Store(int32(row.Step))
	if e.seen.Swap(s.reading.Load()) == 0 {
		s.catalogue.live++
		s.catalogue.changes++
	}
	if t := e.tag.Load(); t != nil {
		t.open(row)
	}
	return true
}

// remove closes a tag whose row is gone.
func (s *Service) remove(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.seen.Swap(0) == 0 {
		return
	}
	s.catalogue.live--
	s.catalogue.changes++
	if t := e.tag.Load(); t != nil {
		t.close(fmt.Errorf("%w: %q was removed", model.ErrUnknownTag, e.name))
	}
}
