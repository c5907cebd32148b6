package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gorm.io/gorm"
	_ "modernc.org/sqlite" // registers sqliteDriver

	"shardid/model"
)

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
