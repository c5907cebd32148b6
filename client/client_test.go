package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Many goroutines, several sources, one and many at a time: no ID twice.
func TestNoIDTwice(t *testing.T) {
	for held, rounds := range map[int]int{1: 2, 7: 10, 0: 100} {
		s := &service{most: 300}
		c := newClient(t, Options{Addrs: []string{start(t, s)}, MaxHeld: held})
		var mu sync.Mutex
		seen := map[string]bool{}
		issued := func(source string, err error, ids ...int64) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				key := source + strconv.FormatInt(id, 10)
				if seen[key] || id <= 0 {
					t.Errorf("%s was issued before", key)
				}
				seen[key] = true
			}
		}
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range rounds {
					id, err := c.Segment("orders").Next(t.Context())
					issued("orders/", err, id)
					id, err = c.Queue(7).Next(t.Context(), "user-"+strconv.Itoa(i%3))
					issued("shard"+strconv.Itoa(i%3)+"/", err, id)
					ids, err := c.Snowflake().Take(t.Context(), 100+g)
					if len(ids) != 100+g {
						t.Errorf("%d IDs", len(ids))
					}
					issued("snowflake/", err, ids...)
				}
			})
		}
		wg.Wait()
	}
}

func TestErrors(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}, Timeout: 300 * time.Millisecond, MaxHeld: 1})
	s.status.Store(409)
	s.refuse.Store(&answer{Code: -5, Message: "app reached its limit"})
	var refused *Error
	if _, err := c.Queue(1).Next(t.Context(), "alice"); !errors.As(err, &refused) || refused.Code != -5 ||
		refused.Status != 409 {
		t.Errorf("%v", err)
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("a refusal was repeated: %d requests", n)
	}
	s.status.Store(503)
	s.refuse.Store(&answer{Code: -4, Message: "queue is empty"})
	began := time.Now()
	if _, err := c.Queue(1).Take(t.Context(), "alice", 3); !errors.As(err, &refused) || refused.Code != CodeEmpty ||
		!errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < 250*time.Millisecond || took > 5*time.Second {
		t.Errorf("gave up after %v", took)
	}
	s.refuse.Store(nil)
	if _, err := c.Queue(1).Next(t.Context(), "alice"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if _, err := c.Queue(1).Next(t.Context(), ""); err == nil {
		t.Error("an empty gatePass was taken")
	}
	for _, n := range []int{-1, 0, MaxTake + 1, 1 << 62} {
		if _, err := c.UID().Take(t.Context(), n); err == nil {
			t.Errorf("%d IDs were taken", n)
		}
	}
	s.delay.Store(int64(200 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.UID().Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for _, opts := range []Options{{}, {Addrs: []string{"localhost:8080"}},
		{Addrs: []string{"http://:8080"}}, {Addrs: []string{"http://x/?a=b"}},
		{Addrs: []string{"http://user:pass@x"}}, {Addrs: []string{"http://x#a"}}, {Addrs: []string{"ftp://x"}},
		{Addrs: []string{"http://x"}, MaxHeld: -1}} {
		if _, err := New(opts); err == nil {
			t.Errorf("%+v was taken", opts)
		}
	}
}

func TestClose(t *testing.T) {
	s := &service{most: 1 << 20}
	c := newClient(t, Options{Addrs: []string{start(t, s)}})
	if _, err := c.UID().Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.delay.Store(int64(300 * time.Millisecond))
	waits := make(chan error, 1)
	go func() { _, err := c.Segment("slow").Next(t.Context()); waits <- err }()
	for s.requests.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	for _, source := range []*Source{c.UID(), c.Segment("slow"), c.Segment("new")} {
		if _, err := source.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// Business numbers are asked for when they are wanted, each once.
func TestNumbers(t *testing.T) {
	s := &service{most: 100}
	c := newClient(t, Options{Addrs: []string{"http://127.0.0.1:1", start(t, s)}})
	orders := c.Number("numbers")
	text, err := orders.Next(t.Context())
	if err != nil || text != "O-0001" {
		t.Fatalf("%q, %v", text, err)
	}
	texts, err := orders.Take(t.Context(), 3)
	if err != nil || strings.Join(texts, " ") != "O-0002 O-0003 O-0004" || s.requests.Load() != 2 {
		t.Fatalf("%q, %v, %d requests", texts, err, s.requests.Load())
	}
	for _, n := range []int{0, maxBatch + 1} {
		if texts, err := orders.Take(t.Context(), n); err == nil {
			t.Errorf("%d: %q", n, texts)
		}
	}
	s.refuse.Store(&answer{Code: -5, Message: "no more today"})
	s.status.Store(http.StatusConflict)
	var refused *Error
	if text, err := orders.Next(t.Context()); !errors.As(err, &refused) || refused.Code != -5 {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := orders.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("%q, %v", text, err)
	}
}

func TestZeroValuesSayUseNew(t *testing.T) {
	var c Client
	for what, ask := range map[string]func() error{
		"Source":      func() error { _, err := new(Source).Next(t.Context()); return err },
		"Take":        func() error { _, err := new(Source).Take(t.Context(), 1); return err },
		"Queue":       func() error { _, err := new(Queue).Next(t.Context(), "alice"); return err },
		"Number":      func() error { _, err := new(Number).Next(t.Context()); return err },
		"Queue()":     func() error { _, err := c.Queue(1).Take(t.Context(), "alice", 1); return err },
		"Segment()":   func() error { _, err := c.Segment("a").Next(t.Context()); return err },
		"Number()":    func() error { _, err := c.Number("a").Next(t.Context()); return err },
		"Sequence()":  func() error { _, err := c.Sequence("a").Next(t.Context(), "k"); return err },
		"Current()":   func() error { _, err := c.Sequence("a").Current(t.Context(), "k"); return err },
		"UID()":       func() error { _, err := c.UID().Next(t.Context()); return err },
		"Close()":     c.Close,
		"Generator":   func() error { _, err := new(Generator).Next(); return err },
		"Take(1)":     func() error { _, err := new(Generator).Take(1); return err },
		"its Close":   new(Generator).Close,
		"Generator()": func() error { _, err := c.Generator(t.Context(), "orders"); return err },
	} {
		if err := ask(); !errors.Is(err, ErrZero) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
