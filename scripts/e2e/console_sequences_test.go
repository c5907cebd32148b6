//go:build unix

package e2e_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestE2EConsoleSequences: spaces are shown with their step and how much of each has been used; they
// are made, changed and deleted with the administrator's token. While the database is away what was
// read stays, and the page says why; afterwards it goes on by itself.
func TestE2EConsoleSequences(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	on := s.settings()
	d := serve(t, on.With(settings{"SERVER_ADMIN_TOKEN": consoleToken}))
	d.ready()
	b := browse(t, d.url, 1300)
	b.resize(1300, 1600, "light")
	show := func(what, script string) {
		t.Helper()
		b.until(what, script)
		eval[bool](b, `{ document.querySelector('#sequences').scrollIntoView(); } true`)
		b.picture(filepath.Join(t.ArtifactDir(), strings.ReplaceAll(what, " ", "-")+".png"))
	}
	row := func(space string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#space-rows tr')].find((r) => r.firstChild.innerText === %q)`, space)
	}
	show("no space", `document.querySelector('#space-none').innerText.includes('shardid sequences add') && document.querySelector('#space-rows').checkVisibility() === false`)

	b.click("#new-space")
	b.fill("#admin-token", consoleToken)
	b.click("#admin-submit")
	b.until("the form is there", `document.querySelector('#admin-space') !== null`)
	b.fill("#admin-space", "a room")
	b.submit("letters, digits, dots, hyphens and underscores")
	b.fill("#admin-space", "chat")
	b.fill("#admin-sections", "16,385")
	b.submit("sections must be a whole number in 1…16384")
	b.fill("#admin-sections", "8")
	b.submitted("Made space chat. It counts on every replica within 3 s.")
	show("a space", row("chat")+`?.innerText.replaceAll('\n', ' ').startsWith('chat\t10,000\t 0 of 8') === true && document.querySelector('#space-sum').innerText === '1 space'`)

	press := func(button, space string) {
		t.Helper()
		eval[bool](b, row(space)+fmt.Sprintf(`.querySelector('button[aria-label="%s space %s"]').click() || true`, button, space))
	}
	press("Edit", "chat")
	b.until("the form is there", `document.querySelector('#admin-step')?.value === '10,000'`)
	b.submit("Nothing is changed")
	b.fill("#admin-step", "20,000")
	b.submitted("Changed space chat. It counts on every replica within 3 s.")
	show("another step", row("chat")+`.innerText.includes('20,000')`)

	must(t, on, "sequences", "add", "--space", "feed", "--sections", "16384")
	show("two spaces", row("feed")+`?.innerText.includes('0 of 16,384') === true && document.querySelector('#space-sum').innerText === '2 spaces'`)
	for _, width := range []int{320, 768, 1300} {
		b.resize(width, 900, "dark")
		b.fits(width)
	}
	b.resize(1300, 1600, "light")

	spacesThroughAnOutage(s.db, b, show)
	eval[bool](b, `{ const e = document.querySelector('#space-search'); e.value = 'FEE'; e.dispatchEvent(new Event('change')) } true`)
	b.until("one is found", `document.querySelectorAll('#space-rows tr').length === 1 && document.querySelector('#space-rows').innerText.includes('16,384')`)

	press("Delete", "feed")
	b.until("the form is there", `document.querySelector('#admin-confirm') !== null && document.querySelector('#admin-warning').innerText.includes('goes on above')`)
	b.wantsName("feed")
	b.submitted("Deleted space feed. It counts on every replica within 3 s.")
	b.until("it is gone", `document.querySelector('#space-none').innerText === 'no space is called so'`)
	b.dialog("#new-space", "#admin-space")
	b.fill("#admin-space", "feed")
	b.submit("deleted a moment ago")
	wantNoToken(t, b)
	b.clean("status of 400", "status of 409", "status of 503", "ERR_CONNECTION")
}

// spacesThroughAnOutage stops the database and starts it again; two spaces are shown.
func spacesThroughAnOutage(db *testserver.MariaDBServer, b *tab, show func(what, script string)) {
	db.Kill()
	show("the database is away", `document.querySelector('#space-away').checkVisibility() && /This cannot be read now.*database/.test(document.querySelector('#space-away').innerText)`)
	if rows := eval[int](b, `document.querySelectorAll('#space-rows tr').length`); rows != 2 || !eval[bool](b, `document.body.dataset.link === 'live'`) {
		b.t.Errorf("of what was read %d rows are left", rows)
	}
	db.Restart()
	show("the database is back", `!document.querySelector('#space-away').checkVisibility() && document.querySelectorAll('#space-rows tr').length === 2`)
}
