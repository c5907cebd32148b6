//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestE2EConsoleManyApps: 256 apps, names of every length and a phone's width; nothing
// is wider than the window, and the rows follow the figures.
func TestE2EConsoleManyApps(t *testing.T) {
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

// TestE2EConsoleManyTags: of more tags than the server shows at once the console tells how
// many there are, and its search finds the others.
func TestE2EConsoleManyTags(t *testing.T) {
	story(t)
	var rows strings.Builder
	rows.WriteString("biz_type\tmax_id\tstep\tdelta\tremainder\n")
	for i := range 1234 {
		fmt.Fprintf(&rows, "tag%05d\t%d\t10\t1\t0\n", i, i)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "tinyid.tsv")
	if err := os.WriteFile(file, []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := shardidIn(t, dir, nil, "tags", "import", "--tinyid", file); o.exit != 0 {
		t.Fatalf("%+v", o)
	}
	d := serveIn(t, dir, nil)
	d.ready()
	b := browse(t, d.url, 1280)
	b.until("all tags are counted", `document.querySelector('#tag-sum').textContent.startsWith('1234 tags')`)
	b.until("the others are told of", `document.querySelector('#tag-none').textContent.includes('1,034 more')`)
	eval[bool](b, `{ const s = document.querySelector('#tag-search'); s.value = 'TAG0123'; for (const e of ['input', 'change']) s.dispatchEvent(new Event(e, { bubbles: true })); true }`)
	b.until("a tag of the end is found", `[...document.querySelectorAll('#tag-rows tr')].some((row) => row.textContent.includes('tag01233'))`)
	if sum := b.text("#tag-sum"); !strings.HasPrefix(sum, "1234 tags") {
		t.Errorf("while searching: %s", sum)
	}
	eval[bool](b, `{ const s = document.querySelector('#tag-search'); s.value = ''; for (const e of ['input', 'change']) s.dispatchEvent(new Event(e, { bubbles: true })); true }`)
	b.until("the first are back", `document.querySelectorAll('#tag-rows tr').length === 200`)
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
