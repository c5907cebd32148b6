package httpapi

import (
	"context"
	"fmt"
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
	"shardid/service/segment"
)

// tableAway has a table of tags that cannot be read.
func tableAway(o *Options) {
	o.Tags = func(context.Context, string, int) ([]model.Tag, int, error) { return nil, 0, storeAway() }
}

// pageExchanges are the answers of the pages that show what the replica holds.
func pageExchanges() []exchange {
	const json = "application/json"
	const rowA = `{"key":"a&b","maxId":9007199254740993,"maxIdStr":"9007199254740993","step":1000,"description":"",` +
		`"updateTime":"2026-11-20T00:18:00Z"}`
	const rowZ = `{"key":"z","maxId":6001,"maxIdStr":"6001","step":2000,"description":"of <b>Leaf</b>",` +
		`"updateTime":"2026-11-20T00:18:00Z"}`
	page := func(list, rest string, items ...string) string {
		return `{"code":0,"` + list + `":[` + strings.Join(items, ",") + "]" + rest + "}"
	}
	empty := func(o *Options) {
		o.Segments = held(nil)
		o.Tags = func(context.Context, string, int) ([]model.Tag, int, error) { return nil, 0, nil }
	}
	all := []exchange{
		{target: "/cache", accept: json, says: `"value1":2007,"step1":4000,"max1":6001`},
		{target: "/cache", accept: json, says: `"tags":[{"key":"a\u0026b"`},
		{name: "the table is unreachable", target: "/cache?search=x", accept: json, change: tableAway,
			says: `"message":"start it: only tags that this replica has used are shown, as leaf_alloc cannot be `},
		{target: "/cache?limit=1", accept: json, says: `],"total":2}`},
		{name: "none", target: "/cache", accept: json, change: empty, body: page("tags", "")},
		{name: "none", target: "/cache", change: empty, says: "There are no tags."},
		{name: "HTML", target: "/cache", change: tableAway,
			says: `<td>&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;</td>`},
		{name: "HTML of a part", target: "/cache?limit=1", says: "1 of 2 tags."},
		{target: "/db", accept: json, body: page("tags", "", rowA, rowZ)},
		{target: "/db?limit=1", accept: json, body: page("tags", `,"total":2`, rowA)},
		{target: "/db?search=z", accept: json, body: page("tags", "", rowZ)},
		{name: "none", target: "/db", change: empty, says: "There are no tags."},
		{name: "HTML", target: "/db", accept: browserAccept, says: "<td>z</td><td>6001</td><td>2000</td>" +
			"<td>2026-11-20 08:18:00</td><td>of &lt;b&gt;Leaf&lt;/b&gt;</td>"},
		{target: "/metrics"},
		{target: "/api/status"},
		{name: "more tags than it shows", target: "/api/status", change: manyTags, says: `"total":1001`},
		{name: "one mode", target: "/api/status", change: disableModes},
		{target: "/api/replicas", body: replicasJSON},
		{target: "/api/history", body: `{"periodSeconds":5,"times":[60],"series":{},"message":"redis: away"}`},
		{target: "/api/history?app=7&tag=a%26b", body: `{"periodSeconds":5,"times":[60],"series":{` +
			`"app.7.issued":[0.5],"tag.a&b.issued":[0.5]},"message":"redis: away"}`},
	}
	// In the order of a field, those that are equal stay in that of their names; what is beyond the end is nothing.
	for query, want := range map[string]string{
		"sort=step": "a&b z", "sort=-step": "z a&b", "sort=-key&limit=1": "z of 2", "offset=1": "z of 2",
		"sort=-step&offset=1&limit=1": "a&b of 2", "offset=2": "of 2", "search=z&sort=description": "z",
		"sort=updateTime": "a&b z", "sort=-updateTime": "a&b z",
	} {
		var rows []string
		total := ""
		for _, name := range strings.Fields(want) {
			switch name {
			case "a&b":
				rows = append(rows, rowA)
			case "z":
				rows = append(rows, rowZ)
			case "of":
				total = `,"total":2`
			}
		}
		all = append(all, exchange{target: "/db?" + query, accept: json, body: page("tags", total, rows...)})
	}
	all = append(all, exchange{target: "/cache?sort=-held&limit=1", accept: json, says: `"tags":[{"key":"z"`},
		exchange{name: "the table is unreachable", target: "/cache?sort=-lastLoad&offset=1&limit=1", accept: json,
			change: tableAway, says: `"tags":[{"key":"z"`},
		exchange{target: "/api/sequences?sort=-highest", body: page("spaces", "", "{"+spaceUseJSON+"}")})
	// What is listed is in the order of the bytes of its names.
	item := func(name string) string { return "{" + strings.Replace(nameJSON, "orders", name, 1) + "}" }
	all = append(all,
		exchange{target: "/api/sequences", body: page("spaces", "", "{"+spaceUseJSON+"}")},
		exchange{target: "/api/names", body: page("names", "", item("Z"), item("a"), item("orders"))},
		exchange{target: "/api/names?limit=2", body: page("names", `,"total":3`, item("Z"), item("a"))},
		exchange{target: "/api/names?search=R", body: page("names", "", item("orders"))},
		exchange{target: "/api/names?search=x", body: page("names", "")},
	)
	for i := range all {
		all[i].status = http.StatusOK
		if change := all[i].change; change == nil {
			all[i].change = threeNames
		}
	}
	all = append(all, exchange{name: "protected", target: "/db", token: "root", status: 503, code: -1,
		says: "connection refused", change: func(o *Options) { closed(o); tableAway(o) }})
	away := (&fakeAdmin{err: fmt.Errorf("read: %w", storeAway())}).service()
	for _, target := range []string{"/db", "/api/names", "/api/sequences"} {
		all = append(all, exchange{name: "away", target: target, status: 503, code: -1,
			says:   "start it: database: read leaf_alloc: connection refused",
			change: func(o *Options) { tableAway(o); o.Names, o.Spaces = away.Names().List, away.Spaces().List }})
	}
	all = append(all,
		exchange{target: "/db?sort=colour", status: 400, code: -6,
			says: "sort by one of description, key, maxId, step, updateTime, not by \"colour\""},
		exchange{target: "/api/names?sort=-", status: 400, code: -6,
			says: "sort by one of epoch, leased, name, seqBits, shardBits, workerBits, workers, not by \"\""},
		exchange{target: "/db?sort=step", status: 400, code: -6, change: countless,
			says: "search for a part of the name: 20001 tags are too many to sort, 20000 at most can be"},
		exchange{target: "/db?offset=-1", status: 400, code: -6, says: "offset must be a whole number in 0…20000"},
		exchange{target: "/api/history?app=256", status: 400, code: -6, says: "app must be a whole number in 0…255"})
	for _, target := range []string{"/db", "/cache", "/api/names", "/api/sequences"} {
		for _, limit := range []string{"0", "5001", ""} {
			all = append(all, exchange{target: target + "?limit=" + limit, status: 400, code: -6,
				says: "limit must be a whole number in 1…5000"})
		}
	}
	return all
}

// countless has more tags than can be sorted.
func countless(o *Options) {
	o.Tags = func(_ context.Context, _ string, limit int) ([]model.Tag, int, error) {
		return make([]model.Tag, limit), mostRead + 1, nil
	}
}

// manyTags has a tag in use more than /api/status shows.
func manyTags(o *Options) {
	state := fullState()
	state.Tags = func() segment.Status { return segment.Status{Tags: make([]segment.View, thingsShown+1)} }
	o.Monitor = newMonitor(func() monitor.State { return state }, nil, allModes...)
}

func threeNames(o *Options) { o.Names = (&fakeAdmin{three: true}).service().Names().List }

// counting is an API that counts what is read for its pages; each reading lasts for took and ends with err.
func counting(took time.Duration, err *error) (*API, *atomic.Int64) {
	var reads atomic.Int64
	read := func() {
		reads.Add(1)
		time.Sleep(took)
	}
	return newAPIOf(func(o *Options) {
		state := monitor.State{Tags: func() (none segment.Status) { read(); return none }}
		o.Monitor = newMonitor(func() monitor.State { return state }, nil, allModes...)
		o.Tags = func(context.Context, string, int) ([]model.Tag, int, error) { read(); return nil, 0, *err }
	}), &reads
}

// However many ask, each page is read once a second.
func TestPagesAreReadOnceASecond(t *testing.T) {
	for _, target := range []string{"/db", "/cache", "/api/status"} {
		synctest.Test(t, func(t *testing.T) {
			var none error
			api, reads := counting(300*time.Millisecond, &none)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					accept := []string{"application/json", "text/html"}[i%2]
					if got := ask(api, http.MethodGet, target, accept); got.Code != 200 {
						t.Errorf("%s: %d", target, got.Code)
					}
				})
			}
			wg.Wait()
			time.Sleep(readingAge - time.Millisecond)
			ask(api, http.MethodGet, target)
			check.Equal(t, reads.Load(), 1, target, "is read")
			time.Sleep(time.Millisecond)
			ask(api, http.MethodGet, target)
			check.Equal(t, reads.Load(), 2, target, "is read, a second later")
			if target != "/api/status" {
				ask(api, http.MethodGet, target+"?search=x")
				check.Equal(t, reads.Load(), 3, target, "is read for another search")
			}
		})
	}
}

// A store that is unreachable is asked once a second too, and waited for no longer than readTimeout, by a client that
// has gone not at all; its answer counts no longer than that, and a client that goes takes nothing from the others.
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
			o.Tags = func(ctx context.Context, _ string, _ int) ([]model.Tag, int, error) {
				return nil, 0, waitForEnd(ctx)
			}
		})
		start, w := time.Now(), httptest.NewRecorder() // w is of who has gone
		wantAnswer(t, ask(hang, http.MethodGet, "/db"), 503,
			`{"code":-1,"message":"try again: a store has not answered in time"}`)
		hang.ServeHTTP(w, httptest.NewRequestWithContext(gone, http.MethodGet, "/db", nil))
		check.Equal(t, w.Code, 503)
		check.Equal(t, time.Since(start), readTimeout, "waited")
		check.Equal(t, ask(api, http.MethodGet, "/db").Code, 200)
		leaving, leave := context.WithCancel(t.Context())
		left := newAPIOf(func(o *Options) {
			o.Tags = func(ctx context.Context, _ string, _ int) ([]model.Tag, int, error) {
				leave()
				return nil, 0, ctx.Err()
			}
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
