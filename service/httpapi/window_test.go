package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/segment"
)

// manyTags is an API with n tags, tag00000, tag00001 and so on, not in order.
func manyTags(n int) *API {
	return newAPIOf(func(o *Options) {
		views, tags := make([]segment.View, n), make([]model.Tag, n)
		for i := range n {
			name := fmt.Sprintf("Tag%05d", i)
			views[i], tags[n-1-i] = segment.View{Name: name}, model.Tag{Name: name, MaxID: 1, Step: 1}
		}
		o.Tags = func(context.Context) ([]model.Tag, error) { return tags, nil }
		o.Status = func(context.Context) Status { return Status{Segment: &segment.Status{Tags: views}} }
	})
}

// windowOf is what one request is answered with.
type windowOf struct {
	Code  int
	Tags  []struct{ Key string }
	Total int
	Next  string
}

func askWindow(t *testing.T, api *API, target string) (w windowOf, bytes int) {
	t.Helper()
	got := ask(api, http.MethodGet, target, "application/json")
	var status struct{ Segment *windowOf }
	if err := json.Unmarshal(got.Body.Bytes(), &w); err != nil || got.Code != 200 {
		t.Fatalf("%s: %d %s", target, got.Code, clip(got.Body.Bytes()))
	}
	if strings.HasPrefix(target, "/api/status") {
		_ = json.Unmarshal(got.Body.Bytes(), &status)
		w = *status.Segment
	}
	return w, got.Body.Len()
}

// However many tags there are, an answer is bounded, and page by page has each of them once.
func TestPagesOfManyTags(t *testing.T) {
	const n = 100_000
	api := manyTags(n)
	for _, path := range []string{"/cache", "/db", "/api/status"} {
		first, bytes := askWindow(t, api, path)
		if len(first.Tags) != 1000 || first.Total != n || first.Next != "Tag00999" || bytes > 500_000 {
			t.Errorf("%s: %d tags of %d in %d bytes, next %q", path, len(first.Tags), first.Total, bytes, first.Next)
		}
		var all []string
		for after, pages := "", 0; ; pages++ {
			w, _ := askWindow(t, api, path+"?limit=5000&after="+url.QueryEscape(after))
			for _, tag := range w.Tags {
				all = append(all, tag.Key)
			}
			if after = w.Next; after == "" || pages > 30 {
				break
			}
		}
		if len(all) != n || !slices.IsSorted(all) || all[n-1] != "Tag99999" {
			t.Errorf("%s: %d tags by pages", path, len(all))
		}
		found, _ := askWindow(t, api, path+"?search=tAG0123")
		if len(found.Tags) != 10 || found.Total != 0 || found.Tags[9].Key != "Tag01239" {
			t.Errorf("%s: found %+v", path, found)
		}
		some, _ := askWindow(t, api, path+"?search=0123&limit=2&after=Tag01231")
		if len(some.Tags) != 2 || some.Total != 20 || some.Tags[0].Key != "Tag01232" || some.Next != "Tag01233" {
			t.Errorf("%s: found some %+v", path, some)
		}
		for _, none := range []string{"?search=nothing", "?after=zzz", "?search=%3Cscript%3E"} {
			if w, _ := askWindow(t, api, path+none); w.Tags == nil || len(w.Tags) != 0 || w.Next != "" {
				t.Errorf("%s%s: %+v", path, none, w)
			}
		}
		for _, wrong := range []string{"?limit=0", "?limit=5001", "?limit=-1", "?limit=", "?limit=x", "?after=a&after=b", "?search=%zz"} {
			if got := ask(api, http.MethodGet, path+wrong); got.Code != 400 || !strings.Contains(got.Body.String(), `{"code":-6,`) {
				t.Errorf("%s%s: %d %s", path, wrong, got.Code, clip(got.Body.Bytes()))
			}
		}
		if w, _ := askWindow(t, manyTags(1000), path); len(w.Tags) != 1000 || w.Total != 0 || w.Next != "" {
			t.Errorf("%s: of 1000 tags %d, total %d, next %q", path, len(w.Tags), w.Total, w.Next)
		}
	}
}

// A browser's page links to the next one.
func TestPagesForBrowsers(t *testing.T) {
	api := manyTags(1001)
	for _, path := range []string{"/cache", "/db"} {
		for target, want := range map[string][]string{
			path:                                {"1000 of 1001 tags.", `<a href="?after=Tag00999">More</a>`},
			path + "?after=Tag00999":            {"1 of 1001 tags.</p>", "Tag01000"},
			path + "?search=TAG0000&limit=9":    {"9 of 10 tags.", `<a href="?after=Tag00008&amp;limit=9&amp;search=tag0000">More</a>`},
			path + "?search=%22%3E%3Cscript%3E": {"There are no tags."},
		} {
			body := ask(api, http.MethodGet, target, "text/html").Body.String()
			for _, part := range want {
				check.Has(t, body, part, target)
			}
			check.Lacks(t, body, "<script>", target)
		}
	}
}

// FuzzWindow: the pages of any names have each name once, whatever is searched.
func FuzzWindow(f *testing.F) {
	f.Add("a,b,c", "", 1)
	f.Add("A,a,Ä,ß,\xff,İ", "a", 2)
	f.Fuzz(func(t *testing.T, names, search string, limit int) {
		rows := slices.Compact(slices.Sorted(strings.SplitSeq(names, ",")))
		rows = slices.DeleteFunc(rows, func(name string) bool { return name == "" })
		w := window{search: strings.ToLower(search), limit: 1 + max(limit%5, -(limit%5))}
		var all []string
		for range len(rows) + 1 {
			part, total, next := through(w, rows, func(name string) string { return name })
			if all = append(all, part...); len(part) > w.limit || total > len(rows) || next != "" && len(part) == 0 {
				t.Fatalf("%+v: %q of %d, next %q", w, part, total, next)
			}
			if w.after = next; next == "" {
				break
			}
		}
		want := slices.DeleteFunc(slices.Clone(rows), func(name string) bool { return !strings.Contains(strings.ToLower(name), w.search) })
		if !slices.Equal(all, want) {
			t.Errorf("%q: %q, want %q", names, all, want)
		}
	})
}
