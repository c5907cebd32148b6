//go:build unix

package sqlstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

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
