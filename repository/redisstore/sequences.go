package redisstore

import (
	"context"
	"strings"

	"shardid/model"
)

// Sequences keeps how far the keys of sections have come. Safe for concurrent use. All calls may
// be repeated: a repeated Next only leaves numbers out.
type Sequences struct{ store *Store }

// Sequences gives those of the deployment, over the connections of the store.
func (s *Store) Sequences() *Sequences { return &Sequences{s} }

func sectionHash(k model.SectionKey) string { return "id.gen.sequence_" + k.String() }

// Place names the servers, and the way to reach them.
func (q *Sequences) Place() string { return q.store.opts.place() }

// Majority says whether Confirm asks those that decide who the master is.
func (q *Sequences) Majority() bool { return q.store.opts.Mode != ModeSingle }

// Confirm gives the life of the server that has the section, asked through a new connection. With
// Sentinel and Cluster it is the one that the majority takes for the master.
func (q *Sequences) Confirm(ctx context.Context, key model.SectionKey) (server string, err error) {
	fresh, err := q.store.reconnect(ctx, sectionHash(key))
	if err != nil {
		return "", err
	}
	defer fresh.Close()
	state := fresh.Sequences().State(ctx, []model.SectionKey{key})[0]
	return state.Server, state.Err
}

// State answers for every section, in order, with a write to each.
func (q *Sequences) State(ctx context.Context, keys []model.SectionKey) []model.SectionState {
	calls := callsFor(keys, q.store.keysPerCall(), sectionHash, q.store.deploymentID())
	results := q.store.runParts(ctx, sectionsScript, calls, pipelineCalls)
	return readAnswers("state of sequences", calls, results, readSection,
		func(err error) model.SectionState { return model.SectionState{Err: err} })
}

// readSection reads a line of what sequence_state.lua returns.
func readSection(_ int, f *fields) model.SectionState {
	const most = model.MaxSequence
	s := model.SectionState{Server: strings.Clone(f.word()), Life: strings.Clone(f.word()),
		Term: f.number(most), Bound: f.number(most)}
	f.bad = f.bad || max(len(s.Server), len(s.Life)) > maxLife
	return s
}

// Next gives numbers, and answers in order. Asks of one key are answered in order.
func (q *Sequences) Next(ctx context.Context, asks []model.SectionAsk) []model.SectionAnswer {
	parts := q.parts(asks)
	calls := make([]call, len(parts))
	for i, part := range parts {
		c := call{make([]string, len(part)), []any{q.store.deploymentID(), part[0].Server}}
		for j := range part { // pointers, as an interface of a value is a copy on the heap
			a := &part[j]
			c.keys[j] = sectionHash(a.Key)
			c.args = append(c.args, &a.Term, len(a.Asks))
			for k := range a.Asks {
				c.args = append(c.args, &a.Asks[k].Key, &a.Asks[k].Count)
			}
		}
		calls[i] = c
	}
	results := q.store.runParts(ctx, numbersScript, calls, pipelineCalls)
	return readAnswers("give numbers", calls, results,
		func(at int, line *fields) model.SectionAnswer { return readNumbers(asks[at].Asks, line) },
		func(err error) model.SectionAnswer { return model.SectionAnswer{Err: err} })
}

// parts cuts asks into calls: one has one life only, and not too many keys, as it blocks Redis.
func (q *Sequences) parts(asks []model.SectionAsk) (parts [][]model.SectionAsk) {
	const most = 512 // keys, some 300 µs
	from, keys := 0, 0
	for i, a := range asks {
		if i > from && (a.Server != asks[from].Server || i-from == q.store.keysPerCall() || keys+len(a.Asks) > most) {
			parts, from, keys = append(parts, asks[from:i]), i, 0
		}
		keys += len(a.Asks)
	}
	if from < len(asks) {
		parts = append(parts, asks[from:])
	}
	return parts
}

// readNumbers reads a line of what sequence_next.lua returns. It is a tripwire, too: no number is above the
// bound.
func readNumbers(asks []model.KeyAsk, f *fields) model.SectionAnswer {
	if f.rest == "-" {
		f.rest = ""
		return model.SectionAnswer{Dry: true}
	}
	a := model.SectionAnswer{Bound: f.number(model.MaxSequence), Last: make([]int64, len(asks))}
	for i, ask := range asks {
		a.Last[i] = model.NoNumber
		if rest, none := strings.CutPrefix(f.rest, "-"); none {
			f.rest = strings.TrimPrefix(rest, " ")
			continue
		}
		a.Last[i] = f.number(a.Bound)
		f.bad = f.bad || a.Last[i] < ask.Count
	}
	return a
}

// Push gives sections more numbers, and answers in order: nil, model.ErrLifeChanged, or
// model.ErrNotAboveHighWater for numbers that come after higher ones.
func (q *Sequences) Push(ctx context.Context, pushes []model.SectionPush) []error {
	errs, calls := make([]error, len(pushes)), make([]call, len(pushes))
	for i, p := range pushes {
		args := []any{q.store.deploymentID(), p.Life, p.Term, p.Segment.First - 1, p.Segment.Last}
		calls[i] = call{[]string{sectionHash(p.Key)}, args}
	}
	for i, r := range q.store.runParts(ctx, pushNumbersScript, calls, pipelineCalls) {
		errs[i] = pushError("push numbers", r)
	}
	return errs
}

// Forget drops the sections of a space that was deleted. One that cannot be reached keeps what it
// has, which costs memory only: a later term begins without it. Errors: *model.StoreError.
func (q *Sequences) Forget(ctx context.Context, space model.Space) error {
	calls := make([]call, space.Sections)
	for i := range calls {
		key := model.SectionKey{Space: space.Name, Section: i}
		calls[i] = call{[]string{sectionHash(key)}, []any{q.store.deploymentID()}}
	}
	return explain("forget a space", firstError(q.store.runParts(ctx, forgetScript, calls, pipelineCalls)))
}
