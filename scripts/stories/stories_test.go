//go:build unix

// Package stories runs the shardid binary as its users do: processes, signals, HTTP, and real servers of
// databases, Redis, Sentinel, Cluster and ZooKeeper. It knows the contract and nothing of the code. A file is
// named after what a user gets, what happens to them, or what an operator gets, and a story after its subject.

package stories_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of clients whose Redis a story breaks
	rig.Main(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// story is the first line of every story.
func story(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	t.Parallel()
	begun := time.Now()
	t.Cleanup(func() { t.Logf("story took %v", time.Since(begun).Round(10*time.Millisecond)) })
}

type (
	settings = rig.Settings
	ledger   = rig.Ledger
)

// plain is the series of a mode that is not the queue.
var plain = rig.List{App: -1}

var eventually = rig.Eventually

// command is a shardid that is not started yet, in a folder of its own.
func command(t *testing.T, dir string, s settings, args ...string) *exec.Cmd {
	t.Helper()
	return s.Command(dir, rig.Binary(t), args...)
}

// outcome is what a command left.
type outcome struct {
	exit           int
	stdout, stderr string
	audit          []string // lines that administration left on stderr; they are not in stderr
}

// shardid runs a command to its end, in a folder of its own.
func shardid(t *testing.T, s settings, args ...string) outcome {
	t.Helper()
	return shardidIn(t, t.TempDir(), s, args...)
}

func shardidIn(t *testing.T, dir string, s settings, args ...string) outcome {
	t.Helper()
	cmd := command(t, dir, s, args...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	bound := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer bound.Stop()
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	o := outcome{exit: cmd.ProcessState.ExitCode(), stdout: stdout.String()}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, `"msg":"audit"`) {
			o.audit = append(o.audit, line)
		} else {
			o.stderr += line
		}
	}
	return o
}

// must runs a command that has to succeed and gives its output.
func must(t *testing.T, s settings, args ...string) string {
	t.Helper()
	o := shardid(t, s, args...)
	if o.exit != 0 || o.stderr != "" {
		t.Fatalf("shardid %s: %+v", strings.Join(args, " "), o)
	}
	return o.stdout
}

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
	isShown := regexp.MustCompile(c.stdout).MatchString(o.stdout)
	if o.exit != c.exit || !isShown || !strings.Contains(o.stderr, c.stderr) {
		t.Errorf("%s: %+v, want exit %d, %q, %q", c.args, o, c.exit, c.stdout, c.stderr)
	}
	wantOneLine(t, o)
	return o
}

// wantOneLine: nothing on stderr when it worked, else one line.
func wantOneLine(t *testing.T, o outcome) {
	t.Helper()
	lines := strings.Count(o.stderr, "\n")
	if o.exit == 0 && o.stderr != "" || o.exit != 0 && (lines != 1 || !strings.HasPrefix(o.stderr, "shardid: ")) {
		t.Errorf("exit %d, stderr: %q", o.exit, o.stderr)
	}
}

func onMariaDB(dsn string) settings {
	return settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": dsn}
}

func onRedis(addr string) settings {
	return settings{"REDIS_URL": "redis://" + addr}
}

// as says user and password of Redis.
func as(user, password string, s settings) settings {
	return settings{"REDIS_URL": strings.Replace(s["REDIS_URL"], "://", "://"+user+":"+password+"@", 1)}
}

func onSentinel(s *testserver.SentinelSetup) settings {
	addrs := strings.Join(s.Addrs, ",")
	return settings{"REDIS_URL": "redis://" + addrs + "?master_name=" + s.MasterName}
}

func onCluster(c *testserver.ClusterSetup) settings {
	return settings{"REDIS_URL": "redis://" + strings.Join(c.Addrs, ",")}
}

// migrated is a new database of the shared MariaDB with the schema in place.
func migrated(t *testing.T) (dsn string) {
	t.Helper()
	dsn = testserver.SharedMariaDB(t).NewDatabase(t)
	must(t, onMariaDB(dsn), "migrate")
	return dsn
}

// query runs statements one by one; they must succeed.
var query = rig.Query

// scan reads the one row that a query gives.
func scan(t *testing.T, dsn, statement string, into ...any) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err == nil {
		err = errors.Join(db.QueryRowContext(t.Context(), statement).Scan(into...), db.Close())
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// number is the one number that a query gives.
func number(t *testing.T, dsn, statement string) (n int64) {
	t.Helper()
	scan(t, dsn, statement, &n)
	return n
}

// word is the one text that a query gives.
func word(t *testing.T, dsn, statement string) (text string) {
	t.Helper()
	scan(t, dsn, statement, &text)
	return text
}

// mariadb runs a statement through the command line client, as an operator
// would, and gives what it printed.
func mariadb(t *testing.T, dsn, statement string) (string, error) {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		t.Fatal(err)
	}
	client := testserver.MariaDBClient()
	if client == "" {
		t.Fatal("no mariadb client: install the Debian package mariadb-client")
	}
	out, err := exec.Command(client, "--no-defaults", "--protocol=tcp", "--default-character-set=utf8mb4",
		"-h", host, "-P", port, "-u", cfg.User, cfg.DBName, "-e", statement).CombinedOutput()
	return string(out), err
}
