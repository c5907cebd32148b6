//go:build unix

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// password is what no output may hold.
const password = "hunter2-streng-geheim"

// mistake is a configuration that cannot work.
type mistake struct {
	settings func(t *testing.T) settings
	mentions string // what the log line holds
	advice   string // and what it says to do
}

func mistakes() map[string]mistake {
	onThisRedis := func(addr func(t *testing.T) string, more settings) func(t *testing.T) settings {
		return func(t *testing.T) settings { return provisioned(t).With(onRedis(addr(t))).With(more) }
	}
	onThisDatabase := func(dsn func(t *testing.T) string) func(t *testing.T) settings {
		return func(t *testing.T) settings { return onMariaDB(dsn(t)).With(onRedis(testserver.Redis(t).Addr)) }
	}
	locked := func(t *testing.T) string {
		r := testserver.Redis(t)
		if err := r.Client().ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
		return r.Addr
	}
	replica := func(t *testing.T) string { return testserver.RedisReplica(t, testserver.Redis(t)).Addr }
	sentinel := func(t *testing.T) string { return testserver.Sentinel(t).Addrs[0] }
	empty := func(t *testing.T) string { return testserver.SharedMariaDB(t).NewDatabase(t) }
	nowhere := func(t *testing.T) string { return testserver.SharedMariaDB(t).DSN("nowhere") }
	secret := func(t *testing.T) string { return strings.Replace(empty(t), "root@", "root:"+password+"@", 1) }
	return map[string]mistake{
		"wrong redis password":    {onThisRedis(locked, settings{"REDIS_PASSWORD": password + "-wrong"}), "WRONGPASS", "redis.password"},
		"no redis password":       {onThisRedis(locked, nil), "NOAUTH", "redis.password"},
		"wrong database password": {onThisDatabase(secret), "Access denied", "database.dsn"},
		"unknown database":        {onThisDatabase(nowhere), "Unknown database", "create the database"},
		"no migrate":              {onThisDatabase(empty), "id_alloc", "shardid migrate"},
		"a replica for a master":  {onThisRedis(replica, nil), "READONLY", "master"},
		"a sentinel for a master": {onThisRedis(sentinel, nil), "redis", "redis.mode"},
	}
}

func provisioned(t *testing.T) settings {
	t.Helper()
	s := onMariaDB(migrated(t))
	must(t, s, "provision", "--app", "1", "--name", "test")
	return s
}

// TestE2EMistakes: each is said in one clear line and not in a flood, callers
// get an answer, and no password is told to anybody.
func TestE2EMistakes(t *testing.T) {
	story(t)
	for name, m := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := serve(t, m.settings(t).With(settings{"QUEUE_TIMEOUT": "300ms"}))
			said := pester(d, 5*time.Second)
			wantClear(t, d, m)
			if strings.Contains(said+d.Output(), password) {
				t.Errorf("the password is told:\n%s\n%s", said, d.Output())
			}
		})
	}
}

// pester asks for IDs and for the health for a while and gives the answers.
func pester(d *daemon, length time.Duration) string {
	d.t.Helper()
	var said strings.Builder
	for begun := time.Now(); time.Since(begun) < length; time.Sleep(10 * time.Millisecond) {
		for _, target := range []string{aliceGet, helloGet, "/readyz/queue", "/healthz"} {
			a := d.get(target)
			if a.status != http.StatusServiceUnavailable {
				d.t.Fatalf("%s: %d %s", target, a.status, a.body)
			}
			fmt.Fprintln(&said, a.body)
		}
	}
	return said.String()
}

// wantClear finds the mistake, with advice, in one to three lines of a log that
// has few others.
func wantClear(t *testing.T, d *daemon, m mistake) {
	t.Helper()
	if n := len(d.Lines(m.mentions, m.advice)); n < 1 || n > 3 {
		t.Errorf("%d lines with %q and %q", n, m.mentions, m.advice)
	}
	if n := len(d.Lines(`"level":"ERROR"`)) + len(d.Lines(`"level":"WARN"`)); n > 5 {
		t.Errorf("%d lines of errors:\n%s", n, d.Output())
	}
	t.Log(strings.Join(d.Lines(m.mentions), ""))
}

// TestE2EStartMistakes: what stops a command is one line with what to do.
func TestE2EStartMistakes(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "mine"), 0o555)); err != nil {
		t.Fatal(err)
	}
	const serve = "serve --set server.addr=127.0.0.1:0 --set log.level=error "
	for _, c := range []struct {
		args string
		exit int
		says []string
	}{
		{"srve", 2, []string{`unknown command "srve" for "shardid": did you mean serve: see shardid --help`}},
		{serve + "--set server.tls_cert_file=no.pem --set server.tls_key_file=no.key", 1, []string{"server.tls_cert_file", "no.pem", "name the PEM files"}},
		{serve + "--set redis.mode=single --set redis.addrs=127.0.0.1:1 --set redis.tls=true --set redis.tls_ca_file=no.pem", 1, []string{"redis.tls_ca_file", "no.pem", "name a PEM file of authorities"}},
		{serve + "--set data_dir=file", 1, []string{"/file", "that is a file: set data_dir to a folder"}},
		{serve + "--set data_dir=file/below", 1, []string{"/file", "that is a file: set data_dir to a folder"}},
		{serve + "--set data_dir=mine", 1, []string{"/mine/shardid.db", "set data_dir to a folder that it may write"}},
		{serve + "--set data_dir=mine/below", 1, []string{"/mine/below", "set data_dir to a folder that it may write"}},
		{serve + "--set server.tokens_file=file", 1, []string{"server.tokens_file: file:1: is not a list"}},
		{serve + "--set server.tokens_file=none", 1, []string{"server.tokens_file: none: cannot be read", "shardid token new --append makes one"}},
		{"token new --name a --role get --append mine/tokens.yaml", 1, []string{"mine/tokens.yaml", "owner or root"}},
	} {
		cmd := command(t, dir, nil, strings.Fields(c.args)...)
		if os.Geteuid() == 0 { // who may write everywhere
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			if err := errors.Join(os.Chown(dir, 65534, 65534), os.Chown(filepath.Join(dir, "file"), 65534, 65534)); err != nil {
				t.Fatal(err)
			}
		}
		out, _ := cmd.CombinedOutput() // the status is in ProcessState
		o := outcome{exit: cmd.ProcessState.ExitCode(), stderr: string(out)}
		wantOneLine(t, o)
		for _, want := range c.says {
			if o.exit != c.exit || !strings.Contains(o.stderr, want) {
				t.Errorf("%s: %+v, want %q", c.args, o, want)
			}
		}
	}
}
