// Command peers issues IDs by generators in Go, in the process, for scripts/compare.
//
// peers NUMBER KIND… reads commands from its standard input, one a line. "take N" has all generators issue N IDs at
// once, one a millisecond, and fewer if one refuses for a second more; "speed" measures one after the other. An answer
// has a line of the kind and an ID, or the nanoseconds of one, and "KIND ! why" for the last refusal; "done" ends it. A
// generator is made for its first ID. NUMBER is for those whose pages ask for a number that no other process has.
//
// peers forward FROM=TO… carries connections, such as tcp:127.0.0.1:6379=unix:/tmp/socket.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/sony/sonyflake/v2"
)

// generator issues an ID. One goroutine calls it at a time.
type generator func() (id string, err error)

// newGenerator makes one as the page of its makers shows it, with their defaults.
func newGenerator(kind string, number int64) (generator, error) {
	switch kind {
	case "bwmarrin":
		node, err := snowflake.NewNode(number)
		return func() (string, error) { return node.Generate().String(), nil }, err
	case "sonyflake":
		sf, err := sonyflake.New(sonyflake.Settings{})
		return texts(func() (int64, error) { return sf.NextID() }), err
	case "uuid":
		return func() (string, error) { id, err := uuid.NewV7(); return id.String(), err }, nil
	}
	replicas := os.Getenv("COMPARE_SHARDID")
	if kind == "lease-alone" {
		replicas = os.Getenv("COMPARE_ALONE")
	}
	c, err := client.New(client.Options{Addrs: strings.Split(replicas, ",")})
	if err != nil {
		return nil, err
	}
	if kind == "client" {
		orders := c.Segment("orders")
		return texts(func() (int64, error) { return orders.Next(context.Background()) }), nil
	}
	var made atomic.Pointer[client.Generator]
	go func() {
		for made.Load() == nil {
			g, err := c.Generator(context.Background(), "demo")
			if err == nil {
				made.Store(g)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return texts(func() (int64, error) {
		if g := made.Load(); g != nil {
			return g.Next()
		}
		return 0, errors.New("no worker ID yet")
	}), nil
}

func texts(next func() (int64, error)) generator {
	return func() (string, error) { id, err := next(); return strconv.FormatInt(id, 10), err }
}

// peer is a generator, nil before it could be made.
type peer struct {
	kind     string
	number   int64
	generate generator
}

func (p *peer) next() (id string, err error) {
	if p.generate == nil {
		made, err := newGenerator(p.kind, p.number)
		if err != nil {
			return "", err
		}
		p.generate = made
	}
	return p.generate()
}

func (p *peer) take(n int) {
	var why error
	for i, begun := 1, time.Now(); i <= n; i++ {
		if id, err := p.next(); err == nil {
			say(p.kind, id)
		} else if why = err; time.Since(begun) > time.Duration(n)*time.Millisecond+time.Second {
			break
		}
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Millisecond)))
	}
	if why != nil {
		say(p.kind, "!", strings.ReplaceAll(why.Error(), "\n", " "))
	}
}

func (p *peer) speed() {
	n, begun := 0, time.Now()
	for ; n%1000 != 0 || time.Since(begun) < 2*time.Second; n++ {
		if _, err := p.next(); err != nil {
			say(p.kind, "!", err)
			return
		}
	}
	say(p.kind, fmt.Sprintf("%.1f", float64(time.Since(begun).Nanoseconds())/float64(n)))
}

var saying sync.Mutex

func say(words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(words...)
}

func main() {
	if os.Args[1] == "forward" {
		log.Fatal(forward(os.Args[2:]))
	}
	number, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	var peers []*peer
	for _, kind := range os.Args[2:] {
		peers = append(peers, &peer{kind: kind, number: number})
	}
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); say("done") {
		n, err := strconv.Atoi(strings.TrimPrefix(commands.Text(), "take "))
		var all sync.WaitGroup
		for _, p := range peers {
			if err != nil { // it is "speed"
				p.speed()
			} else {
				all.Go(func() { p.take(n) })
			}
		}
		all.Wait()
	}
}

// forward returns when it cannot go on.
func forward(pairs []string) error {
	failed := make(chan error)
	for _, pair := range pairs {
		from, to, _ := strings.Cut(pair, "=")
		network, address, _ := strings.Cut(from, ":")
		listener, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		go func() {
			for {
				near, err := listener.Accept()
				if err != nil {
					failed <- err
					return
				}
				go carry(near, to)
			}
		}()
	}
	say("ready")
	return <-failed
}

func carry(near net.Conn, to string) {
	defer near.Close()
	network, address, _ := strings.Cut(to, ":")
	far, err := net.Dial(network, address)
	if err != nil {
		return // the one who connected sees that
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near) // either end may go
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
}
