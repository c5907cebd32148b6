//go:build unix

package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestE2EChinesePages follows the pages of docs/zh, from the database of the service that is
// replaced: each command does what its page says. TestE2EBesideTheArticle follows
// redis-queue.md; the programs of clients.md are those of docs/clients.md.
func TestE2EChinesePages(t *testing.T) {
	check.Deep(t)
	story(t)
	for page, c := range map[string]struct {
		theirs         []string // what the old service left in the database
		steps, outputs int      // commands of the page, and those whose output it shows
	}{
		"leaf.md": {theirs: []string{leafTable, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 5001, 1000)"},
			steps: 15, outputs: 2},
		"uid.md":     {theirs: baiduNodes(), steps: 10, outputs: 2},
		"running.md": {steps: 28},
	} {
		t.Run(page, func(t *testing.T) {
			r := &chineseReader{reader: reader{t: t, run: &daemon{}, dir: t.TempDir(), env: settings{"LOG_LEVEL": "warn"}.Environ(t.TempDir())}}
			r.dsn = testserver.SharedMariaDB(t).NewDatabase(t)
			query(t, r.dsn, c.theirs...)
			steps, outputs := pageSteps(t, "../../docs/zh/"+page), 0
			for _, s := range steps {
				r.follow(s)
				if s.prints != "" {
					outputs++
				}
			}
			if len(steps) != c.steps || outputs != c.outputs {
				t.Errorf("%d commands with %d outputs, want %d and %d", len(steps), outputs, c.steps, c.outputs)
			}
		})
	}
}

// chineseReader is a reader whose database is there already, and whose replica goes on beside
// the commands that follow.
type chineseReader struct {
	reader
	dsn string
}

func (r *chineseReader) follow(s step) {
	r.t.Helper()
	words := strings.Fields(s.command)
	name, value, _ := strings.Cut(words[len(words)-1], "=")
	switch {
	case name == "SHARDID_DATABASE_DSN" && strings.HasSuffix(value, "_drill'"):
		r.env = append(r.env, name+"="+r.drill().FormatDSN())
	case name == "SHARDID_DATABASE_DSN":
		r.env = append(r.env, name+"="+r.dsn)
	case name == "SHARDID_ZOOKEEPER_ADDRS":
		r.env = append(r.env, name+"="+testserver.SharedZooKeeper(r.t).Addr())
	case words[0] == "mysql" || words[0] == "mysqldump":
		r.databaseClient(s)
	case s.command == "bin/shardid serve":
		r.run = serveIn(r.t, r.t.TempDir(), r.settings().With(settings{"LOG_LEVEL": "info"}), "--set", "resp.addr=127.0.0.1:0")
		eventually(r.t, startLimit, "healthy", func() bool { return r.run.get("/healthz").status == 200 })
	default:
		r.reader.follow(s)
	}
}

// drill is the database to which the page restores its backup.
func (r *chineseReader) drill() *mysql.Config {
	r.t.Helper()
	cfg, err := mysql.ParseDSN(r.dsn)
	if err != nil {
		r.t.Fatal(err)
	}
	cfg.DBName += "_drill"
	return cfg
}

// databaseClient runs mysql or mysqldump as a shell here does. A server that was fetched for
// the tests has no mysqldump that runs: what follows it is then left out.
func (r *chineseReader) databaseClient(s step) {
	r.t.Helper()
	client, rest, _ := strings.Cut(s.command, " ")
	path := testserver.MariaDBClient()
	if path == "" {
		r.t.Fatal("no mariadb client: install the Debian package mariadb-client")
	}
	if client == "mysqldump" {
		path = filepath.Join(filepath.Dir(path), client)
		if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
			r.t.Skipf("%s is not followed: %v, %s", s.command, err, out)
		}
	}
	cfg := r.drill()
	host, port, _ := strings.Cut(cfg.Addr, ":")
	rest = strings.NewReplacer("shardid_drill", cfg.DBName, "--routines shardid", "--routines "+strings.TrimSuffix(cfg.DBName, "_drill")).Replace(rest)
	r.shell(s, fmt.Sprintf("%s --no-defaults --protocol=tcp -h %s -P %s -u %s %s", path, host, port, cfg.User, rest))
}
