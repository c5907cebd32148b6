package load

import (
	"bytes"
	"net"
	"testing"
)

// newWorker is one that is connected to a server which always gives the same answer.
func newWorker(tb testing.TB, answer string) *worker {
	tb.Helper()
	o := Defaults()
	o.URL, o.Concurrency, o.Compare = "http://"+parrot(tb, answer), 1, 1<<20
	l, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	w := l.newRun().workers[0]
	if err := w.conn.open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(w.conn.shut)
	return w
}

// parrot answers every request of one connection with the same bytes, without
// allocating.
func parrot(tb testing.TB, answer string) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	tb.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		nc, err := listener.Accept()
		_ = listener.Close()
		if err != nil {
			return
		}
		defer nc.Close()
		buf, reply := make([]byte, 4096), []byte(answer)
		for err == nil {
			var n int
			if n, err = nc.Read(buf); bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
				_, err = nc.Write(reply)
			}
		}
	}()
	return listener.Addr().String()
}

// Answers as shardid sends them, and as a proxy may pass them on.
const (
	oneID = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 41\r\n" +
		"Content-Type: application/json; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
		"Date: Fri, 20 Nov 2026 12:00:00 GMT\r\n\r\n" + `{"code":0,"id":1638500,"idStr":"1638500"}`
	chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"1b\r\n" + `{"code":0,"id":7,"idStr":"7` + "\r\n2\r\n\"}\r\n0\r\n\r\n"
)

// TestAllocations: a request allocates nothing, so the garbage collector does not
// show in the latencies.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, answer := range []string{oneID, chunked} {
		w := newWorker(t, answer)
		w.ask(t.Context(), 0)
		if n := testing.AllocsPerRun(2000, func() { w.ask(t.Context(), w.clock.now()) }); n != 0 || w.requests < 2000 {
			t.Errorf("%.40q: %v allocations a request, %d requests, %v", answer, n, w.requests, w.errors.first)
		}
	}
}

// BenchmarkAsk is what a request costs, with the other end's system calls.
func BenchmarkAsk(b *testing.B) {
	w := newWorker(b, oneID)
	for b.Loop() {
		w.ask(b.Context(), w.clock.now())
	}
	if w.errors.first != nil {
		b.Error(w.errors.first)
	}
}

// BenchmarkAnswer is the reading and accounting alone.
func BenchmarkAnswer(b *testing.B) {
	t := &target{decode: decodeJSON, count: 1}
	wire := []byte(oneID)
	src := bytes.NewReader(wire)
	r := newResponseReader(src)
	var ids []int64
	for b.Loop() {
		src.Reset(wire)
		answer, err := r.read()
		if err == nil {
			ids, err = t.judge(answer, ids[:0])
		}
		if err != nil || len(ids) != 1 {
			b.Fatal(err)
		}
	}
}
