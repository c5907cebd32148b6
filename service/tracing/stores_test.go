package tracing

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"
)

// stores answers every call with what the test wants, and notes what it was asked.
type stores struct {
	err   error
	asked []any
}

func (s *stores) note(args ...any) { s.asked = args }

func (s *stores) Pop(_ context.Context, key model.ListKey, n int) (model.Popped, error) {
	s.note(key, n)
	return model.Popped{Indices: []int64{7, 8}, Len: 3}, s.err
}

func (s *stores) State(_ context.Context, keys []model.ListKey) []model.ListState {
	s.note(keys)
	return []model.ListState{{Len: 1}, {Err: s.err}}
}

func (s *stores) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	return s.State(ctx, keys)
}

func (s *stores) Mark(_ context.Context, reqs []model.MarkRequest) []error {
	s.note(reqs)
	return []error{nil, s.err}
}

func (s *stores) Push(_ context.Context, reqs []model.PushRequest) []error {
	s.note(reqs)
	return []error{nil, s.err}
}

func (s *stores) Delete(_ context.Context, keys []model.ListKey) error { s.note(keys); return s.err }

func (s *stores) TryLock(_ context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	s.note(names, token, ttl)
	return []bool{true, false}, s.err
}

func (s *stores) Unlock(_ context.Context, names []string, token string) error {
	s.note(names, token)
	return s.err
}

func (s *stores) Allocate(_ context.Context, reqs []model.AllocRequest) []model.Allocation {
	s.note(reqs)
	return []model.Allocation{{Lifted: 1}, {Err: s.err}}
}

func (s *stores) Settle(_ context.Context, reqs []model.AllocRequest) []model.Allocation {
	s.note(reqs)
	return []model.Allocation{{Lifted: 2}, {Err: s.err}}
}

func (s *stores) Load(context.Context) ([]model.ListConfig, error) {
	s.note()
	return make([]model.ListConfig, 64), s.err
}

func (s *stores) AllocateTag(_ context.Context, req model.TagRequest) (model.TagSegment, error) {
	s.note(req)
	return model.TagSegment{First: 1, End: 2001}, s.err
}

func (s *stores) Tags(context.Context) ([]model.Tag, error) {
	s.note()
	return make([]model.Tag, 2), s.err
}

func (s *stores) Acquire(_ context.Context, owner model.Owner) (model.Lease, error) {
	s.note(owner)
	return model.Lease{WorkerID: 5}, s.err
}

func (s *stores) Renew(_ context.Context, lease model.Lease) (model.Lease, error) {
	s.note(lease)
	return model.Lease{WorkerID: 5, Reserved: 9}, s.err
}

func (s *stores) Release(_ context.Context, lease model.Lease) error { s.note(lease); return s.err }

func (s *stores) Peers(context.Context) ([]model.WorkerPeer, error) {
	s.note()
	return make([]model.WorkerPeer, 3), s.err
}

func (s *stores) RegisterNode(_ context.Context, start model.NodeStart) (model.Node, error) {
	s.note(start)
	return model.Node{WorkerID: 6}, s.err
}

func (s *stores) MarkNode(_ context.Context, node model.Node, until int64) error {
	s.note(node, until)
	return s.err
}

// observed are the stores of one Tracer.
type observed struct {
	queue.Lists
	queue.Locker
	queue.Allocator
	queue.Catalogue
	segment.Table
	worker.Registry
	uid.Nodes
}

func observe(t *Tracer, s *stores) observed {
	return observed{
		t.Lists("l", s), t.Locker("k", s), t.Allocator("a", s), t.Catalogue("c", s), t.Table("t", s), t.Registry("r", s), t.Nodes("n", s),
	}
}

// call is one method of a store: its span, what is given to it, and what the store
// answers.
type call struct {
	name, store string
	given       []any
	call        func(context.Context, observed) []any
}

func calls() []call {
	key, keys, names := model.ListKey{App: 1, Shard: 2}, []model.ListKey{{App: 1, Shard: 2}, {App: 3}}, []string{"1_2", "3_0"}
	pushes, allocs := []model.PushRequest{{Key: key, Cap: 4}, {}}, []model.AllocRequest{{Key: key, Floor: 4}, {}}
	marks := []model.MarkRequest{{Key: key, Index: 4}, {}}
	tag, owner, lease := model.TagRequest{Tag: "orders", Step: 3}, model.Owner{Address: "10.0.0.1:1"}, model.Lease{WorkerID: 5}
	start, node := model.NodeStart{Token: "x"}, model.Node{WorkerID: 6}
	return []call{
		{"pop", "l", []any{key, 9}, func(c context.Context, o observed) []any { return two(o.Pop(c, key, 9)) }},
		{"state", "l", []any{keys}, func(c context.Context, o observed) []any { return []any{o.State(c, keys)} }},
		{"probe", "l", []any{keys}, func(c context.Context, o observed) []any { return []any{o.Probe(c, keys)} }},
		{"mark", "l", []any{marks}, func(c context.Context, o observed) []any { return []any{o.Mark(c, marks)} }},
		{"push", "l", []any{pushes}, func(c context.Context, o observed) []any { return []any{o.Push(c, pushes)} }},
		{"delete", "l", []any{keys}, func(c context.Context, o observed) []any { return []any{o.Delete(c, keys)} }},
		{"lock", "k", []any{names, "token", time.Second}, func(c context.Context, o observed) []any { return two(o.TryLock(c, names, "token", time.Second)) }},
		{"unlock", "k", []any{names, "token"}, func(c context.Context, o observed) []any { return []any{o.Unlock(c, names, "token")} }},
		{"allocate", "a", []any{allocs}, func(c context.Context, o observed) []any { return []any{o.Allocate(c, allocs)} }},
		{"settle", "a", []any{allocs}, func(c context.Context, o observed) []any { return []any{o.Settle(c, allocs)} }},
		{"catalogue load", "c", nil, func(c context.Context, o observed) []any { return two(o.Load(c)) }},
		{"segment load", "t", []any{tag}, func(c context.Context, o observed) []any { return two(o.AllocateTag(c, tag)) }},
		{"tags load", "t", nil, func(c context.Context, o observed) []any { return two(o.Tags(c)) }},
		{"lease acquire", "r", []any{owner}, func(c context.Context, o observed) []any { return two(o.Acquire(c, owner)) }},
		{"lease renew", "r", []any{lease}, func(c context.Context, o observed) []any { return two(o.Renew(c, lease)) }},
		{"lease release", "r", []any{lease}, func(c context.Context, o observed) []any { return []any{o.Release(c, lease)} }},
		{"lease peers", "r", nil, func(c context.Context, o observed) []any { return two(o.Peers(c)) }},
		{"uid node", "n", []any{start}, func(c context.Context, o observed) []any { return two(o.RegisterNode(c, start)) }},
		{"uid mark", "n", []any{node, int64(11)}, func(c context.Context, o observed) []any { return []any{o.MarkNode(c, node, 11)} }},
	}
}

func two[A any](a A, err error) []any { return []any{a, err} }

// Every call of a store has one span, below that of its context, and is otherwise as
// without it: what is given and what is answered, errors too.
func TestCallsAreObserved(t *testing.T) {
	for _, c := range calls() {
		for _, err := range []error{nil, errAway} {
			tracer, spans := recording()
			s := &stores{err: err}
			ctx, stop := parented(t, tracer)
			got := c.call(ctx, observe(tracer, s))
			span := only(t, spans)
			stop()
			wantSpan(t, span, c.name, c.store, err)
			if parent := only(t, spans); span.Parent.SpanID() != parent.SpanContext.SpanID() {
				t.Errorf("%s is not below its parent", c.name)
			}
			if len(s.asked) != len(c.given) || len(c.given) > 0 && !reflect.DeepEqual(s.asked, c.given) {
				t.Errorf("%s: asked %v, want %v", c.name, s.asked, c.given)
			}
			if want := c.call(ctx, observe(nil, s)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: answered %v, want %v", c.name, got, want)
			}
		}
	}
}

// When tracing is off nothing is wrapped.
func TestNothingIsWrappedWhenOff(t *testing.T) {
	s := &stores{}
	o := observe(nil, s)
	for i, got := range []any{o.Lists, o.Locker, o.Allocator, o.Catalogue, o.Table, o.Registry, o.Nodes} {
		if got != any(s) {
			t.Errorf("store %d is %T", i, got)
		}
	}
}

// The steps of a refill pass are below it, and what they tell is right.
func TestRefillPass(t *testing.T) {
	tracer, spans := recording()
	o := observe(tracer, &stores{})
	ctx, end := tracer.Refill(t.Context(), 2)
	_, lockErr := o.TryLock(ctx, []string{"1_2", "3_0"}, "x", time.Second)
	_, popErr := o.Pop(ctx, model.ListKey{App: 1, Shard: 2}, 9)
	end()
	all := spans.GetSpans()
	if len(all) != 3 || errors.Join(lockErr, popErr) != nil {
		t.Fatalf("%d spans, %v, %v", len(all), lockErr, popErr)
	}
	lock, pop, pass := all[0], all[1], all[2]
	if pass.Name != "refill" || value(pass, listsKey) != int64(2) || pass.Parent.IsValid() {
		t.Errorf("pass %+v", pass)
	}
	for _, step := range []struct{ got, want any }{
		{lock.Parent.SpanID(), pass.SpanContext.SpanID()}, {value(lock, listsKey), int64(2)}, {value(lock, gotKey), int64(1)},
		{value(pop, appKey), int64(1)}, {value(pop, shardKey), int64(2)}, {value(pop, countKey), int64(9)}, {value(pop, gotKey), int64(2)},
	} {
		if step.got != step.want {
			t.Errorf("got %v, want %v", step.got, step.want)
		}
	}
}
