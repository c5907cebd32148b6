package loadgen

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
)

// issuer is a server of IDs that rise from 1; the tests spoil it.
type issuer struct {
	last atomic.Int64
	// spoil may answer instead; true means that it did. It may be nil.
	spoil func(w http.ResponseWriter, r *http.Request, n int64) bool
	asked atomic.Int64
	// repeat is an ID that is replaced by 1; 0 for none.
	repeat int64
}

func (s *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.asked.Add(1)
	if s.spoil != nil && s.spoil(w, r, n) {
		return
	}
	count, _ := strconv.ParseInt(r.FormValue("count"), 10, 64) // 0 for a single ID
	end := s.last.Add(max(count, 1))
	ids := make([]string, 0, max(count, 1))
	for id := end - max(count, 1) + 1; id <= end; id++ {
		if id == s.repeat {
			ids = append(ids, "1")
			continue
		}
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	switch {
	case !strings.HasPrefix(r.URL.Path, "/get"):
		fmt.Fprint(w, strings.Join(ids, "\n"))
	case count > 0:
		fmt.Fprintf(w, `{"code":0,"ids":[%s]}`, strings.Join(ids, ","))
	default:
		fmt.Fprintf(w, `{"code":0,"id":%s,"idStr":%q}`, ids[0], ids[0])
	}
}

// serve starts a server that ends with the test.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// brief are the options of a short run.
func brief(url string) Options {
	o := Defaults()
	o.URL, o.Duration, o.Warmup, o.Timeout, o.Concurrency = url, 200*time.Millisecond, 0, 20*time.Second, 8
	return o
}

// mustRun runs and expects a report.
func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	report, _ := execute(t, o)
	return report
}

// execute also gives the run, with all latencies.
func execute(t *testing.T, o Options) (*Report, *run) {
	t.Helper()
	l, err := New(o)
	check.Must(t, err)
	r, err := l.execute(t.Context())
	check.Must(t, err)
	return r.report(), r
}

// slowerThan counts the latencies above d.
func (r *run) slowerThan(d time.Duration) (n int64) {
	for _, bar := range r.latency.Distribution() {
		if bar.From > int64(d) {
			n += bar.Count
		}
	}
	return n
}

// runError is the error of a run that cannot begin.
func runError(t *testing.T, ctx context.Context, o Options) error {
	t.Helper()
	l, err := New(o)
	if err != nil {
		return err
	}
	report, err := l.Run(ctx)
	if err == nil {
		t.Fatalf("it ran: %+v", report)
	}
	return err
}

// gate holds requests back while it is shut.
type gate struct{ mu sync.RWMutex }

func (g *gate) pass() { g.mu.RLock(); defer g.mu.RUnlock() }

func (g *gate) shutFor(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	time.Sleep(d)
}

// restartable is a server that can be away for a while.
type restartable struct {
	t      *testing.T
	h      http.Handler
	addr   string
	server *http.Server
	served sync.WaitGroup
}

func newRestartable(t *testing.T, h http.Handler) *restartable {
	t.Helper()
	s := &restartable{t: t, h: h, addr: "127.0.0.1:0"}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *restartable) start() {
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.addr, s.server = l.Addr().String(), &http.Server{Handler: s.h}
	s.served.Go(func() { _ = s.server.Serve(l) }) // until stop
}

// stop breaks all connections.
func (s *restartable) stop() {
	_ = s.server.Close()
	s.served.Wait()
}
