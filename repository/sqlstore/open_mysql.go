package sqlstore

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

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
