//go:build unix

package testserver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// sqlLimit bounds one statement of the package's own, a DROP DATABASE on a
// busy machine and a replica that catches up included.
const sqlLimit = 150 * time.Second

// MariaDBServer is one mariadbd process, or mysqld where DB says so, see MariaDB. Its root user has no
// password and may connect from 127.0.0.1 and by the socket.
type MariaDBServer struct {
	Port   int    // of 127.0.0.1; it stays the same over a Restart
	Socket string // path of the Unix socket, shorter than 100 bytes
	server
}

// MariaDB starts a private, empty MariaDB, or the server that DB names. Its settings are those of
// production where it matters to tests: commits are flushed, InnoDB, strict
// SQL mode, utf8mb4. args are further arguments of mariadbd and win over the
// defaults. It is ready in 1–3 s.
func MariaDB(t testing.TB, args ...string) *MariaDBServer {
	t.Helper()
	return private(t, func() (*MariaDBServer, error) { return startMariaDB(args...) })
}

// SharedMariaDB returns the one MariaDB of this test process, started on first
// use, for tests that each take a NewDatabase. It cannot be stopped or paused.
// Safe for concurrent use.
func SharedMariaDB(t testing.TB) *MariaDBServer {
	t.Helper()
	return sharedMariaDB.lend(t)
}

// DSN returns the data source name of a database for go-sql-driver/mysql; ""
// is a connection without a database. Safe for concurrent use.
func (s *MariaDBServer) DSN(db string) string {
	return fmt.Sprintf("root@tcp(%s)/%s?parseTime=true", s.Addr(), db)
}

// Addr is the server's host:port. Safe for concurrent use.
func (s *MariaDBServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// NewDatabase creates an empty database under a name of its own, drops
// it when t ends, and returns its DSN. A transaction left open by the test
// makes the drop, and with it the test, fail after 40 s. Safe for concurrent
// use on a shared server.
func (s *MariaDBServer) NewDatabase(t testing.TB) (dsn string) {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	must(t, s.exec("CREATE DATABASE "+name))
	t.Cleanup(func() {
		if !s.answers() {
			return // killed or paused by its test; the folder goes anyway
		}
		if err := s.exec("DROP DATABASE IF EXISTS " + name); err != nil {
			t.Errorf("testserver: %v", err)
		}
	})
	return s.DSN(name)
}

func (s *MariaDBServer) exec(statements ...string) error {
	return s.withDB(sqlLimit, func(ctx context.Context, db *sql.DB) error {
		for _, statement := range statements {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

func (s *MariaDBServer) isReady() error {
	return s.withDB(askLimit, func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) })
}

// withDB connects by the socket, which lies in the server's own folder: on a
// clash of ports no other server can answer there. A server binds its port first.
func (s *MariaDBServer) withDB(limit time.Duration, use func(context.Context, *sql.DB) error) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = "root", "unix", s.Socket
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect to MariaDB: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	db := sql.OpenDB(connector)
	return errors.Join(use(ctx, db), db.Close())
}

// startMariaDB starts a MariaDB, or what DB names, that belongs to no test yet.
func startMariaDB(args ...string) (*MariaDBServer, error) {
	e, err := database()
	if err != nil {
		return nil, err
	}
	bin, err := e.program("mariadb-server", e.programs...)
	if err != nil {
		return nil, err
	}
	s := &MariaDBServer{}
	return s, s.begin(plan{
		ports: 1, ready: s.isReady,
		prepare: func() error { return e.makeData(s.process) },
		args: func(ports []int) ([]string, error) {
			s.Port, s.Socket = ports[0], s.path("s.sock")
			return append(s.serverArgs(bin), args...), nil
		},
	})
}

// makeData makes an empty data directory. A fetched MySQL comes with one to copy, as
// making one takes seconds.
func (e edition) makeData(p *process) error {
	if OnMySQL() {
		return p.run([]string{"cp", "-a", filepath.Join(e.root, "data"), p.path("data")})
	}
	install, err := e.program("mariadb-server", "mariadb-install-db", "mysql_install_db")
	if err != nil {
		return err
	}
	return p.run(append(dataArgs(install, p), "--auth-root-authentication-method=normal", "--skip-test-db"))
}

// dataArgs are the arguments the installation and the server must agree on,
// after the program itself. --no-defaults has to be the first.
func dataArgs(bin string, p *process) []string {
	args := []string{bin, "--no-defaults", "--datadir=" + p.path("data"), "--tmpdir=" + p.dir, "--skip-name-resolve"}
	if OnMySQL() {
		args = append(args, "--innodb-redo-log-capacity=8M")
	} else {
		args = append(args, "--innodb-log-file-size=8M")
	}
	// A fetched server does not lie where it was built for.
	usr := filepath.Dir(filepath.Dir(bin))
	for _, share := range []string{"share/mariadb", "share/mysql"} {
		if _, err := os.Stat(filepath.Join(usr, share, "english")); err == nil && usr != "/usr" {
			args = append(args, "--basedir="+usr, "--lc-messages-dir="+filepath.Join(usr, share))
		}
	}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// serverArgs switches off what MySQL has on and MariaDB off by default: the binary
// log, which a test may switch on, and a second port.
func (s *MariaDBServer) serverArgs(bin string) []string {
	args := append(dataArgs(bin, s.process), "--socket="+s.Socket, "--port="+strconv.Itoa(s.Port),
		"--bind-address=127.0.0.1", "--pid-file="+s.path("pid"), "--character-set-server=utf8mb4",
		"--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=1")
	if OnMySQL() {
		plugins := filepath.Join(filepath.Dir(filepath.Dir(bin)), "lib/mysql/plugin")
		args = append(args, "--plugin-dir="+plugins, "--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-log-bin")
	}
	return args
}
