package redisstore

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

// Store keeps lists and locks in Redis; see the package documentation. All
// errors of its methods are *model.StoreError except the refusals of Push. Safe
// for concurrent use.
type Store struct {
	mode     string
	fallback string // history to assume when the server hides its own; "" refuses
	// first is the first argument of all scripts but unlock, see prelude.lua.
	first atomic.Pointer[string]

	reader redis.UniversalClient
	writer redis.UniversalClient // never sends a command twice

	waitLimit time.Duration // for replicas to confirm

	// pushing holds an element for each pipeline of pushes that is under way.
	pushing chan struct{}

	pop, state, push, remove, marks, check, unlock script
}

// unsafeHistory is the history of every server under Options.UnsafeNoHistory.
const unsafeHistory = "unsafe-no-history"

// New validates the options and connects to nothing. Errors:
// model.ErrInvalidArgument.
func New(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		mode:   o.Mode,
		reader: o.reader(),
		writer: o.writer(),
		// Half the time a reply may take: WAIT must answer before the client gives up.
		waitLimit: orDefault(o.ReadTimeout) / 2,
		pushing:   make(chan struct{}, o.pushTurns()),
		pop:       newScript(preludeLua + popLua),
		state:     newScript(preludeLua + stateLua),
		push:      newScript(preludeLua + pushLua),
		remove:    newScript(preludeLua + deleteLua),
		marks:     newScript(preludeLua + marksLua),
		check:     newScript(preludeLua + checkLua),
		unlock:    newScript(unlockLua),
	}
	if o.UnsafeNoHistory {
		s.fallback = unsafeHistory
	}
	s.SetDeployment("")
	return s, nil
}

// SetDeployment says to which deployment the store's user belongs, one word. Before
// that all but locks and Check fail. Keys of another deployment are refused with
// model.ErrForeign; those of version 0.1 name none and are taken over.
func (s *Store) SetDeployment(id string) {
	first := id + " " + s.fallback
	s.first.Store(&first)
}

// self says to a script who asks.
func (s *Store) self() string { return *s.first.Load() }

// Close closes the connections. Calls under way fail.
func (s *Store) Close() error {
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// Delete drops lists; their meta hashes, and so their high-water marks, stay. A
// failure does not keep it from trying the others; it returns the first one.
func (s *Store) Delete(ctx context.Context, keys []model.ListKey) error {
	var failed error
	for _, part := range chunks(len(keys), pipelineCalls) {
		calls := make([]call, 0, part.to-part.from)
		for _, meta := range metaKeys(keys[part.from:part.to]) {
			calls = append(calls, call{[]string{meta}, []any{s.self()}})
		}
		for _, r := range s.remove.runAll(ctx, s.reader, calls) {
			failed = cmp.Or(failed, r.err)
		}
	}
	return s.fail("delete", failed)
}

// Foreign counts the lists that belong to another deployment, and names one of these.
// It changes nothing. Errors: *model.StoreError.
func (s *Store) Foreign(ctx context.Context, keys []model.ListKey) (lists int, deployment string, err error) {
	own, _, _ := strings.Cut(s.self(), " ")
	for _, part := range chunks(len(keys), pipelineCalls) {
		pipe := s.reader.Pipeline()
		var owners []*redis.SliceCmd
		for _, key := range keys[part.from:part.to] {
			owners = append(owners, pipe.HMGet(ctx, metaKey(key), "d"))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, "", s.fail("look for lists of another deployment", err)
		}
		for _, o := range owners {
			if d, known := o.Val()[0].(string); known && d != own {
				lists, deployment = lists+1, d
			}
		}
	}
	return lists, deployment, nil
}

// fail makes the error of an operation. In a cluster it also has both clients
// look for moved slots: go-redis does so by itself only for MOVED and ASK, and
// would go on asking a master that is gone.
func (s *Store) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	for _, c := range []redis.UniversalClient{s.reader, s.writer} {
		if cluster, ok := c.(*redis.ClusterClient); ok && topologyMayHaveChanged(err) {
			cluster.ReloadState(context.Background()) // works in the background, bounded by the timeouts
		}
	}
	return explain(op, err)
}

func topologyMayHaveChanged(err error) bool {
	if !isReply(err) {
		return !errors.Is(err, context.Canceled)
	}
	return has(err, "MOVED", "ASK", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "TRYAGAIN")
}

// pipelineCalls bounds a pipeline, in commands.
const pipelineCalls = 512

// span is a part of a slice: from included, to excluded.
type span struct{ from, to int }

// chunks cuts n items into parts of at most size.
func chunks(n, size int) []span {
	parts := make([]span, 0, (n+size-1)/size)
	for from := 0; from < n; from += size {
		parts = append(parts, span{from, min(from+size, n)})
	}
	return parts
}
