package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain finds goroutines of a client that outlive it. Leak detectors are modules, which
// users of this one would get too.
func TestMain(m *testing.M) {
	code := m.Run()
	for till := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("client.(*buffer)")) && !bytes.Contains(stacks, []byte("client.(*Client)")) {
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

// service answers /v1 as shardid does: each path counts on its own, by its stride, in
// ranges of at most most IDs.
type service struct {
	mu       sync.Mutex
	last     map[string]int64
	most     int
	requests atomic.Int64
	issued   atomic.Int64
	refuse   atomic.Pointer[answer] // answered in place of IDs
	status   atomic.Int64           // of refuse
	delay    atomic.Int64           // in nanoseconds, before an answer
	gate     chan struct{}          // what requests after the first wait for; nil: nothing
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.requests.Add(1) > 1 && s.gate != nil {
		<-s.gate
	}
	time.Sleep(time.Duration(s.delay.Load()))
	if refuse := s.refuse.Load(); refuse != nil {
		w.WriteHeader(int(s.status.Load()))
		_ = json.NewEncoder(w).Encode(refuse)
		return
	}
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	stride := int64(1)
	if strings.HasPrefix(r.URL.Path, "/v1/queue/") {
		stride = 1 << 14
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]int64{}
	}
	if strings.HasPrefix(r.URL.Path, "/v1/segment/numbers/") {
		texts := []string{}
		for range count {
			s.last[r.URL.Path]++
			texts = append(texts, fmt.Sprintf("O-%04d", s.last[r.URL.Path]))
		}
		_ = json.NewEncoder(w).Encode(answer{IDs: texts})
		return
	}
	var ranges []string
	for left := count; left > 0; {
		n := min(left, s.most)
		left -= n
		ranges = append(ranges, fmt.Sprintf(`{"first":"%d","count":%d,"stride":"%d"}`, s.last[r.URL.Path]+stride, n, stride))
		s.last[r.URL.Path] += int64(n+1) * stride // a gap
	}
	s.issued.Add(int64(count))
	_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[%s]}`, strings.Join(ranges, ","))
}

func start(tb testing.TB, s *service) string {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	return server.URL
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

// Many goroutines, several sources, one and many at a time: no ID twice.
func TestNoIDTwice(t *testing.T) {
	for held, rounds := range map[int]int{1: 2, 7: 10, 0: 100} {
		s := &service{most: 300}
		c := newClient(t, Options{Addrs: []string{start(t, s)}, MaxHeld: held})
		var mu sync.Mutex
		seen := map[string]bool{}
		issued := func(source string, err error, ids ...int64) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				key := source + strconv.FormatInt(id, 10)
				if seen[key] || id <= 0 {
					t.Errorf("%s was issued before", key)
				}
				seen[key] = true
			}
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range rounds {
					id, err := c.Segment("orders").Next(t.Context())
					issued("orders/", err, id)
					id, err = c.Queue(7).Next(t.Context(), "user-"+strconv.Itoa(i%3))
					issued("shard"+strconv.Itoa(i%3)+"/", err, id)
					ids, err := c.Snowflake().Take(t.Context(), 100+g)
					if len(ids) != 100+g {
						t.Errorf("%d IDs", len(ids))
					}
					issued("snowflake/", err, ids...)
				}
			})
		}
		wg.Wait()
	}
}

// A buffer grows with use, and what is held is bounded.
func TestHeldIsBounded(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}, MaxHeld: 25_000})
	uid := c.UID()
	if _, err := uid.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.issued.Load(); n != firstTarget {
		t.Errorf("the first ID fetched %d", n)
	}
	const used = 1_000_000
	for range used {
		if _, err := uid.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.fetches.Wait()
	// One fetch is used from its half on while the next one comes.
	if held := s.issued.Load() - used; held > 3*25_000/2+1 || s.requests.Load() > 200 {
		t.Errorf("%d IDs are held, %d requests for %d IDs", held, s.requests.Load(), used)
	}
}

// A fetch takes several requests: the answer of each is used as soon as it has come.
func TestAnswersAreUsedAtOnce(t *testing.T) {
	s := &service{most: 1 << 20, gate: make(chan struct{})}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	defer close(s.gate)
	c.UID().buffer.target = 3 * maxBatch
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if ids, err := c.UID().Take(ctx, maxBatch); err != nil || len(ids) != maxBatch {
		t.Errorf("%d IDs, %v", len(ids), err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for _, ranges := range []string{
		`[{"first":"1","count":2,"stride":"1"}]`, `[]`, `[{"first":"0","count":1,"stride":"1"}]`,
		`[{"first":"5","count":-1,"stride":"1"},{"first":"5","count":2,"stride":"1"}]`, `[{"first":"5","count":1,"stride":"0"}]`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"code":0,"ranges":%s}`, ranges)
		}))
		c := newClient(t, Options{Addrs: []string{server.URL}, MaxHeld: 1, Timeout: 500 * time.Millisecond})
		if id, err := c.UID().Next(t.Context()); err == nil || !strings.Contains(err.Error(), "not used") {
			t.Errorf("%s: %d, %v", ranges, id, err)
		}
		server.Close()
	}
}

func TestIdleHoldsNothing(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	first, err := c.Segment("a").Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range idleSweeps { // the first one sees the use
		c.sweep()
	}
	second, _ := c.Segment("a").Next(t.Context())
	if second != first+1 {
		t.Errorf("%d after %d: a buffer in use was thrown away", second, first)
	}
	for range idleSweeps + 1 {
		c.sweep()
	}
	if third, err := c.Segment("a").Next(t.Context()); err != nil || third <= firstTarget {
		t.Errorf("%d, %v: what was held for a minute is used", third, err)
	}
}

func TestFailover(t *testing.T) {
	good, bad, starting := &service{most: 1 << 20}, httptest.NewServer(nil), &service{}
	bad.Close() // refuses connections
	starting.refuse.Store(&answer{Code: -1, Message: "not initialised yet"})
	starting.status.Store(503)
	foreign := httptest.NewServer(http.NotFoundHandler())
	defer foreign.Close()
	c := newClient(t, Options{Addrs: []string{bad.URL, start(t, starting), foreign.URL, start(t, good)}, MaxHeld: 1})
	for range 200 {
		if _, err := c.UID().Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if down := c.replicas[0].failures.Load(); down > 20 {
		t.Errorf("a replica that is away was asked %d times", down)
	}
}

func TestErrors(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}, Timeout: 300 * time.Millisecond, MaxHeld: 1})
	s.status.Store(409)
	s.refuse.Store(&answer{Code: -5, Message: "app reached its limit"})
	var refused *Error
	if _, err := c.Queue(1).Next(t.Context(), "alice"); !errors.As(err, &refused) || refused.Code != -5 || refused.Status != 409 {
		t.Errorf("%v", err)
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("a refusal was repeated: %d requests", n)
	}
	s.status.Store(503)
	s.refuse.Store(&answer{Code: -4, Message: "queue is empty"})
	began := time.Now()
	if _, err := c.Queue(1).Take(t.Context(), "alice", 3); !errors.As(err, &refused) || refused.Code != CodeEmpty || !errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < 250*time.Millisecond || took > 5*time.Second {
		t.Errorf("gave up after %v", took)
	}
	s.refuse.Store(nil)
	if _, err := c.Queue(1).Next(t.Context(), "alice"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if _, err := c.Queue(1).Next(t.Context(), ""); err == nil {
		t.Error("an empty gatePass was taken")
	}
	for _, n := range []int{-1, 0, MaxTake + 1, 1 << 62} {
		if _, err := c.UID().Take(t.Context(), n); err == nil {
			t.Errorf("%d IDs were taken", n)
		}
	}
	s.delay.Store(int64(200 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.UID().Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for _, opts := range []Options{{}, {Addrs: []string{"localhost:8080"}}, {Addrs: []string{"http://x:99999"}},
		{Addrs: []string{"http://x:0"}}, {Addrs: []string{"http://x:"}}, {Addrs: []string{"http://:8080"}}, {Addrs: []string{"http://x/?a=b"}},
		{Addrs: []string{"http://user:pass@x"}}, {Addrs: []string{"http://x#a"}}, {Addrs: []string{"ftp://x"}},
		{Addrs: []string{"http://x"}, MaxHeld: -1}} {
		if _, err := New(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
}

func TestClose(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	if _, err := c.UID().Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.delay.Store(int64(300 * time.Millisecond))
	waits := make(chan error, 1)
	go func() { _, err := c.Segment("slow").Next(t.Context()); waits <- err }()
	for s.requests.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	for _, source := range []*Source{c.UID(), c.Segment("slow"), c.Segment("new")} {
		if _, err := source.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestHeldIDsAllocateNothing(t *testing.T) {
	c := newClient(t, Options{Addrs: []string{start(t, &service{most: 1 << 20})}})
	warm, queue := c.Segment("a"), c.Queue(1)
	if _, err := queue.Take(t.Context(), "alice", 50_000); err != nil {
		t.Fatal(err)
	}
	if _, err := warm.Take(t.Context(), 50_000); err != nil {
		t.Fatal(err)
	}
	c.fetches.Wait()
	ctx := t.Context()
	if n := testing.AllocsPerRun(5, func() { _, _ = warm.Next(ctx); _, _ = queue.Next(ctx, "alice") }); n != 0 {
		t.Errorf("an ID allocates %v times", n)
	}
}

// BenchmarkNext is refilled over HTTP on loopback, in this process.
func BenchmarkNext(b *testing.B) {
	s := &service{most: 1 << 20}
	c := newClient(b, Options{Addrs: []string{start(b, s)}})
	ctx := context.Background()
	source, queue := c.Segment("a"), c.Queue(1)
	b.Run("segment", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := source.Next(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("queue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := queue.Next(ctx, "alice"); err != nil {
				b.Fatal(err)
			}
		}
	})
	var n atomic.Int64
	b.Run("atomic add, two goroutines", func(b *testing.B) { // the floor of what they can share
		b.SetParallelism(1)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				n.Add(1)
			}
		})
	})
	b.Run("two goroutines", func(b *testing.B) {
		b.SetParallelism(1)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := source.Next(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// Business numbers are asked for when they are wanted, each once.
func TestNumbers(t *testing.T) {
	s := &service{most: 100}
	c := newClient(t, Options{Addrs: []string{"http://127.0.0.1:1", start(t, s)}})
	orders := c.Number("numbers")
	text, err := orders.Next(t.Context())
	if err != nil || text != "O-0001" {
		t.Fatalf("%q, %v", text, err)
	}
	texts, err := orders.Take(t.Context(), 3)
	if err != nil || strings.Join(texts, " ") != "O-0002 O-0003 O-0004" || s.requests.Load() != 2 {
		t.Fatalf("%q, %v, %d requests", texts, err, s.requests.Load())
	}
	for _, n := range []int{0, maxBatch + 1} {
		if texts, err := orders.Take(t.Context(), n); err == nil {
			t.Errorf("%d: %q", n, texts)
		}
	}
	s.refuse.Store(&answer{Code: -5, Message: "no more today"})
	s.status.Store(http.StatusConflict)
	var refused *Error
	if text, err := orders.Next(t.Context()); !errors.As(err, &refused) || refused.Code != -5 {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := orders.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("%q, %v", text, err)
	}
}

// A replica that hangs is a timeout of the client's own, as the caller's context lives.
func TestTimeoutIsTheClients(t *testing.T) {
	s := &service{most: 1 << 20}
	s.delay.Store(int64(time.Second))
	for _, hc := range []*http.Client{nil, {Timeout: 50 * time.Millisecond}} {
		c := newClient(t, Options{Addrs: []string{start(t, s)}, Timeout: 200 * time.Millisecond, HTTPClient: hc})
		for what, ask := range map[string]func() error{
			"Next":   func() error { _, err := c.UID().Next(t.Context()); return err },
			"Number": func() error { _, err := c.Number("a").Next(t.Context()); return err },
		} {
			if err := ask(); !errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := c.Number("a").Next(ctx); errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own: %v", err)
		}
		cancel()
	}
}

// What stays wrong is said at once.
func TestWhatStaysWrongIsNotRepeated(t *testing.T) {
	asked := atomic.Int64{}
	count := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"code":-7,"message":"no such token"}`))
	})
	plain, secret, foreign := httptest.NewServer(count), httptest.NewUnstartedServer(count), httptest.NewServer(http.NotFoundHandler())
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	for _, server := range []*httptest.Server{plain, secret, foreign} {
		defer server.Close()
	}
	for what, c := range map[string]struct{ addr, says string }{
		"a bad token":          {plain.URL, "no such token"},
		"an unknown authority": {secret.URL, "unknown authority"},
		"http to https":        {"http" + strings.TrimPrefix(secret.URL, "https"), "HTTPS"},
		"https to http":        {"https" + strings.TrimPrefix(plain.URL, "http"), "HTTP response to HTTPS client"},
		"no shardid":           {foreign.URL, "is its address right?"},
	} {
		asked.Store(0)
		began := time.Now()
		requests := atomic.Int64{}
		client := newClient(t, Options{Addrs: []string{c.addr}, Timeout: 10 * time.Second, OnRequest: func(Request) { requests.Add(1) }})
		_, err := client.UID().Next(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrTimeout) {
			t.Errorf("%s: %v", what, err)
		}
		if n := requests.Load(); n != 1 || asked.Load() > 1 || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %d requests in %v", what, n, time.Since(began))
		}
	}
	s := &service{most: 1 << 20} // the others are asked
	c := newClient(t, Options{Addrs: []string{secret.URL, foreign.URL, start(t, s)}, MaxHeld: 1})
	for range 10 {
		if _, err := c.UID().Next(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestZeroValuesSayUseNew(t *testing.T) {
	var c Client
	for what, ask := range map[string]func() error{
		"Source":    func() error { _, err := new(Source).Next(t.Context()); return err },
		"Take":      func() error { _, err := new(Source).Take(t.Context(), 1); return err },
		"Queue":     func() error { _, err := new(Queue).Next(t.Context(), "alice"); return err },
		"Number":    func() error { _, err := new(Number).Next(t.Context()); return err },
		"Queue()":   func() error { _, err := c.Queue(1).Take(t.Context(), "alice", 1); return err },
		"Segment()": func() error { _, err := c.Segment("a").Next(t.Context()); return err },
		"Number()":  func() error { _, err := c.Number("a").Next(t.Context()); return err },
		"UID()":     func() error { _, err := c.UID().Next(t.Context()); return err },
		"Close()":   c.Close,
	} {
		if err := ask(); !errors.Is(err, ErrZero) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Buffers of tags that are no longer used hold no memory; a Source that was kept goes on.
func TestIdleTagsAreForgotten(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	kept := c.Segment("kept")
	first, err := kept.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 100_000 {
		c.Segment("tag-" + strconv.Itoa(i))
	}
	if c.Segment("kept") != kept {
		t.Error("a tag in use has another source")
	}
	full := heap()
	for range idleSweeps + 1 {
		c.sweep()
	}
	c.mu.Lock()
	buffers, segments := len(c.buffers), len(c.segments)
	c.mu.Unlock()
	if after := heap(); buffers != 0 || segments != 0 || after > before+1<<20 {
		t.Errorf("%d buffers and %d tags are left, %d KiB after %d KiB and at most %d KiB", buffers, segments, after>>10, before>>10, full>>10)
	}
	second, err := kept.Next(t.Context())
	if err != nil || second <= first {
		t.Errorf("%d after %d, %v", second, first, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, swept := c.buffers[kept.buffer]; !swept {
		t.Error("the janitor does not know a buffer that is in use again")
	}
}

func TestRequestsAreToldAndNamed(t *testing.T) {
	agents := make(chan string, 1)
	s := &service{most: 1 << 20}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	told := make(chan Request, 1)
	c := newClient(t, Options{Addrs: []string{server.URL + "/"}, OnRequest: func(r Request) { told <- r }})
	if _, err := c.Segment("orders").Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-told; r.Addr != server.URL || r.Path != "/v1/segment/orders/ids" || r.Took <= 0 || r.Err != nil {
		t.Errorf("%+v", r)
	}
	if agent := <-agents; !strings.HasPrefix(agent, "shardid-go-client (go") {
		t.Errorf("the User-Agent is %q", agent)
	}
}
