//go:build unix

package stories_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/rig"
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
