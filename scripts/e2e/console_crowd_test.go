//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// TestE2EConsoleManyApps: 256 apps, names of every length and a phone's width; nothing
// is wider than the window, and the rows follow the figures.
func TestE2EConsoleManyApps(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo")
	d.ready()
	crowd := crowded(t, d)
	b := browse(t, crowd.URL, 390)
	if n := eval[int](b, `document.querySelectorAll('.app').length`); n != 256 {
		t.Errorf("%d apps are shown", n)
	}
	for _, width := range []int{390, 320, 768, 1024, 1920} {
		b.resize(width, 844, "light")
		if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
			t.Errorf("at %d pixels the page is %d too wide: %s", width, wide, eval[string](b, beyond))
		}
	}
	if got := b.text("#alarm-list"); !strings.Contains(got, "critical: <b>One</b>") || strings.Index(got, "critical") > strings.Index(got, "info: Two") {
		t.Errorf("alarms: %s", got)
	}
	eval[bool](b, `{ const o = document.querySelector('#app-order'); o.value = 'low'; o.dispatchEvent(new Event('change')) }`)
	if first := eval[string](b, `document.querySelector('.app .id').textContent`); first != "77" {
		t.Errorf("app %s is the emptiest, want 77", first)
	}
	small := eval[[]string](b, `[...document.querySelectorAll('button, input, select')].filter((e) => e.offsetParent && e.getBoundingClientRect().height < 38).map((e) => e.id)`)
	if len(small) > 0 {
		t.Errorf("too small for a finger: %q", small)
	}
	spent := eval[float64](b, `(() => { const from = performance.now(); for (const e of ['id', 'low', 'rate', 'id']) { const o = document.querySelector('#app-order'); o.value = e; o.dispatchEvent(new Event('change')) } return performance.now() - from })()`)
	t.Logf("drawing 256 apps takes %.1f ms", spent/4)
	b.clean()
}

// beyond names what reaches over the right edge of the page.
const beyond = `[...document.body.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth)
	.map((e) => e.tagName + '#' + e.id + '.' + (e.getAttribute('class') ?? '')).slice(0, 12).join(' ')`

// crowded is d with 256 apps in its status, and two alarms.
func crowded(t *testing.T, d *daemon) *httptest.Server {
	t.Helper()
	target, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/status" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(manyApps()))
	}))
	t.Cleanup(server.Close)
	return server
}

func manyApps() string {
	var apps []string
	for app := range 256 {
		depths := make([]string, 64)
		for shard := range depths {
			depths[shard] = strconv.Itoa(1 + (app*shard)%2000)
		}
		if app == 77 {
			depths[5] = "0"
		}
		apps = append(apps, fmt.Sprintf(`{"appId":%d,"name":%q,"step":1000,"maxLimitId":0,"maxLimitIdStr":"0","limitPolicy":"reject","depths":[%s]}`, app, strings.Repeat("长名字W", app%30), strings.Join(depths, ",")))
	}
	return `{"version":"` + strings.Repeat("9", 60) + `","startedAt":"2026-01-01T00:00:00Z","ready":false,"message":"` + strings.Repeat("long", 50) + `",
		"modes":{"queue":{"enabled":true,"ready":false,"error":"` + strings.Repeat("e", 300) + `"}},"stores":[{"name":"database","ok":false,"error":"` + strings.Repeat("x", 300) + `","since":"2026-01-01T00:00:00Z"}],
		"alarms":[{"name":"Two","severity":"info","message":"` + strings.Repeat("m", 200) + `","since":"2026-01-01T00:00:00Z"},{"name":"<b>One</b>","severity":"critical","message":"now","since":"2026-01-01T00:00:00Z"}],
		"queue":{"issued":1,"apps":[` + strings.Join(apps, ",") + `]}}`
}
