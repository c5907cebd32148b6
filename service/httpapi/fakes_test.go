package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/health"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const maxURL = 4096

// fakeQueue issues 1, 2, 3, … as indices of the list that is asked for, or does
// what next says.
type fakeQueue struct {
	next     func(context.Context) error
	ready    error
	starved  bool
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
	key := model.ListKey{App: uint8(app), Shard: model.ShardOf(gatePass)}
	for range count {
		q.index++
		dst = append(dst, key.Compose(q.index))
	}
	return dst, nil
}

func (q *fakeQueue) Ready() error { return q.ready }

func (q *fakeQueue) Starved(d time.Duration) bool { return q.starved && d == 5*time.Second }

// broken is a fakeQueue that answers with err.
func broken(err error) *fakeQueue {
	return &fakeQueue{next: func(context.Context) error { return err }}
}

// fakeConditions fail when they are in the list.
type fakeConditions []string

func (f fakeConditions) OK(names ...string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(f, n) })
}

func (f fakeConditions) Conditions() []health.Condition {
	var all []health.Condition
	for _, name := range []string{ConditionDatabase, ConditionRedis} {
		c := health.Condition{Name: name, OK: f.OK(name), Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		if !c.OK {
			c.Error = "read 10.0.0.1:1->10.0.0.2:2: connection reset"
		}
		all = append(all, c)
	}
	return all
}

// newAPI is the API over a fake queue, with everything else well.
func newAPI(q Queue) *API { return newAPIWith(q, nil, io.Discard) }

func newAPIWith(q Queue, failing fakeConditions, log io.Writer) *API {
	return New(Options{
		Queue: q, Conditions: failing, MaxURLBytes: maxURL, Metrics: fakeMetrics(),
		Decoder: model.Decoder{
			SnowflakeEpochMs: 1288834974657,
			UID:              model.UIDLayout{TimeBits: 28, WorkerBits: 22, SeqBits: 13, Epoch: time.Date(2016, 5, 19, 16, 0, 0, 0, time.UTC)},
		},
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

// fakeMetrics stands for the handler that cmd passes in.
func fakeMetrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, "shardid_queue_issued_total 1\n")
	})
}

// ask sends one request without a body.
func ask(h http.Handler, method, target string, accept ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantAnswer compares status and whole body.
func wantAnswer(t *testing.T, got *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if got.Code != status || got.Body.String() != body {
		t.Errorf("answered %d %s\nwant     %d %s", got.Code, clip(got.Body.Bytes()), status, body)
	}
}

func clip(b []byte) []byte { return bytes.TrimSpace(b[:min(len(b), 400)]) }
