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
