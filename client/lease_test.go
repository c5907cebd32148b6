package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestGeneratorRefused(t *testing.T) {
	s := &lessor{status: http.StatusNotFound}
	c := newClient(t, Options{Addrs: []string{s.start(t)}, Timeout: 100 * time.Millisecond})
	var refused *Error
	if _, err := c.Generator(t.Context(), "orders"); !errors.As(err, &refused) || refused.Code != CodeUnknown || errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
	s.set(func() { s.status = http.StatusServiceUnavailable })
	if _, err := c.Generator(t.Context(), "orders"); !errors.As(err, &refused) || !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}

// With what no shardid answers IDs could repeat, or be negative.
func TestLeaseIsChecked(t *testing.T) {
	good := lease{Name: "orders", Secret: "x", Epoch: testEpoch, WorkerBits: 10, SeqBits: 12, Until: testEpoch + 1, RenewMs: 1, WorkerID: 1023}
	if err := good.check("orders"); err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(*lease){
		func(l *lease) { l.Name = "other" }, func(l *lease) { l.Secret = "" }, func(l *lease) { l.WorkerID = 1024 }, func(l *lease) { l.WorkerID = -1 },
		func(l *lease) { l.WorkerBits = 0 }, func(l *lease) { l.SeqBits = 0 }, func(l *lease) { l.SeqBits = 15 }, func(l *lease) { l.WorkerBits = 1 << 40 },
		func(l *lease) { l.Epoch = -1 }, func(l *lease) { l.After = -1 }, func(l *lease) { l.After = l.maxMs() + 1 }, func(l *lease) { l.RenewMs = 0 },
	} {
		l := good
		spoil(&l)
		if err := l.check("orders"); err == nil {
			t.Errorf("%d: %+v is good", i, l)
		}
	}
}

// At the end of the layout's time there are no IDs, and no negative ones.
func TestLayoutEnds(t *testing.T) {
	l := lease{Name: "orders", Secret: "x", WorkerBits: 12, SeqBits: 12, Until: 1 << 50, WorkerID: 4095}
	now := int64(1<<39-1) * 1e6
	g := &Generator{clock: func() (int64, time.Duration) { return now, 0 }, hurry: make(chan struct{}, 1)}
	g.begin(l)
	ids, err := g.Take(1000)
	if err != nil || slices.Min(ids) < 1<<62 {
		t.Error(ids, err)
	}
	now += 1e6
	if id, err := g.Next(); !errors.Is(err, ErrNoLease) || id != 0 || !strings.Contains(fmt.Sprint(err), "bits of time are used up") {
		t.Error(id, err)
	}
}

// A replica of an older version does not have the path; another one leases and renews.
func TestOlderReplica(t *testing.T) {
	older := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":-10,"message":"no such path"}`))
	}))
	defer older.Close()
	c := newClient(t, Options{Addrs: []string{older.URL, (&lessor{hold: time.Minute, renew: 20 * time.Second, seqBits: 12}).start(t)}})
	for range 4 { // whichever is asked first
		l, err := c.acquire(t.Context(), "orders")
		if err == nil {
			_, err = c.renew(t.Context(), l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	alone := newClient(t, Options{Addrs: []string{older.URL}})
	var refused *Error
	if _, err := alone.acquire(t.Context(), "orders"); !errors.As(err, &refused) || refused.Code != CodeNoRoute || errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
}
