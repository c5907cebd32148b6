//go:build unix

package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// consoleToken is the administrator's in these stories.
const consoleToken = "console-9f2c41d07be35a8612c4"

// TestE2EConsoleProvisions: an app and a tag are made with the administrator's token
// and not without it; they appear without a reload, and the token stays nowhere.
func TestE2EConsoleProvisions(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": consoleToken}, "--demo")
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	b := browse(t, d.url, 1300)
	const limit = "9007199254740993" // beyond what a JS number holds
	b.fill("#new-app-id", "77")
	b.fill("#new-app-name", hostile)
	b.fill("#new-app-description", `of "the" console`)
	b.fill("#new-app-limit", limit)

	for _, token := range []string{"", "wrong"} {
		b.fill("#admin-token", token+" ")
		b.click("#app-form button")
		b.until("refused with token "+token, `document.querySelector('#app-form .result').dataset.state === 'critical'`)
		if got := b.text("#app-form .result"); !strings.Contains(got, "token") {
			t.Errorf("refused with %q", got)
		}
		d.want("/get?appId=77&gatePass=alice", 404, -2)
	}

	b.fill("#admin-token", consoleToken)
	b.click("#app-form button")
	b.until("the app is there", `document.querySelector('#app-form .result').textContent === 'App 77 is there.'`)
	b.until("it is shown", fmt.Sprintf(`document.querySelector('#app-name').textContent.startsWith('77 <img') && document.querySelector('#app-facts').innerText.includes('%s')`, limit))
	eventually(t, seen, "it issues IDs", func() bool { return d.get("/get?appId=77&gatePass=alice").status == 200 })
	if got := d.get("/api/status").body; !strings.Contains(got, `"maxLimitIdStr":"`+limit+`"`) {
		t.Errorf("its limit is not %s: %s", limit, got)
	}

	b.fill("#new-app-id", "77")
	b.fill("#new-app-name", "again")
	b.click("#app-form button")
	b.until("once only", `document.querySelector('#app-form .result').dataset.state === 'critical'`)

	makeTag(t, d, b)
	wantNoToken(t, b)
	b.clean("status of 401", "status of 409", "status of 400")
}

// makeTag makes a segment tag, after a mistake in each kind of field.
func makeTag(t *testing.T, d *daemon, b *tab) {
	t.Helper()
	const tag = "返品/returns"
	b.fill("#new-tag-name", tag)
	for _, wrong := range []struct{ step, says string }{{"many", "Step must be a whole number"}, {"99999999999999999999", "Step must be"}, {"0", "step"}} {
		b.fill("#new-tag-step", wrong.step)
		b.click("#tag-form button")
		b.until("refused: step "+wrong.step, fmt.Sprintf(`document.querySelector('#tag-form .result').dataset.state === 'critical' && document.querySelector('#tag-form .result').textContent.includes('%s')`, wrong.says))
	}
	b.fill("#new-tag-step", "500")
	b.click("#tag-form button")
	b.until("the tag is there", fmt.Sprintf(`document.querySelector('#tag-form .result').textContent === 'Tag %s is there.'`, tag))
	eventually(t, seen, "it issues IDs", func() bool { return d.get(segmentGet+"%E8%BF%94%E5%93%81%2Freturns").body == "1" })
	b.until("it is shown", fmt.Sprintf(`document.querySelector('#tag-rows').innerText.includes('%s')`, tag))
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
	story(t)
	d := serve(t, nil, "--demo")
	b := browse(t, d.url, 1300)
	b.fill("#admin-token", consoleToken)
	b.fill("#new-app-id", "77")
	b.fill("#new-app-name", "orders")
	b.click("#app-form button")
	b.until("refused", `document.querySelector('#app-form .result').textContent.includes('admin_token')`)
	b.clean("status of 403")
}

// TestE2EConsoleLocked: where monitoring needs a token, the page asks for it, says when
// it is wrong, and shows nothing before.
func TestE2EConsoleLocked(t *testing.T) {
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
