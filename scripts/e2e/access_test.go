//go:build unix

package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newToken makes a token as an operator does, and adds it to the file.
func newToken(t *testing.T, file, name, role string, args ...string) (token string) {
	t.Helper()
	args = append([]string{"token", "new", "--name", name, "--role", role, "--append", file}, args...)
	return strings.TrimSpace(must(t, nil, args...))
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

func (d *daemon) ready() {
	d.t.Helper()
	eventually(d.t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
}

// condition is what /readyz says of one condition.
func (d *daemon) condition(name string) (ok bool, problem string) {
	all := fromJSON[struct {
		Checks []struct {
			Name, Error string
			OK          bool
		}
	}](d.t, d.get("/readyz"))
	for _, c := range all.Checks {
		if c.Name == name {
			return c.OK, c.Error
		}
	}
	return false, "there is no " + name
}

func edit(t *testing.T, file string, change func(string) string) {
	t.Helper()
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(change(string(old))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The life of a token: it is made, used for what it is for and nothing else, replaced
// while both are good, and outlives a file that somebody breaks.
func TestE2ETokens(t *testing.T) {
	story(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.yaml")
	old := newToken(t, file, "orders-service", "get", "--apps", "1,7", "--tags", "leaf*")
	d := serveIn(t, dir, settings{"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true"}, "--demo")
	d.ready()

	d.want(aliceGet, 401, -7)
	d.as(old+"x", aliceGet, 401, -7)
	d.as(old, "/get?appId=2&gatePass=alice", 403, -7)
	d.as(old, "/get?appId=7&gatePass=alice", 404, -2)
	d.as(old, "/api/uid/get", 403, -7)
	d.as(old, "/admin/apps", 403, -7)
	if id := d.as(old, aliceGet, 200, 0).ID; id != 16385 {
		t.Errorf("first ID is %d: a refused request issued one", id)
	}
	if body := d.as(old, "/api/segment/get/leaf-segment-test", 200, 0).body; body != "1" {
		t.Errorf("first ID of the segment is %s", body)
	}

	replaced := newToken(t, file, "orders-service", "get", "--apps", "1")
	works := func(token string) func() bool {
		return func() bool {
			a, err := d.do("GET", aliceGet, "Authorization", "Bearer "+token)
			return err == nil && a.status == 200
		}
	}
	eventually(t, 10*time.Second, "the new token is good", works(replaced))
	d.as(old, aliceGet, 200, 0)
	edit(t, file, func(s string) string { return s[strings.LastIndex(s, "- name"):] })
	eventually(t, 10*time.Second, "the old token is refused", func() bool { return !works(old)() })
	d.as(replaced, aliceGet, 200, 0)

	edit(t, file, func(s string) string { return s + "  apps: [300]\n" })
	eventually(t, 10*time.Second, "the bad file is reported", func() bool {
		ok, problem := d.condition("tokens")
		return !ok && strings.Contains(problem, "tokens.yaml:5: apps: is there twice")
	})
	d.as(replaced, aliceGet, 200, 0)
	d.want(aliceGet, 401, -7)
	if a := d.get("/healthz"); a.status != 503 || !strings.Contains(a.body, "tokens") {
		t.Errorf("/healthz: %d %s", a.status, a.body)
	}
	eventually(t, 10*time.Second, "it is logged", func() bool { return len(d.Lines(`"msg":"tokens fails"`)) == 1 })
	edit(t, file, func(s string) string { return strings.TrimSuffix(s, "  apps: [300]\n") })
	eventually(t, 10*time.Second, "it is well again", func() bool { ok, _ := d.condition("tokens"); return ok })
	if n := len(d.Lines(`"level":"INFO"`, "tokens are read again", "tokens.yaml")); n != 3 {
		t.Errorf("%d lines about three files that were read again", n)
	}
	if n := len(d.Lines(`"msg":"tokens fails"`)); n != 1 {
		t.Errorf("logged %d times", n)
	}
}
