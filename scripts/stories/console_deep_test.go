//go:build unix

// The console in depth, for `make test-all`: many apps, a phone, names and spaces, and several replicas.

package stories_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// beyond names what reaches over the right edge of the page.
const beyond = `[...document.body.querySelectorAll('*')]
	.filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth)
	.map((e) => e.tagName + '#' + e.id + '.' + (e.getAttribute('class') ?? '')).slice(0, 12).join(' ')`

// fits wants nothing wider than the window, at each of these widths.
func (b *tab) fits(theme string, widths ...int) {
	b.t.Helper()
	for _, width := range widths {
		b.resize(width, 900, theme)
		wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
		if wide > 0 {
			b.t.Errorf("at %d pixels the page is %d too wide: %s", width, wide, eval[string](b, beyond))
		}
	}
}

// TestConsoleNarrow: with 256 apps and names and messages of every length nothing is wider than the window, at the
// width of a phone or another one; every link of the navigation can be seen, and no number is broken in the middle.
// The rows follow the figures, and each chart says its unit.
func TestConsoleNarrow(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo")
	d.ready()
	target, err := url.Parse(d.url)
	check.Must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	crowd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/status" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(manyApps()))
	}))
	t.Cleanup(crowd.Close)
	b := browse(t, crowd.URL, 390)
	if n := eval[int](b, `$$('.app').length`); n != 256 {
		t.Errorf("%d apps are shown, want 256", n)
	}
	b.until("the charts are drawn", `$$('#charts canvas').length >= 3`)
	for _, width := range []int{320, 390, 600, 768, 1024, 1920} {
		b.fits("light", width)
		hidden := eval[[]string](b, `$$('.top nav a').filter((a) => {
			const r = a.getBoundingClientRect(), n = a.parentElement.getBoundingClientRect();
			return r.left < Math.max(0, n.left) || r.right > Math.min(innerWidth, n.right) || r.width === 0;
		}).map((a) => a.textContent)`)
		broken := eval[[]string](b, `(() => {
			const found = [], range = document.createRange();
			const walker = document.createTreeWalker($('main'), NodeFilter.SHOW_TEXT);
			for (let n; (n = walker.nextNode());) {
				for (const m of n.data.matchAll(/[\d,]{4,}/g)) {
					range.setStart(n, m.index); range.setEnd(n, m.index + m[0].length);
					if (new Set([...range.getClientRects()].map((r) => r.top)).size > 1) found.push(m[0]);
				}
			}
			return found;
		})()`)
		if len(hidden)+len(broken) > 0 {
			t.Errorf("at %d pixels the links %q cannot be seen, the numbers %q are broken", width, hidden, broken)
		}
	}
	b.resize(390, 844, "light")
	units := eval[map[string]string](b, `Object.fromEntries($$('.chart')
		.filter((c) => c.querySelector('canvas'))
		.map((c) => [c.querySelector('figcaption').firstChild.textContent, c.querySelector('.unit').innerText]))`)
	if units["IDs a second"] != "IDs/s" || units["Answered requests a second"] != "requests/s" {
		t.Errorf("units: %q", units)
	}
	order := eval[[]string](b, `$$('#alarm-list li').map((e) => e.innerText)`)
	if !strings.Contains(order[0], "<b>One</b>") || !strings.Contains(order[len(order)-1], "Two") {
		t.Errorf("alarms: %q, want the critical one, as it is written, first", order)
	}
	b.set("#app-order", "low")
	b.until("app 77 is the emptiest", `$('.app .id').textContent === '77'`)
	b.run(`$('.app').click()`)
	b.until("empty, low and full lists differ, and not by colour alone",
		`new Set([5, 26, 20].map((s) => getComputedStyle($('[data-shard="'+s+'"]')).backgroundColor)).size === 3
		&& getComputedStyle($('[data-shard="5"]')).backgroundImage.includes('gradient')`)
	small := eval[[]string](b, `$$('button, input, select')
		.filter((e) => e.offsetParent && e.getBoundingClientRect().height < 38).map((e) => e.id)`)
	if len(small) > 0 {
		t.Errorf("too small for a finger: %q", small)
	}
	b.clean()
}

// manyApps is a status with 256 apps, the 77th of which has an empty list, long texts and two alarms.
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
		apps = append(apps, fmt.Sprintf(`{"appId":%d,"name":%q,"step":1000,"maxLimitId":9007199254740993,
			"maxLimitIdStr":"9007199254740993","limitPolicy":"wrap","depths":[%s]}`,
			app, strings.Repeat("长名字W", app%30), strings.Join(depths, ",")))
	}
	const since = `"since":"2026-01-01T00:00:00Z"`
	long := strings.Repeat("m", 300)
	return `{"version":"` + long + `","startedAt":"2026-01-01T00:00:00Z","ready":false,"message":"` + long + `",
		"modes":{"queue":{"enabled":true,"ready":false,"error":"` + long + `"}},
		"stores":[{"name":"database","ok":false,"error":"` + long + `",` + since + `}],
		"alarms":[{"name":"Two","severity":"info","message":"` + long + `",` + since + `},
			{"name":"<b>One</b>","severity":"critical","message":"now",` + since + `}],
		"queue":{"issued":1,"apps":[` + strings.Join(apps, ",") + `]}}`
}

// TestConsoleNamesAndSpaces: names with how much of each is leased, and the holders of the one that is chosen;
// spaces with their step, made, changed and deleted. While the database is away what was read stays, and the
// page says why; afterwards it goes on by itself.
func TestConsoleNamesAndSpaces(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	on := s.settings()
	d := serve(t, on.With(settings{"SERVER_ADMIN_TOKEN": consoleToken}))
	d.ready()
	b := browse(t, d.url, 1300)
	b.says("#name-none", "shardid names add")
	b.says("#space-none", "shardid spaces add")
	must(t, on, "names", "add", "--name", "orders", "--worker-bits", "2", "--hold", "5m")
	script, _, _ := strings.Cut(hostile, "超") // a holder has at most 128 bytes
	lease := func(holder string) answer {
		t.Helper()
		a, err := d.do(http.MethodPost, "/v1/leases/orders?instance="+url.QueryEscape(holder))
		check.Must(t, err)
		return a
	}
	for _, holder := range []string{script, "pod-1", ""} {
		lease(holder)
	}
	const name = `row('#name-rows', 'orders')`
	b.until("3 of 4 worker IDs are leased", name+`?.innerText.includes('3 of 4') === true`)
	b.run(name + `.querySelector('button').click()`)
	b.until("the holders are shown", `$$('#holder-rows tr').length === 3`)
	holders := eval[[]string](b, `$$('#holder-rows tr')
		.map((r) => r.children[0].innerText + ' ' + r.children[1].textContent).sort()`)
	if !slices.Equal(holders, []string{"0 " + script, "1 pod-1", "2 –"}) {
		t.Errorf("holders: %q", holders)
	}
	if eval[bool](b, `'broken' in window || document.images.length > 0`) {
		t.Error("what a holder calls itself became code")
	}
	lease("pod-2")
	if a := lease(""); a.status != 503 || a.Code != -8 {
		t.Errorf("no worker ID is left: %d %s, want code -8", a.status, a.body)
	}
	b.says("#alarm-list", `the name "orders" is leased`)
	b.until("all holders are shown", `$$('#holder-rows tr').length === 4`)

	space := func(button string) string {
		return `row('#space-rows', 'chat')?.querySelector('button[aria-label^="` + button + `"]')`
	}
	b.click("#new-space")
	b.fill("#admin-token", consoleToken)
	b.click("#admin-submit")
	b.until("the form is there", `$('#admin-space') !== null`)
	b.fill("#admin-space", "a room")
	b.refused("letters, digits, dots, hyphens and underscores")
	b.fill("#admin-space", "chat")
	b.submitted("Made space chat")
	b.until("it is shown", space("Edit")+` !== undefined`)
	b.run(space("Edit") + `.click()`)
	b.until("the form is there", `$('#admin-step')?.value === '10,000'`)
	b.fill("#admin-step", "20,000")
	b.submitted("Changed space chat")
	b.says("#space-rows", "20,000")
	b.fits("dark", 320, 768, 1300)

	s.db.Kill()
	for _, away := range []string{"#name-away", "#space-away"} {
		b.says(away, "This cannot be read now")
	}
	if rows := eval[int](b, `$$('#name-rows tr, #holder-rows tr, #space-rows tr').length`); rows != 6 {
		t.Errorf("of what was read %d rows are left, want 6", rows)
	}
	s.db.Restart()
	b.until("the database is back", `!shown('#name-away') && !shown('#space-away')`)

	b.run(space("Delete") + `.click()`)
	b.until("the form is there", `$('#admin-confirm') !== null`)
	b.wantsName("chat")
	b.submitted("Deleted space chat")
	b.until("it is gone", space("Edit")+` === undefined`)
	b.clean("status of 400", "status of 404", "status of 503", "ERR_CONNECTION")
}

// TestConsoleFleet: each replica's page shows all that share a Redis; one that is killed disappears, as one
// that is stopped does; without Redis a page shows its own replica and says why.
func TestConsoleFleet(t *testing.T) {
	check.Deep(t)
	story(t)
	server := testserver.Redis(t)
	s := onMariaDB(migrated(t)).With(onRedis(server.Addr))
	must(t, s, "provision", "--app", "1", "--name", "test")
	replicas := serveReady(t, 3, s)
	b := browse(t, replicas[0].url, 1300)
	shows := func(what string, replicas ...*daemon) {
		t.Helper()
		eventually(t, seen, what, func() bool {
			found := eval[[]string](b, `$$('#replica-rows tr').map((r) => r.querySelector('a').href)`)
			for _, d := range replicas {
				if !slices.Contains(found, d.url+"/") {
					return false
				}
			}
			return len(found) == len(replicas)
		})
	}
	shows("three replicas", replicas...)
	b.says("#fleet-sum", "3 replicas, 3 ready, ")
	if self := eval[string](b, `$$('#replica-rows tr')
		.find((r) => !r.querySelector('.badge').hidden).querySelector('a').href`); self != replicas[0].url+"/" {
		t.Errorf("this page is said to be of %s, want %s", self, replicas[0].url)
	}
	rate := fmt.Sprintf(`/^[1-9]/.test($$('#replica-rows tr')
		.find((r) => r.querySelector('a').href === %q).children[2].textContent)`, replicas[1].url+"/")
	eventually(t, seen, "the second replica's rate is seen on the first one's page", func() bool {
		for range 200 {
			replicas[1].get(aliceGet)
		}
		return eval[bool](b, rate)
	})
	replicas[2].Kill()
	shows("the killed one is gone", replicas[:2]...)
	replicas[1].stops(syscall.SIGTERM, startLimit)
	shows("the stopped one is gone", replicas[0])
	server.Kill()
	b.says("#fleet-note", "cannot be read")
	shows("its own replica", replicas[0])
	b.clean("status of 503")
}
