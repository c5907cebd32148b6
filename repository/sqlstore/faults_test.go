//go:build unix

package sqlstore

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// A call whose COMMIT was not answered is an error and gives nothing, although the server did it, and is not made again
// by itself. What it took is a gap; a worker ID is found again by its token.
func TestLostCommitReply(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	provision(t, s, app(1))
	through, p := behindProxy(t, s)
	wantSegment(t, one(through, key(1, 0), 0), 1, 1000)
	w := workersOf(through)
	var lease model.Lease
	var node nodeRow
	for _, c := range []struct {
		name   string
		call   func() error
		stored string // a condition that holds once the server did it
		again  func()
	}{
		{
			"lists", func() error {
				got := through.Allocate(t.Context(), ask(key(1, 0), key(1, 1)))
				check.Equal(t, got[0].Segment, got[1].Segment, "segments of an error")
				return got[0].Err
			}, "(SELECT SUM(max_id) FROM id_alloc) = 3000", func() {
				wantSegment(t, one(through, key(1, 0), 0), 2001, 3000)
				wantSegment(t, one(s, key(1, 1), 0), 1001, 2000)
			},
		}, {
			"a worker ID", func() (err error) {
				lease, err = w.Acquire(t.Context(), workertest.Owner(0))
				check.Equal(t, lease, (model.Lease{}), "with an error")
				return err
			}, "(SELECT COUNT(*) FROM leaf_workerid_alloc) = 1", func() {
				if lease = acquire(t, w, workertest.Owner(0)); lease.WorkerID != 1 || lease.After != 0 {
					t.Errorf("%+v", lease)
				}
			},
		}, {
			"a start", func() (err error) {
				node, err = through.registerStart(t.Context(), aStart("new", 2, 1_800_000_000))
				check.Equal(t, node, (nodeRow{}), "with an error")
				return err
			}, "(SELECT TOKEN FROM WORKER_NODE) = 'new'", func() {
				check.Equal(t, register(t, through, aStart("new", 2, 1_800_000_000)).ID, 1)
			},
		},
	} {
		p.commits.Store(0)
		p.cutAfterCommit.Store(true)
		wantAdvice(t, c.call(), "wait, as a connection that broke is opened again")
		p.cutAfterCommit.Store(false)
		check.Equal(t, p.commits.Load(), 1, c.name, "COMMITs")
		waitFor(t, func() bool { return count(t, s, "SELECT COALESCE("+c.stored+", 0)") == 1 })
		c.again()
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	check.Eventually(t, "waited in vain", func() error {
		if done() {
			return nil
		}
		return errors.New("it is not so yet")
	})
}

// proxy stands between a client and MySQL.
type proxy struct {
	commits        atomic.Int64
	cutAfterCommit atomic.Bool // cut the client off, and forward COMMIT
}

// behindProxy is another store on the database of s, through a proxy.
func behindProxy(t *testing.T, s *Store) (*Store, *proxy) {
	t.Helper()
	p := &proxy{}
	addr := testserver.Fake(t, func(client net.Conn) {
		testserver.Forward(client, s.server.Addr, func(request []byte) []byte {
			if bytes.Contains(request, []byte("COMMIT")) {
				p.commits.Add(1)
				if p.cutAfterCommit.Load() {
					_ = client.Close()
				}
			}
			return request
		}, nil)
	})
	return open(t, Options{Driver: MySQL, DSN: withDSN(t, s.opts.DSN, func(c *gosql.Config) { c.Addr = addr })}), p
}

// After the server has rolled a transaction back, for a deadlock for example, no statement of it follows: the server
// would commit it alone, such as a deletion without what outlives the row.
func TestNothingFollowsARollback(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	addTag(t, s, "t", 1000)
	tries := 0
	err := s.inTx(t.Context(), "a deadlock", func(tx *gorm.DB) error {
		tries++
		err := tx.Exec("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213").Error
		check.Is(t, tx.Exec("DELETE FROM leaf_alloc").Error, err)
		check.Is(t, check.Err(query[int](tx, "read", "SELECT 1")), err)
		return err
	})
	check.Equal(t, isRolledBack(err), true, err)
	check.Equal(t, tries, 1+txRetries, "tries")
	check.Equal(t, count(t, s, "SELECT COUNT(*) FROM leaf_alloc"), 1, "tags")
}

// A server that was made read-only is no primary, not even for root, who could
// still write to it.
func TestReadOnlyServer(t *testing.T) {
	server := testserver.MariaDB(t)
	s := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t)})
	ctx := context.Background()
	provision(t, s, app(1))
	run(t, s, "CREATE USER u@'127.0.0.1'", "GRANT ALL ON *.* TO u@'127.0.0.1'",
		"REVOKE "+testserver.BypassReadOnly()+" ON *.* FROM u@'127.0.0.1'")
	as := func(dsn string) *Store {
		return open(t, Options{Driver: MySQL, DSN: withDSN(t, dsn, func(c *gosql.Config) { c.User = "u" })})
	}
	user, unmigrated := as(server.DSN(s.server.DBName)), as(server.NewDatabase(t))
	wantSegment(t, one(user, key(1, 0), 0), 1, 1000)
	lease := acquire(t, workersOf(user), workertest.Owner(0))
	run(t, s, "SET GLOBAL read_only = ON")
	for _, store := range []*Store{s, user} {
		for _, err := range []error{
			store.Check(ctx), one(store, key(1, 0), 0).Err, check.Err(store.CreateApp(ctx, app(2))),
			check.Err(workersOf(store).Renew(ctx, lease)),
			check.Err(store.registerStart(ctx, aStart("b", 5, 1_800_000_000))),
		} {
			wantAdvice(t, err, "point database.dsn at the primary")
		}
	}
	layout := model.LayoutRecord{Kind: "uid", Layout: "x"}
	wantAdvice(t, user.LayoutOnce(ctx, layout), "point database.dsn at the primary")
	wantAdvice(t, unmigrated.Migrate(ctx, nil), "point database.dsn at the primary")
	run(t, s, "SET GLOBAL read_only = OFF")
	wantSegment(t, one(s, key(1, 0), 0), 1001, 2000)
	wantSegment(t, one(user, key(1, 0), 0), 2001, 3000)
}

func TestServerRefusals(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	ctx := context.Background()
	run(t, s, "DROP USER IF EXISTS pw@'127.0.0.1'", "CREATE USER pw@'127.0.0.1' IDENTIFIED BY 'right-word'")
	dsn := s.opts.DSN
	for _, c := range []struct {
		change func(*gosql.Config)
		advice string
	}{
		{func(c *gosql.Config) { c.User, c.Passwd = "pw", "wrong-word" }, "correct user and password"},
		{func(c *gosql.Config) { c.User, c.Passwd = "pw", "right-word" },
			"correct the name of the database in database.dsn, or grant the user of database.dsn SELECT, "},
		{func(c *gosql.Config) { c.DBName = "not_there" }, "create the database"},
		{func(c *gosql.Config) { c.Addr = "127.0.0.1:1" }, "start the database server at 127.0.0.1:1"},
		{func(c *gosql.Config) { c.Addr = "no.such.host.invalid:3306" }, "start the database server at " +
			"no.such.host.invalid"},
	} {
		bad := open(t, Options{Driver: MySQL, DSN: withDSN(t, dsn, c.change)})
		for _, err := range []error{bad.Check(ctx), one(bad, key(1, 0), 0).Err, bad.Migrate(ctx, nil),
			check.Err(bad.CreateApp(context.Background(), app(1)))} {
			wantAdvice(t, err, c.advice)
			if err != nil && strings.Contains(err.Error(), "-word") {
				t.Errorf("a password: %v", err)
			}
		}
	}
}

// What a server is out of is told with where that is.
func TestFullDisk(t *testing.T) {
	s := openMigrated(t, backends()[0].empty(t))
	run(t, s, "CREATE TRIGGER full BEFORE INSERT ON leaf_alloc FOR EACH ROW "+
		"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'the table is full'")
	err := check.Err(s.CreateTag(t.Context(), model.Tag{Name: "t", MaxID: 1, Step: 1}))
	wantAdvice(t, err, "free space on the disk of "+s.server.Addr)
}

func TestBadDSN(t *testing.T) {
	for _, dsn := range []string{"", "root:pass-word@tcp(h:1)", "root:pass/word@tcp(h:1", "root:pass-word@tcp(h:1)/",
		"root:pass-word@tcp(h:1)/db?tls=pass-word", "x:pass-word@tcp(h:1)/db?parseTime=pass-word"} {
		_, err := Open(context.Background(), Options{Driver: MySQL, DSN: dsn})
		if !errors.Is(err, model.ErrInvalidArgument) || strings.Contains(err.Error(), "pass-") ||
			strings.Contains(err.Error(), "pass/") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
	check.Is(t, check.Err(Open(context.Background(), Options{Driver: "oracle"})), model.ErrInvalidArgument)
}

func TestDSNSettings(t *testing.T) {
	cfg, err := parseDSN("u:p@tcp(h:1)/d?multiStatements=true&parseTime=false&charset=latin1" +
		"&collation=latin1_swedish_ci&readTimeout=2s")
	check.Must(t, err)
	if cfg.MultiStatements || !cfg.ParseTime || !cfg.RejectReadOnly || cfg.Timeout != dialTimeout ||
		cfg.ReadTimeout != 2*time.Second || cfg.WriteTimeout != writeTimeout || cfg.Collation != "utf8mb4_general_ci" {
		t.Errorf("%+v", cfg)
	}
	check.Has(t, cfg.FormatDSN(), "charset=utf8mb4")
}

// A host that falls silent between its lock and its COMMIT stops no other for more
// than 10 s, and nothing that it did is stored.
func TestSilentOwner(t *testing.T) {
	check.Deep(t)
	opts := backends()[0].empty(t)
	silent, s := openMigrated(t, opts), open(t, opts)
	provision(t, s, app(1))
	wakes, holds, ended := make(chan struct{}), make(chan error), make(chan error)
	go func() {
		ended <- silent.inTx(context.Background(), "test", func(tx *gorm.DB) error {
			holds <- tx.Exec("UPDATE id_alloc SET max_id = max_id + 1000 WHERE app_id = 1").Error
			<-wakes
			return nil
		})
	}()
	check.Must(t, <-holds)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got := s.Allocate(ctx, ask(key(1, 0)))[0]
	close(wakes)
	wantSegment(t, got, 1, 1000)
	if err := <-ended; !isBroken(err) {
		t.Errorf("the silent owner's COMMIT: %v", err)
	}
}

// TestAnotherServer: another kind of server at the address of the database is an error that says
// what to correct.
func TestAnotherServer(t *testing.T) {
	for name, greeting := range map[string]string{
		"no packet of MySQL": "SSH-2.0-OpenSSH_9.9\r\n",
		"an older protocol":  "\x08\x00\x00\x00\x09garbage",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testserver.Fake(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, greeting)
				_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				_, _ = conn.Read(make([]byte, 4096))
			})
			for key, hosts := range map[string][]string{"database.dsn": nil, "database.hosts": {addr}} {
				s := open(t, Options{Driver: MySQL, DSN: "user:word@tcp(" + addr + ")/db", Hosts: hosts})
				err := s.Check(t.Context())
				for _, word := range []string{"MySQL or MariaDB", key, addr} {
					wantAdvice(t, err, word)
				}
			}
		})
	}
}

// panicking panics as the driver does on a greeting that lacks a part.
type panicking struct{ driver.Connector }

func (panicking) Connect(context.Context) (driver.Conn, error) { return nil, []error{}[len("ab")] }

// TestGreetingThatPanics: a panic of the driver on a greeting is such an error too.
func TestGreetingThatPanics(t *testing.T) {
	_, err := connector{panicking{}}.Connect(t.Context())
	check.Is(t, err, errUnreadable)
	check.Equal(t, isOtherServer(err), true)
}

// nobody is an address where no server listens.
const nobody = "127.0.0.1:1"

// Of several hosts the one that takes writes is used. If it answers all questions and commits nothing, as one does that
// a network cuts off from its group, it is left for one that the group has promoted.
func TestHostThatCommitsNothing(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	pair := testserver.MariaDBReplicated(t)
	s := openMigrated(t, Options{Driver: MySQL, DSN: pair.Primary.NewDatabase(t),
		Hosts: []string{pair.Replica.Addr(), pair.Primary.Addr()}})
	provision(t, s, app(1))
	pair.CatchUp()
	end := pair.Stall()
	take := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.Allocate(ctx, []model.AllocRequest{{Key: model.ListKey{App: 1}, MaxStep: 10}})[0].Err
	}
	var hung sync.WaitGroup
	hung.Go(func() { _ = take(time.Minute) }) // locks the row, and waits for its COMMIT
	defer func() { end(); hung.Wait() }()
	time.Sleep(500 * time.Millisecond)
	pair.Promote()
	check.Eventually(t, "the promoted one answers", func() error {
		err := take(2 * time.Second)
		if errors.Is(err, model.ErrJumping) { // as nobody vouches for it
			return nil
		}
		return err
	})
}

// A call does not outlast its context when the server confirms no COMMIT, and tells that it may be stored.
func TestCommitIsNotWaitedFor(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	pair := testserver.MariaDBReplicated(t)
	s := openMigrated(t, Options{Driver: MySQL, DSN: pair.Primary.NewDatabase(t)})
	provision(t, s, app(1))
	end := pair.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := s.Allocate(ctx, []model.AllocRequest{{Key: key(1, 0), MaxStep: 10}})[0].Err
	check.Is(t, err, context.DeadlineExceeded)
	check.Equal(t, model.MayBeStored(err), true, err)
	check.Equal(t, time.Since(begun) < 5*time.Second, true, "it took", time.Since(begun))
	end()
	check.Eventually(t, "the next one", func() error { return one(s, key(1, 0), 0).Err })
}

// A primary that was only set to read_only is left, by what reads as by what writes.
func TestSwitchover(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	pair := testserver.MariaDBReplicated(t)
	s := openMigrated(t, Options{Driver: MySQL, DSN: pair.Primary.NewDatabase(t),
		Hosts: []string{pair.Primary.Addr(), pair.Replica.Addr()}})
	check.Must(t, errors.Join(s.Check(t.Context()), s.Beat(t.Context())))
	pair.CatchUp()
	primary, replica := plain(t, pair.Primary.DSN("")), plain(t, pair.Replica.DSN(""))
	for readOnly, want := range map[string]model.Level{"ON": model.LevelOK, "OFF": model.LevelUnsafe} {
		check.Must(t, check.Err(replica.Exec("SET GLOBAL read_only = "+readOnly)))
		found, err := s.Settings(t.Context())
		check.Must(t, err)
		at := slices.IndexFunc(found, func(f model.Finding) bool { return f.Setting == "hosts that take writes" })
		check.Equal(t, found[at].Level, want, found[at])
	}
	check.Must(t, check.Err(replica.Exec("SET GLOBAL read_only = ON")))
	check.Must(t, check.Err(primary.Exec("SET GLOBAL read_only = ON")))
	pair.Promote()
	check.Eventually(t, "heartbeats", func() error { return s.Beat(t.Context()) })
	check.Eventually(t, "the check", func() error { return s.Check(t.Context()) })
}

// A host is doubted when a transaction broke and nothing was committed for long enough; what only reads commits
// everywhere.
func TestDoubtOfAHost(t *testing.T) {
	s := openMigrated(t, backends()[1].empty(t))
	s.hosts = &primary{broke: true}
	is := func(want bool, what string) {
		t.Helper()
		_, doubted := s.hosts.inUse()
		check.Equal(t, doubted, want, what)
	}
	is(true, "it broke, and never committed anything")
	check.OK(t, check.Err(s.Names(t.Context())))
	is(true, "a transaction that only reads")
	provision(t, s, app(1))
	is(false, "one that writes")
	s.hosts.tell(false)
	is(false, "it broke a moment after a commit")
	s.hosts.committed = s.hosts.committed.Add(-commitsWithin)
	is(true, "it broke, and commits nothing")
}

// A host is used by the very connection that one which is gone did not give, and one of another deployment does not
// take its place.
func TestHostsOfTwoDeployments(t *testing.T) {
	t.Parallel()
	own, other := testserver.MariaDB(t), testserver.MariaDB(t)
	dsn := own.NewDatabase(t)
	cfg, err := parseDSN(dsn)
	check.Must(t, err)
	check.Must(t, check.Err(plain(t, other.DSN("")).Exec("CREATE DATABASE "+cfg.DBName)))
	openMigrated(t, Options{Driver: MySQL, DSN: dsn})
	s := open(t, Options{Driver: MySQL, DSN: dsn, Hosts: []string{nobody, own.Addr(), other.Addr()}})
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, s.hosts.at, 1, "the host in use")
	own.Kill()
	check.Is(t, s.Beat(t.Context()), errDeployments, "a host without tables")
	openMigrated(t, Options{Driver: MySQL, DSN: other.DSN(cfg.DBName)})
	check.Is(t, s.Beat(t.Context()), errDeployments, "a host with those of another deployment")
	nowhere := open(t, Options{Driver: MySQL, DSN: dsn, Hosts: []string{nobody}})
	wantAdvice(t, nowhere.Beat(t.Context()), "start the database server "+
		"at "+nobody+", or correct database.hosts: ")
}

// What the DSN says of its own host does not count for the others.
func TestOnHost(t *testing.T) {
	for _, dsn := range []string{"u:p@tcp(any:3306)/ids?tls=true", "u:p@unix(/run/mysqld.sock)/ids"} {
		cfg, err := parseDSN(dsn)
		check.Must(t, err)
		cfg = onHost(cfg, "db2:3307")
		if cfg.Net != "tcp" || cfg.Addr != "db2:3307" || cfg.TLS != nil && cfg.TLS.ServerName != "db2" {
			t.Errorf("%s: %s %s %+v", dsn, cfg.Net, cfg.Addr, cfg.TLS)
		}
	}
}

// The database and the files beside it are for this user only, whatever the umask; one that
// is there keeps its permissions.
func TestSQLiteIsPrivate(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]os.FileMode{"new.db": 0o600, "shared.db": 0o660} {
		path := filepath.Join(dir, name)
		if want != 0o600 {
			check.Must(t, os.WriteFile(path, nil, want))
			check.Must(t, os.Chmod(path, want))
		}
		provision(t, openMigrated(t, Options{Driver: SQLite, DSN: path}), app(1))
		for _, file := range []string{path, path + "-wal"} {
			info, err := os.Stat(file)
			check.Must(t, err)
			if info.Mode().Perm() != want {
				t.Errorf("%s is %v, want %v", filepath.Base(file), info.Mode(), want)
			}
		}
	}
}

func TestSQLiteErrors(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	check.Must(t, os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600))
	wantAdvice(t, check.Err(Open(ctx, Options{Driver: SQLite, DSN: garbage})), "not a usable SQLite database")
	wantAdvice(t, check.Err(Open(ctx, Options{Driver: SQLite, DSN: dir})), "read and write")
	wantAdvice(t, check.Err(Open(ctx, Options{Driver: SQLite, DSN: filepath.Join(garbage, "x")})), "")

	s := openMigrated(t, Options{Driver: SQLite, DSN: filepath.Join(dir, "a.db")})
	provision(t, s, app(1))
	run(t, s, "PRAGMA query_only = 1")
	wantAdvice(t, one(s, key(1, 0), 0).Err, "read and write")
	run(t, s, "PRAGMA query_only = 0", "PRAGMA max_page_count = 1")
	wantAdvice(t, check.Err(s.CreateApp(context.Background(), app(2))), "free space")
	run(t, s, "PRAGMA max_page_count = 1000000")
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
}

// A file is one process': no other one opens it, by whatever name, until the first one closes it. Neither a statement
// that was interrupted nor a commit that failed lets go of it.
func TestSQLiteIsHeld(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	path, linked := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	s := openMigrated(t, Options{Driver: SQLite, DSN: path})
	over, cancel := context.WithCancel(ctx)
	time.AfterFunc(10*time.Millisecond, cancel)
	const endless = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
	check.Is(t, check.Err(query[int](s.gorm.WithContext(over), "count", endless)), context.Canceled)
	err := s.do(ctx, "break a commit", func(tx *gorm.DB) error {
		return write(tx, "end it", "COMMIT") // so that the one that follows fails
	})
	if err == nil {
		t.Error("the commit has not failed")
	}
	check.Is(t, check.Err(Open(ctx, Options{Driver: SQLite, DSN: path})), ErrHeld)
	provision(t, s, app(1))
	check.Must(t, s.Close())
	check.Must(t, os.Link(path, linked))
	for _, name := range []string{path, linked} {
		err := check.Err(Open(ctx, Options{Driver: SQLite, DSN: name}))
		check.Has(t, fmt.Sprint(err), "remove the other name of "+name)
	}
	check.Must(t, os.Remove(linked))
	open(t, Options{Driver: SQLite, DSN: path, Existing: true})
}
