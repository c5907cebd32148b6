//go:build unix

package sqlstore

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardid/scripts/check"
)

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
		for _, file := range []string{path, path + "-wal", path + "-shm"} {
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
	run(t, s, "PRAGMA max_page_count = 1000000", "PRAGMA busy_timeout = 50")
	other := open(t, Options{Driver: SQLite, DSN: s.file})
	tx, err := other.pool.Begin()
	check.Must(t, err)
	wantAdvice(t, one(s, key(1, 0), 0).Err, "stop the other process that holds")
	wantAdvice(t, s.Check(ctx), "stop the other process that holds")
	check.Must(t, tx.Rollback())
	wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
}
