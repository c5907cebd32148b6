package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// errTooFewAcks reports a write that too few replicas have confirmed.
var errTooFewAcks = errors.New("too few replicas have confirmed")

// run runs a script that writes, and has Options.Acks replicas confirm it.
func (w *Workers) run(ctx context.Context, s script, keys []string, args ...any) (string, error) {
	if w.o.Acks == 0 {
		return s.run(ctx, w.store.reader, keys, args...)
	}
	c, err := w.store.nodeOf(ctx, keys[0])
	if err != nil {
		return "", err
	}
	in := call{keys, args}
	reply, err := w.runConfirmed(ctx, c, s.byHash(ctx, in))
	if isNoScript(err) {
		reply, err = w.runConfirmed(ctx, c, s.byText(ctx, in))
	}
	return reply, err
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

// runConfirmed sends cmd and WAIT in one pipeline, which is one connection. WAIT
// ends before the client gives up the reply.
func (w *Workers) runConfirmed(ctx context.Context, c redis.UniversalClient, cmd *redis.StringCmd) (string, error) {
	wait := redis.NewIntCmd(ctx, "wait", w.o.Acks, w.store.waitLimit.Milliseconds())
	pipe := c.Pipeline()
	_ = pipe.Process(ctx, cmd) // only queues; each command has its own error
	_ = pipe.Process(ctx, wait)
	_, execErr := pipe.Exec(ctx)
	if err := errors.Join(cmd.Err(), wait.Err()); err != nil {
		return "", err
	}
	if cmd.Val() == "" {
		return "", unanswered(execErr)
	}
	if wait.Val() < int64(w.o.Acks) {
		return "", fmt.Errorf("%w: %d of %d within %v", errTooFewAcks, wait.Val(), w.o.Acks, w.store.waitLimit)
	}
	return cmd.Val(), nil
}
