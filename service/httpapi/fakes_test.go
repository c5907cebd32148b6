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

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/issuer"
	"shardid/service/monitor"
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

// errAway is what a store says that is unreachable.
var errAway = errors.New("read 10.0.0.1:1->10.0.0.2:2: connection reset")

// allModes are those whose readiness is looked at.
var allModes = []string{"queue", "segment", "snowflake", "uid"}

// watched has those modes and two stores watched, of which some fail: the modes also later, as failing changes.
func watched(failing map[string]error, modes ...string) func(*Options) {
	return func(o *Options) { o.Monitor = newMonitor(fullState, failing, modes...) }
}

func newMonitor(state func() monitor.State, failing map[string]error, modes ...string) *monitor.Monitor {
	m := monitor.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), state)
	for _, store := range []string{"database", "redis"} {
		m.Report(store, failing[store])
	}
	for _, mode := range modes {
		m.AddMode(mode, func() error { return failing[mode] })
	}
	return m
}

// fakeModes are what the modes of one API count.
type fakeModes struct{ queue, segment, snowflake, uid fakes.Mode }

// counts are over all of them.
func (f *fakeModes) counts() (calls, issued int64) {
	for _, m := range []*fakes.Mode{&f.queue, &f.segment, &f.snowflake, &f.uid} {
		calls, issued = calls+m.Counts().Calls, issued+m.Counts().Issued
	}
	return calls, issued
}

// failModes makes all modes but the queue answer with err.
func failModes(err error) func(*Options) {
	return func(o *Options) {
		m := &fakes.Mode{Fail: fakes.Broken(err)}
		o.Segment, o.Snowflake, o.UID = fakes.Segment{Mode: m}, fakes.Generator{Mode: m}, fakes.Generator{Mode: m}
	}
}

// disableModes is what the configuration does that has only the queue mode.
func disableModes(o *Options) {
	o.Segment, o.Snowflake, o.UID, o.Segments, o.Tags = nil, nil, nil, nil, nil
	watched(nil, "queue")(o)
}

// newAPI is the API with everything well.
func newAPI() *API { return newAPIOf(func(*Options) {}) }

// newAPIOf is the API with something else than testOptions.
func newAPIOf(change func(*Options)) *API {
	api, _ := logging(nil, change)
	return api
}

// logging is an API, whose queue fails so, and its log.
func logging(fail func(context.Context) error, change func(*Options)) (*API, *strings.Builder) {
	log := &strings.Builder{}
	opts, _ := testOptions(fail, log)
	change(&opts)
	return New(opts), log
}

func testOptions(fail func(context.Context) error, log io.Writer) (Options, *fakeModes) {
	modes := &fakeModes{queue: fakes.Mode{Fail: fail}}
	things, metrics := (&fakeAdmin{}).service(), prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "shardid_test"}))
	return Options{
		Issuer: &issuer.Issuer{
			Queue: fakes.Queue{Mode: &modes.queue}, Segment: fakes.Segment{Mode: &modes.segment},
			Snowflake: fakes.Generator{Mode: &modes.snowflake, First: 1169786042799259000},
			UID:       fakes.Generator{Mode: &modes.uid, First: 3200169789968523265},
			Sequence:  &fakes.Sequence{Mode: &fakes.Mode{}}, Traffic: issuer.NewTraffic(nil, everyMode...)},
		Leases: &fakeLeases{}, Monitor: newMonitor(fullState, nil, allModes...),
		Decoder: model.Decoder{
			Snowflake: model.SnowflakeLayout(1288834974657, 10, 12),
			UID:       model.UIDLayout(28, 22, 13, time.Date(2016, 5, 19, 16, 0, 0, 0, time.UTC)),
		},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Reads: Reads{Metrics: metrics, Names: things.Names().List, Spaces: things.Spaces().List,
			Segments: heldOf(fakeViews()...), Tags: fakeTags, Replicas: fakeReplicas,
			History: fakeHistory},
	}, modes
}

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

func fakeTags(_ context.Context, search string, limit int) (found []model.Tag, total int, err error) {
	for _, tag := range []model.Tag{
		{Name: "a&b", MaxID: 9007199254740993, Step: 1000, UpdatedAt: loaded.Local()},
		{Name: "z", MaxID: 6001, Step: 2000, Description: "of <b>Leaf</b>", UpdatedAt: loaded.Local()},
	} {
		if strings.Contains(tag.Name, search) {
			found = append(found, tag)
		}
	}
	return found[:min(len(found), limit)], len(found), nil
}

var everyMode = append(model.Modes(), model.ModeLease)

// metered has an API count, for metricOf.
func metered(o *Options) {
	registry := prometheus.NewRegistry()
	o.Registry = registry
	o.Traffic = issuer.NewTraffic(registry, everyMode...)
}

// metricOf is a metric of an API, by check.Metrics.
func metricOf(t *testing.T, api *API, name string) int {
	t.Helper()
	return int(check.Metrics(t, api.opts.Registry.(*prometheus.Registry))[name])
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

// panicking is a mode that panics with p.
func panicking(p any) func(context.Context) error {
	return func(context.Context) error { panic(p) }
}
