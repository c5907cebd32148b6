package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"shardid/model"
)

const (
	metaPrefix = "id.gen.meta_{id.gen.idList_"
	lockPrefix = "id.gen.lock_"
)

// metaKey names the meta hash of a list. The braces make a cluster place it by the
// list's name, which they hold, so both share a slot.
func metaKey(k model.ListKey) string {
	return metaPrefix + strconv.Itoa(int(k.App)) + "_" + strconv.Itoa(int(k.Shard)) + "}"
}

// Pop takes up to n of the oldest indices, n in 1…model.MaxBatch. An empty list is no
// error. When a reply is lost the pop may be repeated, and the indices of the
// lost reply are a gap.
func (s *Store) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	if n < 1 || n > model.MaxBatch {
		return model.Popped{}, explain("pop",
			fmt.Errorf("%w: %d indices are not 1…%d", model.ErrInvalidArgument, n, model.MaxBatch))
	}
	reply, err := s.run(ctx, s.client, popScript, []string{metaKey(key)}, s.deploymentID(), n).Text()
	if err != nil {
		return model.Popped{}, explain("pop", err)
	}
	popped, err := decodePopped(reply)
	if err != nil {
		return model.Popped{}, explain("pop", fmt.Errorf("list %s: %w", key, err))
	}
	return popped, nil
}

// statePipelined is how many lists are asked for in one round trip.
const statePipelined = 1024

// keysPerCall is how many lists or sections one script call is for, some 200 µs of Redis.
// In a cluster it is one: keys of a call must share a slot.
func (s *Store) keysPerCall() int {
	if s.opts.Mode == ModeCluster {
		return 1
	}
	return 128
}

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
	calls := callsFor(keys, s.keysPerCall(), metaKey, s.deploymentID(), write)
	results := s.runParts(ctx, stateScript, calls, statePipelined/s.keysPerCall())
	return readAnswers("state", calls, results, readState,
		func(err error) model.ListState { return model.ListState{Err: err} })
}

// errMalformed reports a reply that our scripts do not give from lists that only
// we have filled.
var errMalformed = errors.New("unexpected content")

// fields reads words from a reply, each of which one blank follows. A malformed one sticks in bad.
type fields struct {
	rest string
	bad  bool
}

func (f *fields) word() string {
	word, rest, _ := strings.Cut(f.rest, " ")
	f.bad = f.bad || word == ""
	f.rest = rest
	return word
}

// number reads an integer in 0…most.
func (f *fields) number(most int64) int64 {
	n, err := strconv.ParseInt(f.word(), 10, 64)
	f.bad = f.bad || err != nil || n < 0 || n > most
	return n
}

// decodePopped reads what pop.lua returns.
func decodePopped(reply string) (model.Popped, error) {
	f := fields{rest: reply}
	// A clone, as the life is kept and the reply may be long.
	p := model.Popped{Life: strings.Clone(f.word()), Purged: f.number(model.MaxIndex), Len: f.number(model.MaxIndex)}
	more := f.number(model.MaxBatch - 1)
	if f.rest != "" && !f.bad {
		p.Indices = make([]int64, 0, strings.Count(f.rest, " ")+1+int(more))
	}
	for f.rest != "" && !f.bad {
		index := f.number(model.MaxIndex - more)
		f.bad = f.bad || index == 0
		p.Indices = append(p.Indices, index)
	}
	if f.bad || more > 0 && len(p.Indices) != 1 {
		return model.Popped{}, fmt.Errorf("%w: pop answered %.80q", errMalformed, reply)
	}
	for range more { // they are the so many after the one that is given
		p.Indices = append(p.Indices, p.Indices[len(p.Indices)-1]+1)
	}
	return p, nil
}

// readLines reads so many lines of a reply, each to its end. What is kept of one is to be cloned, as the reply may be
// long.
func readLines(reply string, n int, read func(i int, line *fields)) error {
	for i := range n {
		var line string
		line, reply, _ = strings.Cut(reply, "\n")
		f := fields{rest: line}
		if read(i, &f); f.bad || f.rest != "" {
			return fmt.Errorf("%w: line %d of the answer is %.80q", errMalformed, i+1, line)
		}
	}
	if reply != "" {
		return fmt.Errorf("%w: %.80q follows after line %d of the answer", errMalformed, reply, n)
	}
	return nil
}

// readState reads a line of what state.lua returns.
func readState(_ int, f *fields) model.ListState {
	if reason, failed := strings.CutPrefix(f.rest, "!"); failed {
		f.rest = ""
		return model.ListState{Err: explain("state", errors.New(strings.Clone(reason)))}
	}
	const most = model.MaxIndex
	return model.ListState{Life: strings.Clone(f.word()), Len: f.number(most), HighWater: f.number(most),
		Purged: f.number(most)}
}

// Delete drops lists; their meta hashes, and so their high-water marks, stay. A
// failure does not keep it from trying the others; it returns the first one.
func (s *Store) Delete(ctx context.Context, keys []model.ListKey) error {
	calls := callsFor(keys, 1, metaKey, s.deploymentID())
	return explain("delete", firstError(s.runParts(ctx, deleteScript, calls, pipelineCalls)))
}

func firstError(results []result) error {
	for _, r := range results {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// pipelineCalls bounds a pipeline, in commands.
const pipelineCalls = 512

const (
	// pieceLen bounds the indices of one script call, which blocks Redis for
	// some 0.2 µs each.
	pieceLen = 2_000
	// piecesAtOnce bounds the calls of one round trip, during which Redis answers no other client: some
	// 2 ms if the pieces are whole.
	piecesAtOnce = 5
)

// Push appends segments and answers in order. A long segment goes in pieces, each
// after the one before has arrived; when one fails the rest of the segment is dropped.
// After an error the list may hold some of the segment, each index once: it is never
// to be pushed again. Errors: model.ErrLifeChanged, model.ErrListFull,
// model.ErrNotAboveHighWater, also for what was repeated after a lost answer,
// *model.StoreError.
func (s *Store) Push(ctx context.Context, reqs []model.PushRequest) []error {
	errs := make([]error, len(reqs))
	var todo []int // the requests of which a piece is left
	for i, r := range reqs {
		if seg := r.Segment; seg.First < 1 || seg.Last < seg.First || seg.Last > model.MaxIndex || r.Life == "" {
			errs[i] = explain("push", fmt.Errorf("%w: segment %d…%d of list %s, life %q",
				model.ErrInvalidArgument, seg.First, seg.Last, r.Key, r.Life))
			continue
		}
		todo = append(todo, i)
	}
	for offset := int64(0); len(todo) > 0; offset += pieceLen {
		calls := make([]call, len(todo))
		for j, i := range todo {
			r, first := reqs[i], reqs[i].Segment.First+offset
			last := min(first+pieceLen-1, r.Segment.Last)
			// The cap is raised by the pieces that are already there.
			args := []any{s.deploymentID(), r.Life, first, last, r.Cap + offset}
			calls[j] = call{[]string{metaKey(r.Key)}, args}
		}
		var left []int
		for j, result := range s.runParts(ctx, pushScript, calls, piecesAtOnce) {
			i := todo[j]
			errs[i] = pushError("push", result)
			if errs[i] == nil && offset+pieceLen < reqs[i].Segment.Len() {
				left = append(left, i)
			}
		}
		todo = left
	}
	return errs
}

// pushError is what push.lua or sequence_push.lua answers.
func pushError(op string, r result) error {
	refusals := map[string]error{"ok": nil, "life": model.ErrLifeChanged, "highwater": model.ErrNotAboveHighWater,
		"full": model.ErrListFull}
	refusal, known := refusals[r.reply]
	if r.err == nil && known {
		return refusal
	}
	return explain(op, cmp.Or(r.err, fmt.Errorf("%w: push answered %.80q", errMalformed, r.reply)))
}
