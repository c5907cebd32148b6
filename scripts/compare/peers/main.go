// Command peers issues IDs by generators in Go, in the process, for scripts/compare: peers PORT NUMBER KIND…
//
// GET /KIND?count=N answers as shardid does, with N IDs, one a millisecond, or with those before a refusal and with its
// message. Where N is 0 the answer has the nanoseconds that an ID takes instead. A generator is made when it is first
// asked. NUMBER is for those whose pages ask for a number that no other process has.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
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
	c, err := client.New(client.Options{Addrs: strings.Split(os.Getenv("SHARDID_URLS"), ",")})
	if err != nil {
		return nil, err
	}
	if kind == "client" {
		orders := c.Segment("orders")
		return texts(func() (int64, error) { return orders.Next(context.Background()) }), nil
	}
	leased, err := c.Generator(context.Background(), "demo")
	if err != nil {
		_ = c.Close() // another one will be made
		return nil, err
	}
	return texts(leased.Next), nil
}

func texts(next func() (int64, error)) generator {
	return func() (string, error) { id, err := next(); return strconv.FormatInt(id, 10), err }
}

// peer is a generator, nil before it could be made.
type peer struct {
	kind     string
	number   int64
	mu       sync.Mutex
	generate generator
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var got struct {
		IDs     []string `json:"ids"`
		Message string   `json:"message"`
	}
	count, err := strconv.Atoi(r.FormValue("count"))
	if err == nil {
		got.IDs, err = p.issue(count)
	}
	if err != nil {
		got.Message = err.Error()
	}
	_ = json.NewEncoder(w).Encode(got) // who asked may have gone
}

func (p *peer) issue(count int) (ids []string, err error) {
	if p.generate == nil {
		made, err := newGenerator(p.kind, p.number)
		if err != nil {
			return nil, err
		}
		p.generate = made
	}
	if count == 0 {
		return p.measure()
	}
	for begun := time.Now(); len(ids) < count; {
		id, err := p.generate()
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
		time.Sleep(time.Until(begun.Add(time.Duration(len(ids)) * time.Millisecond)))
	}
	return ids, nil
}

func (p *peer) measure() ([]string, error) {
	var failed error
	did := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := p.generate(); err != nil {
				failed = err
			}
		}
	})
	return []string{fmt.Sprintf("%.1f", float64(did.T.Nanoseconds())/float64(did.N))}, failed
}

func main() {
	number, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range os.Args[3:] {
		http.Handle("/"+kind, &peer{kind: kind, number: number})
	}
	server := http.Server{Addr: "127.0.0.1:" + os.Args[1], ReadHeaderTimeout: time.Minute}
	log.Fatal(server.ListenAndServe())
}
