//go:build unix

package stories_test

import (
	"database/sql"
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
)

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
