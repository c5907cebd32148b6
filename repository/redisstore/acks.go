package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// errTooFewAcks reports a write that too few replicas have confirmed.
var errTooFewAcks = errors.New("too few replicas have confirmed")

// run runs a script that writes, and has replicas confirm it: as many as the options
// say, else so many that they are a majority with the server, of the most that any
// server of the registry was seen with. replicas reads that from a reply, which it is
// not asked for in one that holds no lease. The first time more have to confirm than
// were known, the script runs again.
func (w *Workers) run(ctx context.Context, s script, replicas func(reply string) int, keys []string, args ...any) (string, error) {
	c, err := w.store.nodeOf(ctx, keys[0])
	if err != nil {
		return "", err
	}
	in := call{keys, args}
	for {
		asked := w.acks(int(w.replicas.Load()))
		reply, confirmed, err := w.runConfirmed(ctx, c, s.byHash(ctx, in), asked)
		if isNoScript(err) {
			reply, confirmed, err = w.runConfirmed(ctx, c, s.byText(ctx, in), asked)
		}
		if err != nil {
			return "", err
		}
		seen := replicas(reply)
		need := w.acks(seen)
		switch {
		case seen < 0 || confirmed >= need:
			return reply, nil
		case need <= asked:
			return "", fmt.Errorf("%w: %d of %d within %v", errTooFewAcks, confirmed, need, w.store.waitLimit)
		}
		w.replicas.Store(int64(seen))
	}
}

// acks is how many replicas must confirm, of so many.
func (w *Workers) acks(replicas int) int {
	if w.o.Acks >= 0 {
		return w.o.Acks
	}
	return (replicas + 1) / 2
}

// nodeOf is the client of the one server that has the key: WAIT counts the
// replicas that have what was written over its own connection, and a cluster
// client would send it, as it names no key, to any node. Only MOVED tells that
// the key is elsewhere by now; the caller asks again.
func (s *Store) nodeOf(ctx context.Context, key string) (redis.UniversalClient, error) {
	if cluster, ok := s.reader.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return s.reader, nil
}

// runConfirmed sends cmd and WAIT in one pipeline, which is one connection, and says
// how many replicas have confirmed. WAIT ends before the client gives up the reply.
func (w *Workers) runConfirmed(ctx context.Context, c redis.UniversalClient, cmd *redis.StringCmd, acks int) (reply string, confirmed int, err error) {
	pipe := c.Pipeline()
	_ = pipe.Process(ctx, cmd) // only queues; each command has its own error
	wait := redis.NewIntCmd(ctx, "wait", acks, w.store.waitLimit.Milliseconds())
	if acks > 0 {
		_ = pipe.Process(ctx, wait)
	}
	_, execErr := pipe.Exec(ctx)
	if err := errors.Join(cmd.Err(), wait.Err()); err != nil {
		return "", 0, err
	}
	if cmd.Val() == "" {
		return "", 0, unanswered(execErr)
	}
	return cmd.Val(), int(wait.Val()), nil
}
