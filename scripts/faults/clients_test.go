//go:build unix

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/client"
	"shardid/scripts/check"
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

// startCallers begins to ask for everything; end ends it, at the latest the test.
func (w *world) startCallers() {
	w.callers.Start(w.whole, callers, func(ctx context.Context, caller int) {
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
	case n < 20 && w.hasRedis():
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
	resp, err := w.http.Do(req)
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

// pop is ask by a Redis client.
func (w *world) pop(ctx context.Context, p *proc, m mode, pass string, count int) error {
	resp, key := p.redis.Load(), m.key
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

// space is one of sequences: few sections and small steps run dry all the time.
type space struct {
	name           string
	sections, step int
	order          *rig.Order // of all that its keys were answered
}

// young is the place of the space that comes and goes.
const young = 2

func spaces() []space {
	return []space{{"chat", 16, 200, &rig.Order{}}, {"feed", 2, 1000, &rig.Order{}}, {youngTag, 0, 0, &rig.Order{}}}
}

const (
	// numberers is how many clients ask for numbers of keys at the same time, each of them one process.
	numberers = 9
	// keysOf is how many keys of each space they ask for.
	keysOf = 150
	// takeover bounds how long sequences may take to continue after a fault. It is far above what
	// the leases and the doubts of both stores make of it.
	takeover = 3 * time.Minute
)

// startNumbering begins to ask all processes for numbers of keys.
func (w *world) startNumbering() {
	w.numbers.Start(w.whole, numberers, func(ctx context.Context, caller int) {
		rnd := rand.New(rand.NewPCG(2, uint64(caller)))
		for ; ctx.Err() == nil && w.hasRedis(); time.Sleep(breath) {
			// It may be refused.
			_ = w.draw(ctx, w.procs[caller%len(w.procs)], w.spaces[rnd.IntN(len(w.spaces))], rnd)
		}
	})
}

// draw asks p for some numbers of a random key, or how far it has come.
func (w *world) draw(ctx context.Context, p *proc, s space, rnd *rand.Rand) error {
	asked, by := rig.Sequence(w.sequence(p, s)), p.name+" over HTTP"
	if rnd.IntN(2) == 0 {
		asked, by = rig.Incr{Redis: p.redis.Load(), Prefix: "sequence:" + s.name + ":"}, p.name+" over RESP"
	}
	return s.order.DrawAny(ctx, by, asked, rnd, keysOf)
}

func (w *world) sequence(p *proc, s space) rig.SequenceHTTP {
	return rig.SequenceHTTP{Client: w.http, URL: p.url(), Space: s.name}
}

// verifyNumbers returns when some processes, by default all, number keys of each space again.
func (w *world) verifyNumbers(procs ...*proc) {
	w.t.Helper()
	if procs == nil {
		procs = w.procs
	}
	for _, p := range procs {
		for _, s := range w.spaces[:young] {
			rig.Until(w.t, takeover, p.name+" numbers again: "+s.name, func() error {
				return s.order.Draw(context.Background(), "verify", w.sequence(p, s), "key0", 1)
			})
		}
	}
}

// stopsNumbering returns when a process refuses to number keys and says that it is for want of a store.
func (w *world) stopsNumbering(p *proc, store string) {
	w.t.Helper()
	w.until(p.name+" gives no numbers without "+store, func() error {
		err := w.spaces[0].order.Draw(context.Background(), "verify", w.sequence(p, w.spaces[0]), "key1", 1)
		var refusal *rig.RefusalError
		if !errors.As(err, &refusal) {
			return errors.Join(errors.New("that is no refusal"), err)
		}
		if refusal.Status != 503 || refusal.Code != -4 || !strings.Contains(refusal.Message, store) {
			return refusal
		}
		return nil
	})
}

// numbersSoFar is how many numbers of sequences came.
func (w *world) numbersSoFar() (n int) {
	for _, s := range w.spaces {
		n += s.order.Count()
	}
	return n
}

// phase says what continues from now on.
func (w *world) phase(text string) {
	w.books.Phase(text)
	for _, s := range w.spaces {
		s.order.Phase(text)
	}
}

// clientSetting makes the test binary a process that draws IDs with the Go client; its value
// is the replicas' URLs.
const clientSetting = "FAULTS_GO_CLIENT"

// delivery is a line that such a process prints: IDs that it drew. The app is that of a
// list.
type delivery struct {
	App  int64
	Pass string // of the queue
	IDs  []int64
}

// serveClient draws IDs of all modes until it is killed.
func serveClient() {
	c, err := client.New(client.Options{Addrs: strings.Split(os.Getenv("SHARDID_"+clientSetting), ","), MaxHeld: 2000})
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	deliver := func(d delivery) {
		if len(d.IDs) == 0 {
			return // refused for now
		}
		line, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			os.Exit(1) // nobody reads any more
		}
	}
	for i := range 5 {
		rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(i)))
		go func() {
			for ; ; time.Sleep(breath) {
				if i < 3 {
					deliver(draw(c, rnd))
				} else {
					generate(c, rnd, deliver)
				}
			}
		}()
	}
	select {}
}

// The name of which the processes lease worker IDs, and where the ledger keeps their IDs. With
// few worker IDs and a short hold each of them has many holders.
const leasedName = "gophers"

var leasedList = rig.List{App: -5}

// generate makes IDs in the process for some seconds, with a worker ID of its own.
func generate(c *client.Client, rnd *rand.Rand, deliver func(delivery)) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	g, err := c.Generator(ctx, leasedName)
	if err != nil {
		return
	}
	end := time.Now().Add(time.Duration(rnd.Int64N(int64(10 * time.Second))))
	for ; time.Now().Before(end); time.Sleep(breath) {
		d := delivery{App: leasedList.App}
		if d.IDs, err = g.Take(1 + rnd.IntN(40)); err == nil {
			deliver(d)
		}
	}
	_ = g.Close() // one that is not released ends by itself
}

// draw takes one ID or some, of a random mode.
func draw(c *client.Client, rnd *rand.Rand) (d delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	take := func(n int) ([]int64, error) { return c.Queue(uint8(d.App)).Take(ctx, d.Pass, n) }
	next := func() (int64, error) { return c.Queue(uint8(d.App)).Next(ctx, d.Pass) }
	if n := rnd.IntN(8); n < 3 {
		source := []*client.Source{c.Segment(ordersTag), c.Snowflake(), c.UID()}[n]
		d.App = others[n].app
		take = func(n int) ([]int64, error) { return source.Take(ctx, n) }
		next = func() (int64, error) { return source.Next(ctx) }
	} else {
		d.App, d.Pass = []int64{1, 255}[n%2], randomPass(rnd)
	}
	var err error
	if rnd.IntN(2) == 0 {
		d.IDs, err = take(1 + rnd.IntN(40))
	} else {
		d.IDs = make([]int64, 1)
		d.IDs[0], err = next()
	}
	if err != nil {
		d.IDs = nil
	}
	return d
}

// gopher is a process with the Go client, over all its lives.
type gopher struct {
	t       *testing.T
	name    string
	env     settings
	books   *rig.Ledger
	process *rig.Process // the present life
	reader  sync.WaitGroup
	drawn   atomic.Int64 // IDs that it delivered
	made    atomic.Int64 // those that it made itself
}

// startGopher starts one that draws from all processes, each through its front.
func (w *world) startGopher(i int) {
	w.t.Helper()
	var urls []string
	for _, p := range w.procs {
		urls = append(urls, "http://"+p.front.Addr)
	}
	g := &gopher{t: w.whole, name: fmt.Sprintf("Go client %d", i), books: &w.books}
	g.env = settings{clientSetting: strings.Join(urls, ",")}
	g.start()
	w.whole.Cleanup(g.kill)
	w.gophers = append(w.gophers, g)
}

// start begins a life of the process.
func (g *gopher) start() {
	g.t.Helper()
	out, in, err := os.Pipe()
	check.Must(g.t, err)
	defer in.Close()
	cmd := g.env.Command(os.TempDir(), os.Args[0])
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	g.process = rig.Start(g.t, cmd, "")
	g.reader.Go(func() {
		defer out.Close()
		g.read(out)
	})
}

// read enters what the process delivers. What it was writing when it was killed was not
// delivered.
func (g *gopher) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			g.books.Complain("%s: %v: %.200q", g.name, err, line)
			return
		}
		if d.App < 0 {
			g.books.Add(g.name, rig.List{App: d.App}, d.IDs...)
		} else {
			g.books.Queue(g.name, d.App, d.Pass, d.IDs...)
		}
		g.drawn.Add(int64(len(d.IDs)))
		if d.App == leasedList.App {
			g.made.Add(int64(len(d.IDs)))
		}
	}
}

// kill ends the process and reads what it delivered.
func (g *gopher) kill() {
	g.process.Kill()
	g.reader.Wait()
}

// verify returns when the process draws new IDs from the replicas, more than it holds of any
// source, and makes some itself.
func (g *gopher) verify(w *world) {
	w.t.Helper()
	begun, made := g.drawn.Load(), g.made.Load()
	w.until(g.name+" draws again", func() error {
		if n, own := g.drawn.Load()-begun, g.made.Load()-made; n-own < 100 || own < 100 {
			return fmt.Errorf("%d IDs, %d of them its own", n, own)
		}
		return nil
	})
}

func (w *world) someGopher() *gopher { return w.gophers[w.rnd.IntN(len(w.gophers))] }
