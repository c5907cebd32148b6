// Command load asks one server as fast as one core can, or at a rate, and prints how fast it was
// answered. It looks at no ID and reads no more of an answer than where it ends: an HTTP client of a
// program costs several times as much, and then the load is what is measured. `shardid bench` looks
// for duplicates.
//
//	load URL CONNECTIONS WARMUP DURATION RATE PIPELINE
//
// URL is http:// or redis://, RATE is 0 for a closed loop, and PIPELINE is how many commands of RESP
// are sent together. Standard input has what is asked for, in turns: a path, or a command, a line.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// load is one run.
type load struct {
	url                *url.URL
	requests           [][]byte // they take turns; each holds a whole pipeline
	pipeline           int
	rate               float64 // requests a second
	begun, from, until time.Time
	turns              atomic.Int64
}

func main() {
	l, connections := read(os.Args[1:], os.Stdin)
	latency := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			own := l.ask()
			mu.Lock()
			defer mu.Unlock()
			latency.Merge(own)
		})
	}
	all.Wait()
	n := latency.TotalCount() * int64(l.pipeline)
	ms := func(percent float64) float64 { return float64(latency.ValueAtQuantile(percent)) / 1000 }
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"requests": n, "ids": n, "requestsPerSecond": float64(n) / time.Since(l.from).Seconds(),
		"latency": map[string]float64{"p50": ms(50), "p99": ms(99), "p99.9": ms(99.9), "max": ms(100)},
	})
}

// read makes a run of the command line and of what is to be asked.
func read(args []string, stdin io.Reader) (l *load, connections int) {
	l = &load{begun: time.Now()}
	var where, warmup, length string
	line := strings.Join(args, " ")
	if _, err := fmt.Sscan(line, &where, &connections, &warmup, &length, &l.rate, &l.pipeline); err != nil {
		log.Fatal("usage: load URL CONNECTIONS WARMUP DURATION RATE PIPELINE: ", err)
	}
	var errs [3]error
	var before, measured time.Duration
	l.url, errs[0] = url.Parse(where)
	before, errs[1] = time.ParseDuration(warmup)
	measured, errs[2] = time.ParseDuration(length)
	if errs != [3]error{} {
		log.Fatal(errs)
	}
	l.from = l.begun.Add(before)
	l.until = l.from.Add(measured)
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		request := "GET " + lines.Text() + " HTTP/1.1\r\nHost: " + l.url.Host + "\r\n\r\n"
		if l.url.Scheme == "redis" {
			words := strings.Fields(lines.Text())
			request = fmt.Sprintf("*%d\r\n", len(words))
			for _, word := range words {
				request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
			}
		}
		l.requests = append(l.requests, []byte(strings.Repeat(request, l.pipeline)))
	}
	return l, connections
}

// ask is one connection, until the time is up. It gives the latencies that are measured.
func (l *load) ask() *hdrhistogram.Histogram {
	latency := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	conn, err := net.Dial("tcp", l.url.Host)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(l.until.Add(30 * time.Second))
	in, end := bufio.NewReaderSize(conn, 64<<10), skipHTTP
	if l.url.Scheme == "redis" {
		end = skipRESP
	}
	for {
		turn, due := l.turns.Add(1)-1, time.Now()
		if l.rate > 0 {
			due = l.begun.Add(time.Duration(float64(turn*int64(l.pipeline)) / l.rate * float64(time.Second)))
			if early := time.Until(due); early > 0 {
				time.Sleep(early)
				due = time.Now() // a timer that comes late is not the server's fault
			}
		}
		if !time.Now().Before(l.until) {
			return latency
		}
		if _, err := conn.Write(l.requests[turn%int64(len(l.requests))]); err != nil {
			log.Fatal(err)
		}
		for range l.pipeline {
			if err := end(in); err != nil {
				log.Fatal(err)
			}
		}
		if due.After(l.from) {
			_ = latency.RecordValue(min(time.Since(due), time.Hour).Microseconds()) // it fits
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
