package main

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/scripts/check"
)

// TestServerOutlastsItsCallers: a deadline of the connection that ends while a
// request waits would cancel it.
func TestServerOutlastsItsCallers(t *testing.T) {
	cfg := config.Defaults().Config
	cfg.Server.RequestTimeout = time.Minute
	if l := limits(cfg); l.Active <= time.Minute || l.Most < 1 {
		t.Errorf("%+v", l)
	}
	cfg.Server.TLSCertFile = "cert.pem"
	s := newServer(cfg, nil, nil, slog.New(slog.DiscardHandler))
	if s.ReadTimeout <= time.Minute || s.WriteTimeout <= time.Minute || s.IdleTimeout <= 0 {
		t.Errorf("streams: read %v, write %v, idle %v", s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
	}
}

// The percentage follows the heap from collection to collection, and not at all
// when the operator sets one.
func TestWidenGC(t *testing.T) {
	const normal = 100
	current := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(normal))
	t.Setenv("GOGC", "100")
	widenGC()
	runtime.GC()
	check.Equal(t, current(), normal, "with GOGC set")
	t.Setenv("GOGC", "")
	widenGC()
	await := func(what string, want func(int) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !want(current()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s: %d %%", what, current())
			}
		}
	}
	func() {
		held := make([]byte, 2*heapRoom)
		await("with a large heap", func(p int) bool { return p == normal })
		runtime.KeepAlive(held)
	}()
	await("with a small one", func(p int) bool { return p > normal+50 })
}

// TestNotify: what systemd is told arrives, and nothing is said without it.
func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify") //nolint:usetesting // t.TempDir is longer than a socket's path may be
	check.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	conn, err := net.ListenPacket("unixgram", path)
	check.Must(t, err)
	defer conn.Close()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	t.Setenv("NOTIFY_SOCKET", "")
	notify(t.Context(), log, "X=1") // to nobody
	t.Setenv("NOTIFY_SOCKET", path)
	notify(t.Context(), log, notifyReady)

	check.Must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got := make([]byte, 100)
	n, _, err := conn.ReadFrom(got)
	if err != nil || string(got[:n]) != "READY=1" || out.Len() != 0 {
		t.Errorf("%q, %v, log %q", got[:n], err, &out)
	}
	t.Setenv("NOTIFY_SOCKET", path+".gone")
	notify(t.Context(), log, notifyStopping)
	if !strings.Contains(out.String(), "systemd could not be told") {
		t.Errorf("log: %q", &out)
	}
}
