package httpapi

import (
	"net/http"
	"path"
	"regexp"
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
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
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
