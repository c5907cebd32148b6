//go:build unix

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// red are the alarms that tell of a cause, and marked the tiles of what fails or is degraded.
const (
	red    = `[...document.querySelectorAll('#alarm-list > [data-state=critical]')].map((e) => e.innerText)`
	marked = `[...document.querySelectorAll('#affected-list li')].map((e) => e.querySelector('.name').innerText + ' ' + e.dataset.state).join()`
)

// TestE2EConsoleTrouble: a sentence says who is hit and who goes on; one cause is one red alarm with its
// whole message and a link to its section of the runbook; what fails is red, what is degraded amber; once
// the store is back, all that is well is one line; nothing is said to serve while the replica is not ready;
// and a mode that is off takes no room.
func TestE2EConsoleTrouble(t *testing.T) {
	story(t)
	server := testserver.Redis(t)
	d := prepared(t, onRedis(server.Addr).With(noSweeps()).With(settings{"SERVER_DRAIN_DELAY": "12s", "SEGMENT_ENABLED": "false"}), []string{"provision", "--app", "1", "--name", "test"})
	eventually(t, startLimit, "it issues IDs", func() bool { return d.get("/get?appId=1&gatePass=alice").status == 200 })
	b := browse(t, d.url, 1300)
	const calm = `document.querySelectorAll('#alarm-list li:not([data-state=info]), #affected-list li').length === 0`
	b.until("all is well, and closed", calm+` && !document.querySelector('#well').open && !document.querySelector('#well-list').checkVisibility()`)
	if well := b.text("#well-sum"); !strings.Contains(well, "queue mode") || !strings.Contains(well, "redis") {
		t.Errorf("well is %q", well)
	}
	b.click("#well summary")
	b.until("the tiles open on demand", `document.querySelector('#well-list').checkVisibility() && document.querySelector('#well-list').innerText.includes('serving')`)
	b.click("#well summary")
	b.until("the segment mode is off", `document.querySelector('#replica-rows tr') !== null && [...document.querySelectorAll('#replicas th, #modes h3')].every((e) => !/segment/i.test(e.innerText) || !e.checkVisibility())`)

	server.Kill()
	eventually(t, 20*time.Second, "the replica is not ready", func() bool {
		d.get("/get?appId=1&gatePass=alice&count=2000") // so that other alarms follow
		return strings.Contains(d.get("/healthz").body, "redis")
	})
	hit := "Redis at " + server.Addr + " is unreachable. Queue and sequence callers get -4; snowflake and UID go on."
	b.until("one cause, and who is hit", fmt.Sprintf(`(`+red+`).length === 1 && document.querySelector('#impact[data-state=critical]')?.innerText === %q`, hit))
	b.until("red and amber", `(`+marked+`).includes('replica warning,queue mode critical,sequence mode critical,') && (`+marked+`).includes('redis critical,refill warning')`)
	for range 5 { // alarms that follow come later
		d.get("/get?appId=1&gatePass=alice&count=2000")
		time.Sleep(time.Second)
		if tiles := eval[[]string](b, red); len(tiles) != 1 || !strings.Contains(tiles[0], "ShardidStoreAway") || !strings.Contains(tiles[0], "start Redis or correct redis.addrs") {
			t.Fatalf("red tiles: %q", tiles)
		}
	}
	if cut := eval[bool](b, `[...document.querySelectorAll('#alarm-list .message')].some((e) => e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1)`); cut {
		t.Error("a message is cut")
	}
	followRunbooks(t, b)

	server.Restart()
	eventually(t, 2*time.Minute, "all is well again", func() bool {
		return d.get("/get?appId=1&gatePass=alice").status == 200 && eval[bool](b, `document.querySelectorAll('#affected-list li').length === 0 && document.querySelector('#impact').innerText === '' && !document.querySelector('#alarm-list').innerText.includes('ShardidStoreAway')`)
	})

	d.Signal(syscall.SIGTERM)
	const notReady = `[...document.querySelectorAll('#affected-list li')].some((e) => e.textContent === 'replicanot ready')`
	b.until("a replica that drains is not ready", notReady+` && document.querySelector('#alarm-list').innerText.includes('shutting down')`)
	if health := eval[string](b, `document.querySelector('#health').textContent`); strings.Contains(health, "serving") || !strings.Contains(health, "able to serve") {
		t.Errorf("something serves while the replica is not ready: %s", health)
	}
	b.clean("status of 503", "ERR_CONNECTION")
}

// followRunbooks opens the link of each alarm.
func followRunbooks(t *testing.T, b *tab) {
	t.Helper()
	eval[bool](b, `Promise.all([...document.querySelectorAll('#alarm-list a')].map(async (a) => {
		const page = new DOMParser().parseFromString(await (await fetch(a.href)).text(), 'text/html');
		return a.hash + ' ' + page.querySelector(a.hash)?.textContent;
	})).then((found) => { window.runbooks = found }) && true`)
	b.until("the runbooks are read", `window.runbooks !== undefined`)
	found := eval[[]string](b, `window.runbooks`)
	if len(found) == 0 {
		t.Error("no alarm has a link")
	}
	for _, f := range found {
		if anchor, title, _ := strings.Cut(f, " "); anchor != "#"+strings.ToLower(title) {
			t.Errorf("%s leads to %q", anchor, title)
		}
	}
}

// TestE2EConsolePhone: at a phone's width every link of the navigation can be seen, no
// number is broken in the middle, and each chart says its unit.
func TestE2EConsolePhone(t *testing.T) {
	check.Deep(t)
	story(t)
	d, b, _ := watched(t, 390)
	d.want("/get?appId=9&gatePass=alice", 200, 0)
	b.open(d.url + "/?x#app=9") // its limit has 16 digits
	b.until("the charts are drawn", `['IDs a second', 'Latency, median'].every((title) => [...document.querySelectorAll('#charts .chart')].some((c) => c.textContent.startsWith(title) && c.querySelector('canvas')))`)
	for _, width := range []int{320, 360, 390, 600, 768, 960, 1300} {
		b.resize(width, 844, "light")
		hidden := eval[[]string](b, `[...document.querySelectorAll('.top nav a')].filter((a) => {
			const r = a.getBoundingClientRect(), n = a.parentElement.getBoundingClientRect();
			return r.left < Math.max(0, n.left) || r.right > Math.min(innerWidth, n.right) || r.width === 0;
		}).map((a) => a.textContent)`)
		if len(hidden) > 0 {
			t.Errorf("at %d pixels %q cannot be seen", width, hidden)
		}
		broken := eval[[]string](b, `(() => {
			const found = [], range = document.createRange();
			const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
			for (let n; (n = walker.nextNode());) {
				for (const m of n.data.matchAll(/[\d,]{4,}/g)) {
					range.setStart(n, m.index); range.setEnd(n, m.index + m[0].length);
					if (new Set([...range.getClientRects()].map((r) => r.top)).size > 1) found.push(m[0]);
				}
			}
			return found;
		})()`)
		if len(broken) > 0 {
			t.Errorf("at %d pixels numbers are broken: %q", width, broken)
		}
	}
	units := eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll('.chart')].filter((c) => c.querySelector('canvas')).map((c) => [c.querySelector('figcaption').firstChild.textContent, c.querySelector('.unit').innerText]))`)
	if len(units) < 3 || units["IDs a second"] != "IDs/s" || units["Latency, median"] != "ms" {
		t.Errorf("units: %q", units)
	}
	for title, unit := range units {
		if unit == "" {
			t.Errorf("%s has no unit", title)
		}
	}
	b.clean()
}

// TestE2EConsoleFleet: each replica's page shows all that share a Redis; one that is
// killed disappears, one that is stopped at once; without Redis a page shows its own
// replica and says why.
func TestE2EConsoleFleet(t *testing.T) {
	check.Deep(t)
	story(t)
	server := testserver.Redis(t)
	dsn := migrated(t)
	s := onMariaDB(dsn).With(onRedis(server.Addr))
	if o := shardid(t, s, "provision", "--app", "1", "--name", "test"); o.exit != 0 {
		t.Fatalf("%+v", o)
	}
	first, second, third := serve(t, s), serve(t, s), serve(t, s)
	b := browse(t, first.url, 1300)
	rows := `[...document.querySelectorAll('#replica-rows tr')].map((r) => r.querySelector('a').href)`
	shows := func(b *tab, what string, replicas ...*daemon) time.Duration {
		t.Helper()
		return eventually(t, 20*time.Second, what, func() bool {
			found := eval[[]string](b, rows)
			for _, d := range replicas {
				if !strings.Contains(strings.Join(found, " "), d.url+"/") {
					return false
				}
			}
			return len(found) == len(replicas)
		})
	}
	shows(b, "three replicas", first, second, third)
	if self := eval[string](b, `[...document.querySelectorAll('#replica-rows tr')].find((r) => !r.querySelector('.badge').hidden).querySelector('a').href`); self != first.url+"/" {
		t.Errorf("this page is said to be of %s", self)
	}
	eventually(t, 30*time.Second, "the second replica's rate is seen on the first one's page", func() bool {
		for range 200 {
			second.get("/get?appId=1&gatePass=alice")
		}
		return eval[bool](b, fmt.Sprintf(`/^[1-9]/.test([...document.querySelectorAll('#replica-rows tr')].find((r) => r.querySelector('a').href === %q).children[2].textContent)`, second.url+"/"))
	})
	if sum := b.text("#fleet-sum"); !strings.HasPrefix(sum, "3 replicas, 3 ready, ") {
		t.Errorf("the fleet is %q", sum)
	}
	ids := eval[[]string](b, `[...document.querySelectorAll('#replica-rows tr')].map((r) => r.children[7].textContent)`)
	if got := eval[[]string](b, `[...document.querySelectorAll('#replica-rows tr')].map((r) => r.children[6].textContent)`); slices.Contains(got, "not ready") {
		t.Errorf("sequences are %q", got)
	}
	if len(ids) != 3 || ids[0] == ids[1] || ids[1] == ids[2] || ids[0] == ids[2] {
		t.Errorf("worker IDs %q", ids)
	}
	third.Kill()
	t.Logf("a killed replica disappeared after %v", shows(b, "the killed one is gone", first, second).Round(time.Second))
	second.stops(syscall.SIGTERM, startLimit)
	t.Logf("a stopped one after %v", shows(b, "the stopped one is gone", first).Round(100*time.Millisecond))
	server.Kill()
	b.until("it is said why the others are not shown", `document.querySelectorAll('#replica-rows tr').length === 1 && document.querySelector('#fleet-note').innerText.includes('cannot be read')`)
	b.clean("status of 503")

	alone := browse(t, serve(t, nil, "--demo").url, 1300)
	alone.until("an embedded one shows itself", `document.querySelectorAll('#replica-rows tr').length === 1 && document.querySelector('#fleet-note').innerText.includes('Without a Redis')`)
	alone.clean()
}
