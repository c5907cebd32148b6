//go:build unix

package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy forwards to a Redis, counts the scripts it forwards, and can drop the
// replies to them once the server has executed them.
type proxy struct {
	addr, server string

	mu      sync.Mutex
	drop    bool // close the connection instead of answering a script
	stall   bool // keep the connection open and answer nothing
	scripts int  // EVAL and EVALSHA forwarded
	conns   []net.Conn
	wg      sync.WaitGroup
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), server: server}
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	c := &proxied{proxy: p}
	p.wg.Go(func() { c.replies(client, server) })
	c.requests(client, server)
	client.Close()
	server.Close()
}

// proxied is one connection.
type proxied struct {
	*proxy
	muted bool // under proxy.mu
}

func (c *proxied) requests(client, server net.Conn) {
	r := bufio.NewReader(client)
	for {
		words, raw, err := readCommand(r)
		if err != nil {
			return
		}
		c.mu.Lock()
		if name := strings.ToLower(words[0]); name == "eval" || name == "evalsha" {
			c.scripts++
			c.muted = c.muted || c.drop || c.stall
		}
		c.mu.Unlock()
		if _, err := server.Write(raw); err != nil {
			return
		}
	}
}

func (c *proxied) replies(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			client.Close()
			return
		}
		c.mu.Lock()
		muted, drop := c.muted, c.drop
		c.mu.Unlock()
		if !muted {
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		} else if drop {
			time.Sleep(20 * time.Millisecond) // a pipeline executes to its end
			client.Close()
			return
		}
	}
}

// fault sets what happens to replies and returns the scripts seen so far.
func (p *proxy) fault(drop, stall bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop, p.stall = drop, stall
	return p.scripts
}

// readCommand reads one command in the Redis protocol: *2 $3 GET $1 x.
func readCommand(r *bufio.Reader) (words []string, raw []byte, err error) {
	n, err := readNumber(r, '*', &raw)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		size, err := readNumber(r, '$', &raw)
		if err != nil {
			return nil, nil, err
		}
		raw = slices.Grow(raw, size+2)
		word := raw[len(raw) : len(raw)+size+2]
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, nil, err
		}
		raw = raw[:len(raw)+size+2]
		words = append(words, string(word[:size]))
	}
	return words, raw, nil
}

func readNumber(r *bufio.Reader, kind byte, raw *[]byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	*raw = append(*raw, line...)
	if line[0] != kind {
		return 0, fmt.Errorf("not a command: %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
