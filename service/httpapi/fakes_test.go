package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
	"shardid/service/issuer"
	"shardid/service/metric"
	"shardid/service/segment"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	time.Local = time.FixedZone("Asia/Shanghai", 8*3600)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/javascript", openapi3filter.PlainBodyDecoder)
	goleak.VerifyTestMain(m)
}

// fakeQueue issues 1, 2, 3, … as indices of the list that is asked for, or does
// what next says.
type fakeQueue struct {
	next     func(context.Context) error
	ready    error
	calls    int
	index    int64
	gatePass string
}

func (q *fakeQueue) Next(ctx context.Context, app int, gatePass string, count int, dst []int64) ([]int64, error) {
	q.calls++
	q.gatePass = gatePass
	if q.next != nil {
		if err := q.next(ctx); err != nil {
			return dst, err
		}
	}
	key := model.ListKey{App: uint8(app), Shard: idtext.ShardOf(gatePass)}
	for range count {
		q.index++
		dst = append(dst, key.Compose(q.index))
	}
	return dst, nil
}

func (q *fakeQueue) Ready() error { return q.ready }

// broken is a fakeQueue that answers with err.
func broken(err error) *fakeQueue {
	return &fakeQueue{next: func(context.Context) error { return err }}
}

// conditions are those of two stores, of which some fail.
func conditions(failing ...string) func() []model.Condition {
	var all []model.Condition
	for _, name := range []string{"database", "redis"} {
		c := model.Condition{Name: name, OK: true, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		if slices.Contains(failing, name) {
			c.OK, c.Error = false, "read 10.0.0.1:1->10.0.0.2:2: connection reset"
		}
		all = append(all, c)
	}
	return func() []model.Condition { return slices.Clone(all) }
}

// fakeGenerator issues first, first+1, …, or does what next says.
type fakeGenerator struct {
	next   func(context.Context) error
	first  int64
	calls  int
	issued int64
}

func (g *fakeGenerator) Next(ctx context.Context, count int, dst []int64) ([]int64, error) {
	g.calls++
	if g.next != nil {
		if err := g.next(ctx); err != nil {
			return dst, err
		}
	}
	for range count {
		dst = append(dst, g.first+g.issued)
		g.issued++
	}
	return dst, nil
}

// fakeSegment is a fakeGenerator that notes the tag.
type fakeSegment struct {
	pattern bool // of the tag
	fakeGenerator
	tag string
}

func (s *fakeSegment) Next(ctx context.Context, tag string, count int, dst []int64) ([]int64, error) {
	s.tag = tag
	if s.pattern {
		return dst, model.ErrPattern
	}
	return s.fakeGenerator.Next(ctx, count, dst)
}

// Run issues a run of 100.
func (s *fakeSegment) Run(ctx context.Context, tag string) (first, last int64, err error) {
	ids, err := s.Next(ctx, tag, 100, nil)
	if err != nil {
		return 0, 0, err
	}
	return ids[0], ids[99], nil
}

// Numbers issues the texts no-1, no-2, …
func (s *fakeSegment) Numbers(ctx context.Context, tag string, count int, dst []string) ([]string, error) {
	ids, err := s.fakeGenerator.Next(ctx, count, nil)
	for _, id := range ids {
		dst = append(dst, fmt.Sprintf("no \"%d\"", id))
	}
	return dst, err
}

// fakeModes are the services of one API.
type fakeModes struct {
	segment        fakeSegment
	snowflake, uid fakeGenerator
}

// calls and issued are over the three of them.
func (f *fakeModes) calls() int    { return f.segment.calls + f.snowflake.calls + f.uid.calls }
func (f *fakeModes) issued() int64 { return f.segment.issued + f.snowflake.issued + f.uid.issued }

// failModes makes the three modes answer with err.
func failModes(err error) func(*Options) {
	return func(o *Options) {
		g := &fakeGenerator{next: func(context.Context) error { return err }}
		o.Segment, o.Snowflake, o.UID = &fakeSegment{fakeGenerator: *g}, g, g
	}
}

// disableModes is what the configuration does that has only the queue mode.
func disableModes(o *Options) {
	o.Segment, o.Snowflake, o.UID, o.Modes, o.Segments, o.Tags = nil, nil, nil, o.Modes[:1], nil, nil
}

// newAPI is the API over a queue, with everything else well.
func newAPI(q *fakeQueue) *API {
	api, _ := logging(q, func(*Options) {})
	return api
}

// newAPIOf is the API with something else than testOptions.
func newAPIOf(change func(*Options)) *API {
	api, _ := logging(&fakeQueue{}, change)
	return api
}

// logging is an API and its log.
func logging(q *fakeQueue, change func(*Options)) (*API, *strings.Builder) {
	log := &strings.Builder{}
	opts, _ := testOptions(q, log)
	change(&opts)
	return New(opts), log
}

func testOptions(q *fakeQueue, log io.Writer) (Options, *fakeModes) {
	modes := &fakeModes{snowflake: fakeGenerator{first: 1169786042799259000},
		uid: fakeGenerator{first: 3200169789968523265}}
	modes.segment.first = 1
	store, metrics := &fakeAdmin{}, prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shardid_test"}))
	return Options{
		Issuer: &issuer.Issuer{Queue: q, Segment: &modes.segment, Snowflake: &modes.snowflake, UID: &modes.uid,
			Sequence: &fakeSequence{}, Traffic: issuer.NewTraffic(nil, everyMode)},
		Leases: &fakeLeases{}, Conditions: conditions(),
		Decoder: model.Decoder{
			Snowflake: model.SnowflakeLayout{EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12},
			UID: model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13,
				Epoch: time.Date(2016, 5, 19, 16, 0, 0, 0, time.UTC)},
		},
		Log:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Modes: []Mode{{ModeQueue, q.Ready}, {ModeSegment, well}, {ModeSnowflake, well}, {ModeUID, well}},
		Reads: Reads{Metrics: metrics, Names: store.Names, Spaces: store.Spaces,
			Segments: heldOf(fakeViews()...), Tags: fakeTags, Status: fullStatus, Replicas: fakeReplicas,
			History: fakeHistory},
	}, modes
}

// well is the readiness of a mode that works.
func well() error { return nil }

var loaded = time.Date(2026, 11, 20, 0, 18, 0, 0, time.UTC)

// fakeViews are not in order, one needs escaping, one has IDs beyond 2^53.
func fakeViews() []segment.View {
	return []segment.View{
		{Name: "z", InitOK: true, NextReady: true, Pos: 1, Value0: 2001, Step0: 2000, Max0: 2001, Value1: 2007,
			Step1: 4000, Max1: 6001, Ahead: 1, Held: 3994, Rate: 0.5, Runway: 7988, LastLoad: loaded},
		{Name: `<script>alert("1")</script>`, Runway: 86400},
		{Name: "big", InitOK: true, Value0: 9007199254740993, Step0: 1000, Max0: 9007199254741993, Runway: 86400,
			LastLoad: loaded},
	}
}

// held is what a replica holds of tags, by name.
type held map[string]segment.View

func heldOf(views ...segment.View) held {
	h := held{}
	for _, v := range views {
		h[v.Name] = v
	}
	return h
}

func (h held) Used() []segment.View {
	return slices.SortedFunc(maps.Values(h), func(a, b segment.View) int { return cmp.Compare(a.Name, b.Name) })
}

func (h held) View(row model.Tag) segment.View {
	if v, used := h[row.Name]; used {
		return v
	}
	return segment.View{Name: row.Name, Step: row.Step}
}

func fakeTags(context.Context) ([]model.Tag, error) {
	return []model.Tag{
		{Name: "z", MaxID: 6001, Step: 2000, Description: "of <b>Leaf</b>", UpdatedAt: loaded},
		{Name: "a&b", MaxID: 9007199254740993, Step: 1000, UpdatedAt: loaded},
	}, nil
}

const everyMode = access.Queue | access.Segment | access.Snowflake | access.UID | access.Sequence | access.Lease

// metered has an API count, for metricOf.
func metered(o *Options) {
	registry := prometheus.NewRegistry()
	o.Registry = registry
	o.Traffic = issuer.NewTraffic(registry, everyMode)
}

// metricOf is a metric of an API, by metric.Values.
func metricOf(t *testing.T, api *API, name string) int {
	t.Helper()
	values, err := metric.Values(api.opts.Registry.(*prometheus.Registry))
	check.Must(t, err)
	return int(values[name])
}

// wantAnswer compares status and whole body.
func wantAnswer(t *testing.T, got *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if got.Code != status || got.Body.String() != body {
		t.Errorf("answered %d %.400s\nwant     %d %s", got.Code, got.Body, status, body)
	}
}

// storeAway is what a store says that cannot be reached.
func storeAway() error {
	return &model.StoreError{Store: "database", Op: "read leaf_alloc", Advice: "start it",
		Err: errors.New("connection refused")}
}

// errFault is what a client may not see.
var errFault = errors.New("disk full")

func wrap(err error) error { return fmt.Errorf("next: %w", err) }

// panicking is a queue that panics with p.
func panicking(p any) *fakeQueue {
	return &fakeQueue{next: func(context.Context) error { panic(p) }}
}
