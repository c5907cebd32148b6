package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
)

// TestModes: every mode asks for what the contract says and reads its answers,
// single ones and batches.
func TestModes(t *testing.T) {
	for mode, path := range map[string]string{
		ModeQueue: "/get?appId=1&gatePass=bench-", ModeSegment: "/api/segment/get/leaf-segment-test",
		ModeSnowflake: "/api/snowflake/get/", ModeUID: "/api/uid/get",
	} {
		for _, count := range []int{0, 1, 25, 2000} {
			t.Run(fmt.Sprint(mode, count), func(t *testing.T) {
				s := &issuer{spoil: func(_ http.ResponseWriter, r *http.Request, _ int64) bool {
					if !strings.HasPrefix(r.URL.String(), path) || strings.Contains(r.URL.RawQuery, "count") != (count > 0) {
						t.Errorf("asked for %s", r.URL)
					}
					return false
				}}
				o := brief(serve(t, s))
				o.Mode, o.Count, o.Duration = mode, count, 50*time.Millisecond
				r := mustRun(t, o)
				if r.Requests == 0 || r.IDs != r.Requests*int64(max(count, 1)) || r.Failed() > 0 || r.Duplicates > 0 {
					t.Errorf("%+v", r)
				}
				check.Equal(t, r.Compared, s.last.Load(), "compared IDs")
			})
		}
	}
}

// TestSequenceMode: the keys of a space take turns. Their numbers are alike, so none is compared.
func TestSequenceMode(t *testing.T) {
	s := &issuer{spoil: func(w http.ResponseWriter, r *http.Request, _ int64) bool {
		q := r.URL.Query()
		if !strings.HasPrefix(q.Get("key"), "bench-") || q.Get("count") != "" || r.URL.Path != "/v1/sequence/chat/ids" {
			t.Errorf("asked for %s", r.URL)
		}
		_, err := fmt.Fprint(w, `{"code":0,"ids":["7"]}`)
		check.OK(t, err)
		return true
	}}
	o := brief(serve(t, s))
	o.Mode, o.Space, o.Passes = ModeSequence, "chat", 10
	if r := mustRun(t, o); r.Requests == 0 || r.IDs != r.Requests || r.Failed() > 0 || r.Compared > 0 || r.Duplicates > 0 {
		t.Errorf("%+v", r)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:1":  "GET /v1/sequence/chat/ids?key=bench-9&count=5 HTTP/1.1\r\n",
		"redis://127.0.0.1:1": "*2\r\n$4\r\nINCR\r\n$21\r\nsequence:chat:bench-9\r\n",
	} {
		if o.URL, o.Count = url, 5; strings.HasPrefix(url, "redis") {
			o.Count = 0
		}
		l, err := New(o)
		check.Must(t, err)
		if got := string(l.target.requests[9]); len(l.target.requests) != 10 || !strings.HasPrefix(got, want) {
			t.Errorf("%d requests, the last is %q", len(l.target.requests), got)
		}
	}
}

// asked counts how often each list is asked for by the requests of a run.
func asked(t *testing.T, o Options) (lists map[model.ListKey]int, requests int) {
	t.Helper()
	l, err := New(o)
	check.Must(t, err)
	lists = map[model.ListKey]int{}
	for _, request := range l.target.requests {
		u, err := url.ParseRequestURI(strings.Fields(string(request))[1])
		check.Must(t, err)
		app, err := strconv.ParseUint(u.Query().Get("appId"), 10, 8)
		check.Must(t, err)
		lists[model.ListKey{App: uint8(app), Shard: model.ShardOf(u.Query().Get("gatePass"))}]++
	}
	return lists, len(l.target.requests)
}

// TestShards: the passes of an ordinary run use all 64 shards alike; with 64 passes an
// app, all lists of all apps take turns.
func TestShards(t *testing.T) {
	o := brief("http://127.0.0.1:1")
	lists, requests := asked(t, o)
	check.Equal(t, len(lists), model.Shards, "shards")
	for key, n := range lists {
		check.Equal(t, n, requests/model.Shards, "passes of list", key)
	}
	o.App, o.Apps, o.Passes = 0, model.Apps, model.Apps*model.Shards
	lists, _ = asked(t, o)
	check.Equal(t, len(lists), o.Passes, "lists of all apps")
}

// TestOneInAMillion: one ID that is issued for the second time is found among a
// million, whoever got them.
func TestOneInAMillion(t *testing.T) {
	s := &issuer{repeat: 1_000_000}
	done := make(chan struct{})
	s.spoil = func(http.ResponseWriter, *http.Request, int64) bool {
		if s.last.Load() == 1_100_000 {
			close(done)
		}
		return false
	}
	o := brief(serve(t, s))
	o.Count, o.Duration = 10_000, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { <-done; cancel() }()
	l, err := New(o)
	check.Must(t, err)
	r, err := l.Run(ctx)
	if err != nil || r.Compared < 1_100_000 || r.Duplicates != 1 || r.FirstDuplicates[0] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if !r.Interrupted || r.Duration > 50 {
		t.Errorf("interrupted %t after %v s", r.Interrupted, r.Duration)
	}
}

// TestCompareBound: what is beyond the bound is counted and not compared.
func TestCompareBound(t *testing.T) {
	for _, bound := range []int64{0, 1000} {
		s := &issuer{}
		o := brief(serve(t, s))
		o.Compare, o.Count = bound, 500
		r := mustRun(t, o)
		if r.Compared != bound || r.Compared+r.NotCompared != s.last.Load() || r.IDs <= bound {
			t.Errorf("bound %d: %+v, %d were issued", bound, r, s.last.Load())
		}
	}
}

// TestWarmUp: what happens in it is not measured, but its IDs are compared and its
// breaches counted.
func TestWarmUp(t *testing.T) {
	const warm = 300 * time.Millisecond
	var begun time.Time
	var once sync.Once
	s := &issuer{}
	s.spoil = func(w http.ResponseWriter, _ *http.Request, n int64) bool {
		once.Do(func() { begun = time.Now() })
		if time.Since(begun) > warm/2 {
			return false
		}
		time.Sleep(warm / 8) // slow, unless it is refused
		switch n {
		case 1:
			return false
		case 2:
			fmt.Fprint(w, `{"code":0,"id":1,"idStr":"1"}`) // again
		case 3:
			fmt.Fprint(w, `{"code":0,"id":0,"idStr":"0"}`)
		default:
			http.Error(w, `{"code":-1,"message":"not yet"}`, http.StatusServiceUnavailable)
		}
		return true
	}
	o := brief(serve(t, s))
	o.Warmup, o.Rate = warm, 200
	r := mustRun(t, o)
	if r.Duplicates != 1 || r.Breaches[errBelowOne.Error()] != 1 || len(r.Errors) > 0 {
		t.Errorf("%+v", r)
	}
	if r.Requests > 40 || r.Requests < 1 || r.Compared <= r.IDs {
		t.Errorf("%d requests and %d IDs measured, %d compared", r.Requests, r.IDs, r.Compared)
	}
}

// TestRefusals are grouped by status and code; the first is shown.
func TestRefusals(t *testing.T) {
	s := &issuer{spoil: func(w http.ResponseWriter, _ *http.Request, n int64) bool {
		switch {
		case n == 1:
			return false
		case n%2 == 0:
			http.Error(w, `{"code":-4,"message":"the list is empty"}`, http.StatusServiceUnavailable)
		default:
			http.Error(w, "a proxy's page", http.StatusBadGateway)
		}
		return true
	}}
	r := mustRun(t, brief(serve(t, s)))
	if r.Errors["503 code -4"] == 0 || r.Errors["502"] == 0 || len(r.Errors) != 2 || r.Requests != 0 || len(r.Breaches) > 0 {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(r.FirstError, "the server answered: ") {
		t.Errorf("first error: %v", r.FirstError)
	}
}

// TestBreaches: answers that must never be are told apart from refusals, and their
// IDs count as issued.
func TestBreaches(t *testing.T) {
	s := &issuer{spoil: func(w http.ResponseWriter, _ *http.Request, n int64) bool {
		switch n {
		case 10:
			fmt.Fprint(w, `{"code":0,"ids":[5000000,5000001]}`)
		case 11:
			fmt.Fprint(w, `{"code":0,"ids":[5000000,-1,5000002]}`)
		case 12:
			http.Error(w, `{"code":-4,"ids":[1,2,3]}`, http.StatusServiceUnavailable)
		case 13:
			fmt.Fprint(w, "hello")
		default:
			return false
		}
		return true
	}}
	o := brief(serve(t, s))
	o.Count = 3
	r := mustRun(t, o)
	for _, b := range []breach{errWrongCount, errBelowOne, errIDInError, errUnreadable} {
		check.Equal(t, r.Breaches[b.Error()], 1, b)
	}
	if r.Duplicates != 1 || len(r.Errors) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestMalformed: a server that speaks no HTTP, or too little of it, is an error soon,
// and is connected to less and less often.
func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct{ wire, kind string }{
		"another protocol": {"220 mail.example.com ESMTP\r\n", kindMalformed},
		"half an answer":   {"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", kindClosed},
		"nothing":          {"", kindClosed},
	} {
		t.Run(name, func(t *testing.T) {
			s := &issuer{spoil: func(w http.ResponseWriter, _ *http.Request, n int64) bool {
				if n == 1 {
					return false
				}
				hijack(t, w, c.wire)
				return true
			}}
			r := mustRun(t, brief(serve(t, s)))
			if n := s.asked.Load(); r.Errors[c.kind] == 0 || len(r.Errors) != 1 || r.Requests > 0 || n > 100 || r.Latency != (Latency{}) {
				t.Errorf("%+v, asked %d times", r, n)
			}
		})
	}
}

// hijack answers with wire and closes the connection.
func hijack(t *testing.T, w http.ResponseWriter, wire string) {
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = nc.Write([]byte(wire)) // the client may be gone
	_ = nc.Close()
}

// TestTimeout: a server that never answers costs its requests, not the run.
func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	s := &issuer{spoil: func(_ http.ResponseWriter, r *http.Request, n int64) bool {
		if n == 1 {
			return false
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	}}
	o := brief(serve(t, s))
	t.Cleanup(func() { close(release) }) // before the server is closed
	o.Timeout = 50 * time.Millisecond
	if r := mustRun(t, o); r.Errors[kindTimeout] < int64(o.Concurrency) || r.Requests > 0 {
		t.Errorf("%+v", r)
	}
}

// TestConnections: answers that end the connection are no errors, whether they say
// so or end with it; the run goes on with a new one.
func TestConnections(t *testing.T) {
	for name, answer := range map[string]string{
		"close":         "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\npong",
		"until the end": "HTTP/1.1 200 OK\r\n\r\npong",
	} {
		t.Run(name, func(t *testing.T) {
			o := brief(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, answer) })))
			o.Raw = "/ping"
			if r := mustRun(t, o); r.Requests <= int64(o.Concurrency) || r.Failed() > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestIdle: a connection that the server closed because it was idle is nobody's
// fault.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(&issuer{})
	s.Config.IdleTimeout = 50 * time.Millisecond
	s.Start()
	defer s.Close()
	o := brief(s.URL)
	o.Concurrency, o.Rate, o.Duration = 1, 0.6, 3400*time.Millisecond
	if r := mustRun(t, o); r.Requests != 3 || r.Failed() > 0 || r.Duplicates > 0 {
		t.Errorf("%+v", r)
	}
}

// TestTLSAndToken: https works, and the token is sent.
func TestTLSAndToken(t *testing.T) {
	s := httptest.NewTLSServer(&issuer{spoil: func(_ http.ResponseWriter, r *http.Request, _ int64) bool {
		check.Equal(t, r.Header.Get("Authorization"), "Bearer secret", "Authorization")
		return false
	}})
	defer s.Close()
	o := brief(s.URL + "/")
	o.Token, o.Duration = "secret", time.Second // handshakes take a while on a busy machine
	o.TLS = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	if r := mustRun(t, o); r.Requests == 0 || r.Failed() > 0 {
		t.Errorf("%+v", r)
	}
}

// TestRaw reads nothing but the status, below a path of the URL.
func TestRaw(t *testing.T) {
	o := brief(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, r.URL.String(), "/base/x?y=1", "asked for", r.URL)
		fmt.Fprint(w, "7")
	})) + "/base/")
	o.Raw = "/x?y=1"
	if r := mustRun(t, o); r.Requests == 0 || r.Mode != "raw" || r.IDs+r.Compared+r.Failed() > 0 {
		t.Errorf("%+v", r)
	}
}

// TestProgress is told about once a second.
func TestProgress(t *testing.T) {
	t.Parallel()
	o := brief(serve(t, &issuer{}))
	var seen []Progress
	o.Progress = func(p Progress) { seen = append(seen, p) }
	o.Warmup, o.Duration = 1200*time.Millisecond, 1200*time.Millisecond
	mustRun(t, o)
	if len(seen) < 2 || !seen[0].WarmingUp || seen[len(seen)-1].WarmingUp || seen[0].Requests == 0 ||
		seen[1].Requests <= seen[0].Requests || seen[1].IDs != seen[1].Requests || seen[1].Failed != 0 {
		t.Errorf("%+v", seen)
	}
}

// TestCannotBegin: a run with a wrong address or app fails at once, with advice.
func TestCannotBegin(t *testing.T) {
	refuse := func(status int, body string) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, status) }))
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"away":          {func(o *Options) { o.URL = gone.URL }, "is the server running?"},
		"unknown app":   {func(o *Options) { o.URL = refuse(404, `{"code":-2,"message":"no app 1"}`) }, "no app 1: or choose another with --app"},
		"unknown tag":   {func(o *Options) { o.Mode, o.URL = ModeSegment, refuse(404, `{"code":-2,"message":"no tag"}`) }, "--tag"},
		"disabled":      {func(o *Options) { o.Mode, o.URL = ModeUID, refuse(404, `{"code":-9,"message":"is off"}`) }, "is off"},
		"no shardid":    {func(o *Options) { o.URL = refuse(404, "not here") }, "is this a shardid?"},
		"a page":        {func(o *Options) { o.URL = page }, "is this a shardid"},
		"raw":           {func(o *Options) { o.URL, o.Raw = refuse(404, "not here"), "/x" }, "--raw needs a path"},
		"untrusted":     {func(o *Options) { o.URL = secure.URL }, "SSL_CERT_FILE"},
		"http to https": {func(o *Options) { o.URL = strings.Replace(secure.URL, "https", "http", 1) }, "HTTPS server"},
		"https to http": {func(o *Options) { o.URL = strings.Replace(page, "http", "https", 1) }, "http:// and https://"},
	} {
		t.Run(name, func(t *testing.T) {
			o := brief("")
			c.change(&o)
			err := runError(t, t.Context(), o)
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || errors.Is(err, model.ErrInvalidArgument) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no URL":      func(o *Options) { o.URL = "" },
		"no scheme":   func(o *Options) { o.URL = "127.0.0.1:8080" },
		"no host":     func(o *Options) { o.URL = "http://:8080" },
		"ftp":         func(o *Options) { o.URL = "ftp://127.0.0.1" },
		"a query":     func(o *Options) { o.URL += "/get?appId=1" },
		"a user":      func(o *Options) { o.URL = "http://me:secret@127.0.0.1" },
		"mode":        func(o *Options) { o.Mode = "uuid" },
		"app":         func(o *Options) { o.App = 256 },
		"apps":        func(o *Options) { o.App, o.Apps = 255, 2 },
		"passes":      func(o *Options) { o.Passes = 0 },
		"count":       func(o *Options) { o.Count = 10_001 },
		"rate":        func(o *Options) { o.Rate = -1 },
		"duration":    func(o *Options) { o.Duration = 0 },
		"warm-up":     func(o *Options) { o.Warmup = -time.Second },
		"timeout":     func(o *Options) { o.Timeout = 0 },
		"concurrency": func(o *Options) { o.Concurrency = 0 },
		"compare":     func(o *Options) { o.Compare = -1 },
		"token":       func(o *Options) { o.Token = "a\r\nX: y" },
		"raw":         func(o *Options) { o.Raw = "ping" },
		"raw lines":   func(o *Options) { o.Raw = "/ping HTTP/1.1\r\n" },
		"tag":         func(o *Options) { o.Mode, o.Tag = ModeSegment, "" },
		"space":       func(o *Options) { o.Mode, o.Space = ModeSequence, "" },
		"RESP space":  func(o *Options) { o.URL, o.Mode, o.Space = "redis://127.0.0.1:1", ModeSequence, "a b" },
		"RESP count":  func(o *Options) { o.URL, o.Mode, o.Space, o.Count = "redis://127.0.0.1:1", ModeSequence, "chat", 5 },
	} {
		o := brief("http://127.0.0.1:1")
		change(&o)
		if l, err := New(o); !errors.Is(err, model.ErrInvalidArgument) || l != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
