package tracing

import (
	"context"
	"time"

	"shardid/model"
	"shardid/service/queue"

	"go.opentelemetry.io/otel/attribute"
)

// What the spans of the queue mode tell.
const (
	appKey   = attribute.Key("shardid.app")
	shardKey = attribute.Key("shardid.shard")
	listsKey = attribute.Key("shardid.lists") // how many a call is for
	countKey = attribute.Key("shardid.count") // indices that are asked for
	gotKey   = attribute.Key("shardid.got")   // of those
	stepKey  = attribute.Key("shardid.step")  // IDs of a segment that was taken
)

// Refill begins the span of a refill pass, whose steps are those of what is asked of
// the stores with the context that it returns.
func (t *Tracer) Refill(ctx context.Context, lists int) (context.Context, func()) {
	ctx, span := t.tracer.Start(ctx, "refill")
	span.SetAttributes(listsKey.Int(lists))
	return ctx, func() { span.End() }
}

// Lists observes a store of lists.
func (t *Tracer) Lists(store string, next queue.Lists) queue.Lists {
	if t == nil {
		return next
	}
	return lists{t, store, next}
}

type lists struct {
	*Tracer
	store string
	next  queue.Lists
}

func (l lists) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	ctx, span := l.begin(ctx, "pop", l.store, appKey.Int(int(key.App)), shardKey.Int(int(key.Shard)), countKey.Int(n))
	p, err := l.next.Pop(ctx, key, n)
	span.SetAttributes(gotKey.Int(len(p.Indices)))
	end(span, err)
	return p, err
}

func (l lists) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	ctx, span := l.begin(ctx, "state", l.store, listsKey.Int(len(keys)))
	states := l.next.State(ctx, keys)
	end(span, first(states, func(s model.ListState) error { return s.Err }))
	return states
}

func (l lists) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	ctx, span := l.begin(ctx, "probe", l.store, listsKey.Int(len(keys)))
	states := l.next.Probe(ctx, keys)
	end(span, first(states, func(s model.ListState) error { return s.Err }))
	return states
}

func (l lists) Mark(ctx context.Context, reqs []model.MarkRequest) []error {
	ctx, span := l.begin(ctx, "mark", l.store, listsKey.Int(len(reqs)))
	errs := l.next.Mark(ctx, reqs)
	end(span, first(errs, func(err error) error { return err }))
	return errs
}

func (l lists) Push(ctx context.Context, reqs []model.PushRequest) []error {
	ctx, span := l.begin(ctx, "push", l.store, listsKey.Int(len(reqs)))
	errs := l.next.Push(ctx, reqs)
	end(span, first(errs, func(err error) error { return err }))
	return errs
}

func (l lists) Delete(ctx context.Context, keys []model.ListKey) error {
	ctx, span := l.begin(ctx, "delete", l.store, listsKey.Int(len(keys)))
	err := l.next.Delete(ctx, keys)
	end(span, err)
	return err
}

// Locker observes a store of locks.
func (t *Tracer) Locker(store string, next queue.Locker) queue.Locker {
	if t == nil {
		return next
	}
	return locker{t, store, next}
}

type locker struct {
	*Tracer
	store string
	next  queue.Locker
}

func (l locker) TryLock(ctx context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	ctx, span := l.begin(ctx, "lock", l.store, listsKey.Int(len(names)))
	got, err := l.next.TryLock(ctx, names, token, ttl)
	held := 0
	for _, ok := range got {
		if ok {
			held++
		}
	}
	span.SetAttributes(gotKey.Int(held))
	end(span, err)
	return got, err
}

func (l locker) Unlock(ctx context.Context, names []string, token string) error {
	ctx, span := l.begin(ctx, "unlock", l.store, listsKey.Int(len(names)))
	err := l.next.Unlock(ctx, names, token)
	end(span, err)
	return err
}

// Allocator observes a store of segments.
func (t *Tracer) Allocator(store string, next queue.Allocator) queue.Allocator {
	if t == nil {
		return next
	}
	return allocator{t, store, next}
}

type allocator struct {
	*Tracer
	store string
	next  queue.Allocator
}

func (a allocator) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	ctx, span := a.begin(ctx, "allocate", a.store, listsKey.Int(len(reqs)))
	out := a.next.Allocate(ctx, reqs)
	end(span, first(out, failure))
	return out
}

func (a allocator) Settle(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	ctx, span := a.begin(ctx, "settle", a.store, listsKey.Int(len(reqs)))
	out := a.next.Settle(ctx, reqs)
	end(span, first(out, failure))
	return out
}

func failure(a model.Allocation) error { return a.Err }

// Catalogue observes the store of the apps and shards.
func (t *Tracer) Catalogue(store string, next queue.Catalogue) queue.Catalogue {
	if t == nil {
		return next
	}
	return catalogue{t, store, next}
}

type catalogue struct {
	*Tracer
	store string
	next  queue.Catalogue
}

func (c catalogue) Load(ctx context.Context) ([]model.ListConfig, error) {
	ctx, span := c.begin(ctx, "catalogue load", c.store)
	all, err := c.next.Load(ctx)
	span.SetAttributes(gotKey.Int(len(all)))
	end(span, err)
	return all, err
}
