package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What a replica answers that are not the IDs or numbers that were asked for is not used.
func TestAnswersThatAreNone(t *testing.T) {
	const range1 = `{"first":"1","count":9223372036854775807,"stride":"1"}`
	for body, isForIDs := range map[string]bool{
		`"ids":["1","2"]`: false, `"ranges":[]`: false, `"ranges":[{"first":"1","count":77,"stride":"1"}]`: false,
		`"ranges":[{"first":"0","count":2,"stride":"1"}]`:                                       false,
		`"ranges":[{"first":"5","count":2,"stride":"0"}]`:                                       false,
		`"ranges":[{"first":"5","count":-1,"stride":"1"},{"first":"5","count":3,"stride":"1"}]`: false,
		`"ranges":[` + range1 + `,` + range1 + `,{"first":"1","count":4,"stride":"1"}]`:         false,
		`"current":"-1"`: false, `"current":null`: false,
		// The numbers of a sequence follow each other.
		`"ranges":[{"first":"1","count":1,"stride":"1"},{"first":"5","count":1,"stride":"1"}]`: true,
		`"ranges":[{"first":"1","count":2,"stride":"16384"}]`:                                  true,
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
				if isForIDs && what == "IDs" {
					continue
				}
				if err := ask(); err == nil || !strings.Contains(err.Error(), "not used") {
					t.Errorf("%s: %v", what, err)
				}
			}
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
	c = newClient(t, Options{Addrs: []string{hangs, good.URL}, Timeout: time.Second})
	for _, tag := range []string{"a", "b"} { // either replica is asked first
		if _, err := c.Segment(tag).Next(t.Context()); err != nil {
			t.Error(err)
		}
	}
	var refused *Error // it is told, and not that another one is unreachable
	c = newClient(t, Options{Addrs: []string{bad.URL, starting.URL, bad.URL}, Timeout: 200 * time.Millisecond})
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

// Each call is one request, in whose body the key is; another replica is asked where one fails.
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
	for range 2 {
		if n, err := c.Sequence("chat").Next(t.Context(), "a&b"); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if n, err := c.Sequence("a/b").Current(t.Context(), "a&b"); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	const post = "POST /v1/sequence/chat/ids count=1&key=a%26b&ranges=true"
	if got := *asked.Load(); !slices.Equal(got, []string{post, post, "GET /v1/sequence/a%2Fb/current?key=a%26b "}) ||
		away.Requests() == 0 {
		t.Errorf("%q, %d at the other", got, away.Requests())
	}
}
