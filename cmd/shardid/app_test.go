package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
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
	if s.HTTP2.MaxConcurrentStreams > 100 || s.HTTP2.WriteByteTimeout <= 0 {
		t.Errorf("streams: %+v", s.HTTP2)
	}
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
	log := slog.New(slog.DiscardHandler)
	t.Setenv("NOTIFY_SOCKET", "")
	notify(t.Context(), log, "X=1") // to nobody
	t.Setenv("NOTIFY_SOCKET", path)
	notify(t.Context(), log, notifyReady)

	check.Must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	got := make([]byte, 100)
	n, _, err := conn.ReadFrom(got)
	if err != nil || string(got[:n]) != "READY=1" {
		t.Errorf("%q, %v", got[:n], err)
	}
}
