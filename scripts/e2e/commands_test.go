//go:build unix

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestE2ECommands: exit status, and one line on stderr that says what to do.
func TestE2ECommands(t *testing.T) {
	story(t)
	for _, c := range []struct {
		args   string
		exit   int
		stdout string // regular expression
		stderr string // part
	}{
		{"version", 0, `^shardid \d+\.\d+\.\d+\S* go1\.\S+ \S+/\S+\n$`, ""},
		{"decode 16385", 0, `^index +1\nshardId +0\nappId +1\nkind +queue\n$`, ""},
		{"decode --json 16385", 0, `^\{"appId":1,"id":16385,"idStr":"16385","index":1,"kind":"queue","shardId":0\}\n$`, ""},
		{"decode --kind queue 9223372036854775807", 0, `shardId +63\nappId +255\n`, ""},
		{"decode --kind snowflake 1169786042799259000", 0, `workerId`, ""},
		{"decode 0", 2, `^$`, "16384"},
		{"decode abc", 2, `^$`, `"abc" can be hex or base36 or base62: name its format`},
		{"decode a_b", 2, `^$`, "whole number"},
		{"decode --format base62 4GH", 0, `^id +16385\nindex +1\nshardId +0\nappId +1\nkind +queue\n$`, ""},
		{"decode --format crockford g-ol 00G01", 0, `^id +16385\nindex +1\n`, ""},
		{"decode --json 7ZZZZZZZZZZZZ", 0, `"idStr":"9223372036854775807"`, ""},
		{"decode --format base62 zzzzzzzzzzz", 2, `^$`, "not below 2^63"},
		{"decode --format hex xyz", 2, `^$`, "no ID in the format hex"},
		{"decode --format roman XI", 2, `^$`, "format must be dec, hex, base36, base62 or crockford"},
		{"decode 9223372036854775808", 2, `^$`, "2^63"},
		{"decode -- -5", 2, `^$`, "-5"},
		{"decode -5", 2, `^$`, "-5 is not an ID: IDs are positive"},
		{"decode --kind what 5", 2, `^$`, "queue"},
		{"decode", 2, `^$`, "shardid decode --help"},
		{"decode 16385 2", 2, `^id +16385\n`, "2 is not a queue ID"},
		{"apps", 1, `^$`, "no database"},
		{"provision", 2, `^$`, "app"},
		{"provision --app 1", 2, `^$`, "name"},
		{"provision --name test", 2, `^$`, "app"},
		{"provision --app one --name test", 2, `^$`, "app"},
		{"provision --app 256 --name test", 2, `^$`, "0…255"},
		{"provision --app -1 --name test", 2, `^$`, "0…255"},
		{"provision --app 1 --name=", 2, `^$`, "name"},
		{"provision --app 1 --name test --step 0", 2, `^$`, "step"},
		{"provision --app 1 --name test --limit-policy wrap", 2, `^$`, "limit"},
		{"provision --app 1 --name test --limit-policy what", 2, `^$`, "reject"},
		{"provision --app 1 --name test extra", 2, `^$`, "extra"},
		{"confirm", 2, `^$`, "app"},
		{"confirm --app 256 --name x", 2, `^$`, "0…255"},
		{"confirm --app 9 --name x", 1, `^$`, "no database"},
		{"srve", 2, `^$`, "did you mean serve: see shardid --help"},
		{"provide", 2, `^$`, "unknown command"},
		{"serve --what", 2, `^$`, "unknown flag"},
		{"serve --server.addr nowhere", 1, `^$`, "--server.addr"},
		{"serve --config none.yaml", 1, `^$`, "none.yaml"},
	} {
		t.Run(c.args, func(t *testing.T) {
			o := shardid(t, nil, strings.Fields(c.args)...)
			if o.exit != c.exit || !regexp.MustCompile(c.stdout).MatchString(o.stdout) || !strings.Contains(o.stderr, c.stderr) {
				t.Errorf("%+v, want exit %d, %q, %q", o, c.exit, c.stdout, c.stderr)
			}
			wantOneLine(t, o)
		})
	}
}

// wantOneLine: nothing on stderr when it worked, else one line.
func wantOneLine(t *testing.T, o outcome) {
	t.Helper()
	lines := strings.Count(o.stderr, "\n")
	if o.exit == 0 && o.stderr != "" || o.exit != 0 && (lines != 1 || !strings.HasPrefix(o.stderr, "shardid: ")) {
		t.Errorf("exit %d, stderr: %q", o.exit, o.stderr)
	}
}

// TestE2EHelp: every command that help lists has an example of itself.
func TestE2EHelp(t *testing.T) {
	story(t)
	help := must(t, nil, "--help")
	for _, name := range []string{"serve", "migrate", "provision", "apps", "confirm", "tags", "workers", "token", "decode", "doctor", "health", "bench", "version", "get", "status", "config"} {
		if !strings.Contains(help, "\n  "+name+" ") {
			t.Errorf("--help does not list %s", name)
		}
		text := must(t, nil, name, "--help")
		_, examples, _ := strings.Cut(text, "Examples:\n")
		if !strings.Contains(examples, "shardid "+name) || !strings.Contains(text, "Usage:") {
			t.Errorf("%s --help has no example:\n%s", name, text)
		}
	}
}

// TestE2EProvision: an app is provisioned once, and listed.
func TestE2EProvision(t *testing.T) {
	story(t)
	for name, s := range map[string]settings{"sqlite": {}, "mariadb": onMariaDB(migrated(t))} {
		t.Run(name, func(t *testing.T) { provisionTwice(t, s) })
	}
}

func provisionTwice(t *testing.T, s settings) {
	dir := t.TempDir()
	args := []string{"provision", "--app", "7", "--name", "订单", "--description", "orders", "--step", "5000", "--max-limit-id", "4294967295"}
	if o := shardidIn(t, dir, s, args...); o.exit != 0 || !strings.Contains(o.stdout, "64 shards") {
		t.Fatalf("%+v", o)
	}
	o := shardidIn(t, dir, s, args...)
	wantOneLine(t, o)
	if o.exit != 1 || !strings.Contains(o.stderr, "app 7 already has 64 of 64 shards") {
		t.Errorf("the second time: %+v", o)
	}
	o = shardidIn(t, dir, s, "apps")
	row := regexp.MustCompile(`(?m)^7 +订单 +64 +5000 +0 +4294967295 +reject +orders$`)
	if o.exit != 0 || !strings.HasPrefix(o.stdout, "APP ") || !row.MatchString(o.stdout) {
		t.Errorf("apps: %+v", o)
	}
	o = shardidIn(t, dir, s, "apps", "--json")
	var apps []map[string]any
	if err := json.Unmarshal([]byte(o.stdout), &apps); err != nil || len(apps) != 1 {
		t.Errorf("apps --json: %v, %+v", err, o)
	}
	if len(apps) == 1 && (apps[0]["id"] != 7.0 || apps[0]["maxLimitId"] != 4294967295.0) {
		t.Errorf("apps --json: %s", o.stdout)
	}
	if o = shardidIn(t, dir, s, "confirm", "--app", "7", "--name", apps[0]["name"].(string)); o.exit != 0 || !strings.Contains(o.stdout, "app 7") {
		t.Errorf("confirm: %+v", o)
	}
}

// TestE2EMigrate: the first time says what it did, the second that there was
// nothing to do.
func TestE2EMigrate(t *testing.T) {
	story(t)
	dsn := migrated(t)
	if out := must(t, onMariaDB(dsn), "migrate"); strings.Contains(out, "applied") || strings.Count(out, "\n") > 1 {
		t.Errorf("the second time: %s", out)
	}
	dir := t.TempDir()
	for range 2 {
		if o := shardidIn(t, dir, nil, "migrate"); o.exit != 0 || o.stderr != "" {
			t.Errorf("%+v", o)
		}
	}
}

// TestE2EUnknownKey: a configuration with a key that is none stops the start
// and names file, line and key.
func TestE2EUnknownKey(t *testing.T) {
	story(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("server:\n  addr: 127.0.0.1:0\nqueue:\n  low_watermerk: 0.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"apps"}, {"migrate", "--config", file}} {
		o := shardidIn(t, dir, nil, args...)
		wantOneLine(t, o)
		if o.exit != 1 || !strings.Contains(o.stderr, "config.yaml:4: queue.low_watermerk: unknown key: the keys here are refill_cron, reload_cron, low_watermark, ") {
			t.Errorf("%v: %+v", args, o)
		}
	}
}

// TestE2EPortTaken: the second process on a port says so and ends.
func TestE2EPortTaken(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	o := shardid(t, nil, "serve", "--server.addr", strings.TrimPrefix(d.url, "http://"))
	wantOneLine(t, o)
	if o.exit != 1 || !strings.Contains(o.stderr, "choose another server.addr") {
		t.Errorf("%+v", o)
	}
}

// TestE2EStoreAway: a command that cannot reach its store says so in one line.
func TestE2EStoreAway(t *testing.T) {
	story(t)
	s := onMariaDB("root:" + password + "@tcp(127.0.0.1:1)/nowhere")
	for _, args := range [][]string{{"migrate"}, {"apps"}, {"provision", "--app", "1", "--name", "test"}} {
		o := shardid(t, s, args...)
		wantOneLine(t, o)
		if o.exit != 1 || !strings.Contains(o.stderr, "127.0.0.1:1") || strings.Contains(o.stderr, password) {
			t.Errorf("%v: %+v", args, o)
		}
	}
}
