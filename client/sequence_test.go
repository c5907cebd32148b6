package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
)

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
