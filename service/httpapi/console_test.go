package httpapi

import (
	"cmp"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// consoleExchanges are the console and the documentation: only files are served, no folder and no path out of it, and
// the page at one place.
func consoleExchanges() (all []exchange) {
	for _, target := range []string{"/", "/?x=1", "/console/main.js", "/docs/operations.md", "/docs/zh/operations.md"} {
		all = append(all, exchange{target: target, change: disableModes, status: 200})
	}
	for _, target := range []string{
		"/console", "/console/", "/console/console.html", "/console/web/console/main.js", "/console/../api.go",
		"/console/..%2fmonitor.html", "/console/main.js/", "/console/%2e", "/console/main.js%00",
		"/console/monitor.html",
		"/index.html", "/console/nothing.js", "/docs/docs.go", "/docs/zh/../../config.yaml", "/docs/zh",
	} {
		all = append(all, exchange{target: target, status: 404, code: -10, says: "no such path"})
	}
	return all
}

// What is embedded is served, by the name of the file and as what it is.
func TestConsoleFiles(t *testing.T) {
	api := newAPI(&fakeQueue{})
	kinds := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
		".LICENSE": "text/plain; charset=utf-8",
	}
	files, tags := map[string]asset{"/": api.pages.console}, map[string]bool{}
	for name, file := range api.pages.assets {
		files["/console/"+name] = file
	}
	for target, file := range files {
		got, kind := ask(api, http.MethodGet, target), cmp.Or(kinds[path.Ext(target)], "text/html; charset=utf-8")
		if got.Code != 200 || got.Header().Get("Content-Type") != kind || got.Body.Len() != len(file.body) ||
			got.Body.Len() == 0 {
			t.Errorf("%s: %d %v, %d bytes", target, got.Code, got.Header(), got.Body.Len())
		}
		tags[file.tag] = true // another one for each content, so that an upgrade is seen
	}
	check.Equal(t, len(tags), len(files), "tags")
	if n := len(api.pages.assets); n < 10 {
		t.Errorf("%d files only", n)
	}
}

// A browser keeps the files, asks each time whether they are the same, and is told
// so without a body. The policy is on every answer.
func TestConsoleIsRevalidated(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for _, target := range []string{"/", "/console/console.css"} {
		first := ask(api, http.MethodGet, target)
		tag := first.Header().Get("ETag")
		if !regexp.MustCompile(`^"[\w-]{16}"$`).MatchString(tag) {
			t.Fatalf("%s: ETag %q", target, tag)
		}
		for match, status := range map[string]int{
			tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, strings.Trim(tag, `"`): 200, "": 200,
		} {
			w := askAs(api, http.MethodGet, target, "If-None-Match", match)
			if w.Code != status || (w.Body.Len() > 0) != (status == 200) || w.Header().Get("ETag") != tag {
				t.Errorf("%s, If-None-Match: %s: %d, %d bytes, %v", target, match, w.Code, w.Body.Len(), w.Header())
			}
			wantConsoleHeaders(t, target, w.Header())
		}
	}
}

func wantConsoleHeaders(t *testing.T, target string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		check.Equal(t, h.Get(name), want, target, name)
	}
}

// The page asks for nothing but what is embedded, and holds nothing that its policy
// forbids.
func TestConsolePageIsWhole(t *testing.T) {
	api := newAPI(&fakeQueue{})
	page := ask(api, http.MethodGet, "/").Body.String()
	for _, found := range regexp.MustCompile(`(?:src|href)="(console/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if got := ask(api, http.MethodGet, "/"+found[1]); got.Code != 200 {
			t.Errorf("%s: %d", found[1], got.Code)
		}
	}
	for _, bad := range []string{"<style", " style=", "javascript:", "http://", "https://", "//cdn", "src=\"/",
		"href=\"/"} {
		check.Lacks(t, page, bad)
	}
	check.Equal(t, regexp.MustCompile(`<script[^>]*>[^<]|\son\w+=`).FindString(page), "", "inline script")
	for _, good := range []string{`<html lang="en">`, "width=device-width", "<noscript>", "<main", "<h1>",
		`role="grid"`, `type="password" autocomplete="off"`} {
		check.Has(t, page, good)
	}
}

// Every script that one imports is embedded. Names of apps and tags are hostile: no
// script of ours reads HTML or code from a string, and none keeps a token.
func TestConsoleScripts(t *testing.T) {
	api := newAPI(&fakeQueue{})
	forbidden := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|` +
			`createContextualFragment|sessionStorage|indexedDB|document\.cookie|https?://(?:[^w]|w[^w])`,
	)
	var stores []string
	for name, file := range api.pages.assets {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, "uplot-") {
			continue
		}
		script := string(file.body)
		check.Equal(t, forbidden.FindString(script), "", name, "has")
		for _, found := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(script, -1) {
			if _, ok := api.pages.assets[found[1]]; !ok {
				t.Errorf("%s imports %s, which is not embedded", name, found[1])
			}
		}
		for _, found := range regexp.MustCompile(`localStorage\.\w+\('([^']*)'`).FindAllStringSubmatch(script, -1) {
			stores = append(stores, found[1])
		}
	}
	slices.Sort(stores)
	if !slices.Equal(slices.Compact(stores), []string{"shardid.language"}) {
		t.Errorf("stored in the browser: %q", stores)
	}
}
