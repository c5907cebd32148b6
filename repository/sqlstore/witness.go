package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardid/model"
)

const (
	// witnessFresh is how long ago the witness' last heartbeat may be for it to count as
	// used without a break: the probe that sends them takes 4 s at most. For as long
	// nothing is handed out while the witness does not answer.
	witnessFresh = 6 * time.Second
	// witnessPatience is how long a witness that does not answer is waited for before
	// the store goes on without it.
	witnessPatience = 10 * time.Second
	// witnessTimeout bounds one call of the witness.
	witnessTimeout = 300 * time.Millisecond
)

// Witness remembers, in another store, how far counters have come, so that it can
// vouch for them when the database went back in time. life names a time in which the
// other store has forgotten nothing and was in use without a break. Safe for concurrent
// use.
type Witness interface {
	// Beat notes that the deployment uses the witness. When it did not for longer than
	// most, another life begins.
	Beat(ctx context.Context, most time.Duration) (life string, err error)
	// Peek gives how long ago the last beat was, by the witness' own clock, and the mark
	// of a counter, which is 0 without one.
	Peek(ctx context.Context, counter string) (life string, age time.Duration, mark int64, err error)
	// Raise raises the mark of a counter to value and gives what it was before.
	Raise(ctx context.Context, counter string, value int64) (life string, before int64, err error)
}

// vouched says whether the witness was in use without a break, in the life that the
// database knows, until now. One that does not answer is waited for, by errors, and then
// does not vouch.
func (s *Store) vouched(ctx context.Context, known string) (bool, error) {
	if s.opts.Witness == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	life, age, _, err := s.opts.Witness.Peek(ctx, "")
	if err == nil {
		return life == known && age <= witnessFresh, nil
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if s.seen.changedAt.IsZero() {
		s.seen.changedAt = s.opts.Now()
	}
	if s.opts.Now().Sub(s.seen.changedAt) < witnessPatience {
		return false, fmt.Errorf("%w: waiting up to %v for Redis, which knows what was handed out: %w", errServerChanged, witnessPatience, err)
	}
	return false, nil
}

// met says whether the database has answered: before, nothing is said to the witness. It
// could be one that came back with the database from the past, and this would hide that.
func (s *Store) met() bool {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	return !s.seen.times.Since.IsZero()
}

// beatWitness gives the life of the witness; "" without one that answers.
func (s *Store) beatWitness(ctx context.Context) (life string) {
	if s.opts.Witness == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	life, err := s.opts.Witness.Beat(ctx, witnessFresh)
	if err != nil {
		return "" // its own condition reports it
	}
	return life
}

// peek asks the witness about a counter. While it does not answer, and until a beat of
// it would be too old to vouch, that is an error: numbers that it did not learn of must
// not be used before. After that nothing is known, and the row will say so.
func (s *Store) peek(ctx context.Context, counter string) (model.Evidence, error) {
	if s.opts.Witness == nil || s.server == nil {
		return model.Evidence{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	now := s.opts.Now()
	life, age, mark, err := s.opts.Witness.Peek(ctx, counter)
	switch {
	case err != nil:
	case age > 20*365*24*time.Hour: // counted from 1970: there was none
		err = errors.New("it has had no heartbeat yet")
	case age > witnessFresh: // the next heartbeat may begin another life
		err = fmt.Errorf("its last heartbeat was %v ago", age.Round(time.Second))
	}
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	if err == nil {
		s.seen.witness = now
		return model.Evidence{Floor: mark, Mark: mark, Life: life}, nil
	}
	if wait := s.seen.witness.Add(witnessFresh).Sub(now); wait > 0 {
		return model.Evidence{}, fmt.Errorf("%w for %v more: %w", errWitnessAway, wait.Round(time.Second), err)
	}
	return model.Evidence{}, nil
}

// errWitnessAway: Redis, which vouches for the counter, does not answer.
var errWitnessAway = errors.New("waiting for Redis, which would vouch for what is handed out,")

// errMarkAhead: the witness has seen higher numbers of the counter than a moment ago.
var errMarkAhead = errors.New("the mark has risen meanwhile")

// mark raises the mark of a counter from at most floor to its Last, in the life in which
// it was peeked at, and names that life in the counter. It must be called before the
// counter is committed, and so before its numbers are used.
func (s *Store) mark(ctx context.Context, name string, known model.Evidence, floor int64, c *model.Counter) error {
	c.Life = ""
	if known.Life == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	life, before, err := s.opts.Witness.Raise(ctx, name, c.Last)
	switch {
	case err != nil:
		return fmt.Errorf("mark it at Redis: %w", err)
	case before > floor || life != known.Life:
		return errMarkAhead
	}
	c.Life = life
	return nil
}

// settleCounter is a counter as the witness leaves it.
func (s *Store) settleCounter(ctx context.Context, name string, c model.Counter) (model.Counter, error) {
	known, err := s.peek(ctx, name)
	if err != nil {
		return c, err
	}
	next := c.Settle(known)
	if next.Doubt > 0 {
		return next, nil
	}
	err = s.mark(ctx, name, known, next.Last, &next)
	return next, err
}
