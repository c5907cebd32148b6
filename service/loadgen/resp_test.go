package loadgen

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
	frontend "shardid/service/issuer"
	"shardid/service/resp"
)

// counting is a mode whose IDs rise from 1.
type counting struct {
	last atomic.Int64
	err  atomic.Pointer[error]
}

func (c *counting) Next(_ context.Context, count int, dst []int64) ([]int64, error) {
	if err := c.err.Load(); err != nil {
		return dst, *err
	}
	for id := c.last.Add(int64(count)) - int64(count) + 1; count > 0; count, id = count-1, id+1 {
		dst = append(dst, id)
	}
	return dst, nil
}

// byKey is counting for the modes that are told more; what is the last that they were told.
type byKey struct {
	*counting
	what *atomic.Value
}

type queueMode byKey

func (q queueMode) Next(ctx context.Context, app int, gatePass string, count int, dst []int64) ([]int64, error) {
	q.what.Store(fmt.Sprintf("app %d, shard %d", app, model.ShardOf(gatePass)))
	return q.counting.Next(ctx, count, dst)
}

type segmentMode byKey

func (s segmentMode) Next(ctx context.Context, tag string, count int, dst []int64) ([]int64, error) {
	s.what.Store(tag)
	return s.counting.Next(ctx, count, dst)
}

// Run has no command.
func (s segmentMode) Run(context.Context, string) (first, last int64, err error) {
	panic("a run was asked for")
}

// Numbers are of no tag here.
func (s segmentMode) Numbers(context.Context, string, int, []string) ([]string, error) {
	panic("numbers were asked for")
}

// serveRESP starts the real front end on a mode.
func serveRESP(t *testing.T, c *counting, change func(*resp.Options)) (url string, what *atomic.Value) {
	t.Helper()
	what = new(atomic.Value)
	o := resp.Options{Log: slog.New(slog.DiscardHandler), Version: "1", Issuer: &frontend.Issuer{
		Queue: queueMode{c, what}, Segment: segmentMode{c, what}, Snowflake: c, UID: c}}
	if change != nil {
		change(&o)
	}
	s := resp.New(o)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		check.OK(t, s.Stop(ctx))
		check.Is(t, <-ended, resp.ErrServerClosed)
	})
	return "redis://" + listener.Addr().String(), what
}

// TestRESPModes: every mode, single IDs and batches, alone and in pipelines, at full speed
// and at a rate; every ID that was issued is compared.
func TestRESPModes(t *testing.T) {
	for _, mode := range []string{ModeQueue, ModeSegment, ModeSnowflake, ModeUID} {
		for _, count := range []int{0, 1, 2000} {
			for _, pipeline := range []int{0, 16} {
				c := new(counting)
				url, what := serveRESP(t, c, nil)
				o := brief(url)
				o.Mode, o.Count, o.Pipeline, o.Duration = mode, count, pipeline, 50*time.Millisecond
				r := mustRun(t, o)
				if r.Requests == 0 || r.IDs != r.Requests*int64(max(count, 1)) || r.Failed() > 0 || r.Duplicates > 0 {
					t.Errorf("%s, %d IDs, pipeline of %d: %+v", mode, count, pipeline, r)
				}
				check.Equal(t, r.Compared, c.last.Load(), "compared IDs")
				if got := what.Load(); mode == ModeSegment && got != o.Tag || mode == ModeQueue && !strings.HasPrefix(got.(string), "app 1, ") {
					t.Errorf("asked for %v", got)
				}
			}
		}
	}
	url, _ := serveRESP(t, new(counting), nil)
	o := brief(url)
	o.Rate, o.Pipeline, o.Duration = 400, 4, time.Second
	if r := mustRun(t, o); r.Requests+r.Unsent != 400 {
		t.Errorf("at a rate: %+v", r)
	}
}

// TestRESPRefusals: a replica that cannot serve for now is tried on, and each command of a
// pipeline counts.
func TestRESPRefusals(t *testing.T) {
	c := new(counting)
	c.err.Store(&model.ErrNoLease)
	url, _ := serveRESP(t, c, nil)
	o := brief(url)
	o.Mode, o.Pipeline = ModeUID, 8
	r := mustRun(t, o)
	if n := r.Errors["code -8"]; n == 0 || n%8 != 0 || n != r.Failed() || r.Requests > 0 {
		t.Errorf("%+v", r)
	}
}

// TestRESPToken: the token is sent once for each connection, and a wrong one ends the run
// with what to do.
func TestRESPToken(t *testing.T) {
	const token = "orders-token-0001"
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	text := fmt.Sprintf("- name: orders\n  role: get\n  modes: [uid]\n  sha256: '%x'\n", sha256.Sum256([]byte(token)))
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	guard, err := access.NewGuard(access.Options{File: file})
	check.Must(t, err)
	url, _ := serveRESP(t, new(counting), func(o *resp.Options) { o.Access, o.RequireToken = guard, true })
	o := brief(url)
	o.Mode, o.Token = ModeUID, token
	if r := mustRun(t, o); r.Requests == 0 || r.Failed() > 0 {
		t.Errorf("%+v", r)
	}
	for given, want := range map[string]string{"": "--token-file", "wrong-token-00001": "no valid token"} {
		o.Token = given
		if err := runError(t, t.Context(), o); !strings.Contains(err.Error(), want) {
			t.Errorf("token %q: %v", given, err)
		}
	}
}

// TestRESPWrongServer: a server that is not the one that was meant is named, and no command
// that changes anything is sent to it.
func TestRESPWrongServer(t *testing.T) {
	web := strings.Replace(serve(t, new(issuer)), "http", "redis", 1)
	says := func(text string) string { // to one client, whatever that says
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check.Must(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			if nc, err := listener.Accept(); err == nil {
				_, _ = io.WriteString(nc, text)
				_, _ = io.Copy(io.Discard, nc)
			}
		}()
		return "redis://" + listener.Addr().String()
	}
	respURL, _ := serveRESP(t, new(counting), nil)
	for url, want := range map[string]string{
		web:                                      "does not answer in RESP",
		says("$19\r\nredis_version:7.4\r\n\r\n"): "is no shardid: nothing was sent to it",
		says("-NOAUTH Authentication required.\r\n"):   "NOAUTH",
		strings.Replace(respURL, "redis", "rediss", 1): "redis:// and rediss://",
		strings.Replace(respURL, "redis", "http", 1):   "or with redis://",
		"redis://127.0.0.1:1":                          "is the server running?",
	} {
		if err := runError(t, t.Context(), brief(url)); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for _, o := range []Options{
		{URL: respURL + "/0"}, {URL: respURL, Raw: "/livez"}, {URL: respURL, Mode: "uuid"},
		{URL: "http://127.0.0.1:1", Pipeline: 2}, {URL: respURL, Pipeline: maxPipeline + 1},
	} {
		whole := brief(o.URL)
		whole.Raw, whole.Pipeline, whole.Mode = o.Raw, o.Pipeline, cmp.Or(o.Mode, whole.Mode)
		check.Is(t, runError(t, t.Context(), whole), model.ErrInvalidArgument, o)
	}
}

// TestRESPWire: what is no answer, or not what was asked for, is an error of its kind and
// never an ID that goes unseen.
func TestRESPWire(t *testing.T) {
	for _, test := range []struct {
		count int
		wire  string
		ids   int // that are kept to be compared
		want  string
	}{
		{0, ":7\r\n", 1, ""},
		{2, "*2\r\n$1\r\n7\r\n$2\r\n18\r\n", 2, ""},
		{0, ":0\r\n", 1, string(errBelowOne)},
		{0, ":-3\r\n", 1, string(errBelowOne)},
		{0, ":x\r\n", 0, string(errUnreadable)},
		{0, "+OK\r\n", 0, string(errUnreadable)},
		{0, "$-1\r\n", 0, string(errUnreadable)},
		{2, "*1\r\n$1\r\n7\r\n", 1, string(errWrongCount)},
		{2, "*3\r\n$1\r\n7\r\n$1\r\n8\r\n$1\r\n9\r\n", 3, string(errWrongCount)},
		{2, "*2\r\n$1\r\n7\r\n$5\r\n8\r\n", 2, string(errUnreadable)},
		{2, "*2\r\n$1\r\n7\r\n:8\r\n", 1, string(errUnreadable)},
		{2, "*2\r\n$1\r\n7\r\n$2\r\n08\r\n", 1, string(errUnreadable)},
		{2, "*2\r\n$1\r\n7\r\n$1\r\n8\n\n", 1, kindName(errNotRESP)},
		{2, "*2\r\n$19\r\n9223372036854775807\r\n$20\r\n18446744073709551617\r\n", 1, string(errUnreadable)},
		{0, ":7\r\n:8\r\n", 1, string(errTooMany)},
		{0, "-SHARDID -5 app reached its limit\r\n", 0, "code -5"},
		{0, "-WRONGTYPE not a list\r\n", 0, "error of RESP"},
		{0, "HTTP/1.1 400 Bad Request\r\n", 0, kindMalformed},
		{0, ":7", 0, kindClosed},
	} {
		w := newRESPWorker(t, test.wire, test.count, 1, test.want == kindClosed)
		got := w.request(t.Context(), w.run.now())
		err := cmp.Or(append(got.errs, nil)...)
		if len(got.ids) != test.ids && (test.want != "" || got.good != 1) || (err == nil) != (test.want == "") || err != nil && kindName(err) != test.want {
			t.Errorf("%q: %+v, want %d IDs and %q", test.wire, got, test.ids, test.want)
		}
	}
}

// TestRESPAllocations: a pipeline allocates nothing.
func TestRESPAllocations(t *testing.T) {
	if check.Race {
		t.Skip("the race detector allocates")
	}
	w := newRESPWorker(t, strings.Repeat(":7\r\n", 16), 0, 16, false)
	w.ask(t.Context(), 0, 0)
	if n := testing.AllocsPerRun(2000, func() { w.ask(t.Context(), w.run.now(), w.run.now()) }); n != 0 || w.run.requests < 32_000 {
		t.Errorf("%v allocations a pipeline, %d requests, %v", n, w.run.requests, w.run.firstError)
	}
}

// newRESPWorker is one that asks a parrot, and that is connected already: a parrot does
// not say what it is.
func newRESPWorker(t *testing.T, wire string, count, pipeline int, ends bool) *worker {
	t.Helper()
	o := brief(strings.Replace(parrot(t, wire, ends), "http", "redis", 1))
	o.Mode, o.Count, o.Pipeline, o.Timeout = ModeUID, count, pipeline, 5*time.Second
	l, err := New(o)
	check.Must(t, err)
	w := &worker{run: &run{Load: l, clock: clock{time.Now()}, account: newAccount(1 << 20)}}
	w.nc, err = net.Dial("tcp", l.target.address)
	check.Must(t, err)
	w.br = bufio.NewReaderSize(w.nc, bufferBytes)
	t.Cleanup(w.hangUp)
	l.target.requests = [][]byte{[]byte("INCR\r\n\r\n")} // a parrot waits for the end of an HTTP head
	return w
}
