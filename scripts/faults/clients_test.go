//go:build unix

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

// breath is how long a client rests after an answer. It leaves the machine some
// room; what matters is not the rate.
const breath = 10 * time.Millisecond

// clients ask all processes for IDs until they are told to stop.
type clients struct {
	procs []*proc
	apps  []int64
	modes []mode // beside the queue
	books *rig.Ledger
	http  *http.Client

	requests, refused atomic.Int64
	popped            atomic.Int64 // IDs that came over RESP, in batches
	callers           rig.Callers
}

func newClients(procs []*proc, apps []int64, books *rig.Ledger) *clients {
	return &clients{procs: procs, apps: apps, books: books,
		http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// start begins; stop ends it, at the latest with the test.
func (c *clients) start(t *testing.T, n int) {
	t.Cleanup(c.http.CloseIdleConnections)
	c.callers.Start(t, n, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(1, uint64(caller)))
		for ; ctx.Err() == nil; time.Sleep(breath) {
			c.ask(ctx, rnd)
		}
	})
}

// ask sends one request of a random form.
func (c *clients) ask(ctx context.Context, rnd *rand.Rand) {
	count := 1
	if rnd.IntN(2) == 0 {
		count = 1 + rnd.IntN(40)
	}
	p, app := c.procs[rnd.IntN(len(c.procs))], c.apps[rnd.IntN(len(c.apps))]
	c.requests.Add(1)
	n, pass := rnd.IntN(8), randomPass(rnd)
	resp := p.redis.Load()
	if rnd.IntN(3) > 0 {
		resp = nil
	}
	var err error
	var ids []int64
	switch other := n < len(c.modes); {
	case other && resp != nil:
		if ids, err = c.pop(ctx, p.name, resp, c.modes[n].key, count); err == nil {
			c.books.Add(p.name, c.modes[n].in, ids...)
		}
	case other:
		err = c.getOf(ctx, p, c.modes[n], count)
	case resp != nil:
		if ids, err = c.pop(ctx, p.name, resp, fmt.Sprintf("queue:%d:%s", app, pass), count); err == nil {
			c.books.Queue(p.name, app, pass, ids...)
		}
	default:
		err = c.get(ctx, p, app, pass, count)
	}
	if err != nil {
		c.refused.Add(1)
	}
}

// mode is one beside the queue.
type mode struct {
	path, key string   // over HTTP and for Redis clients
	in        rig.List // where the ledger keeps its IDs
	young     bool     // it need not be there
}

func otherModes() []mode {
	return []mode{
		{path: "/api/segment/get/orders", key: "segment:orders", in: rig.List{App: -1}},
		{path: "/api/snowflake/get/any", key: "snowflake", in: rig.List{App: -2}},
		{path: "/api/uid/get", key: "uid", in: rig.List{App: -3}},
		{path: "/api/segment/get/" + youngTag, key: "segment:" + youngTag, in: rig.List{App: -4}, young: true},
	}
}

// getOf asks p for count IDs of a mode, as get does for the queue.
func (c *clients) getOf(ctx context.Context, p *proc, m mode, count int) error {
	status, body, err := c.fetch(ctx, fmt.Sprintf("%s%s?count=%d", p.url(), m.path, count))
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: %d %s", p.name, status, body)
	}
	var ids []int64
	for line := range strings.FieldsSeq(string(body)) {
		id, _ := strconv.ParseInt(line, 10, 64) // 0, which no ID is, for anything else
		ids = append(ids, id)
	}
	if len(ids) != count {
		c.books.Complain("%s answered %s with 200 and %.200q, want %d IDs", p.name, m.path, body, count)
	}
	c.books.Add(p.name, m.in, ids...)
	return nil
}

// pop asks as a Redis client does. The error says why nothing was delivered.
func (c *clients) pop(ctx context.Context, by string, resp *redis.Client, key string, count int) ([]int64, error) {
	if count == 1 {
		id, err := resp.Incr(ctx, key).Result()
		return []int64{id}, err
	}
	texts, err := resp.LPopCount(ctx, key, count).Result()
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, text := range texts {
		id, _ := strconv.ParseInt(text, 10, 64) // 0, which no ID is, for anything else
		ids = append(ids, id)
	}
	if len(ids) != count {
		c.books.Complain("%s answered LPOP %s %d with %q", by, key, count, texts)
	}
	c.popped.Add(int64(len(ids)))
	return ids, nil
}

// get asks p for count IDs and enters what it delivers. The error says why
// nothing was delivered.
func (c *clients) get(ctx context.Context, p *proc, app int64, pass string, count int) error {
	target := fmt.Sprintf("%s/get?appId=%d&gatePass=%s", p.url(), app, url.QueryEscape(pass))
	if count > 1 {
		target += fmt.Sprintf("&count=%d", count)
	}
	status, body, err := c.fetch(ctx, target)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s: %d %s", p.name, status, body)
	}
	ids, err := parse(body, count)
	if err != nil {
		c.books.Complain("%s answered %s with 200 and %.200q: %v", p.name, target, body, err)
		return nil
	}
	c.books.Queue(p.name, app, pass, ids...)
	return nil
}

// fetch gives a whole answer. One that breaks off delivers nothing: a caller
// cannot use half a body.
func (c *clients) fetch(ctx context.Context, target string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// parse gives the IDs of a 200, which must be exactly as many as asked for.
func parse(body []byte, count int) ([]int64, error) {
	var a struct {
		Code  *int
		ID    int64
		IDStr string
		IDs   []int64
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	if count == 1 && a.IDStr == fmt.Sprint(a.ID) {
		a.IDs = append(a.IDs, a.ID)
	}
	if a.Code == nil || *a.Code != 0 || len(a.IDs) != count {
		return nil, fmt.Errorf("%d IDs, want %d and code 0", len(a.IDs), count)
	}
	return a.IDs, nil
}

// randomPass is hot in half of the cases, so that some lists are popped and refilled all the
// time; the others reach every shard.
func randomPass(rnd *rand.Rand) string {
	if rnd.IntN(2) == 0 {
		return []string{"alice", "hello", "138012345678", "bob@example.com"}[rnd.IntN(4)]
	}
	return rig.RandomPass(rnd)
}
