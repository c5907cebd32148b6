//go:build unix

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
)

// load asks one server as fast as one core can, or at a rate. It looks at no ID and reads no more of an answer than
// where it ends: an ordinary HTTP client costs several times as much as a server, and would be what is measured.
// `shardid bench` is the one that looks for duplicates.
type load struct {
	addr     string
	requests [][]byte // which take turns; each is a whole pipeline
	resp     bool
	pipeline int
	rate     int // requests a second; 0: each connection sends the next when the answer came

	begun, from, until time.Time
	turns              atomic.Int64
}

// connections is how many ask at a time.
const connections = 64

// newLoad asks for a path of HTTP, or by a command of RESP, with names in place of %s.
func newLoad(addr, ask string, pipeline, rate int) *load {
	l := &load{addr: addr, resp: !strings.HasPrefix(ask, "/"), pipeline: max(1, pipeline), rate: rate}
	for i := range 1024 {
		// The last characters of 64 names in a row follow each other: all shards are asked alike.
		name := fmt.Sprintf("bench-%d-%c", i/64, '?'+i%64)
		path := strings.ReplaceAll(ask, "%s", url.QueryEscape(name))
		request := "GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
		if l.resp {
			words := strings.Fields(strings.ReplaceAll(ask, "%s", name))
			request = fmt.Sprintf("*%d\r\n", len(words))
			for _, word := range words {
				request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
			}
		}
		l.requests = append(l.requests, []byte(strings.Repeat(request, l.pipeline)))
	}
	return l
}

// run asks for a while, warms up before that, and gives the speed and the latencies.
func (l *load) run(t *testing.T, warmup, length time.Duration) figures {
	t.Helper()
	l.begun = time.Now()
	l.from = l.begun.Add(warmup)
	l.until = l.from.Add(length)
	var mu sync.Mutex
	var callers sync.WaitGroup
	var took []time.Duration
	for range connections {
		callers.Go(func() {
			own, err := l.ask()
			mu.Lock()
			defer mu.Unlock()
			check.OK(t, err, "load of", l.addr)
			took = append(took, own...)
		})
	}
	callers.Wait()
	if t.Failed() || len(took) == 0 {
		t.Fatalf("%s gave %d answers", l.addr, len(took))
	}
	slices.Sort(took)
	ms := func(share float64) float64 { return took[int(float64(len(took)-1)*share)].Seconds() * 1000 }
	return figures{"req/s": float64(len(took)*l.pipeline) / time.Since(l.from).Seconds(),
		"p50": ms(0.5), "p99": ms(0.99), "p99.9": ms(0.999)}
}

// ask is one connection, until the time is up.
func (l *load) ask() (took []time.Duration, err error) {
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(l.until.Add(30 * time.Second)) // else the reads end it
	in, skip := bufio.NewReaderSize(conn, 64<<10), skipHTTP
	if l.resp {
		skip = skipRESP
	}
	for {
		turn, due := l.turns.Add(1)-1, time.Now()
		if l.rate > 0 {
			due = l.begun.Add(time.Duration(turn) * time.Second * time.Duration(l.pipeline) / time.Duration(l.rate))
			if early := time.Until(due); early > 0 {
				time.Sleep(early)
				due = time.Now() // a timer that comes late is not the server's fault
			}
		}
		if !time.Now().Before(l.until) {
			return took, nil
		}
		if _, err := conn.Write(l.requests[turn%int64(len(l.requests))]); err != nil {
			return nil, err
		}
		for range l.pipeline {
			if err := skip(in); err != nil {
				return nil, err
			}
		}
		if due.After(l.from) {
			took = append(took, time.Since(due))
		}
	}
}

// skipHTTP reads an answer with a Content-Length to its end.
func skipHTTP(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("%q instead of a 200: %w", line, err)
	}
	for length := 0; ; {
		if line, err = in.ReadSlice('\n'); err != nil {
			return err
		}
		if digits, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(digits)))
		}
		if len(line) == len("\r\n") {
			_, err = in.Discard(length)
			return err
		}
	}
}

// skipRESP reads an integer, or an array of bulk strings.
func skipRESP(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil || line[0] != ':' && line[0] != '*' {
		return fmt.Errorf("%q instead of a number: %w", line, err)
	}
	lines := 0
	if line[0] == '*' {
		lines, _ = strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	}
	for range 2 * lines {
		if _, err := in.ReadSlice('\n'); err != nil {
			return err
		}
	}
	return nil
}
