//go:build unix

package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/redis/go-redis/v9"
)

// hostile is a name that is code wherever HTML is read, and too long for any column.
const hostile = `<img src=x onerror="window.broken=1">"'&amp;<script>window.broken=1</script>超长的应用名称超长的应用名称超长的应用名称`

// noSweeps keeps lists as the test left them.
func noSweeps() settings { return settings{"QUEUE_REFILL_CRON": "0 0 0 1 1 *"} }

// watched is a service with Redis, an app 7 with a hostile name, and the console on it.
func watched(t *testing.T, width int) (*daemon, *tab, *redis.Client) {
	t.Helper()
	server := testserver.Redis(t)
	d := prepared(t, onRedis(server.Addr).With(noSweeps()),
		[]string{"provision", "--app", "7", "--name", hostile},
		[]string{"provision", "--app", "9", "--name", "orders", "--max-limit-id", "9007199254740993", "--limit-policy", "wrap"},
		[]string{"tags", "add", "--tag", hostile[:len("<img src=x onerror=\"window.broken=1\">")], "--max-id", "9007199254740993"})
	client := server.Client()
	eventually(t, startLimit, "the lists are filled", func() bool {
		return d.get("/readyz").status == 200 && depth(t, client, 7, 63) > 0 && depth(t, client, 9, 63) > 0
	})
	b := browse(t, d.url, width)
	return d, b, client
}

// depth is what Redis holds for a list.
func depth(t *testing.T, client *redis.Client, app, shard int) int64 {
	t.Helper()
	n, err := client.LLen(t.Context(), fmt.Sprintf("id.gen.idList_%d_%d", app, shard)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cell is a script that gives an attribute of a shard's cell.
func cell(shard int, attribute string) string {
	return fmt.Sprintf(`document.querySelector('[data-shard="%d"]').getAttribute('%s')`, shard, attribute)
}

// TestE2EConsoleHeatmap: the grid shows what Redis holds, at once and after a change,
// to the pointer, the keyboard and a screen reader; names are shown and never run.
func TestE2EConsoleHeatmap(t *testing.T) {
	story(t)
	d, b, client := watched(t, 1300)
	d.want("/get?appId=7&gatePass=alice&count=200", 200, 0)
	d.want("/get?appId=7&gatePass=hello&count=31", 200, 0)
	for shard := range 64 {
		b.until(fmt.Sprintf("shard %d is as deep as in Redis", shard), fmt.Sprintf(`%s === 'shard %d: %s'`, cell(shard, "aria-label"), shard, words(depth(t, client, 7, shard))))
	}

	list := func(shard int) string { return fmt.Sprintf("id.gen.idList_7_%d", shard) }
	before := depth(t, client, 7, 21)
	client.Del(t.Context(), list(20))
	client.LTrim(t.Context(), list(21), before-7, -1)
	client.LTrim(t.Context(), list(22), before-1, -1)
	took := b.until("drained lists are shown", fmt.Sprintf(`%s === 'empty' && %s === 'shard 20: 0 indices' && %s === '1' && %s === 'shard 21: 7 indices' && %s === 'shard 22: 1 index'`,
		cell(20, "data-level"), cell(20, "aria-label"), cell(21, "data-level"), cell(21, "aria-label"), cell(22, "aria-label")))
	t.Logf("drained lists were shown after %v", took.Round(time.Millisecond))
	if remark := b.text(`.app[aria-selected=true] .remark`); remark != "1 empty, 2 low" {
		t.Errorf("the app's row says %q", remark)
	}
	b.until("empty, low and full lists differ in colour", `new Set([20, 21, 40].map((s) => getComputedStyle(document.querySelector('[data-shard="'+s+'"]')).backgroundColor)).size === 3
		&& getComputedStyle(document.querySelector('[data-shard="20"]')).backgroundImage.includes('gradient')`) // the hatch: not by colour alone

	walkHeatmap(t, b)
	wantHostileNames(t, b)
	b.clean()
}

// words is a depth as the console writes it.
func words(n int64) string {
	switch digits := strconv.FormatInt(n, 10); {
	case n == 1:
		return "1 index"
	case n > 999:
		return digits[:len(digits)-3] + "," + digits[len(digits)-3:] + " indices"
	default:
		return digits + " indices"
	}
}

// walkHeatmap goes through the grid with the keyboard alone.
func walkHeatmap(t *testing.T, b *tab) {
	t.Helper()
	eval[bool](b, `document.querySelector('[data-shard="0"]').focus() || true`)
	at := func() int { return eval[int](b, `Number(document.activeElement.dataset.shard ?? -1)`) }
	for _, step := range []struct {
		key  string
		want int
	}{
		{kb.ArrowLeft, 0}, {kb.ArrowUp, 0}, {kb.ArrowRight, 1}, {kb.ArrowDown, 9}, {kb.End, 15}, {kb.ArrowRight, 15},
		{kb.ArrowDown, 23}, {kb.Home, 16}, {kb.ArrowLeft, 16}, {kb.ArrowDown, 24}, {kb.ArrowUp, 16}, {kb.ArrowRight, 17}, {"x", 17},
	} {
		b.do(chromedp.KeyEvent(step.key))
		if got := at(); got != step.want {
			t.Fatalf("%q leads to shard %d, want %d", step.key, got, step.want)
		}
	}
	b.do(chromedp.KeyEvent(kb.End, chromedp.KeyModifiers(kb.ModifierCtrl)))
	if got := at(); got != 63 {
		t.Errorf("Ctrl+End leads to shard %d", got)
	}
	if got := b.text("#readout"); !strings.HasPrefix(got, "shard 63: ") || !strings.Contains(got, "of a step") {
		t.Errorf("the readout says %q", got)
	}
	if n := eval[int](b, `document.querySelectorAll('#heatmap [tabindex="0"]').length`); n != 1 {
		t.Errorf("%d cells are in the order of the Tab key", n)
	}
	b.do(chromedp.KeyEvent(kb.Tab))
	if at() != -1 {
		t.Error("Tab stays in the grid")
	}
	if got := b.text("#readout"); !strings.HasPrefix(got, "lowest 0, ") {
		t.Errorf("without a cell the readout says %q", got)
	}
	eval[bool](b, `document.querySelector('[data-shard="20"]').dispatchEvent(new PointerEvent('pointerenter')) `)
	if got := b.text("#readout"); got != "shard 20: 0 indices, 0 % of a step" {
		t.Errorf("under the pointer the readout says %q", got)
	}
}

// wantHostileNames wants the names as text, in the list, the heading and the tags.
func wantHostileNames(t *testing.T, b *tab) {
	t.Helper()
	got := eval[[]string](b, `['#app-name', '.app[aria-selected=true] .name', '#tag-rows th'].map((s) => document.querySelector(s).textContent)`)
	if got[0] != "7 "+hostile || got[1] != hostile || !strings.HasPrefix(hostile, got[2]) || got[2] == "" {
		t.Errorf("names are shown as %q", got)
	}
	if eval[bool](b, `'broken' in window || document.images.length > 0 || document.scripts.length !== 3`) {
		t.Error("a name became code")
	}
	if next := b.text("#tag-rows .next"); next != "" && !strings.Contains(next, "9,007,199,254,740,993") {
		t.Errorf("the next ID of the tag is shown as %q", next)
	}
}

// TestE2EConsoleApps: another app by keyboard and by search; its limit is exact.
func TestE2EConsoleApps(t *testing.T) {
	check.Deep(t)
	story(t)
	d, b, _ := watched(t, 1300)
	eval[bool](b, `document.querySelector('.app').focus() || true`)
	b.do(chromedp.KeyEvent(kb.ArrowDown))
	b.until("app 9 is looked at", `document.querySelector('#app-name').textContent === '9 orders' && location.hash === '#app=9'`)
	if facts := b.text("#app-facts"); !strings.Contains(facts, "9,007,199,254,740,993") || !strings.Contains(facts, "wrap: IDs repeat") {
		t.Errorf("app 9: %s", facts)
	}
	if badge := b.text("#app-badges"); badge != "wrap" {
		t.Errorf("its badge: %q", badge)
	}
	b.until("an alarm tells of it too", `document.querySelector('#alarm-list').innerText.includes('ShardidWrapApp')`)
	for search, rows := range map[string]int{"ORD": 1, "7": 1, "<img": 1, "nothing": 0, "": 2} {
		eval[bool](b, fmt.Sprintf(`{ const s = document.querySelector('#app-search'); s.value = %q; s.dispatchEvent(new Event('input')) }`, search))
		if n := eval[int](b, `document.querySelectorAll('.app').length`); n != rows {
			t.Errorf("search for %q: %d apps, want %d", search, n, rows)
		}
	}
	b.open(d.url + "/?x#app=9")
	b.until("the address tells the app", `document.querySelector('#app-name').textContent === '9 orders'`)
	d.want("/get?appId=9&gatePass=alice&count=50", 200, 0)
	b.until("its chart is drawn", `document.querySelector('#app-chart canvas') !== null`)
	b.until("the charts are drawn", `document.querySelectorAll('#charts canvas').length >= 3`)
	b.clean()
}

// TestE2EConsoleDecodes: an ID of each mode, and what is none.
func TestE2EConsoleDecodes(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo")
	b := browse(t, d.url, 1300)
	flake := eventuallyID(t, d, snowflakeGet)
	uid := eventuallyID(t, d, "/api/uid/get")
	for id, wants := range map[string]string{
		"16385":               `queue: index 1 · shard 0 · app 1 (test)`,
		" 16,385 ":            `queue: index 1 · shard 0 · app 1 (test)`,
		"9223372036854775807": `queue: index 562,949,953,421,311 · shard 63 · app 255`,
		flake:                 fmt.Sprintf("snowflake: timestamp %d ", timeOf(number64(t, flake)).UnixMilli()),
		uid:                   "uid: timestamp " + parsed(t, d, uid),
	} {
		b.fill("#decode-id", id)
		b.do(chromedp.KeyEvent(kb.Enter))
		b.until("decoded "+id, `document.querySelectorAll('#decode-kinds .kind').length === 3`)
		got := eval[string](b, `[...document.querySelectorAll('.kind')].map((k) => k.dataset.kind + ': ' + [...k.querySelectorAll('dl > div')].map((r) => r.textContent.replace(r.firstChild.textContent, r.firstChild.textContent + ' ')).join(' · ')).join('\n')`)
		if !strings.Contains(got, wants) {
			t.Errorf("%s is decoded as\n%s\nwant %s", id, got, wants)
		}
	}
	for id, says := range map[string]string{
		"":                    "Enter an ID",
		"12x":                 "decimal digits only",
		"-1":                  "decimal digits only",
		"9223372036854775808": "below 2^63",
		"0":                   "",
	} {
		b.fill("#decode-id", id+" ")
		b.do(chromedp.KeyEvent(kb.Enter))
		b.until("an error for "+id, `document.querySelector('#decode-error').textContent !== '' || document.querySelector('.kind .error:not(:empty)') !== null`)
		if got := b.text("#decode-error"); !strings.Contains(got, says) {
			t.Errorf("%q: %q, want %q", id, got, says)
		}
	}
	b.clean("status of 400") // the server refuses 0
}

// eventuallyID is an ID of a mode that may still be starting.
func eventuallyID(t *testing.T, d *daemon, target string) (id string) {
	t.Helper()
	eventually(t, startLimit, "an ID of "+target, func() bool { a := d.get(target); id = a.body; return a.status == 200 })
	return id
}

func number64(t *testing.T, digits string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// parsed is the second of a UID.
func parsed(t *testing.T, d *daemon, uid string) string {
	t.Helper()
	return strconv.FormatInt(fromJSON[struct{ Timestamp int64 }](t, d.get("/decode?kind=uid&id="+uid)).Timestamp, 10)
}

// TestE2EConsoleServerAway: the page says that the server is away and goes on by
// itself when it is back.
func TestE2EConsoleServerAway(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	d := serveIn(t, dir, nil, "--demo")
	b := browse(t, d.url, 1300)
	b.until("the page says that embedded stores are for one replica", `document.querySelector('#single').innerText.includes('for one replica')`)
	d.Kill()
	took := b.until("the page says that the server is away", `document.body.dataset.link === 'away' && document.querySelector('#stale').innerText.includes('does not answer')`)
	t.Logf("said so after %v", took.Round(time.Millisecond))
	if shown := b.text("#app-name"); shown != "1 test" {
		t.Errorf("what was known is gone: %q", shown)
	}
	serveIn(t, dir, nil, "--demo", "--set", "server.addr="+strings.TrimPrefix(d.url, "http://"))
	took = eventually(t, 2*seen, "the page is live again", func() bool {
		return eval[bool](b, `document.body.dataset.link === 'live' && document.querySelector('#stale').hidden`)
	})
	t.Logf("live again after %v", took.Round(time.Millisecond))
	b.clean("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE")
}
