package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardid/model"
)

type answer struct {
	*http.Response
	body string
}

// fetch sends a request over a connection of its own.
func fetch(t *testing.T, method, url, accept string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res, string(body)}
}

// Every verb but GET is answered 405, whatever the parameters, and no mode ever
// hears of it.
func TestOtherVerbsIssueNothing(t *testing.T) {
	q := &fakeQueue{}
	opts, modes := testOptions(q, nil, io.Discard)
	server := httptest.NewServer(New(opts))
	defer server.Close()
	for _, method := range []string{"HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "BREW"} {
		for _, target := range []string{"/get", alice, alice + "&count=3", "/api/segment/get/", segmentURL, segmentURL + "?count=3", snowflakeURL, uidURL, uidURL + "?count=3"} {
			got := fetch(t, method, server.URL+target, "")
			if got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET" || got.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: %d %v", method, target, got.StatusCode, got.Header)
			}
			if (got.body == "") != (method == http.MethodHead) || method != http.MethodHead && !strings.HasPrefix(got.body, `{"code":-10,"message":`) {
				t.Errorf("%s %s: body %q", method, target, got.body)
			}
		}
	}
	if q.calls != 0 || modes.calls() != 0 {
		t.Errorf("the queue was called %d times, the modes %d times", q.calls, modes.calls())
	}
}

func TestHeadOfHealth(t *testing.T) {
	api := newAPIWith(&fakeQueue{ready: wrap(model.ErrNotReady)}, nil, io.Discard)
	server := httptest.NewServer(api)
	defer server.Close()
	for path, status := range map[string]int{"/livez": 200, "/readyz": 503, "/readyz/queue": 503, "/readyz/uid": 200, "/healthz": 503} {
		head, get := fetch(t, http.MethodHead, server.URL+path, ""), fetch(t, http.MethodGet, server.URL+path, "")
		if head.StatusCode != status || head.body != "" || get.StatusCode != status {
			t.Errorf("HEAD %s: %d %q, GET %d, want %d", path, head.StatusCode, head.body, get.StatusCode, status)
		}
		if head.ContentLength != int64(len(get.body)) || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("HEAD %s: %v, GET %v", path, head.Header, get.Header)
		}
	}
}

// A client that closes its sending half, as `nc -N` does, cancels its request
// but still reads: it must not see an empty 200.
func TestHalfClosedClientGetsAnError(t *testing.T) {
	for _, target := range []string{alice, segmentURL, snowflakeURL, uidURL + "?count=2"} {
		halfClose(t, target)
	}
}

func halfClose(t *testing.T, target string) {
	t.Helper()
	opts, modes := testOptions(&fakeQueue{next: waitForEnd}, nil, io.Discard)
	modes.segment.next, modes.snowflake.next, modes.uid.next = waitForEnd, waitForEnd, waitForEnd
	server := httptest.NewServer(New(opts))
	defer server.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(string(body), `{"code":-4,`) {
		t.Errorf("%s: answered %d %q", target, res.StatusCode, body)
	}
}

// waitForEnd is a queue that has nothing until the request ends.
func waitForEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Whether the client went or its deadline passed: an error, without a word in
// the log above debug, and nothing that could be an ID.
func TestRequestThatEnds(t *testing.T) {
	const want = `{"code":-4,"message":"the request was given up while it waited: nothing was issued, try again"}`
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	for name, ctx := range map[string]context.Context{"canceled": canceled, "expired": expired} {
		var log strings.Builder
		w := httptest.NewRecorder()
		newAPIWith(&fakeQueue{next: waitForEnd}, nil, &log).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, alice, nil))
		wantAnswer(t, w, http.StatusServiceUnavailable, want)
		if w.Header().Get("Retry-After") != "1" || strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: %v, log %s", name, w.Header(), log.String())
		}
	}
}
