package client

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What a replica answers that are not the IDs or numbers that were asked for is not used.
func TestAnswersThatAreNone(t *testing.T) {
	const range1 = `{"first":"1","count":9223372036854775807,"stride":"1"}`
	for _, body := range []string{
		`"ids":["1","2"]`, `"ranges":[]`, `"ranges":[{"first":"1","count":77,"stride":"1"}]`,
		`"ranges":[{"first":"0","count":2,"stride":"1"}]`, `"ranges":[{"first":"5","count":2,"stride":"0"}]`,
		`"ranges":[{"first":"5","count":-1,"stride":"1"},{"first":"5","count":3,"stride":"1"}]`,
		`"ranges":[` + range1 + `,` + range1 + `,{"first":"1","count":4,"stride":"1"}]`,
		`"current":"-1"`, `"current":null`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"code":0,`+body+`}`)
			}))
			defer server.Close()
			c := newClient(t, Options{Addrs: []string{server.URL}, MaxHeld: 1, Timeout: 300 * time.Millisecond})
			for what, ask := range map[string]func() error{
				"IDs":     func() error { _, err := c.UID().Take(t.Context(), 2); return err },
				"numbers": func() error { _, err := c.Sequence("chat").Take(t.Context(), "k", 2); return err },
				"current": func() error { _, err := c.Sequence("chat").Current(t.Context(), "k"); return err },
			} {
				if err := ask(); err == nil || !strings.Contains(err.Error(), "not used") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
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
		t.Errorf("a replica that is unreachable was asked %d times", down)
	}
	var refused *Error // it is told, and not that another one is unreachable
	c = newClient(t, Options{Addrs: []string{bad.URL, start(t, starting), bad.URL}, Timeout: 200 * time.Millisecond})
	if _, err := c.UID().Next(t.Context()); !errors.As(err, &refused) || !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// A replica that hangs is a timeout of the client's own, as the caller's context lives.
func TestTimeoutIsTheClients(t *testing.T) {
	s := &service{most: 1 << 20}
	s.delay.Store(int64(time.Second))
	for _, hc := range []*http.Client{nil, {Timeout: 50 * time.Millisecond}} {
		c := newClient(t, Options{Addrs: []string{start(t, s)}, Timeout: 200 * time.Millisecond, HTTPClient: hc})
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

// What stays wrong is said at once.
func TestWhatStaysWrongIsNotRepeated(t *testing.T) {
	asked := atomic.Int64{}
	count := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"code":-7,"message":"no such token"}`))
	})
	plain, secret, foreign := httptest.NewServer(count), httptest.NewUnstartedServer(count),
		httptest.NewServer(http.NotFoundHandler())
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
		client := newClient(t, Options{Addrs: []string{c.addr}, Timeout: 10 * time.Second,
			OnRequest: func(Request) { requests.Add(1) }})
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
