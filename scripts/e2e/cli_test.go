//go:build unix

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// TestE2EAskAServer: get and status ask a server as callers and its console do.
func TestE2EAskAServer(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo")
	d.ready()
	here := []string{"--url", d.url}
	run := func(args ...string) outcome { return shardid(t, nil, append(args, here...)...) }
	for _, c := range []try{
		{"get --gate-pass alice", 0, `^16385\n$`, ""},
		{"get --gate-pass alice --json", 0, `^\{"code":0,"id":32769,"idStr":"32769"\}\n$`, ""},
		{"get --gate-pass alice --count 2", 0, `^49153\n65537\n$`, ""},
		{"get --gate-pass alice --count 1 --json", 0, `^\{"code":0,"ids":\[81921\],"idsStr":\["81921"\]\}\n$`, ""},
		{"get --mode segment --tag leaf-segment-test", 0, `^1\n$`, ""},
		{"get --mode segment --tag leaf-segment-test --count 2 --json", 0, `^\{"code":0,"ids":\[2,3\],"idsStr":\["2","3"\]\}\n$`, ""},
		{"get --mode snowflake", 0, `^\d{19}\n$`, ""},
		{"get --mode uid --json", 0, `^\{"code":0,"id":\d+,"idStr":"\d+"\}\n$`, ""},
		{"get --mode segment", 2, `^$`, "needs --tag"},
		{"get --mode leaf", 2, `^$`, "none of queue, segment, snowflake, uid"},
		{"get --app 9", 1, `^$`, "answers 404: app is not provisioned: appId 9"},
		{"get --count 0", 1, `^$`, "count must be a whole number in 1…10000"},
		{"status", 0, `(?s)^shardid 0\.\S+ is ready, started at 2\S+Z.*\nqueue +ready +2.*\ndatabase +ok .*\n1 +test +5 .*\nleaf-segment-test +199\d `, ""},
		{"health --json", 0, `^\{"status":"ok"\}\n$`, ""},
	} {
		c.in(t, t.TempDir(), nil, here...)
	}
	var status struct {
		Queue struct{ Apps []struct{ AppID int } }
	}
	if o := run("status", "--json"); json.Unmarshal([]byte(o.stdout), &status) != nil || len(status.Queue.Apps) != 1 || status.Queue.Apps[0].AppID != 1 {
		t.Errorf("status --json: %+v", o)
	}
	if o := shardid(t, settings{"SERVER_ADDR": strings.TrimPrefix(d.url, "http://")}, "get", "--gate-pass", "alice"); o.stdout != "98305\n" {
		t.Errorf("get from the configured server: %+v", o)
	}
	for args, want := range map[string]string{"get --app": "1\ttest\n:4\n", "get --tag": "leaf-segment-test\norders\n:4\n", "bench --app": "1\ttest\n:4\n"} {
		name, flag, _ := strings.Cut(args, " ")
		if o := shardid(t, nil, "__complete", name, "--url", d.url, flag, ""); o.stdout != want {
			t.Errorf("%s: %+v", args, o)
		}
	}
	d.Kill()
	if o := run("get"); o.exit != 1 || !strings.Contains(o.stderr, "start it, or correct --url or server.addr") {
		t.Errorf("get from a server that is gone: %+v", o)
	}
}

// TestE2EGetWithAToken: the commands go through closed doors with a token.
func TestE2EGetWithAToken(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte(newToken(t, file, "orders", "get", "--apps", "1")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := serve(t, settings{"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true", "SERVER_PROTECT_MONITORING": "true"}, "--demo")
	d.ready()
	for _, name := range []string{"get", "status"} {
		if o := shardid(t, nil, name, "--url", d.url); o.exit != 1 || !strings.Contains(o.stderr, "answers 401: it asks for a token: name a file that holds one with --token-file") {
			t.Errorf("%s without a token: %+v", name, o)
		}
		must(t, nil, name, "--url", d.url, "--token-file", secret)
	}
}

// TestE2EConfigCommand: print says what holds and from where and shows no secret, check
// names what is wrong, also in the files that the configuration names.
func TestE2EConfigCommand(t *testing.T) {
	story(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("queue:\n  timeout: 3s\nlog:\n  level: warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings{"LOG_LEVEL": "debug", "SERVER_ADMIN_TOKEN": adminToken}
	o := shardidIn(t, dir, s, "config", "print", "--set", "server.addr=:1")
	for _, row := range []string{
		`server\.addr +:1 +flag --set server\.addr`, `server\.admin_token +\(secret\) +environment SHARDID_SERVER_ADMIN_TOKEN`,
		`queue\.timeout +3s +config\.yaml:2`, `log\.level +debug +environment SHARDID_LOG_LEVEL`, `uid\.epoch +2026-01-01 +default`,
	} {
		if !regexp.MustCompile(`(?m)^` + row + `$`).MatchString(o.stdout) {
			t.Errorf("no row %s in %s", row, o.stdout)
		}
	}
	if strings.Contains(o.stdout, adminToken) || o.exit != 0 {
		t.Errorf("%+v", o)
	}
	var all map[string]struct{ Value, From string }
	if o := shardidIn(t, dir, s, "config", "print", "--json"); json.Unmarshal([]byte(o.stdout), &all) != nil || all["queue.timeout"].Value != "3s" || all["queue.timeout"].From != "config.yaml:2" {
		t.Errorf("%+v", o)
	}
	if o := shardidIn(t, dir, s, "config", "check"); o.exit != 0 || o.stdout != "the configuration is right: config.yaml\n" {
		t.Errorf("%+v", o)
	}
	for args, want := range map[string]string{
		"--set queue.timeout=1h":                                         "flag --set queue.timeout: 1h0m0s is not in 10ms…1m",
		"--set server.tokens_file=none":                                  "server.tokens_file: none: cannot be read",
		"--set server.tls_cert_file=none --set server.tls_key_file=none": "server.tls_cert_file none",
		"--set redis.mode=single --set redis.addrs=h:1 --set redis.tls=true --set redis.tls_ca_file=none": "redis.tls_ca_file",
	} {
		try{"config check " + args, 1, `^$`, want}.in(t, dir, s)
	}
}

// TestE2EDecodeMany: several IDs, from the command line and standard input, and hints.
func TestE2EDecodeMany(t *testing.T) {
	check.Deep(t)
	story(t)
	cmd := command(t, t.TempDir(), nil, "decode", "--json")
	cmd.Stdin = strings.NewReader("16385\n32769 16386\n")
	out, err := cmd.Output()
	want := `{"appId":1,"id":16385,"idStr":"16385","index":1,"kind":"queue","shardId":0}
{"appId":1,"id":32769,"idStr":"32769","index":2,"kind":"queue","shardId":0}
{"appId":2,"id":16386,"idStr":"16386","index":1,"kind":"queue","shardId":0}
`
	if err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
	for args, want := range map[string]string{
		"16385":                                `^index +1\nshardId +0\nappId +1\nkind +queue\n$`,
		"16385 32769":                          `^id +16385\nindex +1\n(.*\n){4}id +32769\nindex +2\n`,
		"1169786042799259000":                  `^timestamp +1567733700834\n(.*\n){3}kind +snowflake\n$`,
		"--kind queue 1169786042799259000":     `\nwith --kind snowflake: 2019-09-06T01:35:00\.834Z, worker 39\n`,
		"--kind snowflake 1169786042799259000": `\nsequenceId +3448\n$`,
		"--kind uid 16385":                     `\nwith --kind queue: index 1 of shard 0, app 1\n$`,
	} {
		if out := must(t, nil, append([]string{"decode"}, strings.Fields(args)...)...); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("decode %s:\n%swant %s", args, out, want)
		}
	}
}

// TestE2EJSONEverywhere: each command that prints something takes --json, and an app has
// one name for its number, that of HTTP.
func TestE2EJSONEverywhere(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	for _, c := range []struct{ args, has string }{
		{"version", `"version":"0.`}, {"migrate", `"steps":[`}, {"provision --app 7 --name orders", `"appId":7`}, {"apps", `[{"appId":7`},
		{"apps set --app 7 --step 2000", `"appId":7`}, {"tags add --tag t", `"tag":"t","maxId":1,"maxIdStr":"1"`}, {"tags", `[{"tag":"t"`},
		{"tags set --tag t --step 5", `"step":5`}, {"tags delete --tag t --confirm t", `"tag":"t"`}, {"confirm --app 7 --name orders", `"confirmed":false`},
		{"apps delete --app 7 --confirm orders", `"appId":7`}, {"names add --name n", `{"name":"n","epoch":"1288834974657","workerBits":10,"seqBits":12,"hold":"60s","leased":0,"workers":1024}`},
		{"names", `,"own":true},{"name":"n",`}, {"names set --name n --hold 90s", `"hold":"90s"`}, {"names delete --name n --confirm n", `"name":"n"`},
		{"sequences add --space s", `{"space":"s","sections":1024,"step":10000}`}, {"sequences", `[{"space":"s","sections":1024,"step":10000,"used":0,"highest":0}]`},
		{"sequences set --space s --step 5", `{"space":"s","sections":1024,"step":5}`}, {"sequences delete --space s --confirm s", `"step":5`},
		{"workers", `[]`}, {"decode 16385", `"appId":1`}, {"doctor", `[{`},
		{"token new --name a --role admin --append t.yaml", `"token":"shardid_`}, {"token check --file t.yaml", `[{"name":"a","role":"admin"`},
		{"config check", `"ok":true}`},
	} {
		o := shardidIn(t, dir, nil, append(strings.Fields(c.args), "--json")...)
		if o.exit != 0 || !json.Valid([]byte(o.stdout)) || !strings.Contains(o.stdout, c.has) {
			t.Errorf("%s: %+v, want %s", c.args, o, c.has)
		}
	}
	for args, want := range map[string]string{
		"--set server.addr=:9191": "curl http://127.0.0.1:9191/api/segment/get/a%2Fb",
		"--set server.addr=ids.example:443 --set server.tls_cert_file=c --set server.tls_key_file=k": "curl https://ids.example:443/api/segment/get/a%2Fb",
	} {
		if out := must(t, nil, append(strings.Fields("tags add --tag a/b"), strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
	if a, b := must(t, nil, "--version"), must(t, nil, "version"); a != b {
		t.Errorf("--version: %s", a)
	}
	help := must(t, nil, "serve", "--help")
	for _, want := range []string{"\n  queue.low_watermark ", "0.2\n", "SHARDID_DATABASE_DSN", "--set server.addr=:8080"} {
		if !strings.Contains(help, want) {
			t.Errorf("serve --help has no %q", want)
		}
	}
}
