package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/client/clienttest"
)

// TestMain finds goroutines of a client that outlive it. Leak detectors are modules, which
// users of this one would get too.
func TestMain(m *testing.M) {
	code := m.Run()
	for till := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("hold.(*Pool)")) && !bytes.Contains(stacks, []byte("client.(*Client)")) &&
			!bytes.Contains(stacks, []byte("client.(*Generator)")) {
			break
		}
		if time.Now().After(till) {
			fmt.Printf("goroutines are left:\n%s", stacks)
			code = 1
			break
		}
	}
	os.Exit(code)
}

// fake stands for a shardid.
func fake(tb testing.TB) *clienttest.Server {
	tb.Helper()
	s := clienttest.Start()
	tb.Cleanup(s.Close)
	return s
}

// cutListener gives connections that can be cut off without a word: what is written to them is lost.
type cutListener struct {
	net.Listener
	cut atomic.Pointer[atomic.Bool] // of those that are accepted now
}

type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

// newCutListener is inner, until cutOff.
func newCutListener(inner net.Listener) *cutListener {
	l := &cutListener{Listener: inner}
	l.cut.Store(new(atomic.Bool))
	return l
}

// cutOff cuts the connections of before.
func (l *cutListener) cutOff() { l.cut.Swap(new(atomic.Bool)).Store(true) }

func (l *cutListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return cutConn{conn, l.cut.Load()}, err
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// hung is a server that reads requests, tells of each, and never answers.
func hung(tb testing.TB) (addr string, came <-chan struct{}) {
	tb.Helper()
	told := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // what is read to its end is told when its caller has gone
		told <- struct{}{}
		<-r.Context().Done()
	}))
	tb.Cleanup(server.Close)
	return server.URL, told
}

func newClient(tb testing.TB, opts Options) *Client {
	tb.Helper()
	c, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// testEpoch is the epoch of the names of a lessor, Unix ms.
const testEpoch = 1288834974657

// lessor answers /v1/leases. Set the fields before its first request, or by set.
type lessor struct {
	hold, renew time.Duration
	seqBits     uint   // 0 for 12
	shardBits   uint   // of these
	after       int64  // of new leases at least, Unix ms
	granted     func() // told of each new lease; may be nil

	mu       sync.Mutex
	status   int           // of a refusal of all requests; 0: none
	hang     chan struct{} // if set, requests wait for it
	all      []*lease      // by worker ID
	spans    []lease       // all that was granted
	released map[int64]int64
}

func (s *lessor) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *lessor) start(tb testing.TB) string {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	return server.URL
}

func (s *lessor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // as Go parses that of a DELETE for nobody
	form, _ := url.ParseQuery(string(body))
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status, a := http.StatusOK, answer{}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/leases/orders"), "/")
	switch {
	case s.status != 0:
		a = answer{Code: map[int]int{http.StatusConflict: CodeLeaseLost}[s.status], Message: "refused for a test"}
		status = s.status
	case len(path) == 1:
		a.Lease = s.grant()
	default:
		worker, _ := strconv.ParseInt(path[1], 10, 64)
		l := &lease{}
		if worker < int64(len(s.all)) {
			l = s.all[worker]
		}
		if l.Secret == "" || l.Secret != form.Get("secret") || l.Until <= time.Now().UnixMilli() {
			status, a = http.StatusConflict, answer{Code: CodeLeaseLost, Message: "the lease is lost"}
		} else if r.Method == http.MethodDelete {
			l.Secret = ""
			s.released[worker], _ = strconv.ParseInt(form.Get("lastUsed"), 10, 64)
		} else {
			l.Now = time.Now().UnixMilli()
			l.Until = l.Now + s.hold.Milliseconds()
			s.spans = append(s.spans, *l)
			a.Lease = l
		}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

// grant leases a new worker ID.
func (s *lessor) grant() *lease {
	if s.released == nil {
		s.released = map[int64]int64{}
	}
	if s.seqBits == 0 {
		s.seqBits = 12
	}
	if s.granted != nil {
		s.granted()
	}
	now := time.Now().UnixMilli()
	l := &lease{
		Layout: testLayout(24-max(s.seqBits, 12), s.seqBits, s.shardBits),
		Name:   "orders", WorkerID: int64(len(s.all)), Secret: "secret-" + strconv.Itoa(len(s.all)),
		After: s.after, Until: now + s.hold.Milliseconds(), Now: now, RenewMs: s.renew.Milliseconds(),
	}
	s.all, s.spans = append(s.all, l), append(s.spans, *l)
	return l
}

// check looks whether all IDs are different and of times that were granted, and gives the worker
// ID and the Unix ms of the last.
func (s *lessor) check(tb testing.TB, ids []int64) (worker, ms int64) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[int64]bool, len(ids))
	for _, id := range ids {
		bits := s.all[0].WorkerBits
		worker, ms = id>>s.seqBits&(1<<bits-1), id>>(s.seqBits+bits)+testEpoch
		granted := false
		for _, l := range s.spans {
			granted = granted || l.WorkerID == worker && l.After < ms && ms <= l.Until
		}
		if !granted || seen[id] || id <= 0 {
			tb.Fatalf("the ID %d of worker ID %d and time %d: granted %t, issued before %t",
				id, worker, ms, granted, seen[id])
		}
		seen[id] = true
	}
	return worker, ms
}
