// Package observe exports Prometheus metrics and OpenTelemetry spans. The services know
// nothing of it: their counters are read where they are, and their stores are decorated
// while they are wired.
//
//	stores.go     one decorator per store interface: span, latency and errors together
//	metrics.go    the text of /metrics
//	tracing.go    spans of requests, and the sender of all spans
//
// The number of series is bounded: no label has a value that a caller chose. No span holds
// a gatePass, a token or an ID.
package observe

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/latency"
	"shardid/service/lease"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Names of the stores in metrics and spans.
const (
	Database  = "database"
	Redis     = "redis"
	Memory    = "memory" // lists in the process
	ZooKeeper = "zookeeper"
	File      = "file" // a file that maps addresses to worker IDs
)

// Attributes of the spans of stores.
const (
	storeKey  = attribute.Key("shardid.store") // a name of the above
	appKey    = attribute.Key("shardid.app")
	shardKey  = attribute.Key("shardid.shard")
	listsKey  = attribute.Key("shardid.lists") // how many lists a call is for
	countKey  = attribute.Key("shardid.count") // indices asked for
	gotKey    = attribute.Key("shardid.got")   // indices, locks or rows received
	tagKey    = attribute.Key("shardid.tag")
	stepKey   = attribute.Key("shardid.step") // IDs of an allocated segment
	workerKey = attribute.Key("shardid.worker_id")
)

// Stores decorates stores: every call gets a span when tracing is on, and most are timed and
// their failures counted. All stores are decorated before the metrics are first read.
type Stores struct {
	tracer     *Tracer
	operations []*operation
}

// NewStores has no stores yet. tracer is nil when tracing is off.
func NewStores(tracer *Tracer) *Stores { return &Stores{tracer: tracer} }

// operation counts one kind of call of one store. Safe for concurrent use.
type operation struct {
	store, name string
	took        latency.Histogram
	failed      atomic.Int64
}

// call is a call of a store in progress.
type call struct {
	op    *operation // nil for a call without metrics
	span  trace.Span // nil when tracing is off
	began time.Time
}

// observed is what all decorators share: a store, and those of its calls that have metrics.
type observed[T any] struct {
	tracer     *Tracer
	store      string
	next       T
	operations []*operation
}

// decorate adds the operations of a store to the metrics.
func decorate[T any](s *Stores, store string, next T, operations ...string) observed[T] {
	d := observed[T]{s.tracer, store, next, nil}
	for _, name := range operations {
		d.operations = append(d.operations, &operation{store: store, name: name})
	}
	s.operations = append(s.operations, d.operations...)
	return d
}

// attr is an attribute of a span. OpenTelemetry's, which are larger, are only made for a
// span that is recorded.
type attr struct {
	key   attribute.Key
	value int
}

func keyValues(attrs []attr) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attrs), len(attrs)+1) // and the store
	for i, a := range attrs {
		all[i] = a.key.Int(a.value)
	}
	return all
}

// begin starts the span of a call, and its clock when it is one of an operation, "" for none.
func (d *observed[T]) begin(ctx context.Context, operation, span string, attrs ...attr) (context.Context, call) {
	var c call
	for _, o := range d.operations {
		if o.name == operation {
			c.op = o
		}
	}
	if d.tracer != nil {
		ctx, c.span = d.tracer.tracer.Start(ctx, span, trace.WithSpanKind(trace.SpanKindClient))
		if c.span.IsRecording() {
			c.span.SetAttributes(append(keyValues(attrs), storeKey.String(d.store))...)
		}
	}
	if c.op != nil {
		c.began = time.Now()
	}
	return ctx, c
}

// finish ends the span, records err and returns it. In the metrics a call failed when the
// store could not be used; other errors, such as a limit that is reached, are answers.
func (c call) finish(err error, attrs ...attr) error {
	c.end(err, isAway(err), attrs)
	return err
}

// finishEach is finish for a call that answers for each of several lists, and returns the
// answers. The span has the first error; in the metrics the call failed when the store could
// not be used for any of the lists.
func finishEach[T any](c call, answers []T, failure func(*T) error) []T {
	var first error
	away := false
	for i := range answers {
		err := failure(&answers[i])
		if first == nil && err != nil {
			first = err
		}
		away = away || isAway(err)
	}
	if first != nil && c.span != nil {
		first = fmt.Errorf("one of %d: %w", len(answers), first)
	}
	c.end(first, away, nil)
	return answers
}

// end is what finish and finishEach share; away says whether the store could not be used.
func (c call) end(err error, away bool, attrs []attr) {
	if c.op != nil {
		c.op.took.Observe(time.Since(c.began))
		if away {
			c.op.failed.Add(1)
		}
	}
	if c.span == nil {
		return
	}
	if len(attrs) > 0 && c.span.IsRecording() {
		c.span.SetAttributes(keyValues(attrs)...)
	}
	if err != nil {
		c.span.SetStatus(codes.Error, clip(err.Error()))
	}
	c.span.End()
}

func isAway(err error) bool {
	_, away := errors.AsType[*model.StoreError](err)
	return away
}

func itself(err *error) error                { return *err }
func ofState(s *model.ListState) error       { return s.Err }
func ofAllocation(a *model.Allocation) error { return a.Err }

type lists struct{ observed[queue.Lists] }

// Lists decorates a store of lists.
func (s *Stores) Lists(store string, next queue.Lists) queue.Lists {
	return &lists{decorate(s, store, next, "pop", "state", "push", "delete")}
}

func (l *lists) Pop(ctx context.Context, key model.ListKey, n int) (model.Popped, error) {
	ctx, c := l.begin(ctx, "pop", "pop",
		attr{appKey, int(key.App)}, attr{shardKey, int(key.Shard)}, attr{countKey, n})
	p, err := l.next.Pop(ctx, key, n)
	return p, c.finish(err, attr{gotKey, len(p.Indices)})
}

func (l *lists) State(ctx context.Context, keys []model.ListKey) []model.ListState {
	ctx, c := l.begin(ctx, "state", "state", attr{listsKey, len(keys)})
	return finishEach(c, l.next.State(ctx, keys), ofState)
}

// Probe counts as a state.
func (l *lists) Probe(ctx context.Context, keys []model.ListKey) []model.ListState {
	ctx, c := l.begin(ctx, "state", "probe", attr{listsKey, len(keys)})
	return finishEach(c, l.next.Probe(ctx, keys), ofState)
}

func (l *lists) Push(ctx context.Context, reqs []model.PushRequest) []error {
	ctx, c := l.begin(ctx, "push", "push", attr{listsKey, len(reqs)})
	return finishEach(c, l.next.Push(ctx, reqs), itself)
}

func (l *lists) Delete(ctx context.Context, keys []model.ListKey) error {
	ctx, c := l.begin(ctx, "delete", "delete", attr{listsKey, len(keys)})
	return c.finish(l.next.Delete(ctx, keys))
}

type locker struct{ observed[queue.Locker] }

// Locker decorates a store of locks, whose calls have spans only.
func (s *Stores) Locker(store string, next queue.Locker) queue.Locker {
	if s.tracer == nil {
		return next
	}
	return &locker{decorate(s, store, next)}
}

func (l *locker) TryLock(
	ctx context.Context, names []string, token string, ttl time.Duration,
) ([]bool, error) {
	ctx, c := l.begin(ctx, "", "lock", attr{listsKey, len(names)})
	got, err := l.next.TryLock(ctx, names, token, ttl)
	held := 0
	for _, ok := range got {
		if ok {
			held++
		}
	}
	return got, c.finish(err, attr{gotKey, held})
}

func (l *locker) Unlock(ctx context.Context, names []string, token string) error {
	ctx, c := l.begin(ctx, "", "unlock", attr{listsKey, len(names)})
	return c.finish(l.next.Unlock(ctx, names, token))
}

type allocator struct{ observed[queue.Allocator] }

// Allocator decorates a store of segments.
func (s *Stores) Allocator(store string, next queue.Allocator) queue.Allocator {
	return &allocator{decorate(s, store, next, "allocate")}
}

func (a *allocator) Allocate(ctx context.Context, reqs []model.AllocRequest) []model.Allocation {
	ctx, c := a.begin(ctx, "allocate", "allocate", attr{listsKey, len(reqs)})
	return finishEach(c, a.next.Allocate(ctx, reqs), ofAllocation)
}

type catalogue struct{ observed[queue.Catalogue] }

// Catalogue decorates the store of the apps and shards.
func (s *Stores) Catalogue(store string, next queue.Catalogue) queue.Catalogue {
	return &catalogue{decorate(s, store, next, "load")}
}

func (d *catalogue) Load(ctx context.Context) ([]model.ListConfig, error) {
	ctx, c := d.begin(ctx, "load", "catalogue load")
	all, err := d.next.Load(ctx)
	return all, c.finish(err, attr{gotKey, len(all)})
}

type leases struct{ observed[lease.Store] }

// Leases decorates a store of leases of names.
func (s *Stores) Leases(store string, next lease.Store) lease.Store {
	return &leases{decorate(s, store, next, "lease_grant", "lease_renew", "lease_release")}
}

func (l *leases) GrantLease(ctx context.Context, name, instance string) (model.NameLease, error) {
	ctx, c := l.begin(ctx, "lease_grant", "lease grant")
	got, err := l.next.GrantLease(ctx, name, instance)
	return got, c.finish(err, attr{workerKey, int(got.WorkerID)})
}

func (l *leases) RenewLeases(ctx context.Context, keys []model.LeaseKey) ([]model.RenewedLease, error) {
	ctx, c := l.begin(ctx, "lease_renew", "leases renew", attr{countKey, len(keys)})
	got, err := l.next.RenewLeases(ctx, keys)
	return got, c.finish(err)
}

func (l *leases) ReleaseLease(ctx context.Context, key model.LeaseKey, lastUsed int64) error {
	ctx, c := l.begin(ctx, "lease_release", "lease release", attr{workerKey, int(key.WorkerID)})
	return c.finish(l.next.ReleaseLease(ctx, key, lastUsed))
}

type table struct{ observed[segment.Table] }

// Table decorates a store of tags.
func (s *Stores) Table(store string, next segment.Table) segment.Table {
	return &table{decorate(s, store, next, "allocate_tag", "tags")}
}

func (t *table) AllocateTag(ctx context.Context, req model.TagRequest) (model.TagSegment, error) {
	ctx, c := t.begin(ctx, "allocate_tag", "segment load")
	if c.span != nil {
		c.span.SetAttributes(tagKey.String(req.Tag))
	}
	s, err := t.next.AllocateTag(ctx, req)
	return s, c.finish(err, attr{stepKey, int(s.End - s.First)})
}

func (t *table) TagsAfter(ctx context.Context, name string) ([]model.Tag, string, error) {
	ctx, c := t.begin(ctx, "tags", "tags load")
	tags, last, err := t.next.TagsAfter(ctx, name)
	return tags, last, c.finish(err, attr{gotKey, len(tags)})
}

func (t *table) TagsNamed(ctx context.Context, names []string) ([]model.Tag, error) {
	ctx, c := t.begin(ctx, "tags", "tags load")
	tags, err := t.next.TagsNamed(ctx, names)
	return tags, c.finish(err, attr{gotKey, len(tags)})
}

type registry struct{ observed[worker.Registry] }

// Registry decorates a registry of worker IDs.
func (s *Stores) Registry(store string, next worker.Registry) worker.Registry {
	return &registry{decorate(s, store, next, "acquire_worker", "renew_worker", "release_worker")}
}

func (r *registry) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	ctx, c := r.begin(ctx, "acquire_worker", "lease acquire")
	lease, err := r.next.Acquire(ctx, owner)
	return lease, c.finish(err, attr{workerKey, lease.WorkerID})
}

func (r *registry) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	ctx, c := r.begin(ctx, "renew_worker", "lease renew", attr{workerKey, lease.WorkerID})
	renewed, err := r.next.Renew(ctx, lease)
	return renewed, c.finish(err)
}

func (r *registry) Release(ctx context.Context, lease model.Lease) error {
	ctx, c := r.begin(ctx, "release_worker", "lease release", attr{workerKey, lease.WorkerID})
	return c.finish(r.next.Release(ctx, lease))
}

func (r *registry) Peers(ctx context.Context) ([]model.WorkerPeer, error) {
	ctx, c := r.begin(ctx, "", "lease peers")
	peers, err := r.next.Peers(ctx)
	return peers, c.finish(err, attr{gotKey, len(peers)})
}

type nodes struct{ observed[uid.Nodes] }

// Nodes decorates a store of UID nodes.
func (s *Stores) Nodes(store string, next uid.Nodes) uid.Nodes {
	return &nodes{decorate(s, store, next, "register_node", "mark_node")}
}

func (n *nodes) RegisterNode(ctx context.Context, start model.NodeStart) (model.Node, error) {
	ctx, c := n.begin(ctx, "register_node", "uid node")
	node, err := n.next.RegisterNode(ctx, start)
	return node, c.finish(err, attr{workerKey, int(node.WorkerID)})
}

func (n *nodes) MarkNode(ctx context.Context, node model.Node, until int64) error {
	ctx, c := n.begin(ctx, "mark_node", "uid mark", attr{workerKey, int(node.WorkerID)})
	return c.finish(n.next.MarkNode(ctx, node, until))
}
