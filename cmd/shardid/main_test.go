package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
)

// try runs a command in the folder of the test, and gives what it prints.
func try(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	outputs := [...]**os.File{&os.Stdout, &os.Stderr}
	var was, files [len(outputs)]*os.File
	for i, output := range outputs {
		file, err := os.Create(filepath.Join(t.TempDir(), "output"))
		check.Must(t, err)
		was[i], files[i], *output = *output, file, file
	}
	exit = run(t.Context(), args)
	var texts [len(outputs)]string
	for i, output := range outputs {
		*output = was[i]
		text, err := os.ReadFile(files[i].Name())
		check.Must(t, errors.Join(err, files[i].Close()))
		texts[i] = string(text)
	}
	return exit, texts[0], texts[1]
}

// What is wrong with the command line is said in words that help.
func TestCommandLineErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("tab.yaml", []byte("server:\n\taddr: ':1'\n"), 0o600))
	check.Must(t, os.WriteFile("two.yaml", []byte("foo: 1\nlog:\n  level: loud\n"), 0o600))
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"serve --server.addr :1", 2, "--server.addr is gone since 0.4: write --set server.addr=VALUE\n"},
		{"serve --server.adrr :1", 2, "unknown flag: --server.adrr: see shardid --help\n"},
		{"config check --set server.adrr=:1", 1, "flag --set server.adrr: unknown key: the keys here are addr, \n"},
		{"apps --json false", 2, "--json false: a boolean takes its value after =: write --json=false\n"},
		{"config check nonsense", 2, `unknown command "nonsense" for "shardid config check": see shardid --help` + "\n"},
		{"config check --config tab.yaml", 1, "tab.yaml:2: is indented by a tab: use spaces\n"},
		{"config check --config two.yaml --set queue.timeout=1h", 1, "two.yaml:1: foo: unknown key: \n" +
			"flag --set queue.timeout: 1h0m0s is not in \ntwo.yaml:3: log.level: \"loud\" is not one of \n"},
		{"config check --set server.tokens_file=none --set redis.mode=single --set redis.addrs=h:1 --set redis.tls=true " +
			"--set redis.tls_ca_file=none", 1,
			"flag --set server.tokens_file: server.tokens_file: none: \nflag --set redis.tls_ca_file: redis.tls_ca_file: \n"},
		{"decode -5", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode -5 --json", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode --kind snowflake -5", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode -- -5", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode -x", 2, "unknown shorthand flag: 'x' in -x: see shardid --help\n"},
	} {
		exit, stdout, stderr := try(t, strings.Fields(c.args)...)
		lines := strings.SplitAfter(stderr, "\n")
		for i, want := range strings.SplitAfter(c.want, "\n") {
			if exit != c.exit || stdout != "" || len(lines) <= i || want != "" && !strings.HasPrefix(lines[i], "shardid: "+strings.TrimSuffix(want, "\n")) {
				t.Errorf("%s: exit %d, %q, %q; want %d, %q", c.args, exit, stdout, stderr, c.exit, c.want)
			}
		}
	}
	check.Must(t, os.WriteFile("config.yaml", nil, 0o600))
	if _, stdout, _ := try(t, "config", "check"); stdout != "the configuration is right: config.yaml\n" {
		t.Error(stdout)
	}
}

// Who asks without a token, or with another one, is told by the name of the flag.
func TestTokenFileIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("token", []byte("secret-of-somebody"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"code":-7,"message":"no valid token: send it in the header Authorization: Bearer TOKEN"}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	for flags, want := range map[string]string{
		"":                   " answers 401: it asks for a token: name a file that holds one with --token-file\n",
		"--token-file token": " answers 401: it does not know the token of --token-file token, or that has expired\n",
	} {
		for _, name := range []string{"get", "status"} {
			args := append([]string{name, "--url", server.URL}, strings.Fields(flags)...)
			if exit, _, stderr := try(t, args...); exit != exitFailed || !strings.HasSuffix(stderr, want) {
				t.Errorf("%v: %d, %q", args, exit, stderr)
			}
		}
	}
}

// The kind of an ID is found by what it would be: IDs of the last years, of all kinds.
func TestKindIsFound(t *testing.T) {
	d := decoder(config.Defaults().Config)
	for at := time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2034; at = at.Add(1234 * time.Hour) {
		now := at.Add(10 * time.Minute)
		for _, c := range []struct {
			kind string
			id   int64
		}{
			{model.KindQueue, 1<<14 | 1}, {model.KindQueue, 1<<48 - 1<<8 | 7},
			{model.KindSnowflake, (at.UnixMilli()-d.Snowflake.EpochMs)<<22 | 39<<12 | 3448},
			{model.KindUID, (at.Unix()-d.UID.Epoch.Unix())<<(d.UID.WorkerBits+d.UID.SeqBits) | 21<<d.UID.SeqBits | 1},
		} {
			if found := fits(d, c.id, now); len(found) == 0 || found[0].kind != c.kind {
				t.Errorf("at %v, %s %d: %v", now, c.kind, c.id, found)
			}
		}
	}
}

// What is in the database, and what a flag may be, is offered; but nothing that a shell
// would run.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, stdout, _ := try(t, "__complete", "apps", "set", "--app", ""); stdout != ":4\n" {
		t.Errorf("without a database: %q", stdout)
	}
	for _, args := range [][]string{
		{"apps", "add", "--app", "1", "--name", "test"}, {"apps", "add", "--app", "200", "--name", "a`b"},
		{"tags", "add", "--tag", "orders", "--description", "all shops"}, {"tags", "add", "--tag", "发票"}, {"tags", "add", "--tag", "$(touch run)"},
		{"tags", "add", "--tag", "-x"}, {"names", "add", "--name", "carts"},
		{"sequences", "add", "--space", "chat", "--sections", "8"},
	} {
		if exit, _, stderr := try(t, args...); exit != exitDone {
			t.Fatal(stderr)
		}
	}
	const apps, tags = "1\ttest\n200\n:4\n", "orders\tall shops\n发票\n:4\n"
	for args, want := range map[string]string{
		"apps set --app": apps, "apps delete --app": apps, "confirm --app": apps, "tags set --tag": tags, "tags delete --tag": tags, "confirm --tag": tags,
		"names set --name": "carts\n:4\n", "names delete --name": "carts\n:4\n", "sequences set --space": "chat\n:4\n", "sequences delete --space": "chat\n:4\n", "confirm --space": "chat\n:4\n", "workers --name": "shardid\tthe replicas\ncarts\n:4\n",
		"tags add --reset": "day\nmonth\nyear\nnone\n:4\n", "tags preview --overflow": "widen\nrefuse\n:4\n",
		"decode --format": "dec\nhex\nbase36\nbase62\ncrockford\n:4\n", "apps set --config none --app": ":4\n",
	} {
		if _, stdout, _ := try(t, append(append([]string{"__complete"}, strings.Fields(args)...), "")...); stdout != want {
			t.Errorf("%s: %q, want %q", args, stdout, want)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"$(touch run)", "`touch run`", "a b", "${x}", "a;b", "a|b", "a&b", "a>b", `a"b`, "a'b", `a\b`, "a!b", "a*b", "a?b", "a[b", "a{b", "~a", "a=b", "#a", "a\tb"} {
		if completable.MatchString(text) {
			out, err := exec.Command(bash, "-c", `IFS=$'\n'; compgen -W "`+text+`" -- ""`).Output()
			if err != nil || string(out) != text+"\n" {
				t.Errorf("%q: bash makes %q of it, %v", text, out, err)
			}
		}
	}
}

// A script that runs again changes nothing, and meets no error when another was faster.
func TestIfMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"apps add --if-missing --app 1 --name test", 0, "app 1 (test) has its 64 shards\n"},
		{"provision --if-missing --app 1 --name test", 0, "app 1 (test) is there, nothing was changed\n"},
		{"apps add --if-missing --app 1 --name test", 0, "app 1 (test) is there, nothing was changed\n"},
		{"apps add --if-missing --app 1 --name other", 1, "app 1 already has 64 of 64 shards"},
		{"apps add --app 1 --name test", 1, "app 1 already has 64 of 64 shards"},
		{"tags add --if-missing --tag t", 0, "tag t starts at 1: "},
		{"tags add --if-missing --tag t --step 7", 0, "tag t is there, nothing was changed\n"},
		{"tags add --if-missing --tag t --pattern {seq:8} --reset none", 1, "tag is already provisioned"},
		{"tags add --tag t", 1, "tag is already provisioned"},
		{"tags add --if-missing --tag n --pattern {seq:8} --reset none", 0, "tag n starts at "},
		{"tags add --if-missing --tag n --pattern {seq:8} --reset none --zone UTC", 0, "tag n is there, nothing was changed\n"},
		{"tags add --if-missing --tag n", 1, "tag is already provisioned"},
		{"names add --if-missing --name n", 0, "name n has the worker IDs 0…1023, for IDs until 2080-07-10: curl -X POST http://127.0.0.1:8080/v1/leases/n\n"},
		{"names add --if-missing --name n --hold 5m", 0, "name n is there, nothing was changed\n"},
		{"names add --if-missing --name n --worker-bits 9", 1, "name is already provisioned"},
		{"names add --name n", 1, "name is already provisioned"},
		{"sequences add --if-missing --space s --sections 8", 0, "space s has a sequence for each key, on every replica within 3 s: curl -X POST 'http://127.0.0.1:8080/v1/sequence/s/ids?key=room42'\n"},
		{"sequences add --if-missing --space s --sections 8 --step 10000", 0, "space s is there, nothing was changed\n"},
		{"sequences add --if-missing --space s", 1, "it has 8 sections, not 1024, and they never change: add it with --sections 8, or another space"},
		{"sequences add --if-missing --space s --sections 8 --step 9", 1, "its step is 10000, not 9: change it with `shardid sequences set --space s --step 9`"},
		{"sequences add --space s --sections 8", 1, "space is already provisioned"},
		{"sequences list", 0, "SPACE  SECTIONS"}, {"sequences list --json", 0, `[{"space":"s","sections":8,"step":10000,"used":0,"highest":0}]`},
		{"names list", 0, "NAME"}, {"names list --json", 0, `[{"name":"shardid",`},
		{"apps list", 0, "APP  NAME"}, {"tags list", 0, "TAG"}, {"apps list --json", 0, `[{"appId":1,`}, {"tags list --json", 0, `[{"tag":"n",`},
	} {
		exit, stdout, stderr := try(t, strings.Fields(c.args)...)
		said := strings.HasPrefix(stdout, c.want) || exit != 0 && strings.Contains(stderr, c.want)
		if exit != c.exit || !said {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q", c.args, exit, stdout, stderr, c.exit, c.want)
		}
	}
	looks := 0
	found, made, err := ensure(true, func() (int, bool) { looks++; return looks, looks == 2 }, func() (int, error) { return 0, errNoData })
	if found != 2 || made || err != nil {
		t.Errorf("another process was faster: %v, %v, %v", found, made, err)
	}
}

// Everything that is appended at the same time is there afterwards.
func TestAppendedTokensAreNotLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	const count = 40
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			check.OK(t, appendEntry(file, entryOf(fmt.Sprint("service-", i))))
		})
	}
	all.Wait()
	tokens, err := access.ReadFile(file)
	if err != nil || len(tokens) != count {
		t.Errorf("%d tokens of %d, %v", len(tokens), count, err)
	}
}

func entryOf(name string) string {
	_, sum := access.Generate()
	return tokenFlags{name: name, role: "get"}.entry(sum)
}
