package redisstore

import (
	"context"

	"shardid/model"
)

const (
	// stateLists is how many lists one script call reads, some 200 µs of Redis.
	// In a cluster it is one: keys of a call must share a slot.
	stateLists = 128
	// statePipelined is how many lists are asked for in one round trip.
	statePipelined = 1024
)

// State answers for every key, in order. A list that cannot be read has its own
// Err; when the server does not answer at all the rest is not tried.
func (s *Store) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	return s.states(ctx, keys, 0)
}

// Probe is State after a write beside each list: a server that is full, or takes no
// writes for another reason, says so in Err.
func (s *Store) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	return s.states(ctx, keys, 1)
}

func (s *Store) states(ctx context.Context, keys []model.ListKey, write int) []model.ListState {
	states := make([]model.ListState, len(keys))
	for _, part := range chunks(len(keys), statePipelined) {
		if err := s.stateOf(ctx, keys[part.from:part.to], states[part.from:part.to], write); err != nil {
			setErr(states[part.to:], err)
			break
		}
	}
	return states
}

// stateOf is one round trip. Its error says that no call was answered.
func (s *Store) stateOf(ctx context.Context, keys []model.ListKey, states []model.ListState, write int) error {
	perCall := stateLists
	if s.mode == ModeCluster {
		perCall = 1
	}
	parts := chunks(len(keys), perCall)
	calls := make([]call, len(parts))
	for i, part := range parts {
		calls[i] = call{metaKeys(keys[part.from:part.to]), []any{s.self(), write}}
	}
	results := s.state.runAll(ctx, s.reader, calls)
	for i, part := range parts {
		s.setStates(states[part.from:part.to], results[i])
	}
	return s.silence("state", results)
}

func (s *Store) setStates(states []model.ListState, r result) {
	err := s.fail("state", r.err)
	if err == nil {
		if bad := decodeStates(r.reply, states); bad != nil {
			err = explain("state", bad)
		}
	}
	if err != nil {
		setErr(states, err)
	}
}

func setErr(states []model.ListState, err error) {
	for i := range states {
		states[i] = model.ListState{Err: err}
	}
}

// silence returns an error when no server answered any of the calls: whoever
// has more to send would wait for a timeout again and again.
func (s *Store) silence(op string, results []result) error {
	var last error
	for _, r := range results {
		if r.err == nil || isReply(r.err) {
			return nil
		}
		last = r.err
	}
	return explain(op, last)
}
