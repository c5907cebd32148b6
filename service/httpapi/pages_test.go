package httpapi

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
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
	"shardid/service/segment"
)

// tableAway has a table of tags that cannot be read.
func tableAway(o *Options) {
	o.Tags = func(context.Context) ([]model.Tag, error) { return nil, storeAway() }
}

// viewOf is a tag as /cache has it: what comes before buffers begins it, what comes behind ends it.
func viewOf(name, numbers, held, digits string) string {
	return `{"key":"` + name + `",` + numbers + `,"ahead":` + held + `,` + digits + `}`
}

// pageExchanges are the answers of the pages that show what the replica holds.
func pageExchanges() []exchange {
	const json = "application/json"
	const zeros = `"initOk":false,"step":%d,"nextReady":false,"pos":0,"value0":0,"step0":0,"max0":0,"value1":0,"step1":0,"max1":0`
	const digits = `"value0Str":"0","max0Str":"0","value1Str":"0","max1Str":"0"`
	script := viewOf(`\u003cscript\u003ealert(\"1\")\u003c/script\u003e`, fmt.Sprintf(zeros, 0),
		`0,"held":0,"rate":0,"runwaySeconds":86400`, digits)
	unused := viewOf(`a\u0026b`, fmt.Sprintf(zeros, 1000), `0,"held":0,"rate":0,"runwaySeconds":0`, digits)
	big := viewOf("big", `"initOk":true,"step":0,"nextReady":false,"pos":0,"value0":9007199254740993,"step0":1000,`+
		`"max0":9007199254741993,"value1":0,"step1":0,"max1":0`,
		`0,"held":0,"rate":0,"runwaySeconds":86400,"lastLoad":"2026-11-20T00:18:00Z"`,
		`"value0Str":"9007199254740993","max0Str":"9007199254741993","value1Str":"0","max1Str":"0"`)
	z := viewOf(
		"z",
		`"initOk":true,"step":0,"nextReady":true,"pos":1,"value0":2001,"step0":2000,"max0":2001,"value1":2007,`+
			`"step1":4000,"max1":6001`,
		`1,"held":3994,"rate":0.5,"runwaySeconds":7988,"lastLoad":"2026-11-20T00:18:00Z"`,
		`"value0Str":"2001","max0Str":"2001","value1Str":"2007","max1Str":"6001"`,
	)
	const rowA = `{"key":"a&b","maxId":9007199254740993,"maxIdStr":"9007199254740993","step":1000,"description":"",` +
		`"updateTime":"2026-11-20T00:18:00Z"}`
	const rowZ = `{"key":"z","maxId":6001,"maxIdStr":"6001","step":2000,"description":"of <b>Leaf</b>","updateTime":"2026-11-20T00:18:00Z"}`
	page := func(list, rest string, items ...string) string {
		return `{"code":0,"` + list + `":[` + strings.Join(items, ",") + "]" + rest + "}"
	}
	empty := func(o *Options) {
		o.Segments, o.Tags = held(nil), func(context.Context) ([]model.Tag, error) { return nil, nil }
	}
	all := []exchange{
		{target: "/cache", accept: json, body: page("tags", "", unused, z)},
		{target: "/cache/", accept: json, body: page("tags", "", unused, z)}, // as Spring has it
		{name: "the table is away", target: "/cache", accept: json, change: tableAway,
			body: page("tags", "", script, big, z)},
		{target: "/cache?limit=1", accept: json, body: page("tags", `,"total":2`, unused)},
		{name: "none", target: "/cache", accept: json, change: empty, body: page("tags", "")},
		{name: "none", target: "/cache", change: empty, says: "There are no tags."},
		{target: "/db", accept: json, body: page("tags", "", rowA, rowZ)},
		{target: "/db/", accept: json, body: page("tags", "", rowA, rowZ)},
		{target: "/db?limit=1", accept: json, body: page("tags", `,"total":2`, rowA)},
		{name: "none", target: "/db", accept: json, change: empty, body: page("tags", "")},
		{name: "none", target: "/db", change: empty, says: "There are no tags."},
		{target: "/metrics"},
		{target: "/api/status"},
		{target: "/api/status?limit=1", change: func(o *Options) { o.Status = fullStatus }, says: `"total":3`},
		{name: "full", target: "/api/status", change: func(o *Options) { o.Status = fullStatus }},
		{name: "one mode", target: "/api/status", change: disableModes},
		{target: "/api/replicas", body: `{"self":"","shared":false,"replicas":[]}`},
		{name: "two", target: "/api/replicas", change: withReplicas, body: replicasJSON},
		{target: "/api/history", body: `{"periodSeconds":5,"times":[],"series":{}}`},
		{name: "all", target: "/api/history?application=", change: withHistory,
			body: historyJSON(`"queue.issued":[0.123,2],"queue.p99Ms":[null,1000000]`)},
		{target: "/api/history?x=1&ap%70=7", change: withHistory, body: historyJSON(`"app.issued":[7,null]`)},
		{target: "/api/history?app=0", change: withHistory, body: historyJSON(`"app.issued":[0,null]`)},
		{target: "/api/history?app=255&y", change: withHistory, body: historyJSON(`"app.issued":[255,null]`)},
	}
	// Names and spaces are in the order of their bytes, in windows.
	for path, c := range map[string][2]string{"names": {"orders", nameJSON}, "sequences": {"chat", spaceUseJSON}} {
		item := func(name string) string { return "{" + strings.Replace(c[1], c[0], name, 1) + "}" }
		list := strings.Replace(path, "sequences", "spaces", 1)
		target := "/api/" + path
		all = append(all,
			exchange{target: target, body: page(list, "", item("Z"), item("a"), item("orders"))},
			exchange{target: target + "?limit=2", body: page(list, `,"total":3`, item("Z"), item("a"))},
			exchange{target: target + "?search=R", body: page(list, "", item("orders"))},
			exchange{target: target + "?search=x", body: page(list, "")},
		)
	}
	all = append(all,
		exchange{name: "its holders", target: "/api/names/orders", asked: `1000 holders of "orders"`,
			body: `{"code":0,` + nameJSON + holdersJSON + "}"})
	for i := range all {
		all[i].status = http.StatusOK
		if change := all[i].change; change == nil {
			all[i].change = threeOfEach
		}
	}
	fail := func(target string, err error, status, code int, says string) {
		f := &fakeAdmin{err: err}
		all = append(all, exchange{name: err.Error(), target: target, status: status, code: code, says: says,
			change: func(o *Options) {
				o.Tags, o.Names, o.Spaces = func(context.Context) ([]model.Tag, error) { return nil, err }, f.Names,
					f.Spaces
				if target == "/api/names/orders" {
					o.Names, o.Holders = (&fakeAdmin{}).Names, f.Holders
				}
			},
		})
	}
	for _, target := range []string{"/db", "/api/names", "/api/names/orders", "/api/sequences"} {
		// The database's failure is told in its own words; anything else is not.
		fail(target, fmt.Errorf("read: %w", storeAway()), 503, -1,
			"database: read leaf_alloc: connection refused: start it")
		fail(target, fmt.Errorf("read: %w", context.DeadlineExceeded), 503, -1,
			"the database has not answered within 2s")
		fail(target, wrap(model.ErrNotReady), 503, -1, "next: not initialised yet")
		fail(target, errFault, 500, -11, internalError)
	}
	add := func(target string, status, code int, says string) {
		all = append(all, exchange{target: target, status: status, code: code, says: says})
	}
	for _, target := range []string{"/db", "/cache", "/api/status", "/api/names", "/api/sequences"} {
		for _, limit := range []string{"0", "5001", "-1", "", "x", "1e3"} {
			add(target+"?limit="+limit, 400, -6, "limit must be a whole number in 1…5000")
		}
		add(target+"?limit=1&limit=2", 400, -6, "limit is given twice")
		add(target+"?search=%zz", 400, -6, "search is not percent-encoded rightly")
	}
	add("/api/history?app=256", 400, -6, "app must be a whole number in 0…255")
	add("/api/history?app=1&%61pp=2", 400, -6, "app is given twice")
	add("/api/names/order", 404, -2, `name is not provisioned: "order"`)
	return all
}

// threeOfEach has three names and three spaces, not in order.
func threeOfEach(o *Options) {
	o.Names = func(context.Context) (all []model.NameUse, _ error) {
		for _, name := range []string{"orders", "a", "Z"} {
			use := ordersName
			use.Name.Name = name
			all = append(all, use)
		}
		return all, nil
	}
	o.Spaces = func(context.Context) (all []model.SpaceUse, _ error) {
		for _, name := range []string{"orders", "a", "Z"} {
			use := chat
			use.Name = name
			all = append(all, use)
		}
		return all, nil
	}
}

// Leaf's two pages as a browser, and curl, get them: in order, escaped, with Leaf's columns, and a link to the rows
// that follow. Their policy allows their style and nothing else, and they need nothing else.
func TestPagesAsHTML(t *testing.T) {
	cell := func(name, class, text string) string {
		return `<td data-name="` + name + `"` + class + `>` + text + `</td>`
	}
	const number = ` class="number"`
	cache := []string{`<th scope="col">name</th><th scope="col">init</th><th scope="col">next</th>`,
		cell("name", "", "&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;"), cell("name", "", "big"),
		cell("name", "", "z") +
			cell("init", "", "true") + cell("next", "", "true") + cell("pos", number, "1"),
		cell("step1", number, "4000")}
	for column, value := range map[string]string{"value0": "2001", "max0": "2001", "step0": "2000", "value1": "2007",
		"max1": "6001"} {
		cache = append(cache, cell(column, number, value))
	}
	db := []string{cell("name", "", "a&amp;b") + cell("max_id", number, "9007199254740993"), cell("name", "", "z") +
		cell("max_id", number, "6001") + cell("step", number, "2000") + cell("update_time", "", "2026-11-20 08:18:00") +
		cell("description", "", "of &lt;b&gt;Leaf&lt;/b&gt;")}
	for _, c := range []struct {
		target string
		change func(*Options)
		has    []string
	}{
		{"/cache", tableAway, cache}, {"/db", func(*Options) {}, db},
		{"/cache", manyTags(1001), []string{"1000 of 1001 tags."}},
		{"/db?search=TAG0000&limit=9", manyTags(20), []string{"9 of 10 tags."}},
		{"/cache?search=%22%3E%3Cscript%3E", manyTags(20), []string{"There are no tags."}},
	} {
		t.Run(c.target, func(t *testing.T) {
			t.Parallel()
			got := ask(newAPIOf(c.change), http.MethodGet, c.target, browserAccept)
			body, h := got.Body.String(), got.Header()
			for _, part := range append(c.has, "width=device-width", "prefers-color-scheme: dark", `<a href="cache">`,
				`<a href="db">`) {
				check.Has(t, body, part)
			}
			for _, bad := range []string{"<script", "style=", "onclick", "src=", "http://", "https://"} {
				check.Lacks(t, body, bad)
			}
			_, style, _ := strings.Cut(body, "<style>")
			style, _, _ = strings.Cut(style, "</style>")
			hash := sha256.Sum256([]byte(style))
			check.Equal(t, h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-"+
				base64.StdEncoding.EncodeToString(hash[:])+"'; base-uri 'none'; form-action 'none'; "+
				"frame-ancestors 'none'")
			check.Equal(t, h.Get("Content-Type"), typeHTML[0])
			check.Equal(t, h.Get("Cache-Control"), "no-store")
		})
	}
}

// manyTags has n tags, Tag00000, Tag00001 and so on, not in order.
func manyTags(n int) func(*Options) {
	return func(o *Options) {
		views, tags := make([]segment.View, n), make([]model.Tag, n)
		for i := range n {
			name := fmt.Sprintf("Tag%05d", i)
			views[i], tags[n-1-i] = segment.View{Name: name}, model.Tag{Name: name, MaxID: 1, Step: 1}
		}
		o.Tags = func(context.Context) ([]model.Tag, error) { return tags, nil }
		o.Status = func(context.Context) Status { return Status{Segment: &segment.Status{Tags: views}} }
	}
}

// However many tags there are, a page has 1000 unless it is asked for another number, and says how many there are.
func TestPagesOfManyTags(t *testing.T) {
	for _, path := range []string{"/cache", "/db", "/api/status"} {
		for query, want := range map[string]struct {
			tags  int
			first string
			rest  string
		}{
			"":                     {1000, "Tag00000", `],"total":1200`},
			"?limit=1200":          {1200, "Tag00000", "]}"},
			"?search=tAG0101":      {10, "Tag01010", "]}"},
			"?search=011&limit=2":  {2, "Tag00011", `],"total":112`},
			"?search=nothing+here": {0, "", `"tags":[]`},
		} {
			body := ask(newAPIOf(manyTags(1200)), http.MethodGet, path+query, "application/json").Body.String()
			check.Equal(t, strings.Count(body, `"key":"`), want.tags, path, query)
			check.Has(t, body, want.rest)
			if want.tags > 0 {
				check.Has(t, body, `"tags":[{"key":"`+want.first+`"`)
			}
		}
	}
}

// counting is an API that counts what is read for its pages; each reading lasts for took and ends with err.
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
				check.Equal(t, reads.Load(), 1, target, accept, "is read")
				time.Sleep(time.Millisecond)
				ask(api, http.MethodGet, target, accept)
				check.Equal(t, reads.Load(), 2, target, accept, "is read, a second later")
			})
		}
	}
}

// A store that is away is asked once a second too, and waited for no longer than readTimeout, by a client that has gone
// not at all; its answer counts no longer than that, and a client that goes takes nothing from the others.
func TestReadingOfAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error = &model.StoreError{Store: "database", Op: "read", Err: context.DeadlineExceeded}
		api, reads := counting(0, &err)
		for range 10 {
			check.Equal(t, ask(api, http.MethodGet, "/db").Code, 503)
		}
		check.Equal(t, reads.Load(), 1, "read")
		time.Sleep(readingAge)
		err = nil
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		hang := newAPIOf(func(o *Options) {
			o.Tags = func(ctx context.Context) ([]model.Tag, error) { return nil, waitForEnd(ctx) }
		})
		start, w := time.Now(), httptest.NewRecorder()
		wantAnswer(t, ask(hang, http.MethodGet, "/db"), 503,
			`{"code":-1,"message":"the database has not answered within 2s"}`)
		hang.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/db", nil))
		check.Has(t, w.Body.String(), "given up")
		check.Equal(t, time.Since(start), readTimeout, "waited")
		check.Equal(t, ask(api, http.MethodGet, "/db").Code, 200)
		leaving, leave := context.WithCancel(t.Context())
		left := newAPIOf(func(o *Options) {
			o.Tags = func(ctx context.Context) ([]model.Tag, error) { leave(); return nil, ctx.Err() }
		})
		left.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(leaving, http.MethodGet, "/db", nil))
		check.Equal(t, ask(left, http.MethodGet, "/db").Code, 200)
	})
}

// Who has changed something sees it at once.
func TestChangesAreSeen(t *testing.T) {
	var none error
	api, reads := counting(0, &none)
	admin := newAPIOf(func(o *Options) {
		o.Tags, o.Admin, o.Access = api.opts.Tags, (&fakeAdmin{}).resources(), closedGuard()
	})
	for want, x := range []exchange{
		{target: "/db"}, {target: "/db"}, {method: http.MethodGet, target: "/admin/tags", token: "root"},
		{target: "/db"},
		{method: http.MethodDelete, target: "/admin/tags/z?confirm=z", token: "root"}, {target: "/db"},
	} {
		x.ask(admin)
		check.Equal(t, reads.Load(), int64(1+want/5), "read after request", want)
	}
}

// Scrapers ask for gzip; who does not gets plain text.
func TestMetricsForms(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for encoding, zipped := range map[string]bool{
		"": false, "gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "br": false,
	} {
		w := askAs(api, http.MethodGet, "/metrics", "Accept-Encoding", encoding)
		body := io.Reader(w.Body)
		if zipped {
			z, err := gzip.NewReader(body)
			check.Must(t, err)
			body = z
		}
		text, err := io.ReadAll(body)
		h := w.Header()
		if err != nil || string(text) != "shardid_queue_issued_total 1\n" ||
			(h.Get("Content-Encoding") == "gzip") != zipped ||
			h.Get("Content-Type") != typePrometheus[0] {
			t.Errorf("%q: %v %q %v", encoding, err, text, h)
		}
	}
}
