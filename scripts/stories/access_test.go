//go:build unix

// Who may ask for what: tokens, and certificates on every side.

package stories_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// newToken makes a token as an operator does, and adds its line to the file.
func newToken(t *testing.T, file, name, may string) (token string) {
	t.Helper()
	var made struct{ Token, Entry string }
	check.Must(t, json.Unmarshal([]byte(must(t, nil, "token", "new", "--json", "--name", name, "--may", may)), &made))
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check.Must(t, err)
	_, err = fmt.Fprintln(f, made.Entry)
	check.Must(t, errors.Join(err, f.Close()))
	return made.Token
}

// as asks with a token and checks status and code.
func (d *daemon) as(token, target string, status, code int) {
	d.t.Helper()
	a, err := d.do(http.MethodGet, target, "Authorization", "Bearer "+token)
	if err != nil || a.status != status || a.Code != code {
		d.t.Fatalf("GET %s: %d %s, %v, want %d and code %d", target, a.status, a.body, err, status, code)
	}
}

// overTLS is the same replica, asked over TLS.
func (d *daemon) overTLS(cfg *tls.Config) *daemon {
	transport, over := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}, *d
	d.t.Cleanup(transport.CloseIdleConnections)
	over.url = strings.Replace(d.url, "http://", "https://", 1)
	over.client = &http.Client{Transport: transport, Timeout: 20 * time.Second}
	return &over
}

// TestTLS: a replica speaks TLS to its stores, which let nobody in without a certificate, and to callers it
// knows, over HTTP and RESP, and to nobody else. A token that is added later is for what it may ask and nothing else.
// It continues when its own certificate is spoilt.
func TestTLS(t *testing.T) {
	story(t)
	a, stranger := check.NewAuthority(t), check.NewAuthority(t)
	known, knownKey := a.Issue("client", "client")
	secure := secureStores(t, a, stranger)
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	token := newToken(t, file, "orders", "queue:1")
	cert, key := a.Issue("server", "server")
	d := serve(t, secure.With(settings{"SERVER_TLS_CERT_FILE": cert, "SERVER_TLS_KEY_FILE": key,
		"SERVER_TLS_CLIENT_CA_FILE": a.Path("ca.pem"), "SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true",
		"RESP_ADDR": "127.0.0.1:0"}))
	d.want("/livez", 400, 0) // without TLS
	// Who connects and says nothing is let go of.
	_, err := check.Dial(t, strings.TrimPrefix(d.url, "http://"), "").Read(make([]byte, 1))
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who says nothing is kept: %v", err)
	}
	if got, err := d.overTLS(a.Client("", "")).do(http.MethodGet, "/livez"); err == nil {
		t.Errorf("without a certificate: %d, want a broken handshake", got.status)
	}
	d = d.overTLS(a.Client(known, knownKey))
	d.ready()
	eventually(t, startLimit, "a caller with a certificate and a token is served", func() bool {
		a, err := d.do(http.MethodGet, aliceGet, "Authorization", "Bearer "+token)
		return err == nil && a.status == 200
	})
	for name, c := range map[string]struct {
		tls      *tls.Config
		password string
		works    bool
	}{
		"RESP as it should be":       {a.Client(known, knownKey), token, true},
		"RESP without TLS":           {nil, token, false},
		"RESP without a certificate": {a.Client("", ""), token, false},
		"RESP with a wrong token":    {a.Client(known, knownKey), "shardid_wrong", false},
	} {
		options := &redis.Options{Addr: d.respAddr(), TLSConfig: c.tls, Password: c.password, MaxRetries: -1}
		client := redis.NewClient(options)
		if err := client.Incr(t.Context(), "queue:1:alice").Err(); (err == nil) != c.works {
			t.Errorf("%s: %v, works: %t", name, err, c.works)
		}
		_ = client.Close()
	}
	added := newToken(t, file, "customers", "queue:7")
	eventually(t, startLimit, "the added token is known", func() bool {
		a, err := d.do(http.MethodGet, "/get?appId=7&gatePass=alice", "Authorization", "Bearer "+added)
		return err == nil && a.Code == -2 // it may ask for what is not there
	})
	d.as(added, aliceGet, 403, -7)
	d.want(aliceGet, 401, -7)
	writeFile(t, cert, "x")
	eventually(t, startLimit, "the bad certificate is reported", func() bool {
		return regexp.MustCompile(`"name":"tls","ok":false[^}]*PEM`).MatchString(d.get("/readyz").body)
	})
	d.as(token, aliceGet, 200, 0)
}

// secureStores are a MariaDB and a Redis that let nobody in without a certificate of a; they have app 1.
func secureStores(t *testing.T, a, stranger *check.Authority) settings {
	t.Helper()
	cert, key := a.Issue("stores", "db.example")
	mine, mineKey := a.Issue("shardid", "shardid")
	db := testserver.MariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key, "--ssl-ca="+a.Path("ca.pem"))
	query(t, db.DSN(""), "CREATE DATABASE ids", "CREATE USER tls@'127.0.0.1' IDENTIFIED BY 'hunter2' REQUIRE X509",
		"GRANT ALL ON ids.* TO tls@'127.0.0.1'")
	open := onMariaDB(strings.Replace(db.DSN("ids"), "root@", "tls:hunter2@", 1))
	unknown := open.With(settings{"DATABASE_TLS": "true", "DATABASE_TLS_CA_FILE": a.Path("ca.pem")})
	secure := unknown.With(settings{"DATABASE_TLS_CERT_FILE": mine, "DATABASE_TLS_KEY_FILE": mineKey})
	trusting := func(a *check.Authority) settings {
		return secure.With(settings{"DATABASE_TLS_CA_FILE": a.Path("ca.pem")})
	}
	for what, c := range map[string]struct {
		s    settings
		says string
	}{
		"no TLS":            {open, "Access denied"},
		"no certificate":    {unknown, "Access denied"},
		"another authority": {trusting(stranger), "database.tls_ca_file"},
	} {
		o := shardid(t, c.s, "migrate")
		if o.exit != 1 || !strings.Contains(o.stderr, c.says) || strings.Contains(o.stderr, "hunter2") {
			t.Errorf("%s: %+v, want %q", what, o, c.says)
		}
	}
	must(t, secure, "migrate")
	must(t, secure, "provision", "--app", "1", "--name", "test")

	addr := testserver.FreeAddrs(t, 1)[0]
	_, port, _ := net.SplitHostPort(addr)
	testserver.Redis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.Path("ca.pem"))
	return secure.With(settings{"REDIS_URL": "rediss://" + addr, "REDIS_TLS_CA_FILE": a.Path("ca.pem"),
		"REDIS_TLS_CERT_FILE": mine, "REDIS_TLS_KEY_FILE": mineKey})
}
