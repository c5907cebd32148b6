//go:build linux

package e2e_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestE2EClientsThatDoNotRead: 2500 clients that ask for large batches, one after the other, and
// read none cost less memory than the smallest limit in deploy/, and others are served.
func TestE2EClientsThatDoNotRead(t *testing.T) {
	check.Deep(t)
	story(t)
	const clients, most = 2500, 256 << 20
	for name, ask := range map[string]struct {
		one string
		at  func(*daemon) string
	}{
		"RESP": {"*3\r\n$4\r\nLPOP\r\n$25\r\nsegment:leaf-segment-test\r\n$5\r\n10000\r\n", (*daemon).respAddr},
		"HTTP": {"GET /v1/segment/leaf-segment-test/ids?count=10000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
			func(d *daemon) string { return strings.TrimPrefix(d.url, "http://") }},
	} {
		t.Run(name, func(t *testing.T) {
			d := serve(t, settings{"RESP_ADDR": "127.0.0.1:0", "GOMEMLIMIT": "220MiB"}, "--demo") // as deploy/ has it for that limit
			d.ready()
			addr := ask.at(d)
			text := strings.Repeat(ask.one, 60)
			var conns sync.WaitGroup
			done := make(chan struct{})
			for range clients {
				conns.Go(func() {
					conn, err := net.Dial("tcp", addr)
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					_ = conn.(*net.TCPConn).SetReadBuffer(4096)
					_, _ = io.WriteString(conn, text) // some are closed meanwhile
					<-done
				})
			}
			cut := false
			for begun := time.Now(); time.Since(begun) < 15*time.Second || !cut && time.Since(begun) < 90*time.Second; time.Sleep(500 * time.Millisecond) {
				a, err := d.do(http.MethodGet, "/v1/queue/1/ids?gatePass=alice") // nobody else asks for these
				if err != nil || a.status != http.StatusOK {
					t.Errorf("meanwhile: %d %s, %v", a.status, a.body, err)
				}
				cut = d.metric("shardid_connections_cut_total") > 0
			}
			t.Logf("%d MiB at most, %d MiB now, %.0f connections, %.0f cut", d.Memory("VmHWM")>>20, d.Memory("VmRSS")>>20,
				d.metric("shardid_connections"), d.metric("shardid_connections_cut_total"))
			if d.Memory("VmHWM") > most {
				t.Errorf("%d MiB", d.Memory("VmHWM")>>20)
			}
			if !cut {
				t.Error("none was cut")
			}
			close(done)
			conns.Wait()
		})
	}
}

// TestE2EProbesGetThrough: when a crowd that asks for nothing has used up all connections and goes on to
// come, probes, scrapes, operators and callers are answered, over and over, and the operator is told once.
func TestE2EProbesGetThrough(t *testing.T) {
	story(t)
	const token, most = "open-sesame-open-sesame", 60
	d := serve(t, settings{"SERVER_MAX_CONNECTIONS": "60", "SERVER_READ_HEADER_TIMEOUT": "30s", "SERVER_ADMIN_TOKEN": token}, "--demo")
	d.ready()
	kept, leave := d.crowd(200)
	defer leave()
	if lines := d.Lines(`"level":"WARN"`, "server.max_connections"); kept > most || kept < most-5 || len(lines) != 1 {
		t.Errorf("%d connections are kept, %d warnings: %v", kept, len(lines), lines)
	}
	stop := make(chan struct{})
	var coming sync.WaitGroup
	coming.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				if conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://")); err == nil {
					defer conn.Close()
				}
			}
		}
	})
	for range 50 {
		for target, want := range map[string]int{"/livez": 200, "/readyz/queue": 200, "/metrics": 200, "/admin/apps": 200, "/admin/nope": 404, aliceGet: 200} {
			d.client.CloseIdleConnections() // each has a connection of its own
			a, err := d.do(http.MethodGet, target, "Authorization", "Bearer "+token)
			if err != nil || a.status != want {
				t.Errorf("%s: %d %s, %v", target, a.status, a.body, err)
			}
		}
	}
	close(stop)
	coming.Wait()
	leave()
	if n := d.metric("shardid_connections_refused_total"); n < 140 {
		t.Errorf("%v connections were refused", n)
	}
}
