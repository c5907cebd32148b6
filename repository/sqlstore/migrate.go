package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"gorm.io/gorm"

	"shardid/model"
	migrations "shardid/sql"
)

// The tables of the migrations themselves.
const (
	versionTable = "shardid_schema"
	lockTable    = "shardid_schema_lock"
)

var (
	// errNewerSchema: the binary is older than the database.
	errNewerSchema = errors.New("the schema is newer than this program")
	// errOlderSchema: the database is older than the baseline.
	errOlderSchema = errors.New("the schema is that of shardid 0.1 or 0.2")
)

// Migrate creates or upgrades the schema; progress is told each step and may be
// nil. Any number of processes may call it at once: one works, the others wait.
// When rows stand in the way of an upgrade it fails before it changes anything.
// Errors: *model.StoreError.
func (s *Store) Migrate(ctx context.Context, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	if s.server == nil {
		return s.explain("migrate", s.migrateSQLite(ctx, progress))
	}
	return s.explain("migrate", s.migrateMySQL(ctx, progress))
}

// migrateMySQL works on connections of its own: goose needs two at once, and an
// ALTER may take longer than a query may.
func (s *Store) migrateMySQL(ctx context.Context, progress func(string)) error {
	if err := s.greet(ctx); err != nil {
		return err
	}
	cfg := s.server.Clone()
	cfg.ReadTimeout = max(cfg.ReadTimeout, 10*time.Minute)
	cfg.RejectReadOnly = false // it is seen as such
	// A busy machine may pause between two statements for longer than idleWait. What a host that has
	// died was in the middle of is ended as late.
	cfg.Params["wait_timeout"] = "30"
	db, _, err := openPool(cfg, s.opts.Hosts)
	if err != nil {
		return err
	}
	defer db.Close()
	g, err := gormOf(db)
	if err != nil {
		return err
	}
	g = g.WithContext(ctx)
	files, err := migrations.Files("mysql")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	// Looked at before even the lock's table is made, and again under the lock.
	if err := s.preflight(g, files); err != nil {
		return err
	}
	return withLock(ctx, db, func() error {
		if err := s.preflight(g, files); err != nil {
			return err
		}
		if err := alterAdopted(ctx, g, db, files, progress); err != nil {
			return err
		}
		if err := up(ctx, db, files, progress); err != nil {
			return err
		}
		server, err := query[string](g, "read "+deploymentTable, "SELECT server FROM "+deploymentTable)
		if err == nil && server == "" { // nothing can be missing in a new schema
			err = s.noteServer(ctx)
		}
		return cmp.Or(err, makeSecret(s.gorm.WithContext(ctx)))
	})
}

// greet connects before a migration, which waits for long: what listens there may never
// answer.
func (s *Store) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := s.pool.PingContext(ctx)
	if !isBroken(err) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &model.StoreError{Store: "database", Op: "migrate",
		Err:    fmt.Errorf("%s takes connections but does not greet as MySQL and MariaDB do: %w", s.address(), err),
		Advice: "correct host and port in database.dsn, or look at the server's log"}
}

// withLock holds a row of a table while work runs, so that it keeps others out
// over all nodes of a cluster. A process that dies holding it blocks the others
// for at most 12 s; they wait for up to about 100 s.
func withLock(ctx context.Context, db *sql.DB, work func() error) (err error) {
	locker, err := lock.NewMySQLTableLocker(
		lock.WithTableName(lockTable),
		lock.WithTableLeaseDuration(12*time.Second),
		lock.WithTableHeartbeatInterval(3*time.Second),
		lock.WithTableLockTimeout(250*time.Millisecond, 400),
		lock.WithTableUnlockTimeout(250*time.Millisecond, 8),
		lock.WithTableRetryPolicy(func(err error) bool { // a lock that is held, not a server that refuses
			var server *gosql.MySQLError
			return !errors.As(err, &server) || isRolledBack(err)
		}),
		lock.WithTableLogger(slog.New(slog.DiscardHandler)),
	)
	if err == nil {
		err = locker.Lock(ctx, db)
	}
	if err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}
	defer func() { err = errors.Join(err, locker.Unlock(ctx, db)) }()
	return work()
}

func up(ctx context.Context, db *sql.DB, files fs.FS, progress func(string)) error {
	provider, err := goose.NewProvider(goose.DialectMySQL, db, files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	done, err := provider.Up(ctx)
	for _, m := range done {
		progress("applied " + path.Base(m.Source.Path))
	}
	if err != nil {
		return err
	}
	current, _, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	progress(fmt.Sprintf("schema is at version %d", current))
	return nil
}

// migration is one file.
type migration struct {
	version int64
	name    string
}

// MigrationPlan gives the statements that Migrate would run, each with its semicolon, and changes
// nothing; "" where there is nothing to do. Errors: those of Migrate.
func (s *Store) MigrationPlan(ctx context.Context) (string, error) {
	plan, err := s.planMigration(s.gorm.WithContext(ctx))
	return plan, s.explain("migrate", err)
}

func (s *Store) planMigration(g *gorm.DB) (string, error) {
	files, err := migrations.Files(s.either("mysql", "sqlite"))
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	list, err := listMigrations(files)
	if err != nil {
		return "", err
	}
	var plan strings.Builder
	if s.server != nil {
		if err := s.preflight(g, files); err != nil {
			return "", err
		}
		statements, err := planAdoption(g, files)
		if err != nil {
			return "", err
		}
		for _, statement := range statements {
			plan.WriteString(statement + ";\n")
		}
	}
	have, err := s.schemaVersion(g)
	if err != nil {
		return "", err
	}
	for _, m := range list {
		if m.version > have {
			text, err := fs.ReadFile(files, m.name)
			if err != nil {
				return "", fmt.Errorf("read %s: %w", m.name, err)
			}
			plan.Write(text)
		}
	}
	return plan.String(), nil
}

// listMigrations gives the files in order.
func listMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql") // sorted by name
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	list := make([]migration, len(names))
	for i, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		list[i] = migration{version, name}
	}
	return list, nil
}

// schemaVersion is 0 before the first migration.
func (s *Store) schemaVersion(g *gorm.DB) (int64, error) {
	found, err := query[int](g, "look for "+versionTable, s.either(
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?",
		"SELECT COUNT(*) FROM sqlite_master WHERE name = ?"), versionTable)
	if err != nil || found == 0 {
		return 0, err
	}
	return newestApplied(g)
}

// newestApplied is the database's version; 0 before the first migration.
func newestApplied(g *gorm.DB) (int64, error) {
	return query[int64](g, "read version", "SELECT COALESCE(MAX(version_id), 0) FROM "+versionTable)
}

// refuseVersion refuses a database newer than the newest file and one older than the baseline.
func refuseVersion(have int64, list []migration) error {
	baseline, newest := list[0].version, list[len(list)-1].version
	refusal := &model.StoreError{Store: "database", Op: "migrate"}
	switch {
	case have > newest:
		refusal.Err = fmt.Errorf("%w: it is at version %d, the program knows %d", errNewerSchema, have, newest)
		refusal.Advice = "use the newer shardid that made it; nothing was changed"
	case have > 0 && have < baseline:
		refusal.Err = fmt.Errorf("%w: it is at version %d, the program upgrades from %d on", errOlderSchema, have,
			baseline)
		refusal.Advice = "run `shardid migrate` of version 0.3 first; nothing was changed"
	default:
		return nil
	}
	return refusal
}

// migrateSQLite upgrades in one transaction that holds the write lock from its
// beginning: a process that waited finds the work done, and one that is killed leaves
// nothing behind.
func (s *Store) migrateSQLite(ctx context.Context, progress func(string)) error {
	files, err := migrations.Files("sqlite")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	list, err := listMigrations(files)
	if err != nil {
		return err
	}
	var done []string
	err = s.untilFree(ctx, func() error {
		return s.inTx(ctx, "migrate", func(tx *gorm.DB) (err error) {
			done, err = applySQLite(tx, files, list)
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, step := range append(done, fmt.Sprintf("schema is at version %d", list[len(list)-1].version)) {
		progress(step)
	}
	return nil
}

func applySQLite(tx *gorm.DB, files fs.FS, list []migration) (done []string, err error) {
	// goose's layout, so that its tool can read the file.
	err = write(tx, "version table", `CREATE TABLE IF NOT EXISTS `+versionTable+` (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	)`)
	if err != nil {
		return nil, err
	}
	have, err := newestApplied(tx)
	if err := cmp.Or(err, refuseVersion(have, list)); err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.version <= have {
			continue
		}
		text, err := fs.ReadFile(files, m.name)
		if err == nil {
			err = write(tx, m.name, string(text))
		}
		if err == nil {
			err = write(tx, m.name, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (?, 1)", m.version)
		}
		if err != nil {
			return nil, err
		}
		done = append(done, "applied "+m.name)
	}
	return done, nil
}
