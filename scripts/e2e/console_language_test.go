//go:build unix

package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// foreign lists the texts of the page that are of another language: all that can be seen or is read
// out, but what is marked as English, as messages of the server are, and what the server names.
// %s matches what a text must not have.
const foreign = `(() => {
	const data = '[lang=en], #language, #version, #replica-rows th, #replica-rows td:nth-last-child(2), #snowflake dd, #uid dd, #decode-kinds dd, script, style, noscript';
	const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(data);
	const found = [document.title];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walker.nextNode());) if (shown(n.parentElement)) found.push(n.data.trim());
	for (const e of document.body.querySelectorAll('*')) {
		if (shown(e)) found.push(...['aria-label', 'placeholder', 'title', 'alt', 'data-name'].map((name) => e.getAttribute(name) ?? ''));
	}
	return [...new Set(found)].filter((text) => %s.test(text));
})()`

// languages are what browsers ask for, and what a page in each language must not have.
var languages = []struct {
	tag, accept, other, foreign, queue string
}{
	{"zh-CN", "fr,zh-CN,en", "en", `/[A-Za-z]/`, "队列"},
	{"en", "de,en-GB,zh", "zh-CN", `/[\u3000-\u9fff\uff00-\uffef]/`, "Queue"},
}

// sameInChinese are words that Chinese pages have too: names of products, protocols, paths, keys, choices
// and alarms, and examples.
var sameInChinese = regexp.MustCompile(`\b(?:Shardid\w+|shardid(?: doctor)?|ID|UID|MySQL|Redis|HTTP|wrap|reject|UTC|Asia/Shanghai|` +
	`cache|db|api/status|metrics|healthz|openapi\.yaml|uid\.\w+|P99)\b|ORD-\{yyyyMMdd\}-\{seq:8\}`)

// TestE2EConsoleLanguages goes through all views in Chinese and in English, as the browser asks for
// them: no text is of the other language, nothing is wider than the window, and the switch is
// remembered.
func TestE2EConsoleLanguages(t *testing.T) {
	check.Deep(t)
	for _, language := range languages {
		t.Run(language.tag, func(t *testing.T) {
			story(t)
			server := testserver.Redis(t)
			s := onRedis(server.Addr).With(noSweeps()).With(settings{"SERVER_ADMIN_TOKEN": consoleToken})
			d := prepared(t, s,
				[]string{"provision", "--app", "7", "--name", "42"},
				[]string{"provision", "--app", "9", "--name", "99", "--max-limit-id", "900719925474", "--limit-policy", "wrap"},
				[]string{"tags", "add", "--tag", "1/2"}, []string{"tags", "add", "--tag", "3/4"},
				[]string{"names", "add", "--name", "5"}, []string{"names", "add", "--name", "6"},
				[]string{"sequences", "add", "--space", "7"}, []string{"sequences", "add", "--space", "8"})
			d.lease("5", "10.0.0.1")
			for _, target := range []string{"/get?appId=7&gatePass=alice", segmentGet + "1%2F2", snowflakeGet, "/api/uid/get"} {
				eventuallyID(t, d, target)
			}
			b := newTab(t, 1300, chromedp.Flag("accept-lang", language.accept))
			b.open(d.url)
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
			tour(t, b, pure)

			b.do(chromedp.Navigate(d.url + "/docs/operations.md"))
			b.until("the documentation says that it is English", `document.querySelector('main')?.lang === 'en' && document.documentElement?.lang === '`+language.tag+`'`)
			if link, want := b.text("nav a"), map[string]string{"zh-CN": "控制台", "en": "Console"}[language.tag]; link != want {
				t.Errorf("the documentation leads back to %q", link)
			}

			b.open(d.url)
			b.click("#language")
			b.until("the other language", `document.documentElement?.lang === '`+language.other+`' && document.body?.dataset.link === 'live' && document.querySelector('#queue-title').innerText !== '`+language.queue+`'`)
			b.open(d.url)
			if lang := eval[string](b, `document.documentElement.lang`); lang != language.other {
				t.Errorf("after a reload the page is in %s", lang)
			}
			b.click("#language")
			b.until("the first language again", `document.documentElement?.lang === '`+language.tag+`' && document.body?.dataset.link === 'live' && document.querySelector('#queue-title').innerText === '`+language.queue+`'`)

			server.Kill()
			b.until("the store is away", `document.querySelector('#alarm-list').innerText.includes('ShardidStoreAway') && document.querySelector('#affected-list li') !== null`)
			b.until("the others are not shown", `!document.querySelector('#fleet-note').hidden`)
			if title := b.text("#alarm-list strong"); strings.Contains(title, "存储不可用") != (language.tag == "zh-CN") {
				t.Errorf("the alarm's title: %q", title)
			}
			eval[bool](b, `document.querySelector('#fleet-note').lang = 'en'; true`) // it has the server's message
			pure("without Redis")
			d.Kill()
			b.until("the server is away", `document.body.dataset.link === 'away' && document.querySelector('#stale').innerText !== ''`)
			pure("without the server")
			b.clean("status of 401", "status of 503", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE")
		})
	}
}

// tour opens each view, and has it looked at.
func tour(t *testing.T, b *tab, look func(view string)) {
	b.until("all figures are there", `document.querySelectorAll('#charts canvas').length >= 3 && document.querySelectorAll('#replica-rows tr').length === 1 && document.querySelectorAll('#tag-rows tr').length === 2 && document.querySelectorAll('#space-rows tr').length === 2 && document.querySelector('#app-name').innerText === '7 42'`)
	b.click("#well summary")
	look("the page")
	eval[bool](b, `document.querySelector('[data-shard="20"]').focus() || true`)
	look("a list")
	for _, width := range []int{320, 390, 768, 1024, 1300} {
		for _, theme := range []string{"light", "dark"} {
			b.resize(width, 900, theme)
			look(fmt.Sprintf("%s at %d pixels", theme, width))
			b.fits(width)
		}
	}
	small := eval[[]string](b, `[...document.querySelectorAll('button')].filter((e) => e.offsetParent && e.getBoundingClientRect().height > 48).map((e) => e.innerText)`)
	if len(small) > 0 {
		t.Errorf("texts of buttons are broken: %q", small)
	}
	for range 3 {
		b.click("#theme")
		look("a theme")
	}
	eval[bool](b, `document.querySelector('#name-rows button').click() || true`)
	b.until("its holders", `document.querySelectorAll('#holder-rows tr').length === 1`)
	look("holders")
	eval[bool](b, `document.querySelectorAll('#name-rows button')[1].click() || true`)
	b.until("no holder", `document.querySelector('#holder-none').checkVisibility()`)
	look("no holder")
	b.fill("#app-search", "x")
	b.fill("#tag-search", "x")
	eval[bool](b, `{ const e = document.querySelector('#space-search'); e.value = '9'; e.dispatchEvent(new Event('change')) } true`)
	b.until("no space", `document.querySelector('#space-none').checkVisibility()`)
	look("nothing found")
	eval[bool](b, `{ const e = document.querySelector('#space-search'); e.value = ''; e.dispatchEvent(new Event('change')) } true`)
	b.fill("#app-search", "99")
	b.fill("#tag-search", "/")
	eval[bool](b, `document.querySelector('.app').click() || true`)
	b.until("the other app", `document.querySelector('#app-name').innerText === '9 99'`)
	look("an app with a limit")
	for _, id := range []string{"", "x", "9223372036854775808", "16385"} {
		b.fill("#decode-id", id+" ")
		b.do(chromedp.KeyEvent(kb.Enter))
		b.until("decoded "+id, `document.querySelector('#decode-error').innerText !== '' || document.querySelectorAll('#decode-kinds dd').length > 0`)
		look("decoding " + id)
	}
	tourForms(b, look)
}

// tourForms makes, changes and deletes an app, a tag and a space, all at the width of a phone.
func tourForms(b *tab, look func(view string)) {
	b.resize(390, 844, "light")
	b.click("#new-app")
	look("the token")
	b.fill("#admin-token", "2")
	b.click("#admin-submit")
	b.until("it is refused", `document.querySelector('#admin-result').dataset.state === 'critical'`)
	look("a token that is none")
	b.fill("#admin-token", consoleToken)
	b.click("#admin-submit")
	done := func(view string) {
		b.t.Helper()
		b.click("#admin-submit")
		b.until(view+" is done", `!document.querySelector('#admin').open && !document.querySelector('#admin-done').hidden`)
		look(view + ", done")
		b.fits(390)
	}
	b.until("the form is there", `document.querySelector('#admin-id') !== null`)
	look("a new app")
	b.fits(390)
	b.fill("#admin-id", "77")
	b.fill("#admin-name", "1")
	b.fill("#admin-maxLimitId", "900719925474")
	b.fill("#admin-step", "0.5")
	b.click("#admin-submit")
	b.until("refused", `document.querySelector('#admin-result').dataset.state === 'critical'`)
	look("no number")
	b.fill("#admin-step", "1000")
	done("the new app")
	b.until("the new app is shown", `document.querySelector('#app-name').innerText === '77 1'`)
	b.dialog("#edit-app", "#admin-limitPolicy")
	b.click("#admin-submit")
	b.until("nothing to do", `document.querySelector('#admin-result').dataset.state === 'critical'`)
	eval[bool](b, `{ const s = document.querySelector('#admin-limitPolicy'); s.value = 'wrap'; s.dispatchEvent(new Event('input', { bubbles: true })) } true`)
	look("a change")
	b.fill("#admin-confirm", "1")
	done("the change")
	b.dialog("#delete-app", "#admin-confirm")
	look("a deletion")
	b.fits(390)
	b.fill("#admin-confirm", "1")
	done("the deletion")
	b.dialog("#new-tag", "#admin-tag")
	look("a new tag")
	b.fits(390)
	b.fill("#admin-tag", "5/6")
	b.fill("#admin-pattern", "{yyyy}{MM}{dd}-{seq:6}")
	b.until("a preview", `document.querySelector('#admin-pattern-hint').innerText.includes('-000001')`)
	look("a pattern")
	done("the new tag")
	const row = `[...document.querySelectorAll('#tag-rows tr')].find((r) => r.firstChild.innerText === '5/6')`
	b.until("the tag is shown", row+` !== undefined`)
	eval[bool](b, row+`.querySelectorAll('button')[1].click() || true`)
	b.until("the form is there", `document.querySelector('#admin-confirm') !== null`)
	look("the deletion of a tag")
	b.fill("#admin-confirm", "5/6")
	done("the deletion of a tag")
	tourSpaces(b, look, done)
	b.resize(1300, 900, "light")
}

// tourSpaces makes, changes and deletes a space.
func tourSpaces(b *tab, look, done func(view string)) {
	b.dialog("#new-space", "#admin-sections")
	look("a new space")
	b.fits(390)
	b.fill("#admin-space", "9")
	done("the new space")
	const space = `[...document.querySelectorAll('#space-rows tr')].find((r) => r.firstChild.innerText === '9')`
	b.until("the space is shown", space+` !== undefined`)
	for i, field := range []string{"#admin-step", "#admin-confirm"} {
		eval[bool](b, fmt.Sprintf(space+`.querySelectorAll('button')[%d].click() || true`, i))
		b.until("the form is there", fmt.Sprintf(`document.querySelector('#admin').open && document.querySelector(%q) !== null`, field))
		look("the form of a space")
		b.fill(field, "9")
		done("a change of a space")
	}
}

// fits wants nothing wider than the window.
func (b *tab) fits(width int) {
	b.t.Helper()
	if wide := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); wide > 0 {
		b.t.Errorf("at %d pixels the page is %d too wide: %s", width, wide, eval[string](b, beyond))
	}
}

// TestE2EConsoleTexts: both languages have the same texts, and functions for them that use the same
// parameters.
func TestE2EConsoleTexts(t *testing.T) {
	check.Deep(t)
	story(t)
	b := browse(t, serve(t, nil, "--demo").url, 1300)
	begun := time.Now()
	texts := func(language string) []string {
		return eval[[]string](b, `import('/console/`+language+`.js').then(({ text }) => {
			const list = (value, path) => {
				if (typeof value === 'string') return [path];
				if (typeof value !== 'function') return Object.keys(value).flatMap((key) => list(value[key], path + '.' + key));
				const [, written, body] = /^\(([^)]*)\) => ([^]*)$/.exec(value);
				return [path + '(' + written.split(', ').map((name) => name + (new RegExp('\\b' + name + '\\b').test(body) ? '' : ' unused')) + ')'];
			};
			// What the server names is named in Chinese only; a test of httpapi knows the names.
			return list({ ...text, alarms: {}, conditions: {}, refusals: {} }, '').sort();
		})`)
	}
	english, chinese := strings.Join(texts("en"), "\n"), strings.Join(texts("zh"), "\n")
	if n := strings.Count(english, "\n"); english != chinese || n < 200 || strings.Contains(english, " unused") {
		t.Errorf("after %v: %d texts\nen.js:\n%s\n\nzh.js:\n%s", time.Since(begun), n, english, chinese)
	}
	b.clean()
}
