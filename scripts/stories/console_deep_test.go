//go:build unix

// The console in depth, for `make test-all`: its widths, names and spaces, and both languages.

package stories_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// beyond names what reaches over the right edge of the page.
const beyond = `[...document.body.querySelectorAll('*')]
	.filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth)
	.map((e) => e.tagName + '#' + e.id + '.' + (e.getAttribute('class') ?? '')).slice(0, 12).join(' ')`

// hidden names the links of the navigation that cannot be seen, and what a finger does not hit on a phone.
const hidden = `[...$$('.top nav a').filter((a) => {
		const r = a.getBoundingClientRect(), n = a.parentElement.getBoundingClientRect();
		return r.left < Math.max(0, n.left) || r.right > Math.min(innerWidth, n.right) || r.width === 0;
	}).map((a) => a.textContent), ...$$('button, input, select').filter((e) =>
		innerWidth === 390 && e.offsetParent && e.getBoundingClientRect().height < 38).map((e) => e.id)]`

// fits wants nothing wider than the window, and nothing hidden, at each of these widths.
func (b *tab) fits(theme string, widths ...int) {
	b.t.Helper()
	for _, width := range widths {
		b.do(chromedp.EmulateViewport(int64(width), 900), prefers(theme))
		wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
		if wide > 0 {
			b.t.Errorf("at %d pixels the page is %d too wide: %s", width, wide, eval[string](b, beyond))
		}
		if names := eval[[]string](b, hidden); len(names) > 0 {
			b.t.Errorf("at %d pixels these are hidden, or too small: %q", width, names)
		}
	}
}

// prefers gives the system of the browser a theme.
func prefers(theme string) chromedp.Action[chromedp.Void] {
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
	return func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return chromedp.Void{}, err
	}
}

// TestConsoleNamesAndSpaces: names with how much of each is leased; spaces with their step; charts of two replicas
// together. While a store is unreachable what was read of it stays, grey, and the page says why; afterwards it resumes
// by itself.
func TestConsoleNamesAndSpaces(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	on := s.settings()
	d := serve(t, on)
	d.ready()
	b := browse(t, d.url, 1300)
	b.says("#name-none", "shardid names add")
	b.says("#space-none", "shardid spaces add")
	must(t, on, "names", "add", "--name", "orders", "--worker-bits", "2", "--hold", "5m")
	check.Must(t, check.Err(d.do(http.MethodPost, "/v1/leases/orders")))
	b.until("a worker ID is leased", `row('#name-rows', 'orders')?.innerText.includes('1 of 4') === true`)

	must(t, on, "spaces", "add", "--space", "chat", "--step", "20000")
	b.says("#space-rows", "20,000")
	b.fits("dark", 320, 768, 1300)

	other := serve(t, on)
	b.says("#rates-sum", "by 2 replicas together")
	b.says("#replica-rows", strings.TrimPrefix(other.url, "http://"))
	s.redis.Kill()
	b.until("what the other one said stays, and is old", `$$('#replica-rows tr').length === 2 &&
		says('#replica-rows [data-old]').includes('last heard of') && says('#rates-sum').includes('start Redis')`)
	s.redis.Restart()
	b.until("both are there", `$$('#replica-rows tr').length === 2 && !$('#replica-rows [data-old]')`)

	s.db.Kill()
	for _, away := range []string{"#name-away", "#space-away"} {
		b.says(away, "This cannot be read now")
	}
	if rows := eval[int](b, `$$('[data-old] #name-rows tr, [data-old] #space-rows tr').length`); rows != 2 {
		t.Errorf("of what was read %d rows are left, grey, want 2", rows)
	}
	s.db.Restart()
	b.until("the database is back", `!shown('#name-away') && !shown('#space-away')`)
	b.clean("status of 503", "ERR_CONNECTION")
}

// TestConsoleTags: 200 tags take less than two screens, in pages. The server sorts them by the column that is clicked,
// and finds them. The one that is chosen has a chart, and of a new app the next free ID is proposed.
func TestConsoleTags(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": consoleToken}, "--demo")
	d.ready()
	b := browse(t, d.url, 1300)
	added := eval[int](b, fmt.Sprintf(`Promise.all(Array.from({ length: 198 }, (_, i) => fetch('admin/tags', {
		method: 'POST', headers: { Authorization: 'Bearer %s', 'Content-Type': 'application/json' },
		body: JSON.stringify({ tag: 't/' + String(i).padStart(3, '0'), step: 3000 + i }),
	}))).then((all) => all.filter(({ status }) => status === 201).length)`, consoleToken))
	check.Equal(t, added, 198, "tags are added beside those of the demo")
	d.want(segmentGet+"t%2F150?count=5", 200, 0)
	rows := `$$('#tag-rows tr').map((r) => r.firstChild.textContent)`
	b.until("a page", rows+`.length === 50 && says('#tags .pager').includes('1–50 of 200')`)
	if high := eval[int](b, `$('#tags').offsetHeight`); high > 2*900 {
		b.t.Errorf("200 tags take %d pixels", high)
	}
	for _, step := range []struct{ click, first string }{
		{"[aria-label='The next page']", "t/048"}, // after those of the demo
		{"th:nth-child(4) button", "t/150"},       // what is held
		{"th:nth-child(3) button", "t/197"},       // the step
		{"th:nth-child(3) button", "leaf-segment-test"},
		{"[aria-label='The next page']", "t/048"},
	} {
		b.run(fmt.Sprintf(`$(%q).click()`, "#tags "+step.click))
		b.until(step.first+" is the first", fmt.Sprintf(rows+`[0] === %q`, step.first))
	}
	b.set("#tag-search", "/150")
	b.until("it is found", rows+`.join() === 't/150'`)
	b.click(`#tag-rows a`)
	b.until("it has a chart", `location.hash === '#tag=t%2F150' &&
		says('#tag-chart figcaption') === 'IDs a second by all replicas: t/150' &&
		shown('#tag-chart canvas') && shown('#tag-rows [aria-current]') && says('#app-name') === '1 test' &&
		$('#language').hash === location.hash`)
	b.fits("light", 360, 1300)
	b.run(`$('#new-app').click()`)
	b.fill("#admin-token", consoleToken)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("an ID is proposed", `$('#admin-id')?.value === '2'`)
	b.do(chromedp.Navigate(d.url + "/docs/monitoring.md"))
	b.until("its picture is there", `document.images.length > 0 && [...document.images].every((i) => i.width > 0)`)
	b.fits("light", 360, 1300)
	b.clean()
}

// foreign lists the texts of the page that are of another language: all that can be seen or is read out, but
// what is marked as English, as messages of the server are, and what the server names. %s matches what a text
// must not have.
const foreign = `(() => {
	const data = ['[lang=en]', '#language', '#version', '#replica-rows th', '#replica-rows td:nth-last-child(2)',
		'#snowflake dd', '#uid dd', 'script', 'style', 'noscript'].join();
	const visible = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(data);
	const found = [document.title];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walker.nextNode());) if (visible(n.parentElement)) found.push(n.data.trim());
	for (const e of document.body.querySelectorAll('*')) {
		if (!visible(e)) continue;
		const names = ['aria-label', 'placeholder', 'title', 'alt', 'data-name'];
		found.push(...names.map((name) => e.getAttribute(name) ?? ''));
	}
	return [...new Set(found)].filter((text) => %s.test(text));
})()`

// texts are the keys of a language's texts, with the parameters of those that are functions.
const texts = `import('/console/%s.js').then(({ text }) => {
	const list = (value, path) => {
		if (typeof value === 'string') return [path];
		if (typeof value !== 'function') return Object.keys(value).flatMap((key) => list(value[key], path + '.' + key));
		const [, written, body] = /^\(([^)]*)\) => ([^]*)$/.exec(value);
		const used = (name) => new RegExp('\\b' + name + '\\b').test(body) ? name : name + ' unused';
		return [path + '(' + written.split(', ').map(used) + ')'];
	};
	// A test of httpapi knows the names of alarms, whose sentences have other facts; English has no words for codes.
	return list({ ...text, alarms: {}, codes: {} }, '').sort();
})`

// languages are what browsers ask for, and what a page in each language must not have.
var languages = []struct {
	tag, accept, other, foreign, queue string
}{
	{"zh-CN", "fr,zh-CN,en", "en", `/[A-Za-z]/`, "队列"},
	{"en", "de,en-GB,zh", "zh-CN", `/[\u3000-\u9fff\uff00-\uffef]/`, "Queue"},
}

// sameInChinese are words that Chinese pages have too: names of products, protocols, paths, keys, choices and
// alarms, and examples.
var sameInChinese = regexp.MustCompile(`\b(?:Shardid\w+|shardid(?: doctor)?|ID|UID|MySQL|Redis|HTTP|wrap|reject|UTC|` +
	`Asia/Shanghai|dec|hex|base36|base62|crockford|cache|db|api/status|metrics|healthz|openapi\.yaml|uid\.\w+|P99)\b|` +
	`ORD-\{yyyyMMdd\}-\{seq:8\}`)

// TestConsoleLanguages goes through all views in Chinese and in English, as the browser asks for them: no
// text is of the other language, nothing is wider than the window, and a link leads to the other one.
func TestConsoleLanguages(t *testing.T) {
	check.Deep(t)
	for _, language := range languages {
		t.Run(language.tag, func(t *testing.T) {
			story(t)
			server := testserver.Redis(t)
			s := onRedis(server.Addr).With(noSweeps())
			d := prepared(t, s, // names are digits, which are of no language
				[]string{"provision", "--app", "7", "--name", "42"},
				[]string{"provision", "--app", "9", "--name", "99", "--max-limit-id", exactLimit},
				[]string{"tags", "add", "--tag", "1/2"}, []string{"names", "add", "--name", "5"},
				[]string{"spaces", "add", "--space", "7"})
			for _, target := range []string{"/get?appId=7&gatePass=alice", segmentGet + "1%2F2", snowflakeGet, uidGet} {
				eventuallyID(t, d, target)
			}
			b := newTab(t, 1300, chromedp.Flag("accept-lang", language.accept))
			b.open(d.url)
			english, chinese := eval[[]string](b, fmt.Sprintf(texts, "en")), eval[[]string](b, fmt.Sprintf(texts, "zh"))
			all := strings.Join(english, "\n")
			if all != strings.Join(chinese, "\n") || len(english) < 200 || strings.Contains(all, " unused") {
				t.Errorf("the texts differ, or do not use a parameter\nen.js:\n%q\n\nzh.js:\n%q", english, chinese)
			}
			said, latin := map[string]bool{}, regexp.MustCompile(`[A-Za-z]`)
			pure := func(view string) {
				t.Helper()
				for _, text := range eval[[]string](b, fmt.Sprintf(foreign, language.foreign)) {
					known := language.tag == "zh-CN" && !latin.MatchString(sameInChinese.ReplaceAllString(text, ""))
					if !known && !said[text] {
						t.Errorf("%s: %q is of another language", view, text)
					}
					said[text] = true
				}
			}
			tour(b, pure)

			b.open(d.url)
			for _, next := range []string{language.other, language.tag} { // there and back
				b.click("#language")
				b.until("the language is "+next,
					fmt.Sprintf(`link() === 'live' && document.documentElement.lang === %q`, next))
			}
			b.says("#queue-title", language.queue)

			why := eval[string](b, `(() => {
				const { fetch } = window, away = Response.json({ code: -1, message: 'start it' }, { status: 503 });
				window.fetch = (path, options) => (path === 'away' ? Promise.resolve(away) : fetch(path, options));
				return import('/console/net.js').then(({ ask }) => ask('away')).catch(({ message }) => message);
			})()`)
			check.Equal(t, why, "start it", "in the server's words it is said")
			server.Kill()
			b.until("the store is unreachable",
				`says('#alarm-list').includes('ShardidStoreAway') && !$('#replica-none').hidden`)
			b.run(`$('#replica-none').lang = 'en'`) // it has the server's message
			pure("without Redis")
			d.Kill()
			b.until("the server is unreachable", `link() === 'away' && says('#stale') !== ''`)
			pure("without the server")
			b.clean("status of", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE")
		})
	}
}

// tour opens each view, and has it looked at.
func tour(b *tab, look func(view string)) {
	b.until("the charts are drawn", `$$('#charts canvas').length >= 3 && $$('#replica-rows tr').length === 1`)
	b.until("the names are there", `row('#tag-rows', '1/2') && row('#space-rows', '7') && says('#app-name') === '7 42'`)
	b.click("#well summary")
	look("the page")
	for _, theme := range []string{"light", "dark"} {
		b.fits(theme, 320, 390, 768, 1024, 1300)
		look(theme)
	}
	broken := eval[[]string](b, `$$('button').filter((e) => e.offsetParent && e.getBoundingClientRect().height > 48)
		.map((e) => e.innerText)`)
	if len(broken) > 0 {
		b.t.Errorf("texts of buttons are broken: %q", broken)
	}
	for _, search := range []string{"#tag-search", "#space-search"} {
		b.set(search, "x")
	}
	b.until("no space", `shown('#space-none')`)
	look("nothing found")
	for _, search := range []string{"#tag-search", "#space-search"} {
		b.set(search, "")
	}
	b.run(`$$('#app-rows a')[1].click()`)
	b.says("#app-name", "9 99")
	look("an app with a limit")
}
