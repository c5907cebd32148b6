package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Numbers that do not follow each other are not used.
func TestNumbersThatDoNotFollow(t *testing.T) {
	const apart = `{"first":"1","count":1,"stride":"1"},{"first":"5","count":1,"stride":"1"}`
	for _, ranges := range []string{apart, `{"first":"1","count":2,"stride":"16384"}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"code":0,"ranges":[`+ranges+`]}`)
		}))
		s := newClient(t, Options{Addrs: []string{server.URL}, Timeout: 200 * time.Millisecond}).Sequence("chat")
		numbers, err := s.Take(t.Context(), "k", 2)
		if err == nil || !strings.Contains(err.Error(), "not used") || numbers != nil {
			t.Errorf("%s: %v, %v", ranges, numbers, err)
		}
		server.Close()
	}
}

// Each call is one request, in whose body the key is; another replica is asked where one fails, and
// a refusal is final. Too many are refused here.
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
	away := &service{}
	away.refuse.Store(&answer{Code: CodeEmpty, Message: "no number"})
	away.status.Store(503)
	c := newClient(t, Options{Addrs: []string{good.URL, start(t, away)}})
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
		away.requests.Load() == 0 {
		t.Errorf("%q, %d at the other", got, away.requests.Load())
	}
	away.refuse.Store(&answer{Code: CodeUnknown, Message: "space is not provisioned"})
	away.status.Store(404)
	var refused *Error
	lone := newClient(t, Options{Addrs: []string{start(t, away)}})
	before := away.requests.Load()
	if _, err := lone.Sequence("x").Next(t.Context(), "k"); !errors.As(err, &refused) || refused.Code != CodeUnknown ||
		away.requests.Load() != before+1 {
		t.Errorf("%v after %d requests", err, away.requests.Load()-before)
	}
	for _, n := range []int{0, -1, MaxNumbers + 1} {
		if numbers, err := lone.Sequence("x").Take(t.Context(), "k", n); err == nil || numbers != nil ||
			away.requests.Load() != before+1 {
			t.Errorf("%d: %v, %v", n, numbers, err)
		}
	}
}
