package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	gosqlite "modernc.org/sqlite"

	"shardid/model"
)

// Bounds on a server that does not answer, unless the DSN sets its own.
const (
	dialTimeout  = 3 * time.Second
	readTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	// lockWait is below readTimeout, so that the server says what it waited for
	// instead of the connection being cut.
	lockWait = "3" // seconds
	// idleWait is how long the server keeps a session that sends nothing, and with
	// it the locks of a transaction whose host has died. A session that waits for a
	// lock when its host dies ends lockWait later: both together are below 10 s. A
	// caller who meets such a lock tries txRetries times again, longer than idleWait.
	idleWait = "6" // seconds
	// poolIdle is how long the pool keeps an idle connection: well below
	// idleWait, so that the server never ends one of the pool's.
	poolIdle = 4 * time.Second
	poolSize = 16 // connections
)

func (s *Store) openMySQL() error {
	cfg, err := parseDSN(s.opts.DSN)
	if err != nil {
		return err
	}
	if s.opts.TLS != nil {
		cfg.TLS = s.opts.TLS
	}
	connector, err := newPrimary(cfg, s.opts.Hosts)
	if err != nil {
		return err
	}
	s.pool, s.checks = sql.OpenDB(connector), sql.OpenDB(connector)
	s.hosts, _ = connector.(*primary)
	s.checks.SetMaxOpenConns(1)
	s.checks.SetConnMaxLifetime(poolIdle) // so that a moved primary is found
	s.server = cfg
	s.pool.SetMaxOpenConns(poolSize)
	s.pool.SetMaxIdleConns(poolSize)
	s.pool.SetConnMaxIdleTime(poolIdle)
	s.pool.SetConnMaxLifetime(5 * time.Minute) // so that a moved primary is found
	s.gorm, err = gormOf(s.pool)
	return s.explain("open", err)
}

// gormOf speaks MySQL's dialect through a pool.
func gormOf(pool *sql.DB) (*gorm.DB, error) {
	return gorm.Open(mysql.New(mysql.Config{Conn: pool, SkipInitializeWithVersion: true}), gormConfig())
}

// newPrimary connects to that one of the hosts that takes writes, as a *primary, or to the address of the DSN where
// there are none.
func newPrimary(cfg *gosql.Config, names []string) (driver.Connector, error) {
	if len(names) == 0 {
		return newConnector(cfg.Clone())
	}
	hosts := &primary{names: names, limit: cfg.Timeout, committed: time.Now()}
	for _, name := range names {
		c, err := newConnector(onHost(cfg, name))
		if err != nil {
			return nil, err
		}
		hosts.hosts = append(hosts.hosts, c)
	}
	return hosts, nil
}

// newConnector takes cfg over.
func newConnector(cfg *gosql.Config) (connector, error) {
	c, err := gosql.NewConnector(cfg)
	if err != nil {
		return connector{}, badDSN(err)
	}
	return connector{c}, nil
}

// errUnreadable says that the driver panicked on the greeting of a server.
var errUnreadable = errors.New("the server's greeting cannot be read")

// connector is the driver's. The driver panics on a greeting that lacks a part, as another kind of
// server may send it. That becomes an error; the driver's goroutine for the connection stays behind.
type connector struct{ driver.Connector }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			conn, err = nil, fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	return c.Connector.Connect(ctx)
}

// parseDSN reads a DSN and settles what the store relies on.
func parseDSN(dsn string) (*gosql.Config, error) {
	cfg, err := gosql.ParseDSN(dsn)
	if err != nil {
		return nil, badDSN(err)
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("%w: end the DSN of the database in /<database>: it names none",
			model.ErrInvalidArgument)
	}
	cfg.ParseTime = true
	cfg.ClientFoundRows = true   // a row that is as it should be counts as updated
	cfg.RejectReadOnly = true    // a demoted primary's connections are dropped
	cfg.InterpolateParams = true // one round trip for a statement instead of three
	cfg.MultiStatements = false
	cfg.CheckConnLiveness = true
	cfg.Logger = &gosql.NopLogger{} // errors are logged where they are handled
	cfg.Timeout = cmp.Or(cfg.Timeout, dialTimeout)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, readTimeout)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, writeTimeout)
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["innodb_lock_wait_timeout"] = cmp.Or(cfg.Params["innodb_lock_wait_timeout"], lockWait)
	cfg.Params["lock_wait_timeout"] = lockWait // of tables: MySQL keeps the connection of who has given up for a year
	cfg.Params["time_zone"] = "'+00:00'"       // no hour comes twice when a table was made
	cfg.Params["autocommit"] = "1"
	// Only MariaDB reads a comment of the first kind, only MySQL one of the second. MySQL has no
	// idle_transaction_timeout; there wait_timeout ends transactions too. Each statement reads what is committed when
	// it begins, and not what was when the transaction first read anything: the row that outlives a deletion is read
	// after the lock that the deletion needs, and must not be older.
	cfg.Params["wait_timeout"] = idleWait + " /*M!100300 , idle_transaction_timeout = " + idleWait +
		", tx_isolation = 'READ-COMMITTED' *//*!80000 , transaction_isolation = 'READ-COMMITTED' */"
	collation := cfg.Collation
	if !strings.HasPrefix(collation, "utf8mb4_") {
		collation = "utf8mb4_general_ci" // known to MySQL and MariaDB
	}
	return cfg, cfg.Apply(gosql.Charset("utf8mb4", collation))
}

// badDSN hides the parser's words, which may quote the password, except the
// fixed ones.
func badDSN(err error) error {
	const form = "write the DSN of the database as user:password@tcp(host:3306)/database"
	if strings.HasPrefix(err.Error(), "invalid DSN: ") {
		return fmt.Errorf("%w: %s: %w", model.ErrInvalidArgument, form, err)
	}
	return fmt.Errorf("%w: %s: it cannot be read", model.ErrInvalidArgument, form)
}

// heldPatience is how long Open waits for a file that another process holds, such as a command.
const heldPatience = time.Second

var (
	// ErrHeld says that another process has the SQLite file open.
	ErrHeld = errors.New("another process holds the file")
	// ErrNoDatabase says that the SQLite file is missing, or has no tables of shardid.
	ErrNoDatabase = errors.New("there is no database of shardid")
)

// openSQLite opens the file for this process alone. SQLite holds the lock of the inode until Close, by whatever name
// others open it, and also against versions that would share the file.
func (s *Store) openSQLite(ctx context.Context) error {
	path, err := sqlitePath(s.opts.DSN)
	if err != nil {
		return err
	}
	s.file = path
	if !s.opts.Existing {
		if err := s.makeFile(path); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNoDatabase
	case err != nil:
		return s.explain("look at "+path, err)
	}
	// SQLite finds the journal, which has what was committed last, by the name of the file.
	if stat, is := info.Sys().(*syscall.Stat_t); is && stat.Nlink > 1 && !info.IsDir() {
		return fmt.Errorf("remove the other name of %s, a hard link, and keep the name that was served with: each "+
			"name has a journal of its own", path)
	}
	if isMountPoint(path) {
		return fmt.Errorf("mount the folder of %s in place of the file: its journal, which is beside it, would stay "+
			"behind", path)
	}
	for deadline := time.Now().Add(heldPatience); ; {
		err := s.lockFile(ctx, path)
		switch {
		case errors.Is(err, ErrNoDatabase):
			return err
		case !sqliteSaid(err, 5, 6): // BUSY, LOCKED
			return s.explain("open "+path, err)
		case time.Now().After(deadline):
			return ErrHeld
		case !wait(ctx, 50*time.Millisecond):
			return ctx.Err()
		}
	}
}

// makeFile makes the file and its folder, unless they are there. SQLite gives the files beside it the permissions of
// the database: only this user's.
func (s *Store) makeFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return s.explain("create the folder of "+path, err)
	}
	// One that is there is not opened, as closing it would end the locks of this process on it.
	//nolint:gosec // the operator names the file
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if s.made = err == nil; s.made {
		err = file.Close()
	}
	return s.explain("make "+path, err)
}

// lockFile opens the pool, whose only connection has the lock. It changes nothing in a file of others with
// Options.Existing.
func (s *Store) lockFile(ctx context.Context, path string) (err error) {
	// A commit is on the disk before it is acknowledged. A URI tells any path from the settings.
	uri := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode": {"rw"}, "_pragma": {"locking_mode(EXCLUSIVE)", "synchronous(FULL)"}, "_txlock": {"immediate"},
	}.Encode()}
	one, err := gosqlite.NewConnector(uri.String())
	if err != nil {
		return err
	}
	s.pool = sql.OpenDB(&onlyConnector{Connector: one})
	s.pool.SetMaxOpenConns(1)
	s.checks = s.pool
	defer func() {
		if err != nil {
			_ = s.pool.Close() // the first error is the one to tell
		}
	}()
	var ours bool
	err = s.pool.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM sqlite_master WHERE name = ?", versionTable).Scan(&ours)
	if err == nil && !ours && s.opts.Existing {
		err = ErrNoDatabase
	}
	if err == nil {
		_, err = s.pool.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	}
	if err == nil {
		s.gorm, err = gorm.Open(sqliteDialect{mysql.Dialector{Config: &mysql.Config{}}, s.pool}, gormConfig())
	}
	return err
}

// onlyConnector has one connection, which lasts until the pool is closed: SQLite's lock would end with it, and another
// process could begin. The pool gives a connection up when a statement was interrupted, or a transaction did not end.
type onlyConnector struct {
	driver.Connector
	conn sqliteConn
}

// sqliteConn is what the pool uses of SQLite's connections.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

// Connect implements driver.Connector. The pool calls it after it has closed the connection before.
func (c *onlyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.conn == nil {
		conn, err := c.Connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		c.conn = conn.(sqliteConn)
	}
	return keptConn{c.conn}, nil
}

// Close implements io.Closer.
func (c *onlyConnector) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// keptConn is the only connection, which the pool does not close.
type keptConn struct{ sqliteConn }

// Close ends a transaction, if one is open.
func (c keptConn) Close() error {
	_, _ = c.ExecContext(context.Background(), "ROLLBACK", nil) // it fails without a transaction
	return nil
}

// sqlitePath makes the path absolute. Errors: model.ErrInvalidArgument.
func sqlitePath(dsn string) (string, error) {
	if dsn == "" || strings.HasPrefix(dsn, "file:") || strings.HasPrefix(dsn, ":memory:") {
		return "", fmt.Errorf("%w: name the path of a file for SQLite, without file: or options: database DSN %q",
			model.ErrInvalidArgument, dsn)
	}
	path, err := filepath.Abs(dsn)
	if err != nil {
		return "", fmt.Errorf("%w: database DSN %q: %w", model.ErrInvalidArgument, dsn, err)
	}
	return path, nil
}
