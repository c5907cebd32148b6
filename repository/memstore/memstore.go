// Package memstore keeps the lists of indices in the process, for a service of one replica that needs no Redis.
//
// A list is a queue of segments, so memory grows with the segments held and not
// with their length. All is lost with the process; the life, a random name
// per Store, tells that to the allocator. No I/O.
package memstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardid/model"
)

// Store holds lists. It never waits, so contexts are not looked at.
// Safe for concurrent use.
type Store struct {
	life string

	mu    sync.Mutex
	lists map[model.ListKey]*list
}

// list is one queue of indices, oldest first.
type list struct {
	segments  []model.Segment
	len       int64
	highWater int64 // highest index ever pushed
}

// New returns an empty store with a life of its own.
func New() *Store {
	return &Store{
		life:  rand.Text(),
		lists: make(map[model.ListKey]*list),
	}
}

// Pop takes up to n of the oldest indices, n in 1…model.MaxBatch. Errors:
// *model.StoreError wrapping model.ErrInvalidArgument.
func (s *Store) Pop(_ context.Context, key model.ListKey, n int) (model.Popped, error) {
	if n < 1 || n > model.MaxBatch {
		return model.Popped{}, invalid("pop", "%d indices are not 1…%d", n, model.MaxBatch)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.list(key)
	indices := l.pop(int64(n))
	return model.Popped{Life: s.life, Indices: indices, Len: l.len}, nil
}

func (l *list) pop(n int64) []int64 {
	n = min(n, l.len)
	if n == 0 {
		return nil
	}
	l.len -= n
	indices := make([]int64, 0, n)
	for n > 0 {
		seg := &l.segments[0]
		take := min(n, seg.Len())
		for i := range take {
			indices = append(indices, seg.First+i)
		}
		n -= take
		if seg.First += take; seg.Len() == 0 {
			l.segments = l.segments[1:]
		}
	}
	return indices
}

// State answers for every key, in order. It never fails.
func (s *Store) State(_ context.Context, keys []model.ListKey) []model.ListState {
	s.mu.Lock()
	defer s.mu.Unlock()
	states := make([]model.ListState, len(keys))
	for i, key := range keys {
		states[i].Life = s.life
		if l := s.lists[key]; l != nil {
			states[i].Len, states[i].HighWater = l.len, l.highWater
		}
	}
	return states
}

// Probe is State: memory takes every write.
func (s *Store) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	return s.State(ctx, keys)
}

// Push appends segments and answers in order: nil, model.ErrLifeChanged,
// model.ErrNotAboveHighWater, model.ErrListFull, or a *model.StoreError wrapping
// model.ErrInvalidArgument.
func (s *Store) Push(_ context.Context, reqs []model.PushRequest) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(reqs))
	for i, r := range reqs {
		errs[i] = s.push(r)
	}
	return errs
}

func (s *Store) push(r model.PushRequest) error {
	seg := r.Segment
	if seg.First < 1 || seg.Last < seg.First || seg.Last > model.MaxIndex {
		return invalid("push", "segment %d…%d of list %s", seg.First, seg.Last, r.Key)
	}
	l := s.list(r.Key)
	switch {
	case r.Life != s.life:
		return model.ErrLifeChanged
	case seg.First <= l.highWater:
		return model.ErrNotAboveHighWater
	case l.len >= r.Cap:
		return model.ErrListFull
	}
	l.segments = append(l.segments, seg)
	l.len += seg.Len()
	l.highWater = seg.Last
	return nil
}

// Delete drops lists; their high-water marks stay. It never fails.
func (s *Store) Delete(_ context.Context, keys []model.ListKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if l := s.lists[key]; l != nil {
			l.segments, l.len = nil, 0
		}
	}
	return nil
}

// list returns the list, made when it is missing. The caller holds s.mu.
func (s *Store) list(key model.ListKey) *list {
	l := s.lists[key]
	if l == nil {
		l = new(list)
		s.lists[key] = l
	}
	return l
}

func invalid(op, format string, args ...any) error {
	return &model.StoreError{Store: "memory", Op: op,
		Err: fmt.Errorf("%w: "+format, append([]any{model.ErrInvalidArgument}, args...)...)}
}

// TryLock gives every lock: the locks keep other replicas away, and this store has none.
func (s *Store) TryLock(_ context.Context, names []string, _ string, _ time.Duration) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(names)), nil
}

// Unlock does nothing.
func (s *Store) Unlock(context.Context, []string, string) error { return nil }
