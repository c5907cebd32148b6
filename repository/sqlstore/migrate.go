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
// A table of another program that cannot be upgraded stays as it is.
// Errors: *model.StoreError.
func (s *Store) Migrate(ctx context.Context, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	if s.server != nil {
		return s.explain("migrate", s.migrateMySQL(ctx, progress))
	}
	if s.made {
		progress("made " + s.opts.DSN)
	}
	// One transaction: a process that is killed leaves nothing behind.
	err := s.inTx(ctx, "migrate", func(tx *gorm.DB) error { return s.applyMigrations(tx, progress) })
	return s.explain("migrate", err)
}

// migrateMySQL works on connections of its own: an ALTER may take longer than a query may.
func (s *Store) migrateMySQL(ctx context.Context, progress func(string)) error {
	// The connection that is next waits for long: what listens there may never answer.
	if err := s.pool.PingContext(ctx); err != nil {
		return err
	}
	cfg := s.server.Clone()
	cfg.ReadTimeout = max(cfg.ReadTimeout, 10*time.Minute)
	cfg.RejectReadOnly = false // it is seen as such
	cfg.MultiStatements = true // as a file has
	// A busy machine may pause between two statements for longer than idleWait. What a host that has
	// died was in the middle of is ended as late.
	cfg.Params["wait_timeout"] = "30"
	cfg.Params["lock_wait_timeout"] = "600"
	connector, err := newPrimary(cfg, s.opts.Hosts)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	g, err := gormOf(db)
	if err != nil {
		return err
	}
	return withLock(ctx, db, func() error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer conn.Close()
		session := g.Session(&gorm.Session{NewDB: true, Context: ctx})
		session.Statement.ConnPool = conn
		if err := s.applyMigrations(session, progress); err != nil {
			return err
		}
		server, err := query[string](session, "read "+deploymentTable, "SELECT server FROM "+deploymentTable)
		if err == nil && server == "" { // nothing can be missing in a new schema
			err = s.noteServer(ctx)
		}
		return cmp.Or(err, makeSecret(session))
	})
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

// migration is a file, or the definition of a table that another program made.
type migration struct {
	version    int64 // of the file; 0 for a table
	name       string
	statements string
}

// MigrationPlan gives the statements that Migrate would run, each with its semicolon, and changes
// nothing; "" where there is nothing to do. Errors: those of Migrate.
func (s *Store) MigrationPlan(ctx context.Context) (string, error) {
	steps, _, err := s.planMigrations(s.gorm.WithContext(ctx))
	var plan strings.Builder
	for _, step := range steps {
		plan.WriteString(step.statements)
	}
	return plan.String(), s.explain("migrate", err)
}

// planMigrations gives what is to be done, in order, and the version that the schema has then. It refuses a schema
// newer than the files or older than the baseline, which is the first of them.
func (s *Store) planMigrations(g *gorm.DB) (steps []migration, newest int64, err error) {
	names, _ := fs.Glob(migrations.Files, s.either("mysql", "sqlite")+"/*.sql") // sorted by name; the pattern is right
	list := make([]migration, len(names))
	for i, name := range names {
		version, noNumber := goose.NumericComponent(name)
		text, err := migrations.Files.ReadFile(name)
		if err = cmp.Or(noNumber, err); err != nil {
			return nil, 0, fmt.Errorf("migration %s: %w", name, err)
		}
		list[i] = migration{version, path.Base(name), string(text)}
	}
	baseline := list[0]
	newest = list[len(list)-1].version
	found, err := query[[]string](g, "look for "+versionTable, s.columnsOf(), versionTable)
	have := int64(0)
	if err == nil && len(found) > 0 {
		have, err = query[int64](g, "read version", "SELECT COALESCE(MAX(version_id), 0) FROM "+versionTable)
	}
	switch {
	case err != nil:
		return nil, 0, err
	case have > newest:
		return nil, 0, &model.StoreError{Store: "database", Op: "migrate",
			Err:    fmt.Errorf("%w: it is at version %d, the program knows %d", errNewerSchema, have, newest),
			Advice: "use the newer shardid that made it; nothing was changed"}
	case have > 0 && have < baseline.version:
		return nil, 0, &model.StoreError{Store: "database", Op: "migrate",
			Err: fmt.Errorf("%w: it is at version %d, the program upgrades from %d on", errOlderSchema, have,
				baseline.version),
			Advice: "run `shardid migrate` of version 0.3 first; nothing was changed"}
	}
	if s.server != nil {
		for _, a := range adoptedTables() {
			upgrade, err := a.planUpgrade(g, baseline.statements)
			if err != nil {
				return nil, 0, err
			}
			if len(upgrade) > 0 {
				steps = append(steps, migration{name: "the definition of " + a.name + ", which another program made",
					statements: strings.Join(upgrade, ";\n") + ";\n"})
			}
		}
	}
	for _, m := range list {
		if m.version > have {
			steps = append(steps, m)
		}
	}
	return steps, newest, nil
}

// applyMigrations does what is to be done, on one connection.
func (s *Store) applyMigrations(g *gorm.DB, progress func(string)) error {
	steps, newest, err := s.planMigrations(g)
	if err != nil {
		return err
	}
	// The layout is that of goose, so that its tool can read the table.
	err = write(g, "make "+versionTable, "CREATE TABLE IF NOT EXISTS "+versionTable+" (id "+
		s.either("serial PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT")+", version_id bigint NOT NULL, "+
		"is_applied boolean NOT NULL, tstamp timestamp DEFAULT CURRENT_TIMESTAMP)")
	if err != nil {
		return err
	}
	for _, step := range steps {
		err := write(g, "apply "+step.name, step.statements)
		_, refused := errors.AsType[*gosql.MySQLError](err)
		switch {
		case step.version > 0 && err == nil:
			err = write(g, "note "+step.name, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (?, 1)",
				step.version)
		case step.version == 0 && refused && s.advice(err) == "":
			err = &model.StoreError{Store: "database", Op: "migrate", Err: fmt.Errorf("%w: %w", errInTheWay, err),
				Advice: "correct the rows that do not fit, or use another database; no row was lost"}
		}
		if err != nil {
			return err
		}
		progress("applied " + step.name)
	}
	progress(fmt.Sprintf("schema is at version %d (%s)", newest, s.Place()))
	return nil
}
