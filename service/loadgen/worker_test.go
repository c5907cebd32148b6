package loadgen

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
)

// parrot answers every request with the same bytes, without allocating, and ends the
// connection after an answer that does not say where it ends.
func parrot(tb testing.TB, answer string, ends bool) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(tb, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			buf, reply := make([]byte, 4096), []byte(answer)
			for err == nil {
				var n int
				if n, err = nc.Read(buf); bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
					_, err = nc.Write(reply)
				}
				if ends {
					break
				}
			}
			_ = nc.Close()
		}
	}()
	tb.Cleanup(func() { _ = listener.Close(); <-done })
	return "http://" + listener.Addr().String()
}

// newWorker is one that asks a parrot.
func newWorker(tb testing.TB, answer string, ends bool) *worker {
	tb.Helper()
	o := brief(parrot(tb, answer, ends))
	o.Concurrency, o.Timeout = 1, 2*time.Second
	l, err := New(o)
	check.Must(tb, err)
	w := &worker{run: &run{Load: l, clock: clock{time.Now()}, account: newAccount(1 << 20)}}
	tb.Cleanup(w.hangUp)
	return w
}

// Answers as shardid sends them, and as a proxy may pass them on.
const (
	oneID = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 41\r\n" +
		"Content-Type: application/json; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
		"Date: Fri, 20 Nov 2026 12:00:00 GMT\r\n\r\n" + `{"code":0,"id":1638500,"idStr":"1638500"}`
	chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"1b\r\n" + `{"code":0,"id":7,"idStr":"7` + "\r\n2\r\n\"}\r\n0\r\n\r\n"
)

// TestWire: whatever HTTP/1.x answers look like, they are read, one after the other;
// what is none, or ends too early, is an error of its kind and never an answer.
func TestWire(t *testing.T) {
	const ok, id = "HTTP/1.1 200 OK\r\n", `{"code":0,"id":7,"idStr":"7"}`
	const length = "Content-Length: 29\r\n"
	long := `{"code":0,"id":7,"idStr":"7","more":"` + strings.Repeat("9", 3*bufferBytes) + `"}`
	for name, c := range map[string]struct {
		wire, kind string // "" for an ID
	}{
		"as shardid":        {oneID, ""},
		"chunked":           {chunked, ""},
		"any case":          {ok + "cOnTeNt-LENGTH:29\r\n\r\n" + id, ""},
		"no reason":         {"HTTP/1.1 200\r\n" + length + "\r\n" + id, ""},
		"close":             {ok + "Connection: close\r\n" + length + "\r\n" + id, ""},
		"1.0":               {"HTTP/1.0 200 OK\r\n" + length + "\r\n" + id, ""},
		"until the end":     {ok + "\r\n" + id, ""},
		"continue":          {"HTTP/1.1 100 Continue\r\n\r\n" + ok + length + "\r\n" + id, ""},
		"long":              {ok + "Content-Length: " + strconv.Itoa(len(long)) + "\r\n\r\n" + long, ""},
		"nothing":           {"", kindClosed},
		"half a head":       {ok + "Content-Le", kindMalformed},
		"half a body":       {ok + length + "\r\n" + id[:20], kindClosed},
		"half a chunk":      {ok + "Transfer-Encoding: chunked\r\n\r\n1d\r\n" + id[:20], kindClosed},
		"no last chunk":     {ok + "Transfer-Encoding: chunked\r\n\r\n1d\r\n" + id + "\r\n", kindClosed},
		"another protocol":  {"SSH-2.0-OpenSSH_9.2\r\n\r\n", kindMalformed},
		"no status":         {"HTTP/1.1 abc OK\r\n\r\n" + id, kindMalformed},
		"negative length":   {ok + "Content-Length: -1\r\n\r\n" + id, kindMalformed},
		"two lengths":       {ok + length + "Content-Length: 30\r\n\r\n" + id + " ", kindMalformed},
		"length and chunks": {ok + length + "Transfer-Encoding: chunked\r\n\r\n1d\r\n" + id + "\r\n0\r\n\r\n", ""},
		"no chunk length":   {ok + "Transfer-Encoding: chunked\r\n\r\n\r\n" + id, kindMalformed},
		"huge":              {ok + "Content-Length: 99999999\r\n\r\n" + id, kindClosed},
		"leftovers":         {ok + length + "\r\n" + id + "abc", kindMalformed},
		"two answers":       {strings.Repeat(ok+length+"\r\n"+id, 2), kindMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, c.wire, c.kind != "" || name == "until the end")
			for range 2 {
				if !w.ready(t.Context()) {
					t.Fatal("no connection")
				}
				got := w.request(t.Context(), w.run.now())
				ids, err := got.ids, cmp.Or(append(got.errs, nil)...)
				switch {
				case c.kind == "" && (err != nil || len(ids) != 1):
					t.Errorf("%v, %v", ids, err)
				case c.kind != "" && (err == nil || kindOf(err) != c.kind):
					t.Errorf("%v, %v, want %s", ids, err, c.kind)
				}
			}
		})
	}
}

// TestAllocations: a request allocates nothing, so the garbage collector does not
// show in the latencies.
func TestAllocations(t *testing.T) {
	if check.Race {
		t.Skip("the race detector allocates")
	}
	w := newWorker(t, oneID, false)
	w.ready(t.Context())
	w.ask(t.Context(), 0, 0)
	if n := testing.AllocsPerRun(2000, func() { w.ask(t.Context(), w.run.now(), w.run.now()) }); n != 0 || w.run.requests < 2000 {
		t.Errorf("%v allocations a request, %d requests, %v", n, w.run.requests, w.run.firstError)
	}
}

// BenchmarkAsk is what a request costs, with the other end's system calls.
func BenchmarkAsk(b *testing.B) {
	w := newWorker(b, oneID, false)
	w.ready(b.Context())
	for b.Loop() {
		w.ask(b.Context(), w.run.now(), w.run.now())
	}
	if w.run.firstError != nil {
		b.Error(w.run.firstError)
	}
}

// deadlines is a connection that remembers its deadline and never answers.
type deadlines struct {
	net.Conn
	last  time.Time
	moved int
}

func (d *deadlines) SetDeadline(t time.Time) error {
	d.last, d.moved = t, d.moved+1
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) { return len(p), nil }

func (d *deadlines) Read([]byte) (int, error) { return 0, io.EOF }

// TestLateDeadline: at every request the deadline is between the timeout and a quarter
// more away, and it is moved rarely.
func TestLateDeadline(t *testing.T) {
	const timeout, requests = time.Second, 10_000
	nc := &deadlines{}
	w := worker{run: &run{Load: &Load{opts: Options{Timeout: timeout}, target: &target{}}, clock: clock{time.Now()}}, nc: nc, br: bufio.NewReader(nc)}
	for n := range requests { // one a millisecond
		now := int64(n) * int64(time.Millisecond)
		if _, err := w.exchange(now); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if left := nc.last.Sub(w.run.base.Add(time.Duration(now))); left < timeout || left > timeout*5/4 {
			t.Fatalf("request %d: %v left", n, left)
		}
	}
	if nc.moved > 50 {
		t.Errorf("moved %d times for %d requests", nc.moved, requests)
	}
}

// FuzzAnswer: no input hangs or panics, and what is read here is what net/http reads.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{oneID, chunked,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello",
		"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n Content-Length: 2\r\n\r\nno",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		w := worker{br: bufio.NewReaderSize(bytes.NewReader(in), bufferBytes)}
		_, _ = w.br.Peek(min(len(in), bufferBytes))
		status, ends, err := w.read()
		if _, _, size := plainHead(in[:min(len(in), bufferBytes)]); size == 0 || err != nil {
			return
		}
		std, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
		if err != nil {
			return // it looks at the whole head
		}
		defer std.Body.Close()
		body, err := io.ReadAll(std.Body)
		if err != nil || ends || std.Close || std.StatusCode != status || !bytes.Equal(body, w.body) {
			t.Fatalf("net/http: %d %q, close %t, %v; here: %d %q", std.StatusCode, body, std.Close, err, status, w.body)
		}
	})
}

// paceRun runs the pacer of a run at 10000 a second that has begun.
func paceRun(t *testing.T, ctx func(*run) context.Context, from, end int64, due chan int64) (r *run, wait func()) {
	t.Helper()
	timer, err := newTimer()
	check.Must(t, err)
	t.Cleanup(timer.close)
	r = &run{Load: &Load{opts: Options{Rate: 10_000}, target: &target{pipeline: 1}}, clock: clock{time.Now()}, account: newAccount(0), from: from, end: end}
	var wg sync.WaitGroup
	wg.Go(func() { r.pace(ctx(r), timer, due) })
	return r, wg.Wait
}

// TestPacer: the times are those of the schedule, none of them comes early, and a
// taker that was away for a while still gets every one.
func TestPacer(t *testing.T) {
	due := make(chan int64)
	r, wait := paceRun(t, func(*run) context.Context { return t.Context() }, 0, 2e8, due)
	var got []int64
	for at := range due {
		if now := r.now(); now < at {
			t.Errorf("%d came at %d", at, now)
		}
		if got = append(got, at); len(got) == 100 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	wait()
	var want []int64
	for n := range int64(2000) {
		want = append(want, n*1e5)
	}
	if !slices.Equal(got, want) || r.unsent != 0 {
		t.Errorf("%d times, want %d; %d unsent", len(got), len(want), r.unsent)
	}
}

// TestPacerLeft: what no connection took is counted with how long it had waited,
// without the warm-up.
func TestPacerLeft(t *testing.T) {
	r, wait := paceRun(t, func(r *run) context.Context {
		ctx, cancel := context.WithDeadline(t.Context(), r.base.Add(2e8))
		t.Cleanup(cancel)
		return ctx
	}, 1e8, 2e8, make(chan int64))
	wait()
	if r.unsent != 1000 || r.latency.TotalCount() != 1000 || r.latency.Max() < 99e6 || r.latency.Max() > 101e6 || r.latency.Min() > 1e6 {
		t.Errorf("%d left, latencies %d…%d ns", r.unsent, r.latency.Min(), r.latency.Max())
	}
}

// TestStall: a stall of the server counts for every request that was due in it, not
// only for the few that were in flight.
func TestStall(t *testing.T) {
	const stall, rate = 300 * time.Millisecond, 1000
	var g gate
	var held sync.WaitGroup
	s := &issuer{spoil: func(_ http.ResponseWriter, _ *http.Request, n int64) bool {
		if n == 200 {
			held.Go(func() { g.shutFor(stall) })
		}
		g.pass()
		return false
	}}
	o := brief(serve(t, s))
	o.Rate, o.Duration = rate, 1200*time.Millisecond
	r, ran := execute(t, o)
	held.Wait()
	slow := ran.slowerThan(10 * time.Millisecond)
	t.Logf("%d of %d requests were slow, %d unsent, p50 %v ms, max %v ms", slow, r.Requests, r.Unsent, r.Latency.P50, r.Latency.Max)
	if slow < 280 || r.Latency.Max < 0.9*float64(stall.Milliseconds()) {
		t.Errorf("%d slow requests, the slowest %v ms", slow, r.Latency.Max)
	}
	if r.Requests+r.Unsent != 1200 || r.IntendedRate != rate {
		t.Errorf("%d sent and %d not, want 1200", r.Requests, r.Unsent)
	}
}

// TestTooSlow: a server that cannot keep up shows in the rate that is achieved, and
// in the latencies, also of what was never sent.
func TestTooSlow(t *testing.T) {
	s := &issuer{spoil: func(http.ResponseWriter, *http.Request, int64) bool {
		time.Sleep(10 * time.Millisecond)
		return false
	}}
	o := brief(serve(t, s))
	o.Warmup, o.Duration, o.Concurrency, o.Rate = 100*time.Millisecond, 500*time.Millisecond, 2, 10_000
	r := mustRun(t, o)
	if r.Requests < 1 || r.AchievedRate > 250 || r.Requests+r.Unsent < 4990 || r.Requests+r.Unsent > 5010 {
		t.Errorf("%d requests, %.0f/s, %d unsent", r.Requests, r.AchievedRate, r.Unsent)
	}
	if r.Latency.P50 < 200 || r.Latency.P50 > 300 || r.Latency.Max < 450 {
		t.Errorf("%+v", r.Latency)
	}
}

// TestOutage: a server that goes away and comes back is connected to again; what was
// due meanwhile is late, not lost.
func TestOutage(t *testing.T) {
	s := newRestartable(t, &issuer{})
	o := brief("http://" + s.addr)
	o.Rate, o.Duration = 500, 1500*time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(300 * time.Millisecond)
		s.stop()
		time.Sleep(300 * time.Millisecond)
		s.start()
	})
	r := mustRun(t, o)
	wg.Wait()
	if r.Errors[kindConnect] == 0 || r.Latency.Max < 200 {
		t.Errorf("%+v", r)
	}
	if lost := r.Errors[kindClosed]; r.Requests+r.Unsent+lost != 750 || r.Requests < 300 {
		t.Errorf("%d requests, %d closed, %d unsent, want 750", r.Requests, lost, r.Unsent)
	}
}
