package httpapi

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
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
	"shardid/scripts/check"
	"shardid/service/monitor"
)

// tableAway has a table of tags that cannot be read.
func tableAway(o *Options) {
	o.Tags = func(context.Context) ([]model.Tag, error) { return nil, storeAway() }
}

// Leaf's two pages as programs read them. /cache has all tags of the table, and while that cannot be read those
// that are used.
func TestPagesAsJSON(t *testing.T) {
	const (
		script = `{"key":"\u003cscript\u003ealert(\"1\")\u003c/script\u003e","initOk":false,"step":0,"nextReady":false,"pos":0,"value0":0,"step0":0,"max0":0,"value1":0,"step1":0,"max1":0,` +
			`"ahead":0,"held":0,"rate":0,"runwaySeconds":86400,"value0Str":"0","max0Str":"0","value1Str":"0","max1Str":"0"}`
		unused = `{"key":"a\u0026b","initOk":false,"step":1000,"nextReady":false,"pos":0,"value0":0,"step0":0,"max0":0,"value1":0,"step1":0,"max1":0,` +
			`"ahead":0,"held":0,"rate":0,"runwaySeconds":0,"value0Str":"0","max0Str":"0","value1Str":"0","max1Str":"0"}`
		big = `{"key":"big","initOk":true,"step":0,"nextReady":false,"pos":0,"value0":9007199254740993,"step0":1000,"max0":9007199254741993,"value1":0,"step1":0,"max1":0,` +
			`"ahead":0,"held":0,"rate":0,"runwaySeconds":86400,"lastLoad":"2026-11-20T00:18:00Z","value0Str":"9007199254740993","max0Str":"9007199254741993","value1Str":"0","max1Str":"0"}`
		z = `{"key":"z","initOk":true,"step":0,"nextReady":true,"pos":1,"value0":2001,"step0":2000,"max0":2001,"value1":2007,"step1":4000,"max1":6001,` +
			`"ahead":1,"held":3994,"rate":0.5,"runwaySeconds":7988,"lastLoad":"2026-11-20T00:18:00Z","value0Str":"2001","max0Str":"2001","value1Str":"2007","max1Str":"6001"}`
	)
	works := newAPI(&fakeQueue{})
	for _, c := range []struct {
		api          *API
		target, tags string
	}{
		{works, "/cache", unused + "," + z},
		{newAPIOf(tableAway), "/cache", script + "," + big + "," + z},
		{works, "/db", `{"key":"a&b","maxId":9007199254740993,"maxIdStr":"9007199254740993","step":1000,"description":"","updateTime":"2026-11-20T00:18:00Z"},` +
			`{"key":"z","maxId":6001,"maxIdStr":"6001","step":2000,"description":"of <b>Leaf</b>","updateTime":"2026-11-20T00:18:00Z"}`},
	} {
		wantAnswer(t, ask(c.api, http.MethodGet, c.target, "application/json"), 200, `{"code":0,"tags":[`+c.tags+`]}`)
	}
}

// Pages without a row are lists without an element.
func TestEmptyPages(t *testing.T) {
	api := newAPIOf(func(o *Options) {
		o.Segments = held(nil)
		o.Tags = func(context.Context) ([]model.Tag, error) { return nil, nil }
	})
	for _, target := range []string{"/cache", "/db"} {
		wantAnswer(t, ask(api, http.MethodGet, target, "application/json"), 200, `{"code":0,"tags":[]}`)
		check.Has(t, ask(api, http.MethodGet, target).Body.String(), "There are no tags.", target)
	}
}

// Leaf's two pages as a browser, and curl, get them: in order, escaped, with
// Leaf's columns.
func TestPagesAsHTML(t *testing.T) {
	for target, wants := range map[string][]string{
		"/cache": {
			`<th scope="col">name</th><th scope="col">init</th><th scope="col">next</th><th scope="col" class="number">pos</th>` +
				`<th scope="col" class="number">value0</th><th scope="col" class="number">max0</th><th scope="col" class="number">step0</th>` +
				`<th scope="col" class="number">value1</th><th scope="col" class="number">max1</th><th scope="col" class="number">step1</th>`,
			`<td data-name="name">&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;</td>`,
			`<td data-name="name">big</td>`,
			`<td data-name="name">z</td><td data-name="init">true</td><td data-name="next">true</td><td data-name="pos" class="number">1</td>` +
				`<td data-name="value0" class="number">2001</td><td data-name="max0" class="number">2001</td><td data-name="step0" class="number">2000</td>` +
				`<td data-name="value1" class="number">2007</td><td data-name="max1" class="number">6001</td><td data-name="step1" class="number">4000</td>`,
		},
		"/db": {
			`<th scope="col">name</th><th scope="col" class="number">max_id</th><th scope="col" class="number">step</th><th scope="col">update_time</th><th scope="col">description</th>`,
			`<td data-name="name">a&amp;b</td><td data-name="max_id" class="number">9007199254740993</td>`,
			`<td data-name="name">z</td><td data-name="max_id" class="number">6001</td><td data-name="step" class="number">2000</td>` +
				`<td data-name="update_time">2026-11-20 08:18:00</td><td data-name="description">of &lt;b&gt;Leaf&lt;/b&gt;</td>`,
		},
	} {
		api := newAPI(&fakeQueue{})
		if target == "/cache" {
			api = newAPIOf(tableAway)
		}
		for _, accept := range []string{browserAccept, "*/*", ""} {
			got := ask(api, http.MethodGet, target, accept)
			wantPage(t, got)
			rest := got.Body.String()
			for _, want := range wants {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("%s: %s\nhas no %s, or not there", target, got.Body, want)
				}
				rest = after
			}
		}
	}
}

// wantPage wants a policy that allows the style of the page and nothing else, and a
// page that is fit for a phone and needs nothing else.
func wantPage(t *testing.T, got *httptest.ResponseRecorder) {
	t.Helper()
	body := got.Body.String()
	_, style, _ := strings.Cut(body, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	hash := sha256.Sum256([]byte(style))
	want := fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", base64.StdEncoding.EncodeToString(hash[:]))
	h := got.Header()
	if csp := h.Get("Content-Security-Policy"); csp != want || got.Code != 200 {
		t.Errorf("%d, policy %s\nwant %s", got.Code, csp, want)
	}
	if h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", h)
	}
	for _, bad := range []string{"<script", "style=", "onclick", "src=", "http://", "https://"} {
		check.Lacks(t, body, bad)
	}
	for _, good := range []string{"width=device-width", "prefers-color-scheme: dark", "max-width: 48rem", `<a href="cache">`, `<a href="db">`} {
		check.Has(t, body, good)
	}
}

// The rows that a caller got from elsewhere are not sorted under it.
func TestPagesLeaveTheirSourceAlone(t *testing.T) {
	tags, _ := fakeTags(t.Context())
	api := newAPIOf(func(o *Options) {
		o.Tags = func(context.Context) ([]model.Tag, error) { return tags, nil }
	})
	ask(api, http.MethodGet, "/db")
	if tags[0].Name != "z" {
		t.Errorf("sorted: %v", tags)
	}
}

// The database's failure is told in its own words; anything else is not.
func TestDatabasePageFails(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		body   string
	}{
		"store":    {fmt.Errorf("tags: %w", storeAway()), 503, `{"code":-1,"message":"database: read leaf_alloc: connection refused: start it"}`},
		"deadline": {fmt.Errorf("tags: %w", context.DeadlineExceeded), 503, `{"code":-1,"message":"the database has not answered within 2s"}`},
		"starting": {wrap(model.ErrNotReady), 503, `{"code":-1,"message":"next: not initialised yet"}`},
		"other":    {errors.New("secret"), 500, `{"code":-11,"message":"internal error: it has been logged, try again"}`},
	} {
		got := ask(newAPIOf(func(o *Options) { o.Tags = func(context.Context) ([]model.Tag, error) { return nil, c.err } }), http.MethodGet, "/db")
		wantAnswer(t, got, c.status, c.body)
		if retry := got.Header().Get("Retry-After"); (retry == "1") != (c.status == 503) {
			t.Errorf("%s: Retry-After %q", name, retry)
		}
	}
}

// A database that does not answer is waited for no longer than readTimeout, a
// client that has gone not at all.
func TestDatabasePageIsBounded(t *testing.T) {
	hang := func(ctx context.Context) ([]model.Tag, error) { return nil, waitForEnd(ctx) }
	synctest.Test(t, func(t *testing.T) {
		api, start := newAPIOf(func(o *Options) { o.Tags = hang }), time.Now()
		wantAnswer(t, ask(api, http.MethodGet, "/db"), 503, `{"code":-1,"message":"the database has not answered within 2s"}`)
		check.Equal(t, time.Since(start), readTimeout, "waited")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/db", nil))
		if !strings.Contains(w.Body.String(), "given up") || time.Since(start) != readTimeout {
			t.Errorf("%s after %v", w.Body, time.Since(start))
		}
	})
}

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
		o.Tags = func(context.Context) ([]model.Tag, error) { read(); return nil, *err }
		o.History = countedHistory(read)
	}), &reads
}

// countedHistory is called for each reading.
type countedHistory func()

func (f countedHistory) History() monitor.Chart         { f(); return monitor.NewChart() }
func (f countedHistory) AppHistory(uint8) monitor.Chart { f(); return monitor.NewChart() }

// However many ask, and however, each form of a page is read once a second.
func TestPagesAreReadOnceASecond(t *testing.T) {
	for _, target := range []string{"/db", "/cache", "/api/status", "/metrics", "/api/history", "/api/history?app=7"} {
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
				check.Equal(t, reads.Load(), 1, target, accept, "is read")
				time.Sleep(time.Millisecond)
				ask(api, http.MethodGet, target, accept)
				check.Equal(t, reads.Load(), 2, target, accept, "is read, a second later")
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
		check.Equal(t, reads.Load(), 1, "read")
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
	admin := newAPIOf(func(o *Options) {
		o.Tags, o.Admin, o.Access = api.opts.Tags, (&fakeAdmin{}).resources(), guardOf("root")
	})
	for want, x := range []exchange{
		{target: "/db"}, {target: "/db"}, {method: http.MethodGet, target: "/admin/tags", token: "root"}, {target: "/db"},
		{method: http.MethodDelete, target: "/admin/tags/z?confirm=z", token: "root"}, {target: "/db"},
	} {
		x.ask(admin)
		check.Equal(t, reads.Load(), int64(1+want/5), "read after request", want)
	}
}

// Scrapers ask for gzip; who does not gets plain text.
func TestMetricsForms(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for encoding, zipped := range map[string]bool{"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "br": false} {
		w := askAs(api, http.MethodGet, "/metrics", "Accept-Encoding", encoding)
		body := io.Reader(w.Body)
		if zipped {
			z, err := gzip.NewReader(body)
			check.Must(t, err)
			body = z
		}
		text, err := io.ReadAll(body)
		h := w.Header()
		if err != nil || string(text) != "shardid_queue_issued_total 1\n" || (h.Get("Content-Encoding") == "gzip") != zipped || !strings.HasPrefix(h.Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%q: %v %q %v", encoding, err, text, h)
		}
	}
}
