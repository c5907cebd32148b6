package observe

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// fake is a store of everything: it answers every call, fails with err, and notes what it
// was asked.
type fake struct {
	err   error
	asked []any
}

func (f *fake) note(args ...any) error { f.asked = args; return f.err }

func (f *fake) Pop(_ context.Context, key model.ListKey, n int) (model.Popped, error) {
	return model.Popped{Indices: []int64{7, 8}, Len: 3}, f.note(key, n)
}
func (f *fake) State(_ context.Context, keys []model.ListKey) []model.ListState {
	return []model.ListState{{Len: 1}, {Err: f.note(keys)}}
}
func (f *fake) Probe(_ context.Context, keys []model.ListKey) []model.ListState {
	return []model.ListState{{Len: 2}, {Err: f.note(keys)}}
}
func (f *fake) Push(_ context.Context, r []model.PushRequest) []error { return []error{f.note(r), nil} }
func (f *fake) Delete(_ context.Context, keys []model.ListKey) error  { return f.note(keys) }
func (f *fake) TryLock(_ context.Context, names []string, token string, ttl time.Duration) ([]bool, error) {
	return []bool{true, false}, f.note(names, token, ttl)
}
func (f *fake) Unlock(_ context.Context, names []string, token string) error {
	return f.note(names, token)
}
func (f *fake) Allocate(_ context.Context, r []model.AllocRequest) []model.Allocation {
	return []model.Allocation{{Lifted: 1}, {Err: f.note(r)}}
}
func (f *fake) Load(context.Context) ([]model.ListConfig, error) {
	return make([]model.ListConfig, 64), f.note()
}
func (f *fake) AllocateTag(_ context.Context, req model.TagRequest) (model.TagSegment, error) {
	return model.TagSegment{First: 1, End: 2001}, f.note(req)
}
func (f *fake) TagsAfter(_ context.Context, name string) ([]model.Tag, string, error) {
	return make([]model.Tag, 2), "z", f.note(name)
}
func (f *fake) TagsNamed(_ context.Context, names []string) ([]model.Tag, error) {
	return make([]model.Tag, 2), f.note(names)
}
func (f *fake) Acquire(_ context.Context, owner model.Owner) (model.Lease, error) {
	return model.Lease{WorkerID: 5}, f.note(owner)
}
func (f *fake) Renew(_ context.Context, lease model.Lease) (model.Lease, error) {
	return model.Lease{WorkerID: 5, Reserved: 9}, f.note(lease)
}
func (f *fake) Release(_ context.Context, lease model.Lease) error { return f.note(lease) }
func (f *fake) Peers(context.Context) ([]model.WorkerPeer, error) {
	return make([]model.WorkerPeer, 3), f.note()
}
func (f *fake) RegisterNode(_ context.Context, start model.NodeStart) (model.Node, error) {
	return model.Node{WorkerID: 6}, f.note(start)
}
func (f *fake) MarkNode(_ context.Context, node model.Node, until int64) error {
	return f.note(node, until)
}

// stores are those that a process has.
type stores struct {
	queue.Lists
	queue.Locker
	queue.Allocator
	queue.Catalogue
	segment.Table
	worker.Registry
	uid.Nodes
}

// decorated is f as each of the stores, under the name "s".
func decorated(o *Stores, f *fake) stores {
	return stores{
		o.Lists("s", f), o.Locker("s", f), o.Allocator("s", f), o.Catalogue("s", f),
		o.Table("s", f), o.Registry("s", f), o.Nodes("s", f),
	}
}

// recording is a Tracer that keeps its spans.
func recording() (*Tracer, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	return &Tracer{provider: provider, tracer: provider.Tracer("test")}, spans
}

// values are the attributes of a span.
func values(span tracetest.SpanStub) map[attribute.Key]any {
	all := map[attribute.Key]any{}
	for _, a := range span.Attributes {
		all[a.Key] = a.Value.AsInterface()
	}
	return all
}

// Every call of a store has one span below that of its context, and is timed and counted
// under its operation. Its arguments, answer and error are as without a decorator, also
// when tracing is off.
func TestCallsAreObserved(t *testing.T) {
	type attrs = map[attribute.Key]any
	key, keys := model.ListKey{App: 1, Shard: 2}, []model.ListKey{{App: 1, Shard: 2}, {App: 3}}
	names, tag := []string{"1_2", "3_0"}, model.TagRequest{Tag: "orders", Step: 3}
	pushes, allocs := []model.PushRequest{{Key: key, Cap: 4}, {}}, []model.AllocRequest{{Key: key, Floor: 4}, {}}
	owner, lease := model.Owner{Address: "10.0.0.1:1"}, model.Lease{WorkerID: 5}
	start, node := model.NodeStart{Token: "x"}, model.Node{WorkerID: 6}
	for _, c := range []struct {
		method, span, operation string // operation "": the call has no metrics
		attrs                   attrs  // beside the store's
		given                   []any
	}{
		{"Pop", "pop", "pop", attrs{appKey: int64(1), shardKey: int64(2), countKey: int64(9), gotKey: int64(2)},
			[]any{key, 9}},
		{"State", "state", "state", attrs{listsKey: int64(2)}, []any{keys}},
		{"Probe", "probe", "state", attrs{listsKey: int64(2)}, []any{keys}},
		{"Push", "push", "push", attrs{listsKey: int64(2)}, []any{pushes}},
		{"Delete", "delete", "delete", attrs{listsKey: int64(2)}, []any{keys}},
		{"TryLock", "lock", "", attrs{listsKey: int64(2), gotKey: int64(1)}, []any{names, "token", time.Second}},
		{"Unlock", "unlock", "", attrs{listsKey: int64(2)}, []any{names, "token"}},
		{"Allocate", "allocate", "allocate", attrs{listsKey: int64(2)}, []any{allocs}},
		{"Load", "catalogue load", "load", attrs{gotKey: int64(64)}, nil},
		{"AllocateTag", "segment load", "allocate_tag", attrs{tagKey: "orders", stepKey: int64(2000)}, []any{tag}},
		{"TagsAfter", "tags load", "tags", attrs{gotKey: int64(2)}, []any{"a"}},
		{"TagsNamed", "tags load", "tags", attrs{gotKey: int64(2)}, []any{names}},
		{"Acquire", "lease acquire", "acquire_worker", attrs{workerKey: int64(5)}, []any{owner}},
		{"Renew", "lease renew", "renew_worker", attrs{workerKey: int64(5)}, []any{lease}},
		{"Release", "lease release", "release_worker", attrs{workerKey: int64(5)}, []any{lease}},
		{"Peers", "lease peers", "", attrs{gotKey: int64(3)}, nil},
		{"RegisterNode", "uid node", "register_node", attrs{workerKey: int64(6)}, []any{start}},
		{"MarkNode", "uid mark", "mark_node", attrs{workerKey: int64(6)}, []any{node, int64(11)}},
	} {
		call := func(ctx context.Context, s stores) (results []any) {
			in := []reflect.Value{reflect.ValueOf(ctx)}
			for _, arg := range c.given {
				in = append(in, reflect.ValueOf(arg))
			}
			for _, out := range reflect.ValueOf(s).MethodByName(c.method).Call(in) {
				results = append(results, out.Interface())
			}
			return results
		}
		c.attrs[storeKey] = "s"
		away := &model.StoreError{Store: "s", Err: errors.New("connection refused")}
		for err, failures := range map[error]int64{nil: 0, model.ErrLimitReached: 0, away: 1} {
			tracer, spans := recording()
			ctx, parent := tracer.tracer.Start(t.Context(), "parent")
			f := &fake{err: err}
			want := call(ctx, stores{f, f, f, f, f, f, f})
			for _, observed := range []*Stores{NewStores(tracer), NewStores(nil)} {
				f.asked = nil
				got := call(ctx, decorated(observed, f))
				if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(f.asked, c.given) {
					t.Errorf("%s: %v of %v, want %v of %v", c.span, got, f.asked, want, c.given)
				}
				for _, o := range observed.operations {
					calls, failed := int64(0), int64(0)
					if o.name == c.operation {
						calls, failed = 1, failures
					}
					if n := o.took.Read().Count(); n != calls || o.failed.Load() != failed || o.store != "s" {
						t.Errorf("%s, %v: %d calls of %s, %d failed", c.span, err, n, o.name, o.failed.Load())
					}
				}
			}
			if len(spans.GetSpans()) != 1 {
				t.Fatalf("%s: %d spans", c.span, len(spans.GetSpans()))
			}
			span := spans.GetSpans()[0]
			if span.Name != c.span || span.Parent.SpanID() != parent.SpanContext().SpanID() ||
				!reflect.DeepEqual(values(span), c.attrs) {
				t.Errorf("%s: %q with %v, want %v", c.span, span.Name, values(span), c.attrs)
			}
			if status := span.Status; (status.Code == codes.Error) != (err != nil) ||
				err != nil && !strings.Contains(status.Description, err.Error()) {
				t.Errorf("%s: %+v, want %v", c.span, status, err)
			}
			parent.End()
		}
	}
}

// A call for several lists has failed when the store could not be used for any of them,
// whatever the first error.
func TestAnyListFails(t *testing.T) {
	tracer, spans := recording()
	d := decorate(NewStores(tracer), "s", 0, "push")
	_, c := d.begin(t.Context(), "push", "push")
	finishEach(c, []error{nil, model.ErrListFull, &model.StoreError{}, &model.StoreError{}}, itself)
	status := spans.GetSpans()[0].Status
	if n := d.operations[0].failed.Load(); n != 1 || status.Description != "one of 4: "+model.ErrListFull.Error() {
		t.Errorf("%d failed, %+v", n, status)
	}
}

// The steps of a refill pass are below it.
func TestRefillPass(t *testing.T) {
	tracer, spans := recording()
	ctx, end := tracer.Refill(t.Context(), 2)
	err := NewStores(tracer).Locker("s", &fake{}).Unlock(ctx, nil, "")
	end()
	all := spans.GetSpans()
	if len(all) != 2 || err != nil || all[1].Name != "refill" || values(all[1])[listsKey] != int64(2) ||
		all[1].Parent.IsValid() || all[0].Parent.SpanID() != all[1].SpanContext.SpanID() {
		t.Errorf("%+v, %v", all, err)
	}
}

// instant is a store of lists that answers at once.
type instant struct{ queue.Lists }

func (instant) Pop(context.Context, model.ListKey, int) (p model.Popped, err error) { return p, err }

func BenchmarkCall(b *testing.B) {
	provider := func(ratio float64) *Tracer {
		return &Tracer{tracer: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler(ratio))).Tracer("test")}
	}
	tracers := map[string]*Tracer{"off": nil, "not recorded": provider(0), "recorded": provider(1)}
	for name, tracer := range tracers {
		b.Run(name, func(b *testing.B) {
			l, ctx := NewStores(tracer).Lists("s", instant{}), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = l.Pop(ctx, model.ListKey{App: 1, Shard: 2}, 9)
			}
		})
	}
}
