//go:build unix

// Places where replicas live and die, and callers, who ask for IDs until they are told to stop.

package stories_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// place is where a replica runs: its folder, its settings and its address outlive its processes.
type place struct {
	t        *testing.T
	name     string
	dir      string
	settings settings
	args     []string               // of serve
	release  string                 // the binary of 0.3.0; "" is the present version
	now      atomic.Pointer[daemon] // nil while there is no process to ask
}

// newPlace has a folder of its own, and no process yet.
func newPlace(t *testing.T, name string, s settings, args ...string) *place {
	return &place{t: t, name: name, dir: t.TempDir(), settings: s, args: args}
}

// at is the place of a process that stays.
func at(d *daemon) *place {
	p := &place{t: d.t, name: d.url}
	p.now.Store(d)
	return p
}

// start runs a process, which need not be ready.
func (p *place) start() *daemon {
	p.t.Helper()
	cmd := command(p.t, p.dir, p.settings, serving(p.args)...)
	if p.release != "" {
		cmd = ofRelease(p.release, p.dir, p.settings, "serve")
	}
	d := listening(launch(p.t, cmd))
	p.now.Store(d)
	return d
}

// kill ends the process as a power cut does.
func (p *place) kill() { p.now.Swap(nil).Kill() }

// stop ends it as an operator does.
func (p *place) stop() {
	p.t.Helper()
	p.now.Swap(nil).stops(syscall.SIGTERM, 20*time.Second)
}

// draw is what callers of a place take.
type draw struct {
	place    *place
	target   string
	batch    int // IDs in a request; 0 is one
	books    *ledger
	pause    time.Duration // of a caller after an answer; 0 is a millisecond
	anyOrder bool          // the IDs of a caller need not rise
	looks    func([]int64) // at the IDs of a process that still lives; nil: nobody
}

// gather starts n callers for each draw, who take IDs until they are stopped. What is neither IDs nor a refusal that
// says to come again is a problem, unless the process has been ended meanwhile.
func gather(t *testing.T, n int, draws ...draw) *rig.Callers {
	c := &rig.Callers{}
	c.Start(t, n*len(draws), func(ctx context.Context, caller int) {
		w := draws[caller/n]
		for last := int64(0); ctx.Err() == nil; time.Sleep(max(w.pause, time.Millisecond)) {
			d := w.place.now.Load()
			if d == nil {
				continue
			}
			ids, a, err := d.take(w.target, w.batch)
			lives := w.place.now.Load() == d
			switch {
			case ids != nil:
				if w.anyOrder {
					w.books.Add("", plain, ids...)
				} else {
					w.books.Rise(last, ids...)
					last = ids[len(ids)-1]
				}
				if lives && w.looks != nil {
					w.looks(ids)
				}
			case err != nil && !lives:
			case err != nil || !a.comesAgain():
				w.books.Complain("%s, %s: %v, %d %.300s", w.place.name, w.target, err, a.status, a.body)
			}
		}
	})
	return c
}

// reach waits until that many distinct IDs have come.
func reach(t *testing.T, books *ledger, ids int) {
	t.Helper()
	eventually(t, 2*time.Minute, fmt.Sprintf("%d IDs", ids), func() bool { return books.Count() >= ids })
}

// comesAgain says whether a refusal tells the caller to try again.
func (a answer) comesAgain() bool { return a.status == 503 && a.header.Get("Retry-After") != "" }

// load is callers that ask all replicas for IDs of apps, of any list, until they are told to stop.
type load struct {
	replicas []*daemon
	books    *ledger
	apps     []int64
	// trouble says that a broken connection is what the test expects; nil tolerates nothing.
	trouble func(error) bool
	callers rig.Callers
}

// start begins; stop ends it, at the latest with the test.
func (l *load) start(t *testing.T, callers int) {
	l.callers.Start(t, callers, func(ctx context.Context, caller int) {
		for rnd := rand.New(rand.NewPCG(1, uint64(caller))); ctx.Err() == nil; {
			l.ask(rnd)
		}
	})
}

func (l *load) stop() { l.callers.Stop() }

// queueGet asks for IDs of an app.
func queueGet(app int64, pass string) string {
	return fmt.Sprintf("/get?appId=%d&gatePass=%s", app, url.QueryEscape(pass))
}

// ask asks for some IDs of a random list and checks that they are of it.
func (l *load) ask(rnd *rand.Rand) {
	d, app := l.replicas[rnd.IntN(len(l.replicas))], l.apps[rnd.IntN(len(l.apps))]
	pass := rig.RandomPass(rnd)
	ids, a, err := d.take(queueGet(app, pass), 1+rnd.IntN(40))
	if ids != nil {
		l.books.Queue("", app, pass, ids...)
		return
	}
	if l.trouble == nil || !l.trouble(err) {
		l.books.Complain("app %d, %q: %v, %d %.300s", app, pass, err, a.status, a.body)
	}
	time.Sleep(20 * time.Millisecond)
}

// What clients of Leaf ask for.
const (
	demoTag      = "leaf-segment-test" // --demo makes it
	segmentGet   = "/api/segment/get/"
	snowflakeGet = "/api/snowflake/get/test"
)

// onlyLeaf leaves out the mode that the leaf stories do not tell of, and stops at
// once.
func onlyLeaf() settings {
	return settings{"UID_ENABLED": "false", "SERVER_DRAIN_DELAY": "0s"}
}

// take gets a batch of exactly count IDs as text, or one ID when count is 0. The
// IDs are nil when the answer is a refusal. Safe for concurrent use.
func (d *daemon) take(target string, count int) (ids []int64, a answer, err error) {
	if count > 0 {
		sign := "?"
		if strings.Contains(target, sign) {
			sign = "&"
		}
		target += sign + "count=" + strconv.Itoa(count)
	}
	a, err = d.do(http.MethodGet, target, "Accept", "text/plain")
	if err != nil || a.status != http.StatusOK {
		return nil, a, err
	}
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
		return nil, a, fmt.Errorf("GET %s: Content-Type %q", target, kind)
	}
	ids, err = digits(a.body, count)
	return ids, a, err
}

// digits reads a text answer: one decimal without anything around it, or with a
// count as many lines.
func digits(body string, count int) (ids []int64, err error) {
	texts := []string{body}
	if count > 0 {
		texts = strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	}
	if len(texts) != max(1, count) {
		return nil, fmt.Errorf("%d lines, want %d", len(texts), count)
	}
	for _, text := range texts {
		id, err := strconv.ParseUint(text, 10, 63)
		if err != nil || text[0] == '0' {
			return nil, fmt.Errorf("%.80q is no ID", text)
		}
		ids = append(ids, int64(id))
	}
	return ids, nil
}

// workerOf is the contract's: 41 bits of time, 10 bits of worker ID, 12 of
// sequence.
func workerOf(flake int64) int64 { return flake >> 12 & 1023 }

// timeOf is that of a snowflake with Leaf's epoch.
func timeOf(flake int64) time.Time { return time.UnixMilli(flake>>22 + 1288834974657) }

// fromJSON reads an answer of JSON.
func fromJSON[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

func number64(t *testing.T, digits string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// pair is two replicas at addresses that stay; their callers know the addresses.
type pair struct {
	t      *testing.T
	places []*place
	urls   []string
	client *http.Client
}

func newPair(t *testing.T, s settings) *pair {
	t.Helper()
	p := &pair{t: t, client: &http.Client{Timeout: 10 * time.Second}}
	for _, addr := range testserver.FreeAddrs(t, 2) {
		one := newPlace(t, addr, s, "--set", "server.addr="+addr)
		one.start().ready()
		p.places, p.urls = append(p.places, one), append(p.urls, "http://"+addr)
	}
	return p
}

// dieInTurn kills a replica whenever so many more IDs have come, and starts it again.
func (p *pair) dieInTurn(books *ledger, deaths, ids int) {
	p.t.Helper()
	for i := range deaths {
		reach(p.t, books, books.Count()+ids)
		p.places[i%2].kill()
		p.places[i%2].start()
	}
}

// askAny asks one of the two by GET and gives its answer, "" when it is a refusal or broken off.
func (p *pair) askAny(target string) string {
	res, err := p.client.Get(p.urls[rand.IntN(len(p.urls))] + target)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

var anyID = regexp.MustCompile(`[1-9]\d*`)

// idsIn are the IDs of an answer of any form.
func idsIn(answer string) (ids []int64) {
	for _, digits := range anyID.FindAllString(answer, -1) {
		id, _ := strconv.ParseInt(digits, 10, 64)
		ids = append(ids, id)
	}
	return ids
}
