//go:build unix

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"shardid/scripts/check"
)

// consoleToken is the administrator's in these stories.
const consoleToken = "console-9f2c41d07be35a8612c4"

// TestE2EConsoleAdministers: the forms open on demand. Apps and tags are made, changed
// and deleted with the administrator's token and not without it; what cannot be taken
// back wants the name; what comes again repeats no ID; and the token stays nowhere.
func TestE2EConsoleAdministers(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": consoleToken}, "--demo")
	d.ready()
	b := browse(t, d.url, 1300)
	if shown := eval[int](b, `[...document.querySelectorAll('input')].filter((e) => e.offsetParent && !e.id.endsWith('search') && e.id !== 'decode-id').length`); shown != 0 {
		t.Errorf("%d inputs of forms are shown before one is asked for", shown)
	}
	b.click("#new-app")
	for _, token := range []string{"", "wrong"} {
		b.fill("#admin-token", token+" ")
		b.click("#admin-submit")
		b.until("refused with token "+token, `document.querySelector('#admin-result').dataset.state === 'critical' && document.querySelector('#admin-result').textContent.includes('token')`)
	}
	b.fill("#admin-token", consoleToken)
	b.click("#admin-submit")
	b.until("the form is there", `document.querySelector('#admin-id') !== null`)

	const limit = "9007199254740993" // beyond what a JS number holds
	b.fill("#admin-id", "77")
	b.fill("#admin-name", hostile)
	b.fill("#admin-description", `of "the" console`)
	b.fill("#admin-maxLimitId", "9,007,199,254,740,993")
	b.fill("#admin-step", "many")
	b.submit("Step must be a whole number")
	b.fill("#admin-step", "0")
	b.submit("step")
	b.fill("#admin-step", "1,000")
	b.submitted("Made app 77 ")
	b.until("it is shown", `document.querySelector('#app-name').textContent.startsWith('77 <img') && document.querySelector('#app-facts').innerText.includes('9,007,199,254,740,993')`)
	if got := d.get("/api/status").body; !strings.Contains(got, `"maxLimitIdStr":"`+limit+`"`) {
		t.Errorf("its limit is not %s: %s", limit, got)
	}
	var before int64
	eventually(t, seen, "it issues IDs", func() bool { a := d.get("/get?appId=77&gatePass=alice"); before = a.ID; return a.status == 200 })

	b.dialog("#edit-app", "#admin-step")
	b.submit("Nothing is changed")
	b.fill("#admin-step", "500")
	b.submitted("Changed app 77 ")
	b.until("the change is shown", `document.querySelector('#app-facts').innerText.includes('500 indices')`)
	if got := d.get("/api/status").body; !strings.Contains(got, `"maxLimitIdStr":"`+limit+`"`) {
		t.Errorf("another change lost digits of the limit: %s", got)
	}
	b.dialog("#edit-app", "#admin-limitPolicy")
	eval[bool](b, `{ const s = document.querySelector('#admin-limitPolicy'); s.value = 'wrap'; s.dispatchEvent(new Event('input', { bubbles: true })) } true`)
	b.wantsName(hostile)
	b.submitted("Changed app 77 ")
	b.until("it wraps", `document.querySelector('#app-badges').textContent === 'wrap'`)

	b.dialog("#delete-app", "#admin-confirm")
	b.wantsName(hostile)
	b.submitted("Deleted app 77 ")
	b.until("it is gone", `document.querySelector('#app-name').textContent === '1 test'`)
	d.want("/get?appId=77&gatePass=alice", 404, -2)
	b.dialog("#new-app", "#admin-id")
	b.fill("#admin-id", "77")
	b.fill("#admin-name", "again")
	b.submitted("Made app 77 again")
	eventually(t, seen, "it issues IDs above those of before", func() bool { a := d.get("/get?appId=77&gatePass=alice"); return a.status == 200 && a.ID > before })
	b.dialog("#new-app", "#admin-id")
	b.fill("#admin-id", "77")
	b.fill("#admin-name", "again")
	b.submit("77")
	b.click("#admin-cancel")

	administerTags(t, d, b)
	wantNoToken(t, b)
	if n := strings.Count(d.Output(), `"msg":"audit"`); n < 8 {
		t.Errorf("%d audit lines: %s", n, d.Output())
	}
	b.clean("status of 401", "status of 409", "status of 400")
}

// administerTags makes, changes, deletes and makes again a tag.
func administerTags(t *testing.T, d *daemon, b *tab) {
	t.Helper()
	const tag = "返品/returns"
	row := func(selector string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#tag-rows tr')].find((r) => r.firstChild.textContent === %q)?.querySelector(%q)`, tag, selector)
	}
	ask := func() string { return d.get(segmentGet + "%E8%BF%94%E5%93%81%2Freturns").body }
	b.dialog("#new-tag", "#admin-tag")
	b.fill("#admin-tag", tag)
	b.fill("#admin-step", "500")
	b.submitted("Made tag " + tag)
	b.until("it is shown before anybody asks for an ID", row("td")+` !== undefined`)
	if first := ask(); first != "1" {
		t.Errorf("its first ID is %s", first)
	}
	eval[bool](b, row(`button[aria-label^="Edit"]`)+`.click() || true`)
	b.until("the form is there", `document.querySelector('#admin-maxId') !== null`)
	if next := eval[string](b, `document.querySelector('#admin-maxId').value`); next == "" || next == "1" {
		t.Errorf("the next ID is given as %q", next)
	}
	b.fill("#admin-maxId", "9,007,199,254,740,993")
	b.submitted("Changed tag " + tag)
	eval[bool](b, row(`button[aria-label^="Delete"]`)+`.click() || true`)
	b.until("the form is there", `document.querySelector('#admin-confirm') !== null`)
	b.wantsName(tag)
	b.submitted("Deleted tag " + tag)
	b.until("its row is gone", row("td")+` === undefined`)
	b.dialog("#new-tag", "#admin-tag")
	b.fill("#admin-tag", tag)
	b.submitted("Made tag " + tag)
	eventually(t, seen, "its IDs are above those of before", func() bool { return ask() == "9007199254740993" })

	b.dialog("#new-tag", "#admin-pattern")
	b.fill("#admin-tag", "invoices")
	b.fill("#admin-pattern", "INV-{yyyy}-{seq:6}")
	first := fmt.Sprintf("INV-%d-000001", time.Now().UTC().Year())
	b.until("a preview", fmt.Sprintf(`document.querySelector('#admin-pattern-hint').textContent.includes(%q)`, first))
	b.submit("with reset day the pattern must show")
	eval[bool](b, `{ const s = document.querySelector('#admin-reset'); s.value = 'year'; s.dispatchEvent(new Event('input', { bubbles: true })) } true`)
	b.fill("#admin-zone", "UTC")
	b.submitted("Made tag invoices")
	eventually(t, seen, "the number of the preview", func() bool { return strings.Contains(d.get("/v1/segment/invoices/ids").body, first) })

	b.dialog("#new-app", "#admin-scramble")
	b.fill("#admin-id", "78")
	b.fill("#admin-name", "hidden")
	eval[bool](b, `{ const s = document.querySelector('#admin-scramble'); s.value = 'true'; s.dispatchEvent(new Event('input', { bubbles: true })) } true`)
	b.submitted("Made app 78 hidden")
	b.until("it is scrambled", `document.querySelector('#app-badges').textContent.includes('scrambled')`)
}

// dialog opens a form and waits for its fields.
func (b *tab) dialog(button, field string) {
	b.t.Helper()
	b.click(button)
	b.until("the form is there", fmt.Sprintf(`document.querySelector(%q) !== null`, field))
}

// submit sends the form and wants the server or the form to refuse it.
func (b *tab) submit(says string) {
	b.t.Helper()
	b.send("refused: "+says, `document.querySelector('#admin-result').dataset.state === 'critical' && `+
		fmt.Sprintf(`document.querySelector('#admin-result').textContent.includes(%q)`, says))
}

// submitted sends the form and wants it done.
func (b *tab) submitted(says string) {
	b.t.Helper()
	b.send("done: "+says, `!document.querySelector('#admin').open && `+
		fmt.Sprintf(`document.querySelector('#admin-done').textContent.includes(%q)`, says))
}

// send sends the form, wherever the page moves its button meanwhile, and waits for what comes of it.
func (b *tab) send(what, script string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			result, err := tryEval[string](b, `document.querySelector('#admin-form').innerText`)
			b.t.Logf("the form says %q, %v", result, err)
		}
	}()
	eval[bool](b, `document.querySelector('#admin-submit').click() || true`)
	b.until(what, script)
}

// wantsName wants the form to be sent only once the name is typed, and types it.
func (b *tab) wantsName(name string) {
	b.t.Helper()
	for _, typed := range []string{"", name + "x", "x" + name, name} {
		b.fill("#admin-confirm", " ") // so that an empty text is a change too
		b.fill("#admin-confirm", typed+" ")
		b.do(chromedp.KeyEvent(kb.Backspace))
		if disabled := eval[bool](b, `document.querySelector('#admin-submit').disabled`); disabled != (typed != name) {
			b.t.Errorf("with the name %q typed, the button is disabled: %t", typed, disabled)
		}
	}
}

// wantNoToken looks for the token wherever a page could leave one.
func wantNoToken(t *testing.T, b *tab) {
	t.Helper()
	for _, place := range []string{
		`location.href`, `document.cookie`, `document.documentElement.outerHTML`, `JSON.stringify(Object.entries(localStorage))`,
		`JSON.stringify(Object.entries(sessionStorage))`, `JSON.stringify(performance.getEntries())`, `JSON.stringify(history.state)`,
	} {
		if strings.Contains(eval[string](b, place), consoleToken) {
			t.Errorf("the token is in %s", place)
		}
	}
}

// TestE2EConsoleAdministrationClosed: without a token on the server nothing is made,
// and the form says why.
func TestE2EConsoleAdministrationClosed(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo")
	b := browse(t, d.url, 1300)
	b.click("#new-app")
	b.fill("#admin-token", consoleToken)
	b.click("#admin-submit")
	b.until("refused", `document.querySelector('#admin-result').textContent.includes('admin_token') && document.querySelector('#admin-id') === null`)
	b.clean("status of 403")
}

// TestE2EConsoleLocked: where monitoring needs a token, the page asks for it, says when
// it is wrong, and shows nothing before.
func TestE2EConsoleLocked(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": consoleToken, "SERVER_PROTECT_MONITORING": "true"}, "--demo")
	b := newTab(t, 1300)
	b.do(chromedp.Navigate(d.url))
	b.until("the page asks for a token", `document.body.dataset.link === 'locked' && !document.querySelector('#lock').hidden`)
	b.fill("#lock-token", "wrong")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("it is wrong", `document.querySelector('#lock-error').textContent !== ''`)
	if shown := b.text("#app-list"); shown != "" {
		t.Errorf("shown without a token: %q", shown)
	}
	b.fill("#lock-token", consoleToken)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("it is right", `document.body.dataset.link === 'live' && document.querySelector('#lock').hidden && document.querySelector('#app-name').textContent === '1 test'`)
	b.until("the history comes too", `document.querySelector('#charts canvas') !== null`)
	b.fill("#decode-id", "16385")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("and the decoder works", `document.querySelectorAll('#decode-kinds .kind').length === 3`)
	wantNoToken(t, b)
	b.clean("status of 401")
}
