//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// Secrets of the story: each is in one place of the configuration, or in a request.
const (
	databaseSecret = "sesame-database"
	redisSecret    = "sesame-redis"
	adminSecret    = "sesame-administrator"
	wrongSecret    = "sesame-mistyped"
)

// secretStores are a MariaDB and a Redis with users who have passwords.
func secretStores(t *testing.T) (*testserver.MariaDBServer, *testserver.RedisServer, settings) {
	t.Helper()
	db := testserver.MariaDB(t)
	query(t, db.DSN(""), "CREATE DATABASE ids", "CREATE USER app@'127.0.0.1' IDENTIFIED BY '"+databaseSecret+"'", "GRANT ALL ON *.* TO app@'127.0.0.1'")
	redis := testserver.Redis(t, "--user", "app", "on", ">"+redisSecret, "~*", "&*", "+@all")
	s := onMariaDB(strings.Replace(db.DSN("ids"), "root@", "app:"+databaseSecret+"@", 1)).With(onRedis(redis.Addr)).With(settings{
		"REDIS_USERNAME": "app", "REDIS_PASSWORD": redisSecret, "SERVER_ADMIN_TOKEN": adminSecret, "LOG_LEVEL": "debug",
	})
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	return db, redis, s
}

// No secret comes out, wherever it went in and whatever fails: not in the log at its
// most talkative, not in an answer, not in the list of processes.
func TestE2ENoSecretIsShown(t *testing.T) {
	check.Deep(t)
	story(t)
	db, redis, s := secretStores(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.yaml")
	token := newToken(t, file, "orders", "get", "--apps", "1")
	d := serveIn(t, dir, s.With(settings{"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true"}))
	d.ready()
	var seen strings.Builder
	ask := func(method, target, token string) {
		a, err := d.do(method, target, "Authorization", "Bearer "+token)
		fmt.Fprintln(&seen, a.header, a.body, err)
	}
	everything := func() {
		for _, token := range []string{token, adminSecret, wrongSecret} {
			for _, target := range []string{aliceGet, "/get?appId=2&gatePass=a", "/api/segment/get/x", "/metrics", "/api/status", "/readyz", "/healthz", "/db", "/admin/apps", "/admin/nothing", "/nothing"} {
				ask(http.MethodGet, target, token)
			}
			ask(http.MethodPost, "/admin/apps", token)
			ask(http.MethodPost, aliceGet, token)
		}
	}
	everything()
	query(t, db.DSN(""), "ALTER USER app@'127.0.0.1' IDENTIFIED BY 'another'")
	db.KillConnections(t, "app")
	client := redis.Client()
	if err := client.Do(t.Context(), "ACL", "SETUSER", "app", "resetpass", ">another").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "CLIENT", "KILL", "USER", "app").Err(); err != nil {
		t.Fatal(err)
	}
	edit(t, file, func(s string) string { return s + "- name: x\n  sha256: " + wrongSecret + "\n" })
	eventually(t, startLimit, "all three are reported", func() bool {
		one, _ := d.condition("database")
		two, _ := d.condition("redis")
		three, _ := d.condition("tokens")
		return !one && !two && !three
	})
	everything()
	db.Kill()
	redis.Kill()
	eventually(t, startLimit, "the kill is reported", func() bool { _, problem := d.condition("redis"); return strings.Contains(problem, "refused") })
	everything()
	time.Sleep(time.Second) // for what is tried in the background
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.Cmd.Process.Pid))
	if err != nil {
		t.Logf("no list of processes here: %v", err)
	}
	for _, command := range [][]string{{"apps"}, {"doctor"}, {"token", "check", "--file", file}} {
		fmt.Fprintln(&seen, shardid(t, s, command...))
	}
	for where, text := range map[string]string{"log": d.Output(), "answers and commands": seen.String(), "command line": string(cmdline)} {
		for _, secret := range []string{databaseSecret, redisSecret, adminSecret, wrongSecret, token, strings.TrimPrefix(token, "shardid_")} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has a secret: %s", where, text[max(0, at-200):min(len(text), at+60)])
			}
		}
	}
	if len(d.Lines(`"level":"DEBUG"`)) < 10 || !strings.Contains(seen.String(), "this token is not known") {
		t.Error("the story provoked too little")
	}
}
