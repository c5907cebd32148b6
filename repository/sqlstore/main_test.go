//go:build unix

package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	gosql "github.com/go-sql-driver/mysql"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// backend makes empty databases of one kind.
type backend struct {
	name  string
	empty func(t *testing.T) Options
}

func backends() []backend {
	return []backend{
		{"MariaDB", func(t *testing.T) Options {
			return Options{Driver: MySQL, DSN: testserver.SharedMariaDB(t).NewDatabase(t), ListRate: 1e9, TagRate: 1e9}
		}},
		{"SQLite", func(t *testing.T) Options {
			return Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "shardid.db")}
		}},
	}
}

// onBoth runs a test over a migrated store of each kind.
func onBoth(t *testing.T, test func(t *testing.T, s *Store)) {
	onBothEmpty(t, func(t *testing.T, opts Options) { test(t, openMigrated(t, opts)) })
}

// onBothEmpty runs a test over an empty database of each kind, beside others.
func onBothEmpty(t *testing.T, test func(t *testing.T, opts Options)) {
	t.Parallel()
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, b.empty(t))
		})
	}
}

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), opts)
	check.Must(t, err)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

// beside is the store of another process. A SQLite file has one process, so that two stores share its connection.
func beside(t testing.TB, s *Store, opts Options) *Store {
	t.Helper()
	if s.server != nil {
		return open(t, opts)
	}
	return &Store{opts: opts, pool: s.pool, gorm: s.gorm, file: s.file, id: rand.Text()}
}

func openMigrated(t testing.TB, opts Options) *Store {
	t.Helper()
	s := open(t, opts)
	check.Must(t, s.Migrate(context.Background(), nil))
	return s
}

func app(id uint8) model.App {
	return model.App{ID: id, Name: "test", Description: "d", Step: 1000, Limit: model.Limit{Policy: model.LimitReject}}
}

func provision(t testing.TB, s *Store, a model.App) {
	t.Helper()
	check.Must(t, check.Err(s.CreateApp(context.Background(), a)))
}

// run executes statements on the store's database.
func run(t testing.TB, s *Store, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := s.pool.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func count(t testing.TB, s *Store, query string) int64 { t.Helper(); return value[int64](t, s, query) }

func text(t testing.TB, s *Store, query string) string { t.Helper(); return value[string](t, s, query) }

func value[T any](t testing.TB, s *Store, query string) (found T) {
	t.Helper()
	if err := s.pool.QueryRow(query).Scan(&found); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

// atOnce gives what n calls answer that are made at the same time.
func atOnce[T any](n int, call func(i int) (T, error)) (got []T, errs []error) {
	var wg sync.WaitGroup
	got, errs = make([]T, n), make([]error, n)
	for i := range n {
		wg.Go(func() { got[i], errs[i] = call(i) })
	}
	wg.Wait()
	return got, errs
}

func key(app, shard uint8) model.ListKey { return model.ListKey{App: app, Shard: shard} }

func ask(keys ...model.ListKey) []model.AllocRequest {
	reqs := make([]model.AllocRequest, len(keys))
	for i, k := range keys {
		reqs[i] = model.AllocRequest{Key: k, MaxStep: model.MaxStep}
	}
	return reqs
}

// one allocates for one list.
func one(s *Store, k model.ListKey, floor int64) model.Allocation {
	return s.Allocate(context.Background(), []model.AllocRequest{{Key: k, Floor: floor, MaxStep: model.MaxStep}})[0]
}

func wantSegment(t testing.TB, got model.Allocation, first, last int64) {
	t.Helper()
	if got.Err != nil || got.Segment != (model.Segment{First: first, Last: last}) {
		t.Fatalf("got %+v, want %d…%d", got, first, last)
	}
}

// withDSN changes a MySQL DSN.
func withDSN(t testing.TB, dsn string, change func(*gosql.Config)) string {
	t.Helper()
	cfg, err := gosql.ParseDSN(dsn)
	check.Must(t, err)
	change(cfg)
	return cfg.FormatDSN()
}

// plain is a connection of its own, without the store's settings.
func plain(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
