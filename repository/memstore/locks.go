package memstore

import (
	"context"
	"time"
)

// locks holds who has which name, and until when.
type locks map[string]holder

type holder struct {
	token string
	until time.Time
}

// TryLock tries to take each name for ttl (at least 1 ms) under the token and
// says, in order, which it got. Errors: *model.StoreError wrapping
// model.ErrInvalidArgument.
func (s *Store) TryLock(_ context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	if token == "" || ttl < time.Millisecond {
		return nil, invalid("lock", "token %q, ttl %v", token, ttl)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	got := make([]bool, len(names))
	for i, name := range names {
		if held, ok := s.locks[name]; ok && now.Before(held.until) {
			continue
		}
		s.locks[name] = holder{token, now.Add(ttl)}
		got[i] = true
	}
	return got, nil
}

// Unlock frees those names that the token still holds. It never fails.
func (s *Store) Unlock(_ context.Context, names []string, token string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if s.locks[name].token == token {
			delete(s.locks, name)
		}
	}
	return nil
}
