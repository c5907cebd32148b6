package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain finds goroutines of a client that outlive it. Leak detectors are modules, which
// users of this one would get too.
func TestMain(m *testing.M) {
	code := m.Run()
	for till := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("hold.(*Pool)")) && !bytes.Contains(stacks, []byte("client.(*Client)")) &&
			!bytes.Contains(stacks, []byte("client.(*Generator)")) {
			break
		}
		if time.Now().After(till) {
			fmt.Printf("goroutines are left:\n%s", stacks)
			code = 1
			break
		}
	}
	os.Exit(code)
}

// service answers /v1 as shardid does: each path counts on its own, by its stride, in
// ranges of at most most IDs.
type service struct {
	mu       sync.Mutex
	last     map[string]int64
	most     int
	requests atomic.Int64
	issued   atomic.Int64
	refuse   atomic.Pointer[answer] // answered in place of IDs
	status   atomic.Int64           // of refuse
	delay    atomic.Int64           // in nanoseconds, before an answer
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	time.Sleep(time.Duration(s.delay.Load()))
	if refuse := s.refuse.Load(); refuse != nil {
		w.WriteHeader(int(s.status.Load()))
		_ = json.NewEncoder(w).Encode(refuse)
		return
	}
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	stride := int64(1)
	if strings.HasPrefix(r.URL.Path, "/v1/queue/") {
		stride = 1 << 14
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]int64{}
	}
	if strings.HasPrefix(r.URL.Path, "/v1/segment/numbers/") {
		texts := []string{}
		for range count {
			s.last[r.URL.Path]++
			texts = append(texts, fmt.Sprintf("O-%04d", s.last[r.URL.Path]))
		}
		_ = json.NewEncoder(w).Encode(answer{IDs: texts})
		return
	}
	var ranges []string
	for left := count; left > 0; {
		n := min(left, s.most)
		left -= n
		ranges = append(ranges, fmt.Sprintf(`{"first":"%d","count":%d,"stride":"%d"}`, s.last[r.URL.Path]+stride, n,
			stride))
		s.last[r.URL.Path] += int64(n+1) * stride // a gap
	}
	s.issued.Add(int64(count))
	_, _ = fmt.Fprintf(w, `{"code":0,"ranges":[%s]}`, strings.Join(ranges, ","))
}

func start(tb testing.TB, s *service) string {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	return server.URL
}

func newClient(tb testing.TB, opts Options) *Client {
	tb.Helper()
	c, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}
