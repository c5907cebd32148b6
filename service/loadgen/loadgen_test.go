package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/scripts/check"
)

// issuer is a server of IDs of the UID mode that rise from 1. spoil changes them, or gives an error.
type issuer struct {
	last  atomic.Int64
	spoil func(id int64) (int64, error)
}

func (s *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := s.last.Add(1), error(nil)
	if s.spoil != nil {
		id, err = s.spoil(id)
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"code":-4,"message":%q}`, err)
		return
	}
	fmt.Fprintf(w, "%d\n", id)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// brief are the options of a short run.
func brief(url string) Options {
	return Options{URL: url, Mode: "uid", Concurrency: 4, Duration: 100 * time.Millisecond, Timeout: 20 * time.Second}
}

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	check.Must(t, err)
	return report
}

// All shards get as many requests.
func TestShards(t *testing.T) {
	requests := map[uint8]int{}
	for turn := range 1024 {
		path, err := url.Parse(Options{Mode: "queue", App: 7, Passes: 1024}.path(turn))
		check.Must(t, err)
		requests[idtext.ShardOf(path.Query().Get("gatePass"))]++
	}
	check.Equal(t, len(requests), model.Shards, "shards")
	check.Equal(t, requests[0], 1024/model.Shards, "requests of a shard")
}

// An ID that comes for the second time is found, whoever got it, and so is one that no server may
// issue. Refusals are counted by kind, and the first error is shown.
func TestAnswers(t *testing.T) {
	s := &issuer{spoil: func(id int64) (int64, error) {
		switch id {
		case 3:
			return 0, errors.New("the list is empty")
		case 4:
			return 0, nil
		case 5:
			return 2, nil
		}
		return id, nil
	}}
	o := brief(serve(t, s))
	o.Concurrency = 1
	r := mustRun(t, o)
	if r.Duplicates != 1 || fmt.Sprint(r.FirstDuplicates) != "[2]" || r.Failed != 2 || r.Errors["503 code -4"] != 1 ||
		r.Errors[BadAnswer] != 1 || r.FirstError != "503 code -4: the list is empty" {
		t.Errorf("%+v", r)
	}
}

// A stall of the server counts for every request that was due in it, and a closed loop ends in time.
func TestStall(t *testing.T) {
	s := &issuer{spoil: func(id int64) (int64, error) {
		time.Sleep(100 * time.Millisecond)
		return id, nil
	}}
	o := brief(serve(t, s))
	if r := mustRun(t, o); r.Requests < 4 || r.Requests > 8 || r.Unsent != 0 {
		t.Errorf("%+v", r)
	}
	o.Rate, o.Duration = 1000, 500*time.Millisecond
	if r := mustRun(t, o); r.Unsent < 400 || r.Requests+r.Unsent < 490 || r.Latency["p50"] < 200 {
		t.Errorf("%+v", r)
	}
}

// A server is asked over TLS, with a token and below a path.
func TestTLSAndToken(t *testing.T) {
	ids := &issuer{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/below/api/uid/get" || r.Header.Get("Authorization") != "Bearer secret" || r.ProtoMajor != 1 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		ids.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	o := brief(s.URL + "/below")
	o.Token, o.TLS = "secret", &tls.Config{InsecureSkipVerify: true}
	if r := mustRun(t, o); r.Requests == 0 || r.Failed != 0 {
		t.Errorf("%+v", r)
	}
	o.Token = ""
	_, err := Run(t.Context(), o)
	check.Has(t, fmt.Sprint(err), "403")
}

// A run that is interrupted reports what was done until then; a server that goes away is counted.
func TestEnds(t *testing.T) {
	var atTenth func()
	s := httptest.NewServer(&issuer{spoil: func(id int64) (int64, error) {
		if id%10 == 0 {
			atTenth()
		}
		return id, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	atTenth = cancel
	o := brief(s.URL)
	o.Duration = time.Hour
	if r, err := Run(ctx, o); err != nil || !r.Interrupted || r.Failed > 0 || r.Duration > 60 {
		t.Errorf("%+v, %v", r, err)
	}
	atTenth = func() { go s.Close() }
	if r := mustRun(t, brief(s.URL)); r.Interrupted || r.Requests == 0 || r.Errors["connection refused"] == 0 {
		t.Errorf("%+v", r)
	}
}

// A run that cannot begin says what to do.
func TestCannotBegin(t *testing.T) {
	url := serve(t, http.NotFoundHandler())
	for want, change := range map[string]func(*Options){
		"connection refused": func(o *Options) { o.URL = "http://127.0.0.1:1" },
		"give --mode":        func(o *Options) { o.Mode = "uuid" },
		"give --concurrency": func(o *Options) { o.Concurrency = 0 },
		"404":                func(o *Options) { o.URL += "/elsewhere" },
	} {
		o := brief(url)
		change(&o)
		_, err := Run(t.Context(), o)
		check.Has(t, fmt.Sprint(err), want)
	}
}
