//go:build unix

package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/client"
	"shardid/scripts/rig"
)

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
	if err != nil {
		g.t.Fatal(err)
	}
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

// someGopher is nil where there are none: the plain design serves no Go clients.
func (w *world) someGopher() *gopher {
	if len(w.gophers) == 0 {
		return nil
	}
	return w.gophers[w.rnd.IntN(len(w.gophers))]
}
