package redisstore

import (
	"context"
	"fmt"

	"shardid/model"
)

// MaxPop is the most indices one pop takes.
const MaxPop = 10_000

// Pop takes up to n of the oldest indices, n in 1…MaxPop. An empty list is no
// error. When a reply is lost the pop may be repeated, and the indices of the
// lost reply are a gap.
func (s *Store) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	if n < 1 || n > MaxPop {
		return model.Popped{}, explain("pop", fmt.Errorf("%w: %d indices are not 1…%d", model.ErrInvalidArgument, n, MaxPop))
	}
	reply, err := s.pop.run(ctx, s.reader, []string{metaKey(key)}, s.self(), n)
	if err != nil {
		return model.Popped{}, s.fail("pop", err)
	}
	popped, err := decodePopped(reply)
	if err != nil {
		return model.Popped{}, explain("pop", fmt.Errorf("list %s: %w", key, err))
	}
	return popped, nil
}
