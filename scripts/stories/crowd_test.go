//go:build linux

// Crowds: more connections than a process may hold, and clients that read nothing. Others are served meanwhile.

package stories_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// crowd opens connections until the test ends, and gives how many the server keeps.
func (d *daemon) crowd(n int) (kept int, leave func()) {
	d.t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = dial(d.t, d.url, "")
	}
	time.Sleep(time.Second) // for the server to accept them, and to let go of some
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); os.IsTimeout(err) {
			kept++
		}
	}
	return kept, func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// TestProbesGetThrough: when a crowd that asks for nothing has used up all connections and goes on to come,
// probes, scrapes, operators and callers are answered, over and over, and the operator is told once.
func TestProbesGetThrough(t *testing.T) {
	story(t)
	const token, most = "open-sesame-open-sesame", 60
	d := serve(t, settings{"SERVER_MAX_CONNECTIONS": fmt.Sprint(most), "SERVER_ADMIN_TOKEN": token}, "--demo")
	d.ready()
	kept, leave := d.crowd(200)
	defer leave()
	if lines := d.Lines(`"level":"WARN"`, "server.max_connections"); kept > most || kept < most-5 || len(lines) != 1 {
		t.Errorf("%d connections are kept, %d warnings, want %d and 1: %v", kept, len(lines), most, lines)
	}
	var coming sync.WaitGroup
	stop := make(chan struct{})
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
		for _, target := range []string{"/livez", "/readyz/queue", "/metrics", "/admin/apps", aliceGet} {
			d.client.CloseIdleConnections() // each has a connection of its own
			a, err := d.do(http.MethodGet, target, "Authorization", "Bearer "+token)
			if err != nil || a.status != 200 {
				t.Errorf("%s: %d %s, %v, want 200", target, a.status, a.body, err)
			}
		}
	}
	close(stop)
	coming.Wait()
	leave()
	if n := d.metric("shardid_connections_refused_total"); n < 140 {
		t.Errorf("%v connections were refused, want 140 at least", n)
	}
}

// TestOutOfDescriptors: a process that may open no further file says so, and serves again when it may.
func TestOutOfDescriptors(t *testing.T) {
	check.Deep(t)
	story(t)
	s := settings{"SERVER_MAX_CONNECTIONS": "1000"}
	shell := append([]string{"-c", `ulimit -n 60; exec "$0" "$@"`, rig.Binary(t)}, serving([]string{"--demo"})...)
	d := listening(launch(t, s.Command(t.TempDir(), "/bin/sh", shell...)))
	d.ready()
	_, leave := d.crowd(120)
	defer leave()
	if lines := d.Lines(`"level":"WARN"`, "too many open files", "server.max_connections"); len(lines) != 1 {
		t.Errorf("%d warnings, want one that names server.max_connections: %s", len(lines), d.Output())
	}
	leave()
	eventually(t, startLimit, "a client is served again", func() bool {
		a, err := d.do(http.MethodGet, aliceGet)
		return err == nil && a.status == 200
	})
}

// TestClientsThatDoNotRead: 2500 clients that ask for large batches, one after the other, and read none cost
// less memory than the smallest limit in deploy/, and others are served.
func TestClientsThatDoNotRead(t *testing.T) {
	check.Deep(t)
	const clients, most = 2500, 256 << 20
	for name, one := range map[string]string{
		"RESP": "*3\r\n$4\r\nLPOP\r\n$25\r\nsegment:leaf-segment-test\r\n$5\r\n10000\r\n",
		"HTTP": "GET /v1/segment/leaf-segment-test/ids?count=10000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			story(t)
			smallest := settings{"RESP_ADDR": "127.0.0.1:0", "GOMEMLIMIT": "220MiB"} // as deploy/ has it for that limit
			d := serve(t, smallest, "--demo")
			d.ready()
			addr := map[string]string{"RESP": d.respAddr(), "HTTP": strings.TrimPrefix(d.url, "http://")}[name]
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
					_, _ = io.WriteString(conn, strings.Repeat(one, 60)) // some are closed meanwhile
					<-done
				})
			}
			asks := 0
			eventually(t, 90*time.Second, "one is cut, and others are served for a while", func() bool {
				a, err := d.do(http.MethodGet, aliceGet) // nobody else asks for these
				if err != nil || a.status != http.StatusOK {
					t.Errorf("meanwhile: %d %s, %v", a.status, a.body, err)
				}
				asks++
				return asks > 500 && d.metric("shardid_connections_cut_total") > 0
			})
			if peak := d.Memory("VmHWM"); peak > most {
				t.Errorf("%d MiB at most, want %d", peak>>20, most>>20)
			}
			close(done)
			conns.Wait()
		})
	}
}
