package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/callbacks"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
	_ "modernc.org/sqlite" // registers sqliteDriver

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
	// poolIdle is how long the pool keeps a connection that nobody uses: well below
	// idleWait, so that the server never ends one of the pool's.
	poolIdle = 4 * time.Second
)

func (s *Store) openMySQL() error {
	cfg, err := parseDSN(s.opts.DSN)
	if err != nil {
		return err
	}
	if s.opts.TLS != nil {
		cfg.TLS = s.opts.TLS
	}
	if s.pool, err = openPool(cfg); err != nil {
		return err
	}
	s.server = cfg
	s.limitPool(8, 3*time.Minute)
	s.pool.SetConnMaxIdleTime(poolIdle)
	s.gorm, err = gorm.Open(mysql.New(mysql.Config{Conn: s.pool, SkipInitializeWithVersion: true}), gormConfig())
	if err != nil {
		return s.explain("open", err)
	}
	return nil
}

// openPool connects lazily.
func openPool(cfg *gosql.Config) (*sql.DB, error) {
	connector, err := gosql.NewConnector(cfg)
	if err != nil {
		return nil, badDSN(err)
	}
	return sql.OpenDB(connector), nil
}

// parseDSN reads a DSN and settles what the store relies on.
func parseDSN(dsn string) (*gosql.Config, error) {
	cfg, err := gosql.ParseDSN(dsn)
	if err != nil {
		return nil, badDSN(err)
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("%w: the database DSN names no database: it must end in /<database>", model.ErrInvalidArgument)
	}
	cfg.ParseTime = true
	cfg.RejectReadOnly = true    // a demoted primary's connections are dropped
	cfg.InterpolateParams = true // one round trip for a statement instead of three
	cfg.MultiStatements = false
	cfg.CheckConnLiveness = true
	cfg.Logger = &gosql.NopLogger{} // errors are logged where they are handled
	setDefault(&cfg.Timeout, dialTimeout)
	setDefault(&cfg.ReadTimeout, readTimeout)
	setDefault(&cfg.WriteTimeout, writeTimeout)
	if cfg.Params["innodb_lock_wait_timeout"] == "" {
		setParam(cfg, "innodb_lock_wait_timeout", lockWait)
	}
	// Only MariaDB reads what stands in such a comment. MySQL has no
	// idle_transaction_timeout; there wait_timeout ends transactions too.
	setParam(cfg, "wait_timeout", idleWait+" /*M!100300 , idle_transaction_timeout = "+idleWait+" */")
	return cfg, useUTF8(cfg)
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func setParam(cfg *gosql.Config, name, value string) {
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params[name] = value
}

// useUTF8 makes the connection's character set utf8mb4, with the DSN's collation
// when it is one of utf8mb4.
func useUTF8(cfg *gosql.Config) error {
	collation := cfg.Collation
	if !strings.HasPrefix(collation, "utf8mb4_") {
		collation = "utf8mb4_general_ci" // known to MySQL and MariaDB
	}
	return cfg.Apply(gosql.Charset("utf8mb4", collation))
}

// badDSN hides the parser's words, which may quote the password, except the
// fixed ones.
func badDSN(err error) error {
	const form = "it must be user:password@tcp(host:3306)/database"
	if strings.HasPrefix(err.Error(), "invalid DSN: ") {
		return fmt.Errorf("%w: database DSN: %w: %s", model.ErrInvalidArgument, err, form)
	}
	return fmt.Errorf("%w: the database DSN cannot be read: %s", model.ErrInvalidArgument, form)
}

// busyPatience is how long a start waits for a file that others are opening or
// migrating.
const busyPatience = 30 * time.Second

func (s *Store) openSQLite(ctx context.Context) error {
	path, err := sqlitePath(s.opts.DSN)
	if err != nil {
		return err
	}
	s.file = path
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return s.explain("create the folder of "+path, err)
	}
	if err := s.untilFree(ctx, func() error { return s.connectSQLite(ctx) }); err != nil {
		return s.explain("open "+path, err)
	}
	return nil
}

// connectSQLite reads the file, which is created when it does not exist. Each try
// has a pool of its own.
func (s *Store) connectSQLite(ctx context.Context) (err error) {
	if s.pool, err = sql.Open(sqliteDriver, sqliteDSN(s.file)); err != nil {
		return err
	}
	s.limitPool(1, 0)
	if s.gorm, err = gorm.Open(sqliteDialect{s.pool}, gormConfig()); err == nil {
		err = s.pool.PingContext(ctx) // a connection sets the journal mode, which reads the file
	}
	if err != nil {
		_ = s.pool.Close() // the first error is the one to tell
	}
	return err
}

// sqlitePath makes the path absolute. Errors: model.ErrInvalidArgument.
func sqlitePath(dsn string) (string, error) {
	if dsn == "" || strings.HasPrefix(dsn, "file:") || strings.HasPrefix(dsn, ":memory:") {
		return "", fmt.Errorf("%w: database DSN %q: for SQLite it is the path of a file, without file: or options", model.ErrInvalidArgument, dsn)
	}
	path, err := filepath.Abs(dsn)
	if err != nil {
		return "", fmt.Errorf("%w: database DSN %q: %w", model.ErrInvalidArgument, dsn, err)
	}
	return path, nil
}

// sqliteDSN is a URI, so that any path can be told from the settings: a commit
// is on the disk before it is acknowledged, and a transaction takes the write
// lock when it begins.
func sqliteDSN(path string) string {
	uri := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	return uri.String()
}

// untilFree runs work again while another process holds the file.
func (s *Store) untilFree(ctx context.Context, work func() error) error {
	for deadline := time.Now().Add(busyPatience); ; {
		err := work()
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sqliteDriver is the name under which modernc.org/sqlite registers itself.
const sqliteDriver = "sqlite"

// sqliteDialect lets gorm speak to SQLite by modernc.org/sqlite, which is SQLite
// itself without cgo. gorm's own driver needs cgo. Only what the store uses is here:
// its tables are made by migrations, so that there is no Migrator.
type sqliteDialect struct{ pool gorm.ConnPool }

func (sqliteDialect) Name() string { return sqliteDriver }

// Initialize sends nothing. A row lock is left out: a transaction holds the file's
// only write lock from its beginning.
func (d sqliteDialect) Initialize(db *gorm.DB) error {
	db.ConnPool = d.pool
	callbacks.RegisterDefaultCallbacks(db, &callbacks.Config{LastInsertIDReversed: true})
	db.ClauseBuilders["FOR"] = func(clause.Clause, clause.Builder) {}
	return nil
}

func (sqliteDialect) Migrator(*gorm.DB) gorm.Migrator { return nil }

func (sqliteDialect) DataTypeOf(field *schema.Field) string { return string(field.DataType) }

func (sqliteDialect) DefaultValueOf(*schema.Field) clause.Expression {
	return clause.Expr{SQL: "NULL"} // SQLite has no DEFAULT in VALUES
}

func (sqliteDialect) BindVarTo(writer clause.Writer, _ *gorm.Statement, _ any) {
	_ = writer.WriteByte('?') // into memory
}

// QuoteTo quotes each part of a name such as table.column.
func (sqliteDialect) QuoteTo(writer clause.Writer, name string) {
	quoted := "`" + strings.Join(strings.Split(strings.ReplaceAll(name, "`", "``"), "."), "`.`") + "`"
	_, _ = writer.WriteString(quoted) // into memory
}

func (sqliteDialect) Explain(sql string, vars ...any) string {
	return logger.ExplainSQL(sql, nil, `"`, vars...)
}

// FileState is what stands at the path of a SQLite file.
type FileState string

// The states of a file. Only FileOurs may follow an earlier start.
const (
	FileMissing FileState = "missing"
	FileEmpty   FileState = "empty"   // of no byte, or a database without tables
	FileForeign FileState = "foreign" // a database whose tables shardid did not make
	FileOurs    FileState = "ours"
)

// InspectSQLite looks at the file of a DSN and changes nothing: it makes no file, and
// no journal beside one. Errors: model.ErrInvalidArgument, *model.StoreError for a
// file that cannot be read.
func InspectSQLite(ctx context.Context, dsn string) (FileState, error) {
	path, err := sqlitePath(dsn)
	if err != nil {
		return "", err
	}
	s := &Store{file: path} // for the advice
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return FileMissing, nil
	case err != nil:
		return "", s.explain("look at "+path, err)
	case info.Size() == 0:
		return FileEmpty, nil
	}
	uri := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open(sqliteDriver, uri.String())
	if err != nil {
		return "", s.explain("look at "+path, err)
	}
	defer db.Close()
	var tables, ours int
	err = s.untilFree(ctx, func() error {
		return db.QueryRowContext(ctx, "SELECT COUNT(*), COUNT(CASE WHEN name = ? THEN 1 END) FROM sqlite_master WHERE type = 'table'", versionTable).Scan(&tables, &ours)
	})
	switch {
	case err != nil:
		return "", s.explain("look at "+path, fmt.Errorf("read its tables: %w", err))
	case ours > 0:
		return FileOurs, nil
	case tables > 0:
		return FileForeign, nil
	}
	return FileEmpty, nil
}
