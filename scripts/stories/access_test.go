//go:build unix

// Who may ask for what: tokens, and what strangers try without them.

package stories_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
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
func (d *daemon) as(token, target string, status, code int) answer {
	d.t.Helper()
	a, err := d.do(http.MethodGet, target, "Authorization", "Bearer "+token)
	if err != nil || a.status != status || a.Code != code {
		d.t.Fatalf("GET %s: %d %s, %v, want %d and code %d", target, a.status, a.body, err, status, code)
	}
	return a
}

func edit(t *testing.T, file string, change func(string) string) {
	t.Helper()
	old, err := os.ReadFile(file)
	check.Must(t, err)
	check.Must(t, os.WriteFile(file, []byte(change(string(old))), 0o600))
}

// TestTokens: the life of a token. It is made, used for what it is for and nothing else, replaced while both
// are good, and outlives a file that somebody breaks.
func TestTokens(t *testing.T) {
	story(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.yaml")
	old := newToken(t, file, "orders-service", "queue:1,queue:7,segment:leaf*")
	d := serveIn(t, dir, settings{"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true"}, "--demo")
	d.ready()

	d.want(aliceGet, 401, -7)
	for _, c := range []struct {
		token, target string
		status, code  int
	}{
		{old + "x", aliceGet, 401, -7},
		{old, "/get?appId=2&gatePass=alice", 403, -7},
		{old, "/get?appId=7&gatePass=alice", 404, -2}, // may ask for what is not there
		{old, uidGet, 403, -7},
		{old, "/admin/apps", 403, -7},
	} {
		d.as(c.token, c.target, c.status, c.code)
	}
	if id := d.as(old, aliceGet, 200, 0).ID; id != 16385 {
		t.Errorf("the first ID is %d, want 16385: a refused request issued one", id)
	}
	d.as(old, segmentGet+demoTag, 200, 0)

	replaced := newToken(t, file, "orders-service", "queue:1")
	works := func(token string) bool {
		a, err := d.do(http.MethodGet, aliceGet, "Authorization", "Bearer "+token)
		return err == nil && a.status == 200
	}
	eventually(t, startLimit, "the new token is good", func() bool { return works(replaced) })
	d.as(old, aliceGet, 200, 0)
	edit(t, file, func(s string) string { return s[strings.LastIndex(s, "- {name"):] })
	eventually(t, startLimit, "the old token is refused", func() bool { return !works(old) })

	edit(t, file, func(s string) string { return s + "- apps: [300]\n" })
	eventually(t, startLimit, "the bad file is reported", func() bool {
		ok, problem := d.condition("tokens")
		return !ok && strings.Contains(problem, "tokens.yaml:2: apps: gone since 0.4")
	})
	d.as(replaced, aliceGet, 200, 0)
	d.want(aliceGet, 401, -7)
	eventually(t, startLimit, "it is logged", func() bool { return len(d.Lines(`"msg":"tokens fails"`)) > 0 })
	edit(t, file, func(s string) string { return strings.TrimSuffix(s, "- apps: [300]\n") })
	eventually(t, startLimit, "it is well again", func() bool { ok, _ := d.condition("tokens"); return ok })
	if n := len(d.Lines(`"msg":"tokens fails"`)); n != 1 {
		t.Errorf("the bad file was logged %d times, want 1", n)
	}
}

// TestIntruder: what a real connection may carry beside well-formed requests gets no ID and no look at the
// state. The tests of httpapi tell who may do what.
func TestIntruder(t *testing.T) {
	check.Deep(t)
	story(t)
	dir, admin := t.TempDir(), "Authorization: Bearer "+adminSecret+"\r\n"
	file := filepath.Join(dir, "tokens.yaml")
	token := newToken(t, file, "orders", "queue:1,segment:"+demoTag)
	closed := settings{"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true", "SERVER_PROTECT_MONITORING": "true",
		"SERVER_ADMIN_TOKEN": adminSecret}
	d := serveIn(t, dir, closed, "--demo")
	d.ready()
	last := d.as(token, aliceGet, 200, 0).ID
	mine := "Authorization: Bearer " + token + "\r\n"
	for _, c := range []struct {
		name, first, header string
		status              int
	}{
		{"token in a cookie", "GET " + aliceGet, "Cookie: Authorization=Bearer " + token + "\r\n", 401},
		{"token of a proxy", "GET " + aliceGet, "Proxy-Authorization: Bearer " + token + "\r\n", 401},
		{"token as user", "GET http://" + token + "@localhost" + aliceGet, "", 401},
		{"two tokens", "GET " + aliceGet, mine + mine, 401},
		{"two tokens, one wrong", "GET " + aliceGet, "Authorization: Bearer x\r\n" + mine, 401},
		{"token over two lines", "GET " + aliceGet, "Authorization: Bearer\r\n " + token + "x\r\n", 401},
		{"another's tag, encoded", "GET /api/segment/get/%6fther", mine, 403},
		{"an app by semicolon", "GET /get?appId=1;appId=2&gatePass=alice", mine, 400},
		{"line ends in a value", "GET /get?appId=1&gatePass=a&count=1%0d%0aX-Evil:%201", mine, 400},
		{"line ends in a path", "GET /admin/%0d%0aX-Evil:%201", "", 401},
		{"a line end in a head", "GET " + aliceGet, "X-A: a\rX-Evil: 1\r\n", 400},
		{"a NUL in a head", "GET " + aliceGet, "X-A: a\x00\r\n", 400},
		{"two lengths", "GET " + aliceGet, "Content-Length: 1\r\nContent-Length: 2\r\n", 400},
		{"two hosts", "GET " + aliceGet, "Host: y\r\n", 400},
		{"a large head", "GET " + aliceGet, "X-A: " + strings.Repeat("a", 40_000) + "\r\n", 431},
		{"a long URL", "GET " + aliceGet + "&x=" + strings.Repeat("a", 9000), mine, 414},
		{"another method by a header", "GET /admin/apps", "X-HTTP-Method-Override: POST\r\n", 401},
		{"an unknown method", "BREW " + aliceGet, mine, 405},
		{"another path by a header", "GET /livez2", "X-Original-URL: /admin/apps\r\n" + mine, 404},
		{"an address by a header", "GET /admin/apps", "X-Forwarded-For: 127.0.0.1\r\n", 401},
		{"a path that leads there", "GET /admin/../admin/apps", "", 401},
		{"another spelling of a path", "GET /%61dmin/apps", mine, 403},
		{"no such path", "GET /ADMIN/apps", admin, 404},
		{"monitoring", "GET /metrics", "", 401},
	} {
		got := d.raw(c.first + " HTTP/1.1\r\n" + c.header + "Host: localhost\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
			t.Errorf("%s: %.300q, want %d", c.name, got, c.status)
		}
		if strings.Contains(got, "\nX-Evil") || strings.Contains(got, token) || strings.Count(got, "HTTP/1.1") > 1 {
			t.Errorf("%s: the answer carries what was sent: %q", c.name, got)
		}
	}
	const large = 64 << 20
	head := "POST /admin/apps HTTP/1.1\r\n" + admin + "Host: localhost\r\nContent-Type: application/json\r\n"
	if sent := pour(t, d, fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, large), large); sent > 16<<20 {
		t.Errorf("%d bytes of a body without an end were taken", sent)
	}
	if id := d.as(token, aliceGet, 200, 0).ID; id != last+1<<14 {
		t.Errorf("the next ID is %d, want %d: something was issued", id, last+1<<14)
	}
	if lines := d.Lines(`"level":"ERROR"`); len(lines) > 0 {
		t.Errorf("the server failed: %s", lines[0])
	}
}

// pour sends a large body and gives how much was taken.
func pour(t *testing.T, d *daemon, head string, size int) (sent int) {
	t.Helper()
	conn := dial(t, d.url, head)
	for chunk := make([]byte, 64<<10); sent < size; {
		n, err := conn.Write(chunk)
		sent += n
		if err != nil {
			break
		}
	}
	return sent
}

// Secrets of the next story: each is in one place of the configuration, or in a request.
const (
	databaseSecret = "sesame-database"
	redisSecret    = "sesame-redis"
	adminSecret    = "sesame-administrator"
	wrongSecret    = "sesame-mistyped"
)

// TestNoSecretIsShown: no secret comes out, wherever it went in and whatever fails: not in the log at its most
// talkative, not in an answer, and not in what commands print.
func TestNoSecretIsShown(t *testing.T) {
	check.Deep(t)
	story(t)
	db, redis := testserver.MariaDB(t), testserver.Redis(t, "--user", "app", "on", ">"+redisSecret, "~*", "&*", "+@all")
	query(t, db.DSN(""), "CREATE DATABASE ids", "CREATE USER app@'127.0.0.1' IDENTIFIED BY '"+databaseSecret+"'",
		"GRANT ALL ON *.* TO app@'127.0.0.1'")
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.yaml")
	dsn := strings.Replace(db.DSN("ids"), "root@", "app:"+databaseSecret+"@", 1)
	s := onMariaDB(dsn).With(as("app", redisSecret, onRedis(redis.Addr))).With(settings{
		"SERVER_ADMIN_TOKEN": adminSecret, "LOG_LEVEL": "debug"})
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	token := newToken(t, file, "orders", "queue:1")
	d := serveIn(t, dir, s.With(settings{"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true"}))
	d.ready()
	var seen strings.Builder
	everything := func() {
		for _, token := range []string{token, adminSecret, wrongSecret} {
			for _, target := range []string{aliceGet, "/metrics", "/api/status", "/readyz", "/db", "/admin/apps"} {
				for _, method := range []string{http.MethodGet, http.MethodPost} {
					a, err := d.do(method, target, "Authorization", "Bearer "+token)
					fmt.Fprintln(&seen, a.header, a.body, err)
				}
			}
		}
		for _, command := range []string{"apps", "doctor", "token check --file " + file} {
			fmt.Fprintln(&seen, shardid(t, s, strings.Fields(command)...))
		}
	}
	fails := func(what string, conditions ...string) {
		t.Helper()
		for _, name := range conditions {
			eventually(t, startLimit, what+" is reported", func() bool { ok, _ := d.condition(name); return !ok })
		}
		everything()
	}
	everything()
	query(t, db.DSN(""), "ALTER USER app@'127.0.0.1' IDENTIFIED BY 'another'")
	db.KillConnections(t, "app")
	check.Must(t, redis.Client().Do(t.Context(), "ACL", "SETUSER", "app", "resetpass", ">another").Err())
	check.Must(t, redis.Client().Do(t.Context(), "CLIENT", "KILL", "USER", "app").Err())
	edit(t, file, func(s string) string { return s + "- name: x\n  sha256: " + wrongSecret + "\n" })
	fails("each wrong secret", "database", "redis", "tokens")
	db.Kill()
	redis.Kill()
	fails("each store that is away", "database", "redis")
	secrets := []string{databaseSecret, redisSecret, adminSecret, wrongSecret, strings.TrimPrefix(token, "shardid_")}
	for where, text := range map[string]string{"the log": d.Output(), "an answer or a command": seen.String()} {
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has a secret: %s", where, text[max(0, at-200):min(len(text), at+60)])
			}
		}
	}
	if len(d.Lines(`"level":"DEBUG"`)) < 10 || !strings.Contains(seen.String(), "this token is not known") {
		t.Error("the story provoked too little")
	}
}
