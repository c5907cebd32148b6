//go:build unix

// The console in a browser: it shows what the stores hold, says who is hit when one is unreachable, and administers.
// console_deep_test.go goes through what few operators meet.

package stories_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/redis/go-redis/v9"
)

// consoleToken is the administrator's in these stories.
const consoleToken = "console-9f2c41d07be35a8612c4"

// hostile is a name that is code wherever HTML is read, and too long for any column.
const hostile = `<img src=x onerror="window.broken=1">"'&amp;<script>window.broken=1</script>超长的应用名称超长的应用名称超长的应用名称`

// exactLimit is a number that no number of JavaScript holds.
const exactLimit = "9007199254740993"

// noSweeps keeps lists as the test left them, unless they are low.
func noSweeps() settings { return settings{"QUEUE_REFILL_CRON": "0 0 0 1 1 *"} }

// watched is a service with Redis, an app 7 with a hostile name, an app 9 with an exact limit, and the console. Each
// list has a segment, which for app 7 is the last: none is refilled.
func watched(t *testing.T, width int) (*daemon, *tab, *redis.Client) {
	t.Helper()
	server, dir := testserver.Redis(t), t.TempDir()
	s := onRedis(server.Addr).With(noSweeps())
	run := func(args ...string) {
		if o := shardidIn(t, dir, s, args...); o.exit != 0 {
			t.Fatalf("%v: %+v", args, o)
		}
	}
	run("migrate")
	run("provision", "--app", "7", "--name", hostile)
	run("provision", "--app", "9", "--name", "orders", "--max-limit-id", exactLimit, "--limit-policy", "wrap")
	d := serveIn(t, dir, s)
	client := server.Client()
	eventually(t, startLimit, "all lists are filled", func() bool {
		for shard := range 64 {
			if depth(t, client, 7, shard) == 0 || depth(t, client, 9, shard) == 0 {
				return false
			}
		}
		return d.get("/readyz").status == 200
	})
	run("apps", "set", "--app", "7", "--max-limit-id", "16400383")
	return d, browse(t, d.url, width), client
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

// TestConsoleShows: the grid shows what a list held when an ID was taken from it, to the eye and a screen reader. Names
// are shown and never run, a limit is exact, and an ID is taken apart.
func TestConsoleShows(t *testing.T) {
	story(t)
	d, b, client := watched(t, 1300)
	d.want("/get?appId=7&gatePass=alice&count=200", 200, 0)
	for shard, left := range map[int64]int64{21: 7, 22: 1} {
		check.Must(t, client.LTrim(t.Context(), fmt.Sprint("id.gen.idList_7_", shard), 0, left).Err())
		d.want("/get?appId=7&gatePass="+rig.PassOf(shard), 200, 0)
	}
	eventually(t, seen, "each list is as deep as in Redis", func() bool {
		return eval[bool](b, fmt.Sprintf(
			`JSON.stringify($$('[data-shard]').map((e) => e.getAttribute('aria-label'))) === JSON.stringify(%s)`,
			labels(t, client)))
	})
	b.says(`#app-rows tr:has([aria-current])`, "2 low")
	shown := eval[[]string](b, `['#app-name', '#app-rows tr:has([aria-current]) td span'].map((s) => $(s).textContent)`)
	if !slices.Equal(shown, []string{"7 " + hostile, hostile}) {
		t.Errorf("names are shown as %q", shown)
	}
	if eval[bool](b, `'broken' in window || document.images.length > 0 || document.scripts.length !== 3`) {
		t.Error("a name became code")
	}
	b.click(`#app-rows [href="#app=9"]`)
	b.until("app 9 is looked at", `says('#app-name') === '9 orders' && location.hash === '#app=9'`)
	b.says("#app-facts", "9,007,199,254,740,993")
	b.says("#app-facts", "wrap: IDs repeat")
	for _, id := range []struct{ kind, format, text, says string }{
		{"queue", "dec", " 16391 ", "appId\n7"}, {"segment", "hex", "4007", "number\n16391"},
	} {
		b.set("#decode [name=kind]", id.kind)
		b.set("#decode [name=format]", id.format)
		b.fill("#decode-id", id.text)
		b.click("#decode button")
		b.says("#decoded", id.says)
	}
	b.clean()
}

// labels are those of all lists of app 7, as JSON.
func labels(t *testing.T, client *redis.Client) string {
	t.Helper()
	var all []string
	for shard := range 64 {
		n := depth(t, client, 7, shard)
		digits, unit := fmt.Sprint(n), "indices"
		if n > 999 {
			digits = digits[:len(digits)-3] + "," + digits[len(digits)-3:]
		} else if n == 1 {
			unit = "index"
		}
		all = append(all, fmt.Sprintf("%q", fmt.Sprintf("shard %d: %s %s", shard, digits, unit)))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// red are the alarms that tell of a cause, and marked the tiles of what fails or is degraded.
const (
	red    = `$$('#alarm-list > [data-state=critical]').map((e) => e.innerText)`
	marked = `$$('#affected-list li').map((e) => e.querySelector('.name').innerText + ' ' + e.dataset.state).join()`
)

// TestConsoleTrouble: Redis dies. A sentence says who is hit and who continues, one cause is one red alarm with a
// link to its section of the runbook, and all is one line again a minute after it is back. A replica that drains serves
// nothing, and a server that is unreachable is said to be so until it is back.
func TestConsoleTrouble(t *testing.T) {
	story(t)
	server, dir := testserver.Redis(t), t.TempDir()
	s := onRedis(server.Addr).With(noSweeps())
	s = s.With(settings{"SERVER_DRAIN_DELAY": "60s", "SERVER_SHUTDOWN_TIMEOUT": "90s"})
	addr := testserver.FreeAddrs(t, 1)[0] // nobody else takes it before the second start
	d := serveIn(t, dir, s, "--demo", "--set", "server.addr="+addr)
	eventuallyID(t, d, aliceGet)
	b := browse(t, d.url, 1300)
	const calm = `$$('#alarm-list li:not([data-state=info]), #affected-list li').length === 0 && !shown('#app-away')`
	b.until("all is well, and closed", calm+` && !shown('#well-list')`)

	server.Kill()
	eventually(t, startLimit, "callers are refused", func() bool { return d.get(aliceGet+"&count=2000").status != 200 })
	b.says("#impact[data-state=critical]", "Redis at "+server.Addr+" is unreachable. Queue and sequence callers get -4")
	b.says("#impact[data-state=critical]", "snowflake and UID keep issuing.")
	b.until("red", marked+`.includes('queue mode critical')`)
	b.until("red and amber", marked+`.includes('Redis critical,refills warning')`)
	b.until("what the lists held is marked", `says('#app-away').includes('What is shown is') &&
		getComputedStyle($('#app-detail')).filter === 'grayscale(1)' && / ago$/m.test(says('#app-facts'))`)
	d.get(aliceGet + "&count=2000") // the alarm tells of those who asked a moment ago
	d.alarm("ShardidStarved", true) // which follows from it
	if tiles := eval[[]string](b, red); len(tiles) != 1 || !strings.Contains(tiles[0], "ShardidStoreAway") {
		t.Errorf("red tiles: %q, want ShardidStoreAway alone", tiles)
	}
	leads := eval[string](b, `(async () => {
		const link = $('#alarm-list a');
		const page = new DOMParser().parseFromString(await (await fetch(link.href)).text(), 'text/html');
		return link.hash + ' ' + page.querySelector(link.hash)?.textContent;
	})()`)
	if leads != "#shardidstoreaway ShardidStoreAway" {
		t.Errorf("the alarm's link leads to %q", leads)
	}
	server.Restart()
	eventuallyID(t, d, aliceGet)
	eventually(t, 2*time.Minute, "all is well again", func() bool { return eval[bool](b, calm) })

	d.Signal(syscall.SIGTERM)
	b.until("a replica that drains is not ready", `
		$$('#affected-list li').some((e) => e.textContent === 'replicanot ready')
		&& !says('#health').includes('serving')`)
	d.Kill()
	b.until("the page says that the server is unreachable",
		`link() === 'away' && says('#stale').includes('does not answer')`)
	b.says("#app-name", "1 test") // what was known
	serveIn(t, dir, s, "--demo", "--set", "server.addr="+addr)
	eventually(t, 2*seen, "the page is live again", func() bool {
		return eval[bool](b, `link() === 'live' && $('#stale').hidden`)
	})
	b.clean("status of 503", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE")
}

// TestConsoleAdministers: the page asks for a token and shows nothing without. An app and a tag are made,
// changed, deleted and made again; what cannot be taken back wants the name, what comes again repeats no ID,
// and the token stays nowhere.
func TestConsoleAdministers(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_ADMIN_TOKEN": consoleToken, "SERVER_PROTECT_MONITORING": "true"}, "--demo")
	d.ready()
	b := newTab(t, 1300)
	b.do(chromedp.Navigate(d.url))
	b.until("the page asks for a token", `link() === 'locked' && !$('#lock').hidden`)
	b.fill("#lock-token", "wrong")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("it is wrong", `says('#lock-error') !== '' && says('#app-rows') === ''`)
	b.fill("#lock-token", consoleToken)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until("it is right", `link() === 'live' && says('#app-name') === '1 test'`)

	b.administerApp(d)
	b.administerTag(d)
	b.administerInTrouble()
	for _, place := range []string{
		`location.href`, `document.cookie`, `document.documentElement.outerHTML`, `Object.entries(localStorage)`,
		`Object.entries(sessionStorage)`, `performance.getEntries()`, `history.state`,
	} {
		if strings.Contains(eval[string](b, `JSON.stringify(`+place+`) ?? ''`), consoleToken) {
			t.Errorf("the token is in %s", place)
		}
	}
	b.clean("status of 401", "status of 400")
}

func (b *tab) administerApp(d *daemon) {
	b.t.Helper()
	const get, limit = "/get?appId=77&gatePass=alice", "9,007,199,254,740,993" // beyond what a JS number holds
	b.dialog("#new-app", "#admin-id")
	b.fill("#admin-id", "77")
	b.fill("#admin-name", hostile)
	b.fill("#admin-maxLimitId", limit)
	b.fill("#admin-step", "many")
	b.refused("Step must be a whole number") // by the form
	b.fill("#admin-step", "0")
	b.refused("step") // by the server
	b.fill("#admin-step", "1,000")
	b.submitted("Made app 77 ")
	b.until("it is shown", fmt.Sprintf(`says('#app-name').startsWith('77 <img')
		&& says('#app-facts').includes(%q)`, limit))
	before := fromJSON[answer](b.t, answer{body: eventuallyID(b.t, d, get)}).ID

	b.dialog("#edit-app", "#admin-step")
	b.fill("#admin-step", "500")
	b.submitted("Changed app 77 ")
	b.until("the change is shown, and the limit is as before", fmt.Sprintf(
		`says('#app-facts').includes('500 indices') && says('#app-facts').includes(%q)`, limit))

	b.dialog("#delete-app", "#admin-confirm")
	b.wantsName(hostile)
	b.submitted("Deleted app 77 ")
	b.until("it is gone", `says('#app-name') === '1 test'`)
	d.want(get, 404, -2)
	b.dialog("#new-app", "#admin-id")
	b.fill("#admin-id", "77")
	b.fill("#admin-name", "again")
	b.submitted("Made app 77 again")
	if after := fromJSON[answer](b.t, answer{body: eventuallyID(b.t, d, get)}).ID; after <= before {
		b.t.Errorf("app 77 issues %d after it was made again, want more than %d", after, before)
	}
}

func (b *tab) administerTag(d *daemon) {
	b.t.Helper()
	const get = "/api/segment/get/returns"
	button := func(name string) string {
		return fmt.Sprintf(`row('#tag-rows', 'returns')?.querySelector('button[aria-label^=%q]')`, name)
	}
	made := func() {
		b.dialog("#new-tag", "#admin-tag")
		b.fill("#admin-tag", "returns")
		b.submitted("Made tag returns")
		b.until("it is shown before anybody asks for an ID", button("Edit")+` !== undefined`)
	}
	made()
	eventually(b.t, seen, "its first ID is 1", func() bool { return d.get(get).body == "1" })
	b.run(button("Edit") + `.click()`)
	b.until("the form is there", `$('#admin-maxId') !== null`)
	b.fill("#admin-maxId", "9,007,199,254,740,993")
	b.submitted("Changed tag returns")
	b.click(`#tag-rows [href="#tag=returns"]`)
	b.until("its chart is there", `shown('#tag-chart')`)
	b.run(button("Delete") + `.click()`)
	b.until("the form is there", `$('#admin-confirm') !== null`)
	b.wantsName("returns")
	b.submitted("Deleted tag returns")
	b.until("its row is gone, and its chart", button("Edit")+` === undefined && !shown('#tag-chart')`)
	made()
	eventually(b.t, seen, "its IDs are above those of before", func() bool { return d.get(get).body == exactLimit })
}

// administerInTrouble: what is typed survives an answer that does not come, a store that is away and a token that ends.
// It is sent once, however often Enter is pressed.
func (b *tab) administerInTrouble() {
	b.t.Helper()
	next := func(answer string) {
		b.run(`window.real ??= fetch; window.sent = 0; window.fetch = (path, options) => {
			if (!path.startsWith('admin/')) return real(path, options);
			window.fetch = (path, options) => { window.sent += path.startsWith('admin/'); return real(path, options) };
			return ` + answer + `}`)
	}
	refusing := func(status, code int) string {
		const answer = `Promise.resolve(Response.json({ code: %d, message: 'as asked' }, { status: %d }))`
		return fmt.Sprintf(answer, code, status)
	}
	next(`Promise.reject(new TypeError())`)
	b.click("#new-tag")
	b.says("#admin-result", "the server cannot be reached")
	b.submit("the token is still known", `$('#admin-tag') !== null`)
	b.fill("#admin-tag", "kept")
	next(refusing(503, -1))
	b.refused("Look whether the change was made before you repeat it: as asked.")
	next(refusing(401, -7))
	b.submit("another token is wanted", `shown('#admin-token') && !shown('#admin-tag')`)
	b.fill("#admin-token", consoleToken)
	next(`(window.sent = 1, new Promise((end) => setTimeout(end, 500))).then(() => real(path, options))`)
	b.run(`$('#admin-form').requestSubmit();
		$('#admin-tag').dispatchEvent(new Event('input', { bubbles: true }));
		$('#admin-form').requestSubmit()`)
	b.until("it is made", `!$('#admin').open && says('#admin-done').includes('Made tag kept')`)
	check.Equal(b.t, eval[int](b, `window.sent`), 1, "requests are sent")
}

// dialog opens a form and waits for its fields.
func (b *tab) dialog(button, field string) {
	b.t.Helper()
	b.click(button)
	b.until("the form is there", fmt.Sprintf(`$(%q) !== null`, field))
}

// refused sends the form and wants the server or the form to refuse it.
func (b *tab) refused(says string) {
	b.t.Helper()
	b.submit("refused: "+says, fmt.Sprintf(`$('#admin-result').dataset.state === 'critical'
		&& says('#admin-result').includes(%q)`, says))
}

// submitted sends the form and wants it done.
func (b *tab) submitted(says string) {
	b.t.Helper()
	b.submit("done: "+says, fmt.Sprintf(`!$('#admin').open && says('#admin-done').includes(%q)`, says))
}

// submit sends the form, wherever the page moves its button meanwhile, and waits for what comes of it.
func (b *tab) submit(what, script string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			result, err := tryEval[string](b, `says('#admin-form')`)
			b.t.Logf("the form says %q, %v", result, err)
		}
	}()
	b.run(`$('#admin-submit').click()`)
	b.until(what, script)
}

// wantsName wants the button to be of use only once the name is typed, and the server to refuse another one that a
// script sends. It types the name.
func (b *tab) wantsName(name string) {
	b.t.Helper()
	b.fill("#admin-confirm", name+"x")
	if !eval[bool](b, `$('#admin-submit').disabled`) {
		b.t.Errorf("with %q typed, the button can be used", name+"x")
	}
	b.run(`$('#admin-form').requestSubmit()`)
	b.until("the server refuses it", `$('#admin-result').dataset.state === 'critical'`)
	b.fill("#admin-confirm", name)
}

// patience bounds one step in the browser on a busy machine.
const patience = 30 * time.Second

// seen is how soon the page has to show what has happened.
const seen = 30 * time.Second

// tab is one page in a headless Chromium of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string // errors of the browser's console
}

// browse opens the console in a window of that width.
func browse(t *testing.T, url string, width int) *tab {
	t.Helper()
	b := newTab(t, width)
	b.open(url)
	return b
}

// newTab starts a Chromium, with further options, that the test ends and waits for.
func newTab(t *testing.T, width int, more ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(profile(t)), chromedp.WindowSize(width, 900),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-prefers-reduced-motion", true)) // a page that still scrolls moves away under a click
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(opts, more...)...)
	ctx, leave := chromedp.NewContext(allocator)
	b := &tab{t: t, ctx: ctx}
	var reading sync.WaitGroup
	t.Cleanup(func() { leave(); stop(); reading.Wait() })
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as the context of this call
		t.Fatalf("start chromium: %v", err)
	}
	messages := chromedp.Console(ctx)
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.note(m)
		}
	})
	b.do(chromedp.EmulateViewport(int64(width), 900))
	return b
}

// chromium is the browser of the Debian package, or one that others install.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no chromium: install the Debian package chromium; `make test` or scripts/install-test-servers.sh does so")
	return ""
}

// profile is a folder for the browser, which writes into it for a while after its end.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shardid-chromium-") //nolint:usetesting // see eventually
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, seen, "the browser's folder is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

// note keeps what a page must not say: errors, exceptions, violations of its policy.
func (b *tab) note(m chromedp.ConsoleMessage) {
	if m.Type != "error" && !m.IsException() && m.Source != "security" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf("%s %s", m, m.URL))
}

// clean wants a console without a problem, but for those that are expected.
func (b *tab) clean(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		known := false
		for _, e := range expected {
			known = known || strings.Contains(p, e)
		}
		if !known {
			b.t.Errorf("the browser's console says: %s", p)
		}
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open loads a page and waits for its first figures.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.until("the page is live", `link() === 'live'`)
}

// tools are how the scripts of the stories look at the page: $ is one element, $$ all, row the one of a table that
// begins with a name, says what stands in an element.
const tools = `const $ = (s) => document.querySelector(s), $$ = (s) => [...document.querySelectorAll(s)],
	row = (table, name) => $$(table + ' tr').find((r) => r.firstChild.textContent === name),
	says = (s) => $(s)?.innerText ?? '', shown = (s) => $(s)?.checkVisibility() ?? false,
	link = () => document.body?.dataset.link;`

// eval gives the value of an expression in the page; of a promise, what it becomes.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	value, err := tryEval[T](b, script)
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return value
}

// tryEval is eval for a page that may be gone.
func tryEval[T any](b *tab, script string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	script = "(() => { " + tools + " return (" + script + "); })()"
	return chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// run runs a statement in the page.
func (b *tab) run(script string) {
	b.t.Helper()
	eval[bool](b, "(() => { "+script+"; return true; })()")
}

// set chooses a value of an input or a list, as its user does.
func (b *tab) set(selector, value string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`const e = $(%q); e.value = %q;
		for (const type of ['input', 'change']) e.dispatchEvent(new Event(type, { bubbles: true }))`, selector, value))
}

// until waits for a condition of the page. One that is just being loaded does not fulfil it yet.
func (b *tab) until(what, script string) {
	b.t.Helper()
	eventually(b.t, seen, what, func() bool {
		yes, err := tryEval[bool](b, script)
		if err != nil && !strings.Contains(err.Error(), "navigated") {
			b.t.Fatalf("%s: %v", script, err)
		}
		return err == nil && yes
	})
}

// says wants a text in an element.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(selector+" says "+text, fmt.Sprintf(`says(%q).includes(%q)`, selector, text))
}

// fill types into an input, in place of what it holds.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	b.run(fmt.Sprintf(`const e = $(%q); e.focus(); e.select()`, selector))
	b.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: value})
		return chromedp.Void{}, err
	})
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}
