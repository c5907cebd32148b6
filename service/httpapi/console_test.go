package httpapi

import (
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/sequence"
	"shardid/service/uid"
	"shardid/service/worker"
)

// consoleExchanges are the console and the documentation: only files are served, no folder and no path out of it, and
// the page at one place.
func consoleExchanges() (all []exchange) {
	for _, target := range []string{"/", "/?x=1", "/console/main.js", "/docs/operations.md", "/docs/zh/operations.md"} {
		all = append(all, exchange{target: target, change: disableModes, status: 200})
	}
	for _, target := range []string{
		"/console", "/console/", "/console/web/console/main.js", "/console/../api.go", "/console/..%2fmonitor.html",
		"/console/main.js/", "/console/%2e", "/console/main.js%00", "/console/monitor.html", "/index.html",
		"/docs/docs.go", "/docs/zh/../../config.yaml", "/docs/zh",
	} {
		all = append(all, exchange{target: target, status: 404, code: -10, says: "no such path"})
	}
	return all
}

// What is embedded is served, by the name of the file and as what it is.
func TestConsoleFiles(t *testing.T) {
	api := newAPI()
	kinds := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
		".LICENSE": "text/plain; charset=utf-8", ".html": "text/html; charset=utf-8",
	}
	for name, body := range consoleAssets(t) {
		target := "/console/" + name
		got := ask(api, http.MethodGet, target)
		check.Equal(t, got.Code, 200, target)
		check.Equal(t, got.Body.String(), body, target)
		check.Equal(t, got.Header().Get("Content-Type"), kinds[path.Ext(target)], target)
		wantConsoleHeaders(t, target, got.Header())
	}
}

// consoleAssets are the files of the console, by name.
func consoleAssets(t *testing.T) map[string]string {
	t.Helper()
	files, err := consoleFiles.ReadDir("web/console")
	check.Must(t, err)
	all := map[string]string{}
	for _, f := range files {
		body, err := consoleFiles.ReadFile("web/console/" + f.Name())
		check.Must(t, err)
		all[f.Name()] = string(body)
	}
	return all
}

func wantConsoleHeaders(t *testing.T, target string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
			"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		check.Equal(t, h.Get(name), want, target, name)
	}
}

// Names of apps and tags are hostile: no script of ours reads HTML or code from a string, and none keeps a token.
func TestConsoleScripts(t *testing.T) {
	forbidden := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|` +
			`createContextualFragment|localStorage|sessionStorage|indexedDB|document\.cookie|https?://(?:[^w]|w[^w])`,
	)
	for name, body := range consoleAssets(t) {
		if path.Ext(name) != ".js" || strings.HasPrefix(name, "uplot-") {
			continue
		}
		check.Equal(t, forbidden.FindString(body), "", name, "has")
	}
}

// Every page of the documentation is rendered, and the sections to which the console links are there: one for each
// alarm. Alarms and conditions have names in both languages.
func TestDocumentation(t *testing.T) {
	api := newAPI()
	sections := map[string]map[string]bool{}
	for name := range manual() {
		got := ask(api, http.MethodGet, "/docs/"+name)
		kind := "text/html; charset=utf-8"
		if path.Ext(name) == ".png" {
			kind = "image/png"
		}
		if got.Code != 200 || got.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %v", name, got.Code, got.Header())
		}
		wantConsoleHeaders(t, name, got.Header())
		page := got.Body.String()
		check.Lacks(t, page, "/deploy/", name)                                     // which is not in the binary
		if kind == "text/html; charset=utf-8" && !strings.HasPrefix(name, "zh/") { // a break in a sentence is a blank
			check.Equal(t, regexp.MustCompile(`[a-z,;:]<(?:a href|code|em|strong)`).FindString(page), "", name)
		}
		sections[name] = map[string]bool{}
		for _, found := range regexp.MustCompile(`<(?:h\d|tr) id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			sections[name][found[1]] = true
		}
		for _, found := range regexp.MustCompile(`<img src="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			check.Equal(t, manual()[path.Join(path.Dir(name), found[1])] != nil, true, name, "shows", found[1])
		}
	}
	const english, translated = "operations.md", "zh/operations.md"
	check.Equal(t, sections[english]["when-something-fails"] && sections[translated]["依赖出故障时会怎样"], true, "failures")
	rules, err := os.ReadFile("../monitor/alarms.go")
	check.Must(t, err)
	console := consoleAssets(t)
	alarms := map[string]bool{}
	for _, found := range regexp.MustCompile(`"(Shardid\w+)"`).FindAllStringSubmatch(string(rules), -1) {
		alarms[found[1]] = true
		section := strings.ToLower(found[1])
		check.Equal(t, sections[english][section] && sections[translated][section], true, "sections", found[1])
		for _, texts := range []string{"en.js", "zh.js"} {
			check.Has(t, console[texts], found[1]+": ['", texts)
		}
	}
	for _, found := range regexp.MustCompile(`'(Shardid\w+)'`).FindAllStringSubmatch(console["health.js"], -1) {
		check.Equal(t, alarms[found[1]], true, "the console knows", found[1])
	}
	for _, condition := range []string{queue.ConditionPop, queue.ConditionRefill, queue.ConditionReload,
		segment.ConditionLoad, segment.ConditionReload, worker.Condition, uid.Condition, sequence.Condition} {
		for _, texts := range []string{"en.js", "zh.js"} {
			if !regexp.MustCompile(`\b` + condition + `'?: '`).MatchString(console[texts]) {
				t.Errorf("the condition %q has no name in %s", condition, texts)
			}
		}
	}
}
