package loadgen

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// issuer is a server of IDs that rise from 1, over HTTP and RESP. spoil changes them, or gives an
// error, which has the form of RESP.
type issuer struct {
	last  atomic.Int64
	spoil func(id int64) (int64, error)
}

func (s *issuer) next(count int) (ids []string, err error) {
	for range count {
		id := s.last.Add(1)
		if s.spoil != nil {
			if id, err = s.spoil(id); err != nil {
				return nil, err
			}
		}
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	return ids, nil
}

// ServeHTTP answers as shardid does: the paths of Leaf and UidGenerator with lines, the others in JSON.
func (s *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	count, _ := strconv.Atoi(r.FormValue("count")) // 0 for a single ID
	ids, err := s.next(max(1, count))
	switch {
	case err != nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"code":-4,"message":%q}`, err)
	case r.URL.Path == "/get" && count == 0:
		fmt.Fprintf(w, `{"code":0,"id":%s,"idStr":%q}`, ids[0], ids[0])
	case r.URL.Path == "/get":
		fmt.Fprintf(w, `{"code":0,"ids":[%s]}`, strings.Join(ids, ","))
	case r.URL.Path == "/v1/sequence/chat/ids":
		fmt.Fprintf(w, `{"code":0,"ids":["%s"]}`, strings.Join(ids, `","`))
	case strings.HasPrefix(r.URL.Path, "/api/"):
		fmt.Fprintln(w, strings.Join(ids, "\n"))
	default:
		http.NotFound(w, r)
	}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// serveRESP serves clients of Redis; name is what INFO says that the server is.
func serveRESP(t *testing.T, s *issuer, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go s.talk(conn, name)
		}
	}()
	return "redis://" + l.Addr().String()
}

func (s *issuer) talk(conn net.Conn, name string) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		var n int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		args := make([]string, n)
		for i := range args {
			_, _ = in.ReadString('\n') // the length: no argument has a space
			line, _ := in.ReadString('\n')
			args[i] = strings.TrimSpace(line)
		}
		switch info := "# Server\r\nserver_name:" + name + "\r\n"; args[0] {
		case "info":
			fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
		case "incr", "LPOP":
			count, _ := strconv.Atoi(append(args, "1")[2])
			ids, err := s.next(count)
			switch {
			case err != nil:
				fmt.Fprintf(conn, "-SHARDID -4 %s\r\n", err)
			case args[0] == "incr":
				fmt.Fprintf(conn, ":%s\r\n", ids[0])
			default:
				fmt.Fprintf(conn, "*%d\r\n+%s\r\n", count, strings.Join(ids, "\r\n+"))
			}
		default:
			fmt.Fprintf(conn, "-ERR unknown command '%s'\r\n", args[0])
		}
	}
}

// brief are the options of a short run.
func brief(url string) Options {
	return Options{URL: url, Mode: "queue", App: 7, Tag: "a/b", Space: "chat", Passes: 100, Concurrency: 4,
		Duration: 100 * time.Millisecond, Timeout: 20 * time.Second}
}

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	check.Must(t, err)
	return report
}

// Every mode asks for what the contract says and reads the answers, of single IDs and of batches.
func TestModes(t *testing.T) {
	s := &issuer{}
	for _, url := range []string{serve(t, s), serveRESP(t, s, "shardid")} {
		for _, mode := range []string{"queue", "segment", "snowflake", "uid", "sequence"} {
			for _, count := range []int{0, 3} {
				o := brief(url)
				o.Mode, o.Count, o.Rate = mode, count, float64(count*1000)
				r := mustRun(t, o)
				size := int64(max(1, count))
				if r.Requests == 0 || r.IDs != r.Requests*size || r.Failed != 0 || r.Duplicates != 0 || r.Latency["p50"] <= 0 {
					t.Errorf("%s of %s, %d: %+v", mode, url, count, r)
				}
				if compared := r.ComparedIDs; mode != "sequence" && compared != r.IDs+size || mode == "sequence" && compared != 0 {
					t.Errorf("%s: %d of %d IDs were compared", mode, compared, r.IDs)
				}
			}
		}
	}
}

// All shards get as many requests.
func TestShards(t *testing.T) {
	requests := map[uint8]int{}
	for turn := range 1024 {
		_, key := Options{Mode: "queue", App: 7, Passes: 1024}.target(turn)
		requests[model.ShardOf(strings.TrimPrefix(key, "queue:7:"))]++
	}
	check.Equal(t, len(requests), model.Shards, "shards")
	check.Equal(t, requests[0], 1024/model.Shards, "requests of a shard")
}

// An ID that comes for the second time is found, whoever got it, and so is one that no server may
// issue. Refusals are counted by kind, and the first error is shown.
func TestAnswers(t *testing.T) {
	s := &issuer{spoil: func(id int64) (int64, error) {
		switch id {
		case 3:
			return 0, errors.New("the list is empty")
		case 4:
			return 0, nil
		case 5:
			return 2, nil
		}
		return id, nil
	}}
	for url, kind := range map[string]string{serve(t, s): "503 code -4", serveRESP(t, s, "shardid"): "code -4"} {
		s.last.Store(0)
		o := brief(url)
		o.Concurrency = 1
		r := mustRun(t, o)
		if r.Duplicates != 1 || fmt.Sprint(r.FirstDuplicates) != "[2]" || r.Failed != 2 || r.Errors[kind] != 1 ||
			r.Errors[BadAnswer] != 1 || r.FirstError != kind+": the list is empty" {
			t.Errorf("%+v", r)
		}
	}
}

// A stall of the server counts for every request that was due in it, and a closed loop ends in time.
func TestStall(t *testing.T) {
	s := &issuer{spoil: func(id int64) (int64, error) {
		time.Sleep(100 * time.Millisecond)
		return id, nil
	}}
	o := brief(serve(t, s))
	if r := mustRun(t, o); r.Requests < 4 || r.Requests > 8 || r.Unsent != 0 {
		t.Errorf("%+v", r)
	}
	o.Rate, o.Duration = 1000, 500*time.Millisecond
	if r := mustRun(t, o); r.Unsent < 400 || r.Requests+r.Unsent < 490 || r.Latency["p50"] < 200 {
		t.Errorf("%+v", r)
	}
}

// A path of any server is fetched, over TLS and with a token.
func TestRaw(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/below/ping" || r.Header.Get("Authorization") != "Bearer secret" || r.ProtoMajor != 1 {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, "pong")
	}))
	t.Cleanup(s.Close)
	o := brief(s.URL + "/below/")
	o.Raw, o.Token, o.TLS = "/ping", "secret", &tls.Config{InsecureSkipVerify: true}
	if r := mustRun(t, o); r.Requests == 0 || r.Failed+r.IDs+r.ComparedIDs != 0 {
		t.Errorf("%+v", r)
	}
	o.Token = ""
	_, err := Run(t.Context(), o)
	check.Has(t, fmt.Sprint(err), "403")
}

// A run that is interrupted reports what was done until then; a server that goes away is counted.
func TestEnds(t *testing.T) {
	s := httptest.NewServer(&issuer{})
	ctx, cancel := context.WithCancel(t.Context())
	o := brief(s.URL)
	o.Duration = time.Hour
	o.Progress = func(r Report) {
		s.Close()
		if r.Failed > 0 {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	if err != nil || !r.Interrupted || r.Errors["connection refused"] == 0 || r.Duration > 60 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A run that cannot begin says what to do, and changes nothing on a Redis.
func TestCannotBegin(t *testing.T) {
	s := &issuer{}
	other := serveRESP(t, s, "redis")
	for want, change := range map[string]func(*Options){
		"connection refused": func(o *Options) { o.URL = "http://127.0.0.1:1" },
		"give --url like":    func(o *Options) { o.URL = "127.0.0.1:8080" },
		"give --mode":        func(o *Options) { o.Mode = "uuid" },
		"give --concurrency": func(o *Options) { o.Concurrency = 0 },
		"give an http://":    func(o *Options) { o.URL, o.Raw = other, "/ping" },
		"is no shardid":      func(o *Options) { o.URL = other },
		"404":                func(o *Options) { o.URL += "/elsewhere" },
	} {
		o := brief(serve(t, s))
		change(&o)
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check.Equal(t, s.last.Load(), 1, "IDs that were issued, of the page that is not there")
}
