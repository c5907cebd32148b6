//go:build linux

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
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
				cut = regexp.MustCompile(`shardid_connections_cut_total\{reason="unread"\} [1-9]\d\d`).MatchString(d.get("/metrics").body)
			}
			t.Logf("%d MiB at most, %d MiB now, %.0f connections, %.0f bytes unsent", d.Memory("VmHWM")>>20, d.Memory("VmRSS")>>20,
				d.metric("shardid_connections"), d.metric("shardid_unsent_answer_bytes"))
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

// TestE2EProbesGetThrough: beyond the bound a client is let go of at once, and the operator is told.
// When clients have used up all connections, probes, scrapes and operators are answered, over and
// over, and clients are told to go elsewhere.
func TestE2EProbesGetThrough(t *testing.T) {
	story(t)
	const token = "open-sesame-open-sesame"
	d := serve(t, settings{"SERVER_MAX_CONNECTIONS": "20", "SERVER_READ_HEADER_TIMEOUT": "30s", "SERVER_ADMIN_TOKEN": token}, "--demo")
	d.ready()
	d.client.CloseIdleConnections()
	time.Sleep(100 * time.Millisecond)
	const spares = 32 // beyond the bound, for one request that is not for IDs
	kept, leave := d.crowd(200)
	defer leave()
	if lines := d.Lines(`"level":"WARN"`, "server.max_connections"); kept > 20+spares || kept < 15+spares || len(lines) != 1 {
		t.Errorf("%d connections are kept, %d warnings: %v", kept, len(lines), lines)
	}
	for range 50 {
		for target, want := range map[string]int{"/livez": 200, "/readyz/queue": 200, "/metrics": 200, "/admin/apps": 200, "/admin/nope": 404, aliceGet: 503, "/v1/uid/ids": 503} {
			a, err := d.do(http.MethodGet, target, "Authorization", "Bearer "+token)
			if err != nil || a.status != want || !a.closes {
				t.Fatalf("%s: %d %s, %v, closes %v", target, a.status, a.body, err, a.closes)
			}
			if want == 503 && (a.Code != -1 || a.header.Get("Retry-After") == "" || !strings.Contains(a.Message, "server.max_connections")) {
				t.Fatalf("%s: %s %v", target, a.body, a.header)
			}
		}
	}
	if a, err := d.do(http.MethodPost, "/admin/apps"); err != nil || a.status != 401 {
		t.Errorf("without a token: %d, %v", a.status, err)
	}
	leave()
	d.hasRoom()
	if n := d.metric("shardid_connections_refused_total"); n < 180 {
		t.Errorf("%v connections were refused", n)
	}
}

// TestE2EStrangers: with server.require_token a connection without a token ends within seconds,
// over both protocols, whatever it sends, and meanwhile probes get through.
func TestE2EStrangers(t *testing.T) {
	check.Deep(t)
	story(t)
	file := t.TempDir() + "/tokens.yaml"
	token := newToken(t, file, "orders", "get", "--modes", "uid")
	d := serve(t, settings{"SERVER_MAX_CONNECTIONS": "200", "SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true", "RESP_ADDR": "127.0.0.1:0",
		"SERVER_READ_HEADER_TIMEOUT": "1m"}, "--demo")
	d.ready()
	httpAddr := strings.TrimPrefix(d.url, "http://")
	uid := "GET /v1/uid/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	auth := fmt.Sprintf("*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n", len(token), token)
	known := []net.Conn{dial(t, httpAddr, uid), dial(t, d.respAddr(), auth)}
	echo := "*2\r\n$4\r\nECHO\r\n$4073\r\n" + strings.Repeat("x", 4073) + "\r\n"
	livez := "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	var strangers []net.Conn
	for range 60 {
		for _, s := range [][2]string{
			{d.respAddr(), echo[:4095]}, {httpAddr, ""}, {httpAddr, livez}, {httpAddr, livez + livez[:20]},
		} {
			strangers = append(strangers, dial(t, s[0], s[1]))
		}
	}
	begun := time.Now()
	for time.Since(begun) < 5*time.Second {
		if a, err := d.do(http.MethodGet, "/livez"); err != nil || a.status != 200 {
			t.Fatalf("/livez: %d, %v", a.status, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for i, s := range strangers {
		if _, err := io.Copy(io.Discard, s); os.IsTimeout(err) {
			t.Fatalf("stranger %d is connected after %v", i, time.Since(begun))
		}
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("gone after %v", took)
	}
	for i, conn := range known {
		_, _ = io.WriteString(conn, []string{uid, "*1\r\n$4\r\nPING\r\n"}[i])
		all := make([]byte, 0, 1<<16)
		for want := []string{"HTTP/1.1 200 OK", "+"}[i]; strings.Count(string(all), want) < 2; {
			n, err := conn.Read(all[len(all):cap(all)])
			if all = all[:len(all)+n]; err != nil {
				t.Fatalf("a known client got %q, %v", all, err)
			}
		}
	}
	if m := d.get("/metrics").body; !regexp.MustCompile(`shardid_connections_cut_total\{reason="no_token"\} 1\d\d`).MatchString(m) {
		t.Error("the strangers were not counted")
	}
}

// TestE2EConnectionsPerAddress: one address has no more than its bound, on both ports together.
func TestE2EConnectionsPerAddress(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, settings{"SERVER_MAX_CONNECTIONS_PER_ADDRESS": "10", "SERVER_READ_HEADER_TIMEOUT": "30s", "RESP_ADDR": "127.0.0.1:0"}, "--demo")
	d.ready()
	d.client.CloseIdleConnections()
	time.Sleep(100 * time.Millisecond)
	_, leave := d.crowd(10)
	if n, err := dial(t, d.respAddr(), "").Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("an eleventh connection: %d bytes, %v", n, err)
	}
	if a := d.get("/readyz"); a.status != 200 {
		t.Errorf("/readyz: %d", a.status)
	}
	d.want(aliceGet, 503, -1)
	if lines := d.Lines(`"level":"WARN"`, "server.max_connections_per_address", "127.0.0.1:"); len(lines) != 1 {
		t.Errorf("%d warnings", len(lines))
	}
	leave()
	d.hasRoom()
}

// TestE2ERedisPortInUse: the error names the setting, and what to do.
func TestE2ERedisPortInUse(t *testing.T) {
	check.Deep(t)
	story(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for setting, flags := range map[string][]string{
		"resp.addr":         {"--set", "server.addr=127.0.0.1:0", "--set", "resp.addr=" + l.Addr().String()},
		"server.addr":       {"--set", "server.addr=" + l.Addr().String()},
		"server.pprof_addr": {"--set", "server.addr=127.0.0.1:0", "--set", "server.pprof_addr=" + l.Addr().String()},
	} {
		o := shardid(t, nil, append([]string{"serve", "--demo"}, flags...)...)
		last := o.stderr[strings.LastIndex(strings.TrimSpace(o.stderr), "\n")+1:]
		if o.exit != 1 || !strings.Contains(last, setting+": listen tcp "+l.Addr().String()) || !strings.Contains(last, "choose another "+setting) ||
			setting != "server.addr" && strings.Contains(last, "server.addr") {
			t.Errorf("%d: %s", o.exit, last)
		}
	}
}
