package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
)

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
	away.Refuse(CodeUnknown, "space is not provisioned")
	var refused *Error
	lone := newClient(t, Options{Addrs: []string{away.URL}})
	before := away.Requests()
	if _, err := lone.Sequence("x").Next(t.Context(), "k"); !errors.As(err, &refused) || refused.Code != CodeUnknown ||
		away.Requests() != before+1 {
		t.Errorf("%v after %d requests", err, away.Requests()-before)
	}
	for _, n := range []int{0, -1, MaxNumbers + 1} {
		if numbers, err := lone.Sequence("x").Take(t.Context(), "k", n); err == nil || numbers != nil ||
			away.Requests() != before+1 {
			t.Errorf("%d: %v, %v", n, numbers, err)
		}
	}
}
