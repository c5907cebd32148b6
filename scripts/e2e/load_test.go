//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is callers that ask for IDs in every form until they are told to stop.
type load struct {
	replicas []*daemon
	apps     []int64
	books    *ledger
	// trouble says that a refusal, or a broken connection (the error), is what
	// the test expects; nil tolerates nothing.
	trouble func(answer, error) bool

	requests, refused atomic.Int64
	cancel            context.CancelFunc
	wg                sync.WaitGroup
}

// start begins; stop ends it, at the latest with the test.
func (l *load) start(t *testing.T, callers int) {
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	for i := range callers {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		l.wg.Go(func() {
			for ctx.Err() == nil {
				l.ask(rnd)
			}
		})
	}
	t.Cleanup(l.stop)
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

// reach waits until that many distinct IDs have come and logs the way there.
func (l *load) reach(t *testing.T, ids int) {
	t.Helper()
	begun, next := time.Now(), milestone(l.books.count(), ids)
	eventually(t, 2*time.Minute, fmt.Sprintf("%d IDs", ids), func() bool {
		n := l.books.count()
		if n >= next {
			t.Logf("%d IDs in %d requests after %v", n, l.requests.Load(), time.Since(begun).Round(time.Millisecond))
			next = milestone(n, ids)
		}
		return n >= ids
	})
}

// milestone is the next count worth a line.
func milestone(now, goal int) int { return min(goal, now+max(1, goal/4)) }

// ask makes one request of a random form and checks its answer.
func (l *load) ask(rnd *rand.Rand) {
	d, app := l.replicas[rnd.IntN(len(l.replicas))], l.apps[rnd.IntN(len(l.apps))]
	pass, f := randomPass(rnd), randomForm(rnd)
	l.requests.Add(1)
	a, err := d.do(http.MethodGet, f.target(app, pass), f.header()...)
	if err == nil && a.status == http.StatusOK {
		ids, err := f.parse(a)
		if err != nil {
			l.books.complain("%s: %v: %s", f.target(app, pass), err, a.body)
		}
		l.books.enter(app, pass, ids...)
		return
	}
	l.refused.Add(1)
	if l.trouble == nil || !l.trouble(a, err) {
		l.books.complain("%s: %v, %d %s", f.target(app, pass), err, a.status, a.body)
	}
	time.Sleep(20 * time.Millisecond)
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

// randomPass is what people send: names, numbers, addresses, in any script.
func randomPass(rnd *rand.Rand) string {
	n := rnd.IntN(2000)
	switch rnd.IntN(7) {
	case 0:
		return fmt.Sprintf("user%d", n)
	case 1:
		return fmt.Sprintf("138%08d", n*7919)
	case 2:
		return fmt.Sprintf("first.last+%d@example.com", n)
	case 3:
		return []string{"张三", "李四", "王小明", "欧阳娜娜"}[n%4] + strconv.Itoa(n/4)
	case 4:
		return fmt.Sprintf("🦊%d👩‍👩‍👧", n)
	case 5:
		return fmt.Sprintf("O'Neil & Söhne = 50%% #%d", n)
	default:
		return fmt.Sprintf("+49 (0)30 %d", 1000000+n)
	}
}
