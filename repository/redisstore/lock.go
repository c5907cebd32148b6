package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// cleanupTimeout bounds the unlocking after a failed TryLock.
const cleanupTimeout = time.Second

// TryLock tries to take each name for ttl (whole milliseconds, at least one)
// under the token and says, in order, which it got. After an error nothing is
// held, unless Redis cannot be reached to say so: then until ttl is over.
//
// It uses the client that never repeats a command: repeated after a lost reply,
// SET NX would report a lock as not taken that it had just taken.
func (s *Store) TryLock(ctx context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	if token == "" || ttl < time.Millisecond {
		return nil, explain("lock", fmt.Errorf("%w: token %q, ttl %v", model.ErrInvalidArgument, token, ttl))
	}
	got := make([]bool, len(names))
	for _, part := range chunks(len(names), pipelineCalls) {
		if err := s.tryLock(ctx, names[part.from:part.to], got[part.from:part.to], token, ttl); err != nil {
			return nil, s.fail("lock", s.giveBack(ctx, names[:part.to], token, err))
		}
	}
	return got, nil
}

func (s *Store) tryLock(ctx context.Context, names []string, got []bool, token string, ttl time.Duration) error {
	pipe := s.writer.Pipeline()
	cmds := make([]*redis.StatusCmd, len(names))
	for i, name := range names {
		cmds[i] = redis.NewStatusCmd(ctx, "set", lockPrefix+name, token, "nx", "px", ttl.Milliseconds())
		_ = pipe.Process(ctx, cmds[i]) // only queues
	}
	// Exec's own error is that of the first command that has one, most often
	// the nil of a lock held by somebody else.
	_, execErr := pipe.Exec(ctx)
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case err == nil && cmd.Val() == "OK":
			got[i] = true
		case err == nil:
			return unanswered(execErr)
		case !isNil(err):
			return err
		}
	}
	return nil
}

// giveBack frees what a TryLock that failed with cause may have taken, and
// returns the cause.
func (s *Store) giveBack(ctx context.Context, names []string, token string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := s.Unlock(ctx, names, token); err != nil {
		return fmt.Errorf("%w (locks taken before stay until they expire)", cause)
	}
	return cause
}

// Unlock frees those names that the token still holds. A failure does not keep
// it from trying the others; it returns the first one.
func (s *Store) Unlock(ctx context.Context, names []string, token string) error {
	var failed error
	for _, part := range chunks(len(names), pipelineCalls) {
		calls := make([]call, 0, part.to-part.from)
		for _, name := range names[part.from:part.to] {
			calls = append(calls, call{[]string{lockPrefix + name}, []any{token}})
		}
		for _, r := range s.unlock.runAll(ctx, s.reader, calls) {
			if failed == nil {
				failed = r.err
			}
		}
	}
	return s.fail("unlock", failed)
}
