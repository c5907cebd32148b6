//go:build unix

// Places where replicas live and die, and callers, who ask for IDs until they are told to stop.

package stories_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
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
	ending   atomic.Bool            // its connections may break
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
		cmd = ofRelease(p.release, p.dir, p.settings, append([]string{"serve"}, p.args...)...)
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
	app      int64 // of any list of which they ask for some IDs, in place of the target; 0: none
	batch    int   // IDs in a request; 0 is one
	books    *ledger
	pause    time.Duration // of a caller after an answer; 0 is a millisecond
	anyOrder bool          // the IDs of a caller need not rise
	always   bool          // they are never told to come again
}

// gather starts n callers for each draw, who take IDs until they are stopped. What is neither IDs nor a refusal that
// says to come again is a problem, unless the process has been ended meanwhile.
func gather(t *testing.T, n int, draws ...draw) *rig.Callers {
	c := &rig.Callers{}
	c.Start(t, n*len(draws), func(ctx context.Context, caller int) {
		w, rnd := draws[caller/n], rand.New(rand.NewPCG(1, uint64(caller)))
		for last := int64(0); ctx.Err() == nil; time.Sleep(max(w.pause, time.Millisecond)) {
			d := w.place.now.Load()
			if d == nil {
				continue
			}
			target, batch, pass := w.target, w.batch, ""
			if w.app > 0 {
				pass = rig.RandomPass(rnd)
				target, batch = queueGet(w.app, pass), 1+rnd.IntN(40)
			}
			ids, a, err := d.take(target, batch)
			lives := w.place.now.Load() == d && !w.place.ending.Load()
			switch {
			case ids != nil:
				switch {
				case w.app > 0:
					w.books.Queue("", w.app, pass, ids...)
				case w.anyOrder:
					w.books.Add("", plain, ids...)
				default:
					w.books.Rise(last, ids...)
					last = ids[len(ids)-1]
				}
			case err != nil && !lives:
			case err != nil || w.always || !a.comesAgain():
				w.books.Complain("%s, %s: %v, %d %.300s", w.place.name, target, err, a.status, a.body)
			}
		}
	})
	return c
}

// number starts callers who number messages of rooms of the space chat at a place, until they are stopped.
func number(p *place, order *rig.Order) *rig.Callers {
	c := &rig.Callers{}
	c.Start(p.t, 3, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(2, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			if d := p.now.Load(); d != nil {
				chat := rig.SequenceHTTP{Client: d.client, URL: d.url, Space: "chat"}
				err := order.DrawAny(ctx, p.name, chat, rnd, 50)
				refusal, is := errors.AsType[*rig.RefusalError](err)
				away := is && refusal.Status == 503 && (refusal.Code == -1 || refusal.Code == -4)
				if lives := p.now.Load() == d && !p.ending.Load(); err != nil && lives && ctx.Err() == nil && !away {
					p.t.Errorf("%s gives no number: %v", p.name, err)
				}
			}
		}
	})
	return c
}

// reach waits until that many distinct IDs have come.
func reach(t *testing.T, books interface{ Count() int }, ids int) {
	t.Helper()
	eventually(t, 2*time.Minute, fmt.Sprintf("%d IDs", ids), func() bool { return books.Count() >= ids })
}

// comesAgain says whether a refusal tells the caller to try again.
func (a answer) comesAgain() bool { return a.status == 503 && a.header.Get("Retry-After") != "" }

// queueGet asks for IDs of an app.
func queueGet(app int64, pass string) string {
	return fmt.Sprintf("/get?appId=%d&gatePass=%s", app, url.QueryEscape(pass))
}

// anyList draws from any list of apps, from each of the replicas.
func anyList(books *ledger, replicas []*daemon, apps ...int64) (draws []draw) {
	for _, d := range replicas {
		for _, app := range apps {
			draws = append(draws, draw{place: at(d), app: app, books: books, always: true})
		}
	}
	return draws
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
	check.Must(t, err)
	return n
}
