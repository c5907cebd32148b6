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

	"shardid/scripts/check"

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
	s := &MariaDBServer{}
	s.begin(t)
	e, err := database()
	check.Must(t, err)
	bin, err := e.program("mariadb-server", e.programs...)
	check.Must(t, err)
	s.ready = s.isReady
	s.makeData(e)
	s.startOnPorts(1, func(ports []int) []string {
		s.Port, s.Socket = ports[0], s.path("s.sock")
		return append(s.serverArgs(bin), args...)
	})
	return s
}

var sharedMariaDB shared[MariaDBServer]

// SharedMariaDB returns the one MariaDB of this test process, started on first
// use, for tests that each take a NewDatabase. It cannot be stopped or paused.
// Safe for concurrent use.
func SharedMariaDB(t testing.TB) *MariaDBServer {
	t.Helper()
	s := sharedMariaDB.get(t, func(t testing.TB) *MariaDBServer { return MariaDB(t) })
	s.t, s.shared = t, true
	return &s
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
	check.Must(t, s.exec("CREATE DATABASE "+name))
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

// makeData makes an empty data directory. A fetched MySQL comes with one to copy, as
// making one takes seconds.
func (s *MariaDBServer) makeData(e edition) {
	s.t.Helper()
	if OnMySQL() {
		s.run([]string{"cp", "-a", filepath.Join(e.root, "data"), s.path("data")})
		return
	}
	install, err := e.program("mariadb-server", "mariadb-install-db", "mysql_install_db")
	check.Must(s.t, err)
	s.run(append(s.dataArgs(install), "--auth-root-authentication-method=normal", "--skip-test-db"))
}

// dataArgs are the arguments the installation and the server must agree on,
// after the program itself. --no-defaults has to be the first.
func (s *MariaDBServer) dataArgs(bin string) []string {
	args := []string{bin, "--no-defaults", "--datadir=" + s.path("data"), "--tmpdir=" + s.dir, "--skip-name-resolve"}
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
	args := append(s.dataArgs(bin), "--socket="+s.Socket, "--port="+strconv.Itoa(s.Port),
		"--bind-address=127.0.0.1", "--pid-file="+s.path("pid"), "--character-set-server=utf8mb4",
		"--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=1")
	if OnMySQL() {
		plugins := filepath.Join(filepath.Dir(filepath.Dir(bin)), "lib/mysql/plugin")
		args = append(args, "--plugin-dir="+plugins, "--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-log-bin")
	}
	return args
}

// MariaDBPair is a primary and a replica that follows it asynchronously, as
// production has them: what the primary has acknowledged, the replica may miss.
type MariaDBPair struct {
	Primary, Replica *MariaDBServer
	t                testing.TB
	servers          int // so far; a replica ignores what a server of its number has done
}

// MariaDBReplicated starts a private pair, or two of the server that DB names. It
// is ready in 3–6 s. The replica has read_only set, and flushes no commit: so it is
// fast.
func MariaDBReplicated(t testing.TB) *MariaDBPair {
	t.Helper()
	p := &MariaDBPair{t: t, servers: 2}
	for i, s := range []**MariaDBServer{&p.Primary, &p.Replica} {
		args := []string{
			fmt.Sprintf("--server-id=%d", i+1), "--log-bin=binlog", "--sync-binlog=1", "--log-slave-updates=ON",
		}
		if OnMySQL() {
			args = append(args[:3], "--log-replica-updates=ON", "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
		}
		*s = MariaDB(t, args...)
	}
	p.follow()
	return p
}

// replicaWords are what the two products call the same.
type replicaWords struct {
	follow           string // with the port of the primary
	stop, start, end string
	position, wait   string
}

func words() replicaWords {
	if OnMySQL() {
		return replicaWords{
			follow: "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %d, SOURCE_USER = 'root', " +
				"SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1",
			stop: "STOP REPLICA", start: "START REPLICA", end: "RESET REPLICA ALL",
			position: "SELECT @@gtid_executed", wait: "SELECT 0 - WAIT_FOR_EXECUTED_GTID_SET('%s', 120)",
		}
	}
	return replicaWords{
		follow: "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = 'root', " +
			"MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
		stop: "STOP SLAVE", start: "START SLAVE", end: "RESET SLAVE ALL",
		position: "SELECT @@gtid_binlog_pos", wait: "SELECT MASTER_GTID_WAIT('%s', 120)",
	}
}

// follow makes the replica follow the primary from its beginning.
func (p *MariaDBPair) follow() {
	p.t.Helper()
	w := words()
	check.Must(p.t, p.Replica.exec(
		"SET GLOBAL read_only = 1, GLOBAL innodb_flush_log_at_trx_commit = 0, GLOBAL sync_binlog = 0",
		fmt.Sprintf(w.follow, p.Primary.Port), w.start))
	p.CatchUp()
}

// Lag keeps the replica from hearing more of the primary. It has forgotten what it
// had heard and not yet done.
func (p *MariaDBPair) Lag() {
	p.t.Helper()
	check.Must(p.t, p.Replica.exec(words().stop))
}

// CatchUp ends a Lag and returns when the replica has all that the primary has.
func (p *MariaDBPair) CatchUp() {
	p.t.Helper()
	w, position, late := words(), "", 0
	check.Must(p.t, p.Replica.exec(w.start))
	check.Must(p.t, p.Primary.scan(w.position, &position))
	check.Must(p.t, p.Replica.scan(fmt.Sprintf(w.wait, strings.ReplaceAll(position, "\n", "")), &late))
	if late != 0 {
		p.t.Fatalf("testserver: the replica does not catch up with %s", position)
	}
}

// Promote makes the replica the primary, with what it has. The primary continues too, as
// one that is cut off.
func (p *MariaDBPair) Promote() {
	p.t.Helper()
	w := words()
	check.Must(p.t, p.Replica.exec(w.stop, w.end,
		"SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL sync_binlog = 1, GLOBAL read_only = 0"))
	p.Primary, p.Replica = p.Replica, p.Primary
}

// Stall makes the primary answer no COMMIT any more: it waits for a semi-synchronous
// replica, and has none. MariaDB has done what it does not confirm, MySQL will have. The
// end of it lets all answers go, if the server still runs.
func (p *MariaDBPair) Stall() (end func()) {
	p.t.Helper()
	primary, name := p.Primary, "rpl_semi_sync_master"
	if OnMySQL() {
		name = "rpl_semi_sync_source"
		_ = primary.exec("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'") // once is enough
	}
	check.Must(p.t, primary.exec("SET GLOBAL "+name+"_timeout = 600000", "SET GLOBAL "+name+"_enabled = ON"))
	return func() {
		if primary.answers() {
			check.Must(p.t, primary.exec("SET GLOBAL "+name+"_enabled = OFF"))
		}
	}
}

// Rejoin makes a new, empty server of the one that was killed before a Promote, as what
// it has may be what the primary has not, and lets it follow. It takes 2–4 s and
// what the primary has done so far.
func (p *MariaDBPair) Rejoin() {
	p.t.Helper()
	e, err := database()
	check.Must(p.t, err)
	check.Must(p.t, os.RemoveAll(p.Replica.path("data")))
	p.Replica.makeData(e)
	p.Replica.Restart()
	p.servers++
	check.Must(p.t, p.Replica.exec(fmt.Sprintf("SET GLOBAL server_id = %d", p.servers)))
	p.follow()
}

// scan reads the one value of a query.
func (s *MariaDBServer) scan(query string, into any) error {
	err := s.withDB(sqlLimit, func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, query).Scan(into)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// What follows says for tests what MySQL and MariaDB do not say in the same words.

// BypassReadOnly names the rights that let a user write to a server that is
// read-only, for REVOKE.
func BypassReadOnly() string {
	if OnMySQL() {
		return "CONNECTION_ADMIN, SUPER"
	}
	return "READ_ONLY ADMIN, SUPER"
}
