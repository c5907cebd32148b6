//go:build unix

package e2e_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestE2EConsoleNames: names with how much of each is leased, and the holders of the one that is chosen;
// one that has no worker ID left is an alarm. While the database is away what was read stays, and the
// page says why; afterwards it goes on by itself.
func TestE2EConsoleNames(t *testing.T) {
	check.Deep(t)
	story(t)
	s := privateStores(t)
	on := s.settings()
	d := serve(t, on)
	d.ready()
	b := browse(t, d.url, 1300)
	b.resize(1300, 1600, "light")
	show := func(what, script string) {
		t.Helper()
		b.until(what, script)
		eval[bool](b, `{ document.querySelector('#names').scrollIntoView(); } true`)
		b.picture(filepath.Join(t.ArtifactDir(), strings.ReplaceAll(what, " ", "-")+".png"))
	}
	show("no name", `document.querySelector('#name-none').innerText.includes('shardid names add') && document.querySelector('#name-rows').checkVisibility() === false`)

	must(t, on, "names", "add", "--name", "orders", "--worker-bits", "2", "--hold", "5m")
	must(t, on, "names", "add", "--name", "carts", "--worker-bits", "12", "--seq-bits", "10")
	script, _, _ := strings.Cut(hostile, "超") // a holder has at most 128 bytes
	d.lease("orders", url.QueryEscape(script))
	d.lease("orders", "pod-1")
	d.lease("orders", "")
	row := `[...document.querySelectorAll('#name-rows tr')].find((r) => r.firstChild.innerText === 'orders')`
	show("names", row+`?.innerText.replaceAll('\u00a0', ' ').includes('49 time, 2 worker ID, 12 sequence\t5 min\t') === true && `+row+`.innerText.includes('3 of 4')
		&& document.querySelector('#name-sum').innerText === '2 names, 3 worker IDs leased' && document.querySelectorAll('#name-rows tr').length === 2`)
	eval[bool](b, row+`.querySelector('button').click() || true`)
	show("holders", `document.querySelectorAll('#holder-rows tr').length === 3 && document.querySelector('#holder-title').innerText === 'Holders of orders'
		&& [...document.querySelectorAll('#holder-rows tr')].every((r) => r.children[2].innerText === 'leased' && / UTC$/.test(r.children[3].innerText))`)
	if got := eval[[]string](b, `[...document.querySelectorAll('#holder-rows tr')].map((r) => r.children[0].innerText + ' ' + r.children[1].textContent).sort()`); got[0] != "0 "+script || got[1] != "1 pod-1" || got[2] != "2 –" {
		t.Errorf("holders: %q", got)
	}
	if eval[bool](b, `'broken' in window || document.images.length > 0`) {
		t.Error("what a holder calls itself became code")
	}
	for _, width := range []int{320, 768, 1300} {
		b.resize(width, 900, "dark")
		b.fits(width)
	}
	b.resize(1300, 1600, "light")

	d.lease("orders", "pod-2")
	if a, err := d.do(http.MethodPost, "/v1/leases/orders"); err != nil || a.status != 503 || a.Code != -8 || a.header.Get("Retry-After") == "" {
		t.Errorf("no worker ID is left: %+v, %v", a, err)
	}
	d.alarm("ShardidNoWorkerIDFree", true)
	b.until("the alarm names it", `document.querySelector('#alarm-list').innerText.includes('the name "orders" is leased')`)
	show("all leased", row+`.innerText.includes('4 of 4') && document.querySelectorAll('#holder-rows tr').length === 4`)

	s.db.Kill()
	show("the database is away", `document.querySelector('#name-away').checkVisibility() && /This cannot be read now.*database/.test(document.querySelector('#name-away').innerText)`)
	if rows := eval[int](b, `document.querySelectorAll('#name-rows tr, #holder-rows tr').length`); rows != 6 || !eval[bool](b, `document.body.dataset.link === 'live'`) {
		t.Errorf("of what was read %d rows are left", rows)
	}
	b.open(d.url) // a page that has read nothing
	show("nothing was read", `document.querySelector('#name-away').checkVisibility() && !document.querySelector('#holders').checkVisibility()`)
	s.db.Restart()
	show("the database is back", `!document.querySelector('#name-away').checkVisibility() && `+row+`?.innerText.includes('4 of 4') === true`)
	eventually(t, time.Minute, "the alarm is over", func() bool {
		return eval[bool](b, `document.querySelector('#ended-sum').innerText.includes('ShardidNoWorkerIDFree')`)
	})
	eval[bool](b, `{ const e = document.querySelector('#name-search'); e.value = 'CART'; e.dispatchEvent(new Event('change')) } true`)
	b.until("one is found", `document.querySelectorAll('#name-rows tr').length === 1 && document.querySelector('#name-rows').innerText.includes('0 of 4,096')`)
	eval[bool](b, `document.querySelector('#name-rows button').click() || true`)
	b.until("nothing is leased", `document.querySelector('#holder-none').checkVisibility()`)
	must(t, on, "names", "delete", "--name", "carts", "--confirm", "carts")
	b.until("it is gone, with its holders", `document.querySelector('#name-none').innerText === 'no name is called so' && !document.querySelector('#holders').checkVisibility()`)
	b.clean("status of 503", "status of 404", "ERR_CONNECTION")
}
