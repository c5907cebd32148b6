//go:build unix

package e2e_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// metric is the value of a metric without labels.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	return rig.Metric(d.t, d.get("/metrics").body, name)
}

// deafPeer is an HTTP/2 connection that takes no byte of any answer: its windows are 0.
type deafPeer struct {
	*http2.Framer
	ended chan struct{} // closed when the server has closed the connection
}

func (d *daemon) deafPeer(cfg *tls.Config) deafPeer {
	d.t.Helper()
	cfg.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(d.url, "https://"), cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, http2.ClientPreface)
	h := deafPeer{http2.NewFramer(conn, conn), make(chan struct{})}
	_ = h.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	go func() {
		defer close(h.ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	return h
}

// ask opens a stream that asks for a large answer.
func (h deafPeer) ask(stream uint32) error {
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "127.0.0.1"}, {":path", aliceGet + "&count=10000&stringify=1"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true})
}

// TestE2EHostileHTTP2: what one connection can hold by reading nothing is little and
// for seconds, and PINGs keep none that is idle.
func TestE2EHostileHTTP2(t *testing.T) {
	check.Deep(t)
	story(t)
	a := check.NewAuthority(t)
	cert, key := a.Issue("server", "server")
	d := serve(t, settings{"SERVER_TLS_CERT_FILE": cert, "SERVER_TLS_KEY_FILE": key, "SERVER_IDLE_TIMEOUT": "2s", "SERVER_READ_HEADER_TIMEOUT": "1s",
		"QUEUE_TIMEOUT": "1s", "SEGMENT_TIMEOUT": "100ms", "SNOWFLAKE_TIMEOUT": "100ms", "UID_TIMEOUT": "100ms"}, "--demo")
	transport := over(t, a.Client("", ""))
	d.overTLS(transport)
	d.ready()
	d.want(aliceGet+"&count=10000", 200, 0)
	const streams, idle = 250, 2 * time.Second
	goroutines, before := d.metric("go_goroutines"), d.Memory("VmRSS")
	h := d.deafPeer(transport.TLSClientConfig.Clone())
	for i := range uint32(streams) {
		_ = h.ask(2*i + 1)
	}
	time.Sleep(3 * time.Second) // the answers are made
	held := d.metric("go_goroutines") - goroutines
	t.Logf("holds %.0f goroutines and %d MiB", held, (d.Memory("VmRSS")-before)>>20)
	if held > 130 {
		t.Errorf("%.0f goroutines of one connection", held)
	}
	began := time.Now()
	stop := time.After(25 * time.Second)
	for pinged := false; !pinged; {
		select {
		case <-h.ended:
			pinged = true
		case <-stop:
			t.Errorf("a connection that takes nothing and sends PINGs is kept for %v", time.Since(began))
			pinged = true
		case <-time.After(200 * time.Millisecond):
			_ = h.WritePing(false, [8]byte{})
		}
	}
	t.Logf("let go of after %v", time.Since(began))
	eventually(t, 5*time.Second, "no goroutine is left of it", func() bool { return d.metric("go_goroutines") < goroutines+20 })
	// A connection without any stream.
	h, began = d.deafPeer(transport.TLSClientConfig.Clone()), time.Now()
	for pinged := false; !pinged; {
		select {
		case <-h.ended:
			pinged = true
		case <-time.After(200 * time.Millisecond):
			_ = h.WritePing(false, [8]byte{})
		}
		if time.Since(began) > 5*idle {
			t.Fatalf("PINGs keep a connection for %v", time.Since(began))
		}
	}
	d.want(aliceGet, 200, 0)
}

// crowd opens connections until the test ends, and gives how many the server keeps.
func (d *daemon) crowd(n int) (kept int, leave func()) {
	d.t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = dial(d.t, d.url, "")
	}
	time.Sleep(time.Second)
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

// hasRoom returns when a client is served again.
func (d *daemon) hasRoom() {
	d.t.Helper()
	eventually(d.t, 20*time.Second, "there is room again", func() bool {
		a, err := d.do(http.MethodGet, aliceGet)
		return err == nil && a.status == 200
	})
}

// TestE2EOutOfDescriptors: a process that may open no further file says so, and serves
// again when it may.
func TestE2EOutOfDescriptors(t *testing.T) {
	check.Deep(t)
	story(t)
	s := settings{"SERVER_MAX_CONNECTIONS": "1000", "SERVER_READ_HEADER_TIMEOUT": "3s"}
	d := listening(launch(t, s.Command(t.TempDir(), "/bin/sh", append([]string{"-c", `ulimit -n 60; exec "$0" "$@"`, rig.Binary(t)}, serving([]string{"--demo"})...)...)))
	d.ready()
	_, leave := d.crowd(120)
	defer leave()
	if lines := d.Lines(`"level":"WARN"`, "too many open files"); len(lines) != 1 || !strings.Contains(lines[0], "server.max_connections") {
		t.Errorf("%d warnings: %v", len(lines), lines)
	}
	leave()
	d.hasRoom()
	if n := d.metric("shardid_accept_errors_total"); n < 1 {
		t.Errorf("%v accept errors", n)
	}
}
