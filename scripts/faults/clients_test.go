//go:build unix

package faults

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

const (
	// callers is how many clients ask at the same time, each of them one process: where that one is frozen,
	// the others are asked as before.
	callers = 18
	// breath is how long a client rests after an answer. It leaves the machine some room; what matters is
	// not the rate.
	breath = 20 * time.Millisecond
)

// The apps of which an ID must fit into so many bits. A jump burns so much of the first one's that an operator
// is asked before.
var narrowApps = []int64{31, 53}

// What is asked for all the time, and the app and the tag that come and go.
const (
	alice     = "alice"
	ordersTag = "orders"
	youngApp  = 77
	youngTag  = "young"
)

// Where the ledger keeps the IDs of alice, of the tags, and of the other modes.
var (
	aliceList     = rig.List{App: 1, Shard: rig.ShardOf(alice)}
	ordersList    = rig.List{App: -1}
	snowflakeList = rig.List{App: -2}
	uidList       = rig.List{App: -3}
	youngList     = rig.List{App: -4}
)

// mode is something that gives IDs: an app of the queue, or what is below zero, as in the ledger.
type mode struct {
	app       int64
	path, key string // of what is not the queue, over HTTP and for Redis clients
}

// others are the modes beside the queue.
var others = []mode{
	{ordersList.App, "/api/segment/get/" + ordersTag, "segment:" + ordersTag},
	{snowflakeList.App, "/api/snowflake/get/any", "snowflake"},
	{uidList.App, "/api/uid/get", "uid"},
}

// modes are what every process has to give, the first ones with a row whose numbers are counted.
func (w *world) modes() []mode {
	if w.gophers == nil {
		return []mode{{app: aliceList.App}} // the plain design
	}
	if !w.hasRedis() {
		return others
	}
	all := append([]mode{{app: aliceList.App}}, others...)
	for _, app := range narrowApps {
		all = append(all, mode{app: app})
	}
	return all
}

// name is that of a mode for people.
func (m mode) name() string {
	if m.app > 0 {
		return fmt.Sprintf("app %d", m.app)
	}
	return m.key
}

// clients ask all processes for IDs.
type clients struct {
	http    *http.Client
	callers rig.Callers
}

func (c *clients) begin(t *testing.T) {
	c.http = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(c.http.CloseIdleConnections)
}

// startCallers begins to ask for everything; end ends it, at the latest the test.
func (w *world) startCallers() {
	w.clients.callers.Start(w.whole, callers, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(1, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(breath) {
			m, pass := w.anyMode(rnd)
			count := 1
			if rnd.IntN(2) == 0 && m.app <= aliceList.App {
				count = 1 + rnd.IntN(40)
			}
			ask := w.ask
			if rnd.IntN(3) == 0 {
				ask = w.pop
			}
			_ = ask(ctx, w.procs[caller%len(w.procs)], m, pass, count) // the process knows when it was served last
		}
	})
	w.startNumbering()
}

// anyMode is of the queue in half of the cases, and now and then a narrow app or one that comes and goes.
func (w *world) anyMode(rnd *rand.Rand) (m mode, pass string) {
	pass = alice
	if rnd.IntN(3) > 0 {
		pass = randomPass(rnd)
	}
	switch n := rnd.IntN(40); {
	case w.gophers == nil, n < 20 && w.hasRedis():
		return mode{app: []int64{1, 255}[n%2]}, pass
	case n == 20:
		return mode{youngList.App, "/api/segment/get/" + youngTag, "segment:" + youngTag}, ""
	case n == 21 && w.hasRedis():
		return mode{app: youngApp}, pass
	case n < 24 && w.hasRedis():
		return mode{app: narrowApps[n%2]}, []string{alice, "hello", "张三"}[rnd.IntN(3)]
	default:
		return others[n%3], ""
	}
}

// randomPass is hot in half of the cases, so that some lists are popped and refilled all the
// time; the others reach every shard.
func randomPass(rnd *rand.Rand) string {
	if rnd.IntN(2) == 0 {
		return []string{"hello", "138012345678", "bob@example.com"}[rnd.IntN(3)]
	}
	return rig.RandomPass(rnd)
}

// enter notes what a process gave. What is no answer must never come.
func (w *world) enter(p *proc, m mode, pass string, count int, texts []string) {
	ids := make([]int64, 0, len(texts))
	for _, text := range texts {
		id, _ := strconv.ParseInt(text, 10, 64) // 0, which no ID is, for anything else
		ids = append(ids, id)
	}
	if len(ids) != count {
		w.books.Complain("%s, asked for %d of %s, answered %.200q", p.name, count, m.name(), texts)
	}
	if m.app > 0 {
		w.books.Queue(p.name, m.app, pass, ids...)
	} else {
		w.books.Add(p.name, rig.List{App: m.app}, ids...)
	}
	p.served(m)
}

// ask asks p for IDs over HTTP and notes what it gives. The error says why that is nothing. An answer that
// breaks off delivers nothing: a caller cannot use half a body.
func (w *world) ask(ctx context.Context, p *proc, m mode, pass string, count int) error {
	target := fmt.Sprintf("%s%s?count=%d", p.url(), m.path, count)
	if m.app > 0 {
		target = fmt.Sprintf("%s/get?appId=%d&gatePass=%s&count=%d", p.url(), m.app, url.QueryEscape(pass), count)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/plain")
	resp, err := w.clients.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", p.name, resp.StatusCode, body)
	}
	w.enter(p, m, pass, count, strings.Fields(string(body)))
	return nil
}

// pop is ask by a Redis client, for a process that serves them.
func (w *world) pop(ctx context.Context, p *proc, m mode, pass string, count int) error {
	resp := p.redis.Load()
	if resp == nil {
		return w.ask(ctx, p, m, pass, count)
	}
	key := m.key
	if m.app > 0 {
		key = fmt.Sprintf("queue:%d:%s", m.app, pass)
	}
	var texts []string
	var err error
	if count > 1 {
		texts, err = resp.LPopCount(ctx, key, count).Result()
	} else {
		var id int64
		id, err = resp.Incr(ctx, key).Result()
		texts = []string{fmt.Sprint(id)}
	}
	if err == nil {
		w.enter(p, m, pass, count, texts)
	}
	return err
}

// hangUp closes the Redis client of the last life of a process and keeps that of the next, if any.
func (p *proc) hangUp(next *redis.Client) {
	if last := p.redis.Swap(next); last != nil {
		_ = last.Close()
	}
}
