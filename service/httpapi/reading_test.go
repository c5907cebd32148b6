package httpapi

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/service/segment"
)

// counting is an API that counts what is read for its pages; each reading lasts for took
// and ends with err.
func counting(took time.Duration, err *error) (*API, *atomic.Int64) {
	var reads atomic.Int64
	read := func() {
		reads.Add(1)
		time.Sleep(took)
	}
	return newAPIOf(func(o *Options) {
		o.Metrics = func(context.Context) ([]byte, error) { read(); return []byte("m 1\n"), nil }
		o.Status = func(context.Context) Status { read(); return Status{} }
		o.Segments = func() []segment.View { read(); return nil }
		o.Tags = func(context.Context) ([]model.Tag, error) { read(); return nil, *err }
	}), &reads
}

// However many ask, and however, each form of a page is read once a second.
func TestPagesAreReadOnceASecond(t *testing.T) {
	for _, target := range []string{"/db", "/cache", "/api/status", "/metrics"} {
		for _, accept := range []string{"application/json", "text/html"} {
			synctest.Test(t, func(t *testing.T) {
				var none error
				api, reads := counting(300*time.Millisecond, &none)
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						if got := ask(api, http.MethodGet, target, accept); got.Code != 200 {
							t.Errorf("%s: %d", target, got.Code)
						}
					})
				}
				wg.Wait()
				time.Sleep(readingAge - time.Millisecond)
				ask(api, http.MethodGet, target, accept)
				if n := reads.Load(); n != 1 {
					t.Errorf("%s as %s: read %d times", target, accept, n)
				}
				time.Sleep(time.Millisecond)
				ask(api, http.MethodGet, target, accept)
				if n := reads.Load(); n != 2 {
					t.Errorf("%s as %s: read %d times a second later", target, accept, n)
				}
			})
		}
	}
}

// A store that is away is asked once a second too, and its answer counts no longer than
// that. A client that goes takes nothing from the others.
func TestReadingOfAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error = &model.StoreError{Store: "database", Op: "read", Err: context.DeadlineExceeded}
		api, reads := counting(0, &err)
		for range 10 {
			if got := ask(api, http.MethodGet, "/db"); got.Code != 503 || got.Header().Get("Retry-After") == "" {
				t.Errorf("%d %s", got.Code, got.Body)
			}
		}
		if n := reads.Load(); n != 1 {
			t.Errorf("read %d times", n)
		}
		time.Sleep(readingAge)
		err = nil
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, "/db", nil))
		if got := ask(api, http.MethodGet, "/db"); got.Code != 200 {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	})
}

// Who has changed something sees it at once.
func TestChangesAreSeen(t *testing.T) {
	var none error
	api, reads := counting(0, &none)
	admin := newAPIOf(func(o *Options) { o.Tags, o.Admin, o.Access = api.opts.Tags, &fakeAdmin{}, guardOf("root") })
	for want, x := range []exchange{
		{target: "/db"}, {target: "/db"}, {method: http.MethodGet, target: "/admin/tags", token: "root"}, {target: "/db"},
		{method: http.MethodDelete, target: "/admin/tags/z?confirm=z", token: "root"}, {target: "/db"},
	} {
		x.ask(admin)
		if n := reads.Load(); n != int64(1+want/5) {
			t.Errorf("after request %d: read %d times", want, n)
		}
	}
}

// Scrapers ask for gzip; who does not gets plain text.
func TestMetricsForms(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for encoding, zipped := range map[string]bool{"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "br": false} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		body := io.Reader(w.Body)
		if zipped {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		text, err := io.ReadAll(body)
		h := w.Header()
		if err != nil || string(text) != "shardid_queue_issued_total 1\n" || (h.Get("Content-Encoding") == "gzip") != zipped || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%q: %v %q %v", encoding, err, text, h)
		}
	}
}
