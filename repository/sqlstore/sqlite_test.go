//go:build unix

package sqlstore

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"shardid/model"
	"shardid/scripts/check"
)

// childFile names, in the environment, the file that this program allocates from
// instead of running tests.
const childFile = "SHARDID_TEST_ALLOCATE_FROM"

// allocateForEver prints each segment it was given, until it is killed.
func allocateForEver(file string) int {
	s, err := Open(context.Background(), Options{Driver: SQLite, DSN: file})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for {
		got := one(s, key(1, 0), 0)
		if got.Err != nil {
			fmt.Println(got.Err)
			return 1
		}
		fmt.Println(got.Segment.First, got.Segment.Last) // unbuffered
	}
}

func TestSQLiteSurvivesKill(t *testing.T) {
	check.Deep(t)
	if testing.Short() {
		t.Skip("starts processes")
	}
	opts := Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "shardid.db")}
	s := openMigrated(t, opts)
	provision(t, s, app(1))
	var last int64
	for round := range 6 {
		for _, got := range killedAfter(t, opts.DSN, time.Duration(20+30*round)*time.Millisecond) {
			if got.First <= last {
				t.Fatalf("segment %d…%d after %d", got.First, got.Last, last)
			}
			last = got.Last
		}
	}
	if n := maxID(t, s, 0); n < last {
		t.Fatalf("max_id %d, handed out %d", n, last)
	}
	t.Logf("%d indices over 6 kills", last)
}

// killedAfter gives the segments a process printed before kill -9, d after its
// first one.
func killedAfter(t *testing.T, file string, d time.Duration) (segments []model.Segment) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+file)
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if len(segments) == 0 {
			time.AfterFunc(d, func() { _ = cmd.Process.Kill() })
		}
		var segment model.Segment
		if _, err := fmt.Sscan(lines.Text(), &segment.First, &segment.Last); err != nil {
			t.Fatalf("the process said %q", lines.Text())
		}
		segments = append(segments, segment)
	}
	_ = cmd.Wait() // it was killed
	if len(segments) == 0 {
		t.Fatal("the process handed out nothing")
	}
	return segments
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

// A start waits for a file that somebody holds for longer than SQLite itself waits,
// and then opens it.
func TestOpenOutwaitsALock(t *testing.T) {
	check.Deep(t)
	if testing.Short() {
		t.Skip("waits for six seconds")
	}
	path := filepath.Join(t.TempDir(), "shardid.db")
	holder, err := sql.Open(sqliteDriver, path)
	check.Must(t, err)
	holder.SetMaxOpenConns(1)
	defer holder.Close()
	for _, statement := range []string{"CREATE TABLE t (x)", "BEGIN EXCLUSIVE"} {
		check.Must(t, check.Err(holder.ExecContext(t.Context(), statement)))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		time.Sleep(6 * time.Second) // SQLite gives up after five
		check.OK(t, check.Err(holder.ExecContext(context.Background(), "ROLLBACK")))
	})
	s, err := Open(t.Context(), Options{Driver: SQLite, DSN: path})
	check.Must(t, err)
	check.OK(t, s.Close())
}

// A row lock, which SQLite does not know, is left out, and names are quoted.
func TestSQLiteDialect(t *testing.T) {
	s := openMigrated(t, Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "a.db")})
	sql := s.gorm.ToSQL(func(tx *gorm.DB) *gorm.DB {
		return tx.Table("t").Clauses(clause.Locking{Strength: "UPDATE"}).Where(clause.Eq{Column: "t.a`b", Value: "it's"}).Find(&[]struct{ X string }{})
	})
	if want := "SELECT * FROM `t` WHERE `t`.`a``b` = 'it''s' "; sql != want {
		t.Errorf("%s\nwant\n%s", sql, want)
	}
}
