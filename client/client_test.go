package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/client/clienttest"
)

// A connection of HTTP/2 whose other end is gone is left for a new one. Only its pings tell, as the network does not.
func TestAConnectionThatIsDead(t *testing.T) {
	s := clienttest.Start()
	t.Cleanup(s.Close)
	front := httptest.NewUnstartedServer(s.Config.Handler)
	front.EnableHTTP2 = true
	listener := newCutListener(front.Listener)
	front.Listener = listener
	front.StartTLS()
	t.Cleanup(front.Close)
	before := http.DefaultTransport
	http.DefaultTransport = front.Client().Transport
	t.Cleanup(func() { http.DefaultTransport = before })
	c := newClient(t, Options{Addrs: []string{front.URL}, MaxHeld: 1, Timeout: time.Second})
	if _, err := c.UID().Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	listener.cutOff()
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := c.UID().Next(t.Context()); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A token is for the addresses that were given.
func TestFollowsNoRedirect(t *testing.T) {
	s := fake(t)
	front := httptest.NewServer(http.RedirectHandler(s.URL, http.StatusTemporaryRedirect))
	t.Cleanup(front.Close)
	c := newClient(t, Options{Addrs: []string{front.URL}, Timeout: 300 * time.Millisecond})
	if _, err := c.UID().Next(t.Context()); err == nil || s.Requests() > 0 {
		t.Errorf("%v after %d requests", err, s.Requests())
	}
}

// A refusal is told as it is and once; what may pass is asked for until the timeout.
func TestErrors(t *testing.T) {
	s := fake(t)
	c := newClient(t, Options{Addrs: []string{s.URL}, MaxHeld: 1})
	var refused *Error
	for code, status := range map[int]int{CodeLimit: 409, CodeToken: 401, CodeUnknown: 404, CodeNoRoute: 404} {
		s.Refuse(code, "for a test")
		before := s.Requests()
		if _, err := c.Queue(1).Next(t.Context(), "alice"); !errors.As(err, &refused) || refused.Code != code ||
			refused.Status != status || errors.Is(err, ErrTimeout) || s.Requests() != before+1 {
			t.Errorf("%d: %v after %d requests", code, err, s.Requests()-before)
		}
	}
	s.Refuse(CodeEmpty, "queue is empty")
	hasty := newClient(t, Options{Addrs: []string{s.URL}, Timeout: 300 * time.Millisecond})
	if _, err := hasty.Queue(1).Take(t.Context(), "alice", 3); !errors.As(err, &refused) || refused.Code != CodeEmpty ||
		!errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	s.Refuse(0, "")
	if _, err := c.Queue(1).Next(t.Context(), "alice"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if _, err := c.Queue(1).Next(t.Context(), ""); err == nil {
		t.Error("an empty gatePass was taken")
	}
	before := s.Requests()
	for _, c := range []struct {
		most int
		take func(n int) error
	}{
		{MaxTake, func(n int) error { _, err := c.UID().Take(t.Context(), n); return err }},
		{MaxNumbers, func(n int) error { _, err := c.Number("a").Take(t.Context(), n); return err }},
		{MaxNumbers, func(n int) error { _, err := c.Sequence("a").Take(t.Context(), "k", n); return err }},
	} {
		for _, n := range []int{-1, 0, c.most + 1, 1 << 62} {
			if c.take(n) == nil || s.Requests() != before {
				t.Errorf("%d were asked for, of %d at most", n, c.most)
			}
		}
	}
	for _, opts := range []Options{{}, {Addrs: []string{"localhost:8080"}},
		{Addrs: []string{"http://:8080"}}, {Addrs: []string{"http://x/?a=b"}},
		{Addrs: []string{"http://user:pass@x"}}, {Addrs: []string{"http://x#a"}}, {Addrs: []string{"ftp://x"}},
		{Addrs: []string{"http://x"}, MaxHeld: -1}} {
		if _, err := New(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
}

func TestClose(t *testing.T) {
	addr, came := hung(t)
	c := newClient(t, Options{Addrs: []string{addr}})
	waits := make(chan error, 1)
	go func() { _, err := c.Segment("slow").Next(t.Context()); waits <- err }()
	<-came
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
	if text, err := c.Number("a").Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %q, %v", text, err)
	}
}

// Business numbers are asked for when they are wanted, each once.
func TestNumbers(t *testing.T) {
	s := fake(t)
	orders := newClient(t, Options{Addrs: []string{"http://127.0.0.1:1", s.URL}}).Number("a/b")
	text, err := orders.Next(t.Context())
	if err != nil || text != "1" {
		t.Fatalf("%q, %v", text, err)
	}
	texts, err := orders.Take(t.Context(), 3)
	if err != nil || strings.Join(texts, " ") != "2 3 4" || s.Requests() != 2 {
		t.Fatalf("%q, %v, %d requests", texts, err, s.Requests())
	}
}

// A buffer begins with a few IDs, and holds no more than Options.MaxHeld however fast they are used.
func TestHeldIsBounded(t *testing.T) {
	s := fake(t)
	take := func(most, n int) (last int64) {
		source := newClient(t, Options{Addrs: []string{s.URL}, MaxHeld: most}).UID()
		for range n {
			var err error
			if last, err = source.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return last
	}
	take(0, 1)
	if next := take(1, 1); next != firstFetch+1 || s.Requests() != 2 {
		t.Errorf("the first ID fetched %d, with %d requests", next-1, s.Requests())
	}
	if take(100, 10_000); s.Requests() < 102 {
		t.Errorf("%d requests for 10,000 IDs", s.Requests()-2)
	}
}

// BenchmarkNext is refilled over HTTP on loopback, in this process.
func BenchmarkNext(b *testing.B) {
	c := newClient(b, Options{Addrs: []string{fake(b).URL}})
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

// The IDs of all keys come from one buffer, none twice, and each ends in the bits of its key. What answers without
// shard bits, or with others than before, is not used.
func TestKeys(t *testing.T) {
	s := fake(t)
	c := newClient(t, Options{Addrs: []string{s.URL}})
	orders, seen := c.Segment("orders"), map[int64]bool{}
	for key := range uint64(3000) {
		one, err := orders.For(key).Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		two, err := orders.ForText("tenant-7").Take(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		const tenant = 0x128cacca % 1024
		for id, low := range map[int64]int64{one: int64(key % 1024), two[0]: tenant, two[1]: tenant} {
			if id%1024 != low || seen[id>>10] {
				t.Fatalf("ID %d of key %d", id, key)
			}
			seen[id>>10] = true
		}
	}
	if n := s.Requests(); n > 40 {
		t.Errorf("%d requests for 9000 IDs", n)
	}
	unasked := fake(t)
	other := newClient(t, Options{Addrs: []string{unasked.URL}})
	for _, err := range []error{
		func() error { _, err := other.Segment("orders").ForText("007").Next(t.Context()); return err }(),
		func() error { _, err := other.Segment("orders").ForText("").Take(t.Context(), 1); return err }(),
		func() error { _, err := other.UID().For(7).Next(t.Context()); return err }(),
	} {
		if err == nil || unasked.Requests() > 0 {
			t.Errorf("%v, %d requests", err, unasked.Requests())
		}
	}
	if id, err := c.Queue(1).Shard(64 + 26).Next(t.Context()); err != nil || id>>8&63 != 26 {
		t.Errorf("%d, %v", id, err)
	}
	n := numbers{}
	for bits, want := range []bool{false, true, false, true} {
		if err := n.noteBits([]uint32{0, 4, 5, 4}[bits]); (err == nil) != want {
			t.Errorf("answer %d: %v", bits, err)
		}
	}
}

// What a replica answers that are not the IDs or numbers that were asked for is not used.
func TestAnswersThatAreNone(t *testing.T) {
	const range1 = `{"first":"1","count":9223372036854775807,"stride":"1"}`
	for body, isForIDs := range map[string]bool{
		`"ids":["1","2"]`: false, `"ranges":[]`: false, `"ranges":[{"first":"1","count":77,"stride":"1"}]`: false,
		`"ranges":[{"first":"0","count":2,"stride":"1"}]`:                                       false,
		`"ranges":[{"first":"5","count":2,"stride":"0"}]`:                                       false,
		`"ranges":[{"first":"9223372036854775807","count":2,"stride":"1"}]`:                     false,
		`"ranges":[{"first":"5","count":-1,"stride":"1"},{"first":"5","count":3,"stride":"1"}]`: false,
		`"ranges":[` + range1 + `,` + range1 + `,{"first":"1","count":4,"stride":"1"}]`:         false,
		`"current":"-1"`: false, `"current":null`: false,
		// The numbers of a sequence follow each other.
		`"ranges":[{"first":"1","count":1,"stride":"1"},{"first":"5","count":1,"stride":"1"}]`: true,
		`"ranges":[{"first":"1","count":2,"stride":"16384"}]`:                                  true,
	} {
		t.Run(body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := roundTripper(func(*http.Request) (*http.Response, error) {
					text := io.NopCloser(strings.NewReader(`{"code":0,` + body + `}`))
					return &http.Response{StatusCode: http.StatusOK, Body: text}, nil
				})
				speaks := &http.Client{Transport: answer}
				c := newClient(t, Options{Addrs: []string{"http://a"}, HTTPClient: speaks, MaxHeld: 1})
				for what, ask := range map[string]func() error{
					"IDs":     func() error { _, err := c.UID().Take(t.Context(), 2); return err },
					"numbers": func() error { _, err := c.Sequence("chat").Take(t.Context(), "k", 2); return err },
					"current": func() error { _, err := c.Sequence("chat").Current(t.Context(), "k"); return err },
				} {
					if isForIDs && what == "IDs" {
						continue
					}
					if err := ask(); err == nil || !strings.Contains(err.Error(), "not used") {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		})
	}
}

func TestFailover(t *testing.T) {
	good, starting, bad := fake(t), fake(t), httptest.NewServer(nil)
	bad.Close() // refuses connections
	starting.Refuse(CodeNotReady, "not initialised yet")
	var asked atomic.Int64
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	defer foreign.Close()
	c := newClient(t, Options{Addrs: []string{bad.URL, starting.URL, foreign.URL, good.URL}, MaxHeld: 1})
	for range 200 {
		if _, err := c.UID().Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if asked.Load() > 20 {
		t.Errorf("what is no shardid was asked %d times", asked.Load())
	}
	hangs, _ := hung(t)
	c = newClient(t, Options{Addrs: []string{hangs, good.URL}, Timeout: 4 * time.Second})
	for _, tag := range []string{"a", "b"} { // either replica is asked first
		if _, err := c.Segment(tag).Next(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var refused *Error // it is told, and not that another one is unreachable
	c = newClient(t, Options{Addrs: []string{bad.URL, starting.URL, bad.URL}, Timeout: 2 * time.Second})
	if _, err := c.UID().Next(t.Context()); !errors.As(err, &refused) || !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A replica lets a caller wait for two seconds, of the three of a client. With several replicas, too, its reason is
// told.
func TestThePatienceOfAReplicaIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replica := roundTripper(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(2 * time.Second):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			body := io.NopCloser(strings.NewReader(`{"code":-4,"message":"queue is empty"}`))
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: body}, nil
		})
		addrs := []string{"http://a", "http://b"}
		c := newClient(t, Options{Addrs: addrs, HTTPClient: &http.Client{Transport: replica}})
		var refused *Error
		if _, err := c.UID().Next(t.Context()); !errors.As(err, &refused) || !errors.Is(err, ErrTimeout) {
			t.Errorf("%v", err)
		}
	})
}

// A program may have put something else into http.DefaultTransport, which then speaks to the replicas.
func TestReplacedTransport(t *testing.T) {
	before, away := http.DefaultTransport, errors.New("not today")
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = roundTripper(func(*http.Request) (*http.Response, error) { return nil, away })
	synctest.Test(t, func(t *testing.T) { // at its end the client has asked for the last time
		c := newClient(t, Options{Addrs: []string{"http://a"}})
		if _, err := c.UID().Next(t.Context()); !errors.Is(err, away) {
			t.Error(err)
		}
	})
}

// A replica that hangs is a timeout of the client's own, as the caller's context lives.
func TestTimeoutIsTheClients(t *testing.T) {
	addr, _ := hung(t)
	for _, hc := range []*http.Client{nil, {Timeout: 50 * time.Millisecond}} {
		c := newClient(t, Options{Addrs: []string{addr}, Timeout: 200 * time.Millisecond, HTTPClient: hc})
		for what, ask := range map[string]func() error{
			"Next":     func() error { _, err := c.UID().Next(t.Context()); return err },
			"Number":   func() error { _, err := c.Number("a").Next(t.Context()); return err },
			"Sequence": func() error { _, err := c.Sequence("a").Next(t.Context(), "k"); return err },
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

// Each call is one request, in whose body the key is. Another replica is asked where one has no number, which is then
// asked last.
func TestSequenceRequests(t *testing.T) {
	var asked atomic.Pointer[[]string]
	asked.Store(&[]string{})
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		all := append(slices.Clone(*asked.Load()), r.Method+" "+r.URL.String()+" "+string(body))
		asked.Store(&all)
		_, _ = io.WriteString(w, `{"code":0,"ranges":[{"first":"7","count":1,"stride":"1"}],"current":"7"}`)
	}))
	defer good.Close()
	away := fake(t)
	away.Refuse(CodeEmpty, "no number")
	c := newClient(t, Options{Addrs: []string{good.URL, away.URL}})
	for range 4 {
		if n, err := c.Sequence("chat").Next(t.Context(), "a&b"); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if n, err := c.Sequence("a/b").Current(t.Context(), "a&b"); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	const post = "POST /v1/sequence/chat/ids count=1&key=a%26b&ranges=true"
	want := []string{post, post, post, post, "GET /v1/sequence/a%2Fb/current?key=a%26b "}
	if got := *asked.Load(); !slices.Equal(got, want) || away.Requests() != 1 {
		t.Errorf("%q, %d at the other", got, away.Requests())
	}
}

// A client gets what is left below a limit, although that is less than it asks for.
func TestTheLastIDs(t *testing.T) {
	const last = 1039
	var next, asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count, _ := strconv.Atoi(r.FormValue("count"))
		asked.Add(1)
		if next.Load()+int64(count) > last {
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(w, `{"code":%d,"message":"too few are left"}`, CodeLimit)
			return
		}
		first := next.Add(int64(count)) - int64(count) + 1
		_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[{"first":"%d","count":%d,"stride":"1"}]}`, first, count)
	}))
	defer server.Close()
	ids := newClient(t, Options{Addrs: []string{server.URL}}).Segment("orders")
	if all, err := ids.Take(t.Context(), 1000); err != nil || all[999] != 1000 {
		t.Fatalf("%v, %v", all, err)
	}
	for want := range int64(last - 1000) {
		if id, err := ids.Next(t.Context()); err != nil || id != want+1001 {
			t.Fatalf("got %d, %v, want %d", id, err, want+1001)
		}
	}
	if n := asked.Load(); n > 40 {
		t.Errorf("%d requests for %d IDs", n, last)
	}
	var refused *Error
	if _, err := ids.Next(t.Context()); !errors.As(err, &refused) || refused.Code != CodeLimit {
		t.Errorf("after the last: %v", err)
	}
}
