//go:build unix

package main

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

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
