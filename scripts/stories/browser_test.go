//go:build unix

package stories_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

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

// until waits for a condition of the page and gives how long that took. A page that is just
// being loaded does not fulfil it yet.
func (b *tab) until(what, script string) time.Duration {
	b.t.Helper()
	return eventually(b.t, seen, what, func() bool {
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

// resize gives the page another width, and the system another theme.
func (b *tab) resize(width, height int, theme string) {
	b.t.Helper()
	scheme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}
	b.do(chromedp.EmulateViewport(int64(width), int64(height)),
		func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: scheme})
			return chromedp.Void{}, err
		})
}
