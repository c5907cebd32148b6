//go:build unix

// Callers, who ask for IDs until they are told to stop, of one replica or of two that die in turn.

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
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// load is callers that ask for IDs until they are told to stop.
type load struct {
	replicas []*daemon
	books    *ledger
	// apps are asked for queue IDs in every form, all replicas by each caller; without
	// them a caller asks one replica for what target names, so many at once.
	apps   []int64
	target string
	batch  func(caller int) int
	// trouble says that a refusal, or a broken connection (the error), is what
	// the test expects; nil tolerates nothing.
	trouble func(answer, error) bool

	requests, refused atomic.Int64
	callers           rig.Callers
}

// start begins; stop ends it, at the latest with the test.
func (l *load) start(t *testing.T, callers int) {
	l.callers.Start(t, callers, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(1, uint64(caller)))
		for last := int64(0); ctx.Err() == nil; {
			if l.apps == nil {
				last = l.more(caller, last)
			} else {
				l.ask(rnd)
			}
		}
	})
}

func (l *load) stop() { l.callers.Stop() }

// reach waits until that many distinct IDs have come.
func (l *load) reach(t *testing.T, ids int) {
	t.Helper()
	took := eventually(t, 2*time.Minute, fmt.Sprintf("%d IDs", ids), func() bool { return l.books.Count() >= ids })
	t.Logf("%d IDs in %d requests after %v, %d refused",
		l.books.Count(), l.requests.Load(), took.Round(time.Millisecond), l.refused.Load())
}

// ask makes one request of a random form and checks its answer.
func (l *load) ask(rnd *rand.Rand) {
	d, app := l.replicas[rnd.IntN(len(l.replicas))], l.apps[rnd.IntN(len(l.apps))]
	pass, f := rig.RandomPass(rnd), randomForm(rnd)
	l.requests.Add(1)
	a, err := d.do(http.MethodGet, f.target(app, pass), f.header()...)
	if err == nil && a.status == http.StatusOK {
		ids, err := f.parse(a)
		if err != nil {
			l.books.Complain("%s: %v: %s", f.target(app, pass), err, a.body)
		}
		l.books.Queue("", app, pass, ids...)
		return
	}
	l.refuse(f.target(app, pass), a, err)
	time.Sleep(20 * time.Millisecond)
}

// more makes one request of a caller whose last ID is given; it gives the last now.
func (l *load) more(caller int, last int64) int64 {
	l.requests.Add(1)
	ids, a, err := l.replicas[caller%len(l.replicas)].take(l.target, l.batch(caller))
	if ids == nil {
		l.refuse(l.target, a, err)
		return last
	}
	l.books.Rise(last, ids...)
	return ids[len(ids)-1]
}

func (l *load) refuse(target string, a answer, err error) {
	l.refused.Add(1)
	if l.trouble == nil || !l.trouble(a, err) {
		l.books.Complain("%s: %v, %d %.300s", target, err, a.status, a.body)
		time.Sleep(20 * time.Millisecond)
	}
}

// form is how IDs are asked for: count 0 is a single one.
type form struct {
	count           int
	text, stringify bool
}

func randomForm(rnd *rand.Rand) form {
	f := form{text: rnd.IntN(3) == 0, stringify: rnd.IntN(4) == 0}
	if rnd.IntN(2) == 0 {
		f.count = 1 + rnd.IntN(40)
	}
	return f
}

func (f form) target(app int64, pass string) string {
	target := fmt.Sprintf("/get?appId=%d&gatePass=%s", app, url.QueryEscape(pass))
	if f.count > 0 {
		target += "&count=" + strconv.Itoa(f.count)
	}
	if f.stringify {
		target += "&stringify=true"
	}
	return target
}

func (f form) header() []string {
	if f.text {
		return []string{"Accept", "text/plain"}
	}
	return nil
}

// parse gives the IDs of an answer, which must be exactly as many as asked for.
func (f form) parse(a answer) (ids []int64, err error) {
	texts := []string{a.IDStr}
	switch {
	case f.text:
		texts = strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	case f.count > 0:
		texts = texts[:0]
		for _, raw := range a.IDs {
			texts = append(texts, strings.TrimSuffix(strings.TrimPrefix(string(raw), `"`), `"`))
		}
	case strconv.FormatInt(a.ID, 10) != a.IDStr:
		return nil, fmt.Errorf("id and idStr differ")
	}
	if len(texts) != max(1, f.count) {
		return nil, fmt.Errorf("%d IDs, want %d", len(texts), max(1, f.count))
	}
	if f.count > 0 && !f.text && f.stringify != (a.IDs[0][0] == '"') {
		return nil, fmt.Errorf("strings where numbers were asked for, or the reverse")
	}
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// batchOf is a load whose callers all ask for as many.
func batchOf(count int) func(int) int { return func(int) int { return count } }

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
	t        *testing.T
	settings settings
	addrs    []string
	urls     []string
	now      [2]*daemon
	client   *http.Client
}

func newPair(t *testing.T, s settings) *pair {
	t.Helper()
	p := &pair{t: t, settings: s, addrs: testserver.FreeAddrs(t, 2), client: &http.Client{Timeout: 10 * time.Second}}
	for i, addr := range p.addrs {
		p.urls = append(p.urls, "http://"+addr)
		p.start(i)
	}
	for _, d := range p.now {
		d.ready()
	}
	return p
}

func (p *pair) start(i int) {
	p.t.Helper()
	p.now[i] = serve(p.t, p.settings, "--set", "server.addr="+p.addrs[i])
}

// dieInTurn kills a replica whenever so many more IDs have come, and starts it again.
func (p *pair) dieInTurn(books *ledger, deaths, ids int) {
	p.t.Helper()
	for i := range deaths {
		enough := books.Count() + ids
		eventually(p.t, time.Minute, "more IDs", func() bool { return books.Count() >= enough })
		p.now[i%2].Kill()
		p.start(i % 2)
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
