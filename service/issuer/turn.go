package issuer

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"shardid/model"
)

const (
	// Large is how many IDs a batch may have that waits for no turn.
	Large = 128
	// turns is how many larger ones of a mode are made at once: each takes up to 0.4 MB,
	// and more at once are no faster.
	turns = 32
	// patience is how long one waits for its turn.
	patience = 2 * time.Second
)

// Turn waits until the IDs of a large batch may be made; done ends that, once what they hold is
// counted by other means. A mode that is starved holds no other up. Errors: model.ErrTooMany, or ctx's.
func (s *Issuer) Turn(ctx context.Context, r Request) (done func(), err error) {
	if r.Count <= Large {
		return func() {}, nil
	}
	s.lines.Do(func() {
		for i := range s.turns {
			s.turns[i] = make(chan struct{}, turns)
		}
	})
	turn := s.turns[bits.TrailingZeros8(uint8(r.Mode))]
	done = func() { <-turn }
	select {
	case turn <- struct{}{}:
		return done, nil
	default:
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case turn <- struct{}{}:
		return done, nil
	case <-late.C:
		return nil, fmt.Errorf("%w: %d batches of more than %d IDs are being made, and none ended within %v: nothing was issued, try again or ask another replica",
			model.ErrTooMany, turns, Large, patience)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
