//go:build unix

package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// try is a command, how it ends, and what it prints and says on stderr.
type try struct {
	args   string
	exit   int
	stdout string // regular expression
	stderr string // part
}

// in runs it, with further arguments. On stderr is nothing when it works, else one line.
func (c try) in(t *testing.T, dir string, s settings, more ...string) outcome {
	t.Helper()
	o := shardidIn(t, dir, s, append(strings.Fields(c.args), more...)...)
	if o.exit != c.exit || !regexp.MustCompile(c.stdout).MatchString(o.stdout) || !strings.Contains(o.stderr, c.stderr) {
		t.Errorf("%s: %+v, want exit %d, %q, %q", c.args, o, c.exit, c.stdout, c.stderr)
	}
	wantOneLine(t, o)
	return o
}

// TestE2ECommands: exit status, and one line on stderr that says what to do.
func TestE2ECommands(t *testing.T) {
	story(t)
	for _, c := range []try{
		{"version", 0, `^shardid \d+\.\d+\.\d+\S* go1\.\S+ \S+/\S+\n$`, ""},
		{"decode --json 16385", 0, `^\{"appId":1,"id":16385,"idStr":"16385","index":1,"kind":"queue","shardId":0\}\n$`, ""},
		{"decode --kind queue 9223372036854775807", 0, `shardId +63\nappId +255\n`, ""},
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
		{"serve --set server.addr=nowhere", 1, `^$`, "--set server.addr"},
		{"serve --config none.yaml", 1, `^$`, "none.yaml"},
		{"doctor extra", 2, `^$`, "extra"},
	} {
		c.in(t, t.TempDir(), nil)
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

// TestE2EUnknownKey: a configuration with a key that is none stops the start
// and names file, line and key.
func TestE2EUnknownKey(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte("server:\n  addr: 127.0.0.1:0\nqueue:\n  low_watermerk: 0.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"serve", "apps", "migrate --config " + file} {
		try{args, 1, `^$`, "config.yaml:4: queue.low_watermerk: unknown key: the keys here are refill_cron, reload_cron, low_watermark, "}.in(t, dir, nil)
	}
}

// TestE2EStoreAway: a command that cannot reach its store says so in one line.
func TestE2EStoreAway(t *testing.T) {
	check.Deep(t)
	story(t)
	s := onMariaDB("root:" + password + "@tcp(127.0.0.1:1)/nowhere")
	for _, args := range []string{"migrate", "apps", "provision --app 1 --name test"} {
		if o := (try{args, 1, `^$`, "127.0.0.1:1"}).in(t, t.TempDir(), s); strings.Contains(o.stderr, password) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}
