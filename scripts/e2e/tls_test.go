//go:build unix

package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// over is HTTP in TLS, until the test ends.
func over(t *testing.T, cfg *tls.Config) *http.Transport {
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// fetchOver asks by GET; it gives the status.
func fetchOver(transport http.RoundTripper, url string) (status int, err error) {
	r, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get(url)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body) // so that the connection can be used again
	return r.StatusCode, nil
}

// overTLS makes the daemon's client one of TLS.
func (d *daemon) overTLS(transport *http.Transport) {
	d.url, d.client.Transport = strings.Replace(d.url, "http://", "https://", 1), transport
}

// The server speaks TLS to clients it knows and to nobody else, and goes on when a
// certificate is spoilt. Protocols and renewed files are told of by the tests of access.
func TestE2EServerTLS(t *testing.T) {
	story(t)
	a := check.NewAuthority(t)
	cert, key := a.Issue("server", "server")
	d := serve(t, settings{"SERVER_TLS_CERT_FILE": cert, "SERVER_TLS_KEY_FILE": key, "SERVER_TLS_CLIENT_CA_FILE": a.Path("ca.pem"),
		"SERVER_READ_HEADER_TIMEOUT": "1s"}, "--demo")
	plain := strings.TrimPrefix(d.url, "http://")
	if status, err := fetchOver(http.DefaultTransport, d.url+"/livez"); err != nil || status != http.StatusBadRequest {
		t.Errorf("without TLS: %d, %v", status, err)
	}
	if len(d.Lines(`curl 'https://`)) != 1 {
		t.Error("the log does not say https")
	}
	known, knownKey := a.Issue("client", "client")
	d.overTLS(over(t, a.Client(known, knownKey)))
	d.ready()
	d.want(aliceGet, 200, 0)
	if status, err := fetchOver(over(t, a.Client("", "")), d.url+"/livez"); err == nil {
		t.Errorf("no certificate: %d", status)
	}
	// Who connects and says nothing is let go of.
	if _, err := dial(t, plain, "").Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who says nothing is kept: %v", err)
	}
	edit(t, cert, func(string) string { return "x" })
	eventually(t, 10*time.Second, "the bad certificate is reported", func() bool { ok, problem := d.condition("tls"); return !ok && strings.Contains(problem, "PEM") })
	d.want(aliceGet, 200, 0)
}

// TestE2EClientCAChanges: a connection that is open does not outlive the trust in its
// client, over HTTP and RESP; one whose client is still trusted is not cut.
func TestE2EClientCAChanges(t *testing.T) {
	check.Deep(t)
	story(t)
	a, leaving, staying := check.NewAuthority(t), check.NewAuthority(t), check.NewAuthority(t)
	cert, key := a.Issue("server", "server")
	trusted := a.Path("clients.pem")
	trust := func(all ...*check.Authority) {
		var pems []byte
		for _, one := range all {
			pem, err := os.ReadFile(one.Path("ca.pem"))
			if err != nil {
				t.Fatal(err)
			}
			pems = append(pems, pem...)
		}
		if err := os.WriteFile(trusted, pems, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(leaving, staying)
	d := serve(t, settings{"SERVER_TLS_CERT_FILE": cert, "SERVER_TLS_KEY_FILE": key, "SERVER_TLS_CLIENT_CA_FILE": trusted,
		"RESP_ADDR": "127.0.0.1:0"}, "--demo")
	var dials atomic.Int64
	open := func(who *check.Authority, h2 bool) *http.Transport {
		transport := over(t, a.Client(who.Issue("client", "client")))
		transport.ForceAttemptHTTP2 = h2
		transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		return transport
	}
	d.overTLS(open(staying, true))
	d.ready()
	clients := []*http.Transport{open(leaving, true), open(leaving, false), open(staying, true), open(staying, false)}
	for _, c := range clients {
		if status, err := fetchOver(c, d.url+aliceGet); status != 200 {
			t.Fatalf("%d %v", status, err)
		}
	}
	pings := func(who *check.Authority) func() string { // over a connection that stays open
		c, err := tls.Dial("tcp", d.respAddr(), a.Client(who.Issue("client", "client")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		in := bufio.NewReader(c)
		return func() string {
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.WriteString(c, "*2\r\n$4\r\nINCR\r\n$13\r\nqueue:1:alice\r\n")
			line, err := in.ReadString('\n')
			return fmt.Sprint(line, err)
		}
	}
	leaves, stays := pings(leaving), pings(staying)
	for _, ask := range []func() string{leaves, stays} {
		if said := ask(); said[0] != ':' {
			t.Errorf("RESP: %q", said)
		}
	}
	trust(staying)
	before := dials.Load()
	for i, c := range clients[:2] {
		eventually(t, 10*time.Second, "the open connection is refused", func() bool {
			status, err := fetchOver(c, d.url+aliceGet)
			if err != nil {
				t.Fatal(err)
			}
			return status == http.StatusForbidden
		})
		if status, err := fetchOver(c, d.url+aliceGet); err == nil {
			t.Errorf("client %d is let in again: %d", i, status)
		}
	}
	eventually(t, 10*time.Second, "the open RESP connection is refused", func() bool {
		return strings.HasPrefix(leaves(), "-SHARDID -7 the certificate of this connection's client is not trusted any more")
	})
	if said := leaves(); said[0] == ':' || said[0] == '-' {
		t.Errorf("RESP, after the refusal: %q", said)
	}
	if said := stays(); said[0] != ':' {
		t.Errorf("RESP, trusted: %q", said)
	}
	again := dials.Load()
	for i, c := range clients[2:] {
		if status, err := fetchOver(c, d.url+aliceGet); status != 200 {
			t.Errorf("client %d: %d %v", i, status, err)
		}
	}
	if dials.Load() != again || again == before {
		t.Errorf("%d, then %d, then %d connections: those of trusted clients stay, the others do not", before, again, dials.Load())
	}
}

// MariaDB that lets nobody in without TLS and a certificate.
func TestE2EDatabaseTLS(t *testing.T) {
	check.Deep(t)
	story(t)
	a, stranger := check.NewAuthority(t), check.NewAuthority(t)
	cert, key := a.Issue("server", "db.example")
	server := testserver.MariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key, "--ssl-ca="+a.Path("ca.pem"))
	query(t, server.DSN(""), "CREATE DATABASE ids", "CREATE USER tls@'127.0.0.1' IDENTIFIED BY 'hunter2' REQUIRE X509", "GRANT ALL ON ids.* TO tls@'127.0.0.1'")
	base := onMariaDB(strings.Replace(server.DSN("ids"), "root@", "tls:hunter2@", 1))
	mine, mineKey := a.Issue("client", "client")
	secure := base.With(settings{"DATABASE_TLS": "true", "DATABASE_TLS_CA_FILE": a.Path("ca.pem"), "DATABASE_TLS_CERT_FILE": mine, "DATABASE_TLS_KEY_FILE": mineKey})
	for what, c := range map[string]struct {
		s    settings
		says string
	}{
		"no TLS":            {base, "Access denied"},
		"no certificate":    {base.With(settings{"DATABASE_TLS": "true", "DATABASE_TLS_CA_FILE": a.Path("ca.pem")}), "Access denied"},
		"another authority": {secure.With(settings{"DATABASE_TLS_CA_FILE": stranger.Path("ca.pem")}), "database.tls_ca_file"},
		"another name":      {secure.With(settings{"DATABASE_TLS_SERVER_NAME": "other.example"}), "database.tls_server_name"},
		"no such file":      {secure.With(settings{"DATABASE_TLS_CA_FILE": "none.pem"}), "database.tls_ca_file: open none.pem"},
	} {
		if o := shardid(t, c.s, "migrate"); o.exit != 1 || !strings.Contains(o.stderr, c.says) || strings.Contains(o.stderr, "hunter2") {
			t.Errorf("%s: %+v, want %q", what, o, c.says)
		}
	}
	for _, name := range []string{"", "db.example"} {
		must(t, secure.With(settings{"DATABASE_TLS_SERVER_NAME": name}), "migrate")
	}
	must(t, secure, "provision", "--app", "1", "--name", "test")
	d := serve(t, secure.With(settings{"SNOWFLAKE_ENABLED": "false", "UID_ENABLED": "false"}))
	d.ready()
	d.want(aliceGet, 200, 0)
	if n := number(t, server.DSN("ids"), "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'tls'"); n == 0 {
		t.Error("nobody is connected over TLS")
	}
	o := shardid(t, onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t)).With(settings{"DATABASE_TLS": "true"}), "migrate")
	if o.exit != 1 || !strings.Contains(o.stderr, "TLS") {
		t.Errorf("a server without TLS: %+v", o)
	}
}

// Redis that lets nobody in without a certificate; TestRedisOverTLS tells who is kept out.
func TestE2ERedisTLS(t *testing.T) {
	check.Deep(t)
	story(t)
	a := check.NewAuthority(t)
	cert, key := a.Issue("server", "redis")
	addr := rig.FreeAddrs(t, 1)[0]
	_, port, _ := net.SplitHostPort(addr)
	testserver.Redis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.Path("ca.pem"))
	mine, mineKey := a.Issue("client", "client")
	secure := onRedis(addr).With(settings{"REDIS_TLS": "true", "REDIS_TLS_CA_FILE": a.Path("ca.pem"), "REDIS_TLS_CERT_FILE": mine, "REDIS_TLS_KEY_FILE": mineKey})
	d := serve(t, secure, "--demo")
	d.ready()
	d.want(aliceGet, 200, 0)
}
