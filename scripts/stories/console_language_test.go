//go:build unix

// The console speaks English and Chinese: a tour through all its views finds no text of the other language.

package stories_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// foreign lists the texts of the page that are of another language: all that can be seen or is read out, but
// what is marked as English, as messages of the server are, and what the server names. %s matches what a text
// must not have.
const foreign = `(() => {
	const data = ['[lang=en]', '#language', '#version', '#replica-rows th', '#replica-rows td:nth-last-child(2)',
		'#snowflake dd', '#uid dd', '#decode-kinds dd', 'script', 'style', 'noscript'].join();
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
	// What the server names is named in Chinese only; a test of httpapi knows the names.
	return list({ ...text, alarms: {}, conditions: {}, refusals: {} }, '').sort();
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
	`Asia/Shanghai|cache|db|api/status|metrics|healthz|openapi\.yaml|uid\.\w+|P99)\b|ORD-\{yyyyMMdd\}-\{seq:8\}`)

// TestConsoleLanguages goes through all views in Chinese and in English, as the browser asks for them: no
// text is of the other language, nothing is wider than the window, and the switch is remembered.
func TestConsoleLanguages(t *testing.T) {
	check.Deep(t)
	for _, language := range languages {
		t.Run(language.tag, func(t *testing.T) {
			story(t)
			server := testserver.Redis(t)
			s := onRedis(server.Addr).With(noSweeps()).With(settings{"SERVER_ADMIN_TOKEN": consoleToken})
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
			tourForms(b, pure)

			b.open(d.url)
			for _, next := range []string{language.other, language.tag} { // there and back, each time over a reload
				b.click("#language")
				is := fmt.Sprintf(`link() === 'live' && document.documentElement.lang === %q`, next)
				b.until("the language is "+next, is)
				b.open(d.url)
				b.until("it is remembered", is)
			}
			b.says("#queue-title", language.queue)

			server.Kill()
			b.until("the store is away", `says('#alarm-list').includes('ShardidStoreAway') && !$('#fleet-note').hidden`)
			b.run(`$('#fleet-note').lang = 'en'`) // it has the server's message
			pure("without Redis")
			d.Kill()
			b.until("the server is away", `link() === 'away' && says('#stale') !== ''`)
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
	b.run(`$('[data-shard="20"]').focus()`)
	look("a list")
	for _, theme := range []string{"light", "dark"} {
		b.fits(theme, 320, 390, 768, 1024, 1300)
		look(theme)
	}
	broken := eval[[]string](b, `$$('button').filter((e) => e.offsetParent && e.getBoundingClientRect().height > 48)
		.map((e) => e.innerText)`)
	if len(broken) > 0 {
		b.t.Errorf("texts of buttons are broken: %q", broken)
	}
	b.run(`$('#name-rows button').click()`)
	b.until("no holder", `shown('#holder-none')`)
	look("no holder")
	for _, search := range []string{"#app-search", "#tag-search", "#space-search"} {
		b.set(search, "x")
	}
	b.until("no space", `shown('#space-none')`)
	look("nothing found")
	for _, search := range []string{"#app-search", "#tag-search", "#space-search"} {
		b.set(search, "")
	}
	b.run(`$$('.app')[1].click()`)
	b.says("#app-name", "9 99")
	look("an app with a limit")
	for _, id := range []string{"", "x", "9223372036854775808", "16385"} {
		b.fill("#decode-id", id+" ")
		b.do(chromedp.KeyEvent(kb.Enter))
		b.until("decoded "+id, `says('#decode-error') !== '' || $$('#decode-kinds dd').length > 0`)
		look("decoding " + id)
	}
}

// tourForms makes, changes and deletes an app, a tag and a space, all at the width of a phone.
func tourForms(b *tab, look func(view string)) {
	b.resize(390, 844, "light")
	b.click("#new-app")
	look("the token")
	const refused = `$('#admin-result').dataset.state === 'critical'`
	b.fill("#admin-token", "2")
	b.submit("it is refused", refused)
	look("a token that is none")
	b.fill("#admin-token", consoleToken)
	b.submit("the form is there", `$('#admin-id') !== null`)
	done := func(view string) {
		b.t.Helper()
		look(view)
		b.fits("light", 390)
		b.submit(view+" is done", `!$('#admin').open && !$('#admin-done').hidden`)
		look(view + ", done")
	}
	b.fill("#admin-id", "77")
	b.fill("#admin-name", "1")
	b.fill("#admin-maxLimitId", "900719925474")
	b.fill("#admin-step", "0.5")
	b.submit("no number", refused)
	look("no number")
	b.fill("#admin-step", "1000")
	done("the new app")
	b.says("#app-name", "77 1")
	b.dialog("#edit-app", "#admin-limitPolicy")
	b.submit("nothing to do", refused)
	b.set("#admin-limitPolicy", "wrap")
	b.fill("#admin-confirm", "1")
	done("the change")
	b.dialog("#delete-app", "#admin-confirm")
	b.fill("#admin-confirm", "1")
	done("the deletion")
	b.dialog("#new-tag", "#admin-tag")
	b.fill("#admin-tag", "5/6")
	b.fill("#admin-pattern", "{yyyy}{MM}{dd}-{seq:6}")
	b.says("#admin-pattern-hint", "-000001")
	done("the new tag")
	press := func(table, name string, button int, field string) {
		b.t.Helper()
		buttons := fmt.Sprintf(`row(%q, %q)?.querySelectorAll('button')`, table, name)
		b.until(name+" is shown", buttons+` !== undefined`)
		b.run(fmt.Sprintf(`%s[%d].click()`, buttons, button))
		b.until("the form is there", fmt.Sprintf(`$('#admin').open && $(%q) !== null`, field))
	}
	press("#tag-rows", "5/6", 1, "#admin-confirm")
	b.fill("#admin-confirm", "5/6")
	done("the deletion of a tag")
	b.dialog("#new-space", "#admin-sections")
	b.fill("#admin-space", "9")
	done("the new space")
	press("#space-rows", "9", 0, "#admin-step")
	b.fill("#admin-step", "9")
	done("the change of a space")
	press("#space-rows", "9", 1, "#admin-confirm")
	b.fill("#admin-confirm", "9")
	done("the deletion of a space")
	b.resize(1300, 900, "light")
}
