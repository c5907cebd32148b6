//go:build unix

package testserver

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain also is the child that watchdog_test.go kills.
func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		os.Exit(child(kind))
	}
	Main(m)
}

func wantNil(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func TestMariaDBKeepsCommits(t *testing.T) {
	db, err := sql.Open("mysql", SharedMariaDB(t).DSN(""))
	wantNil(t, "open", err)
	defer db.Close()
	for name, want := range map[string]string{
		"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "character_set_server": "utf8mb4",
	} {
		var got string
		err := db.QueryRow("SHOW VARIABLES LIKE '"+name+"'").Scan(new(string), &got)
		if err != nil || got != want {
			t.Errorf("%s = %q, want %q (%v)", name, got, want, err)
		}
	}
}

func TestNewDatabase(t *testing.T) {
	s := SharedMariaDB(t)
	var first string
	t.Run("is usable", func(t *testing.T) {
		first = s.NewDatabase(t)
		if second := s.NewDatabase(t); first == second {
			t.Fatalf("the same database twice: %s", first)
		}
		sqlExec(t, first, "CREATE TABLE t (id INT)")
	})
	if err := trySQL(t.Context(), first, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "Unknown database") {
		t.Errorf("the database outlived its test: %v", err)
	}
}

func TestSharedIsOne(t *testing.T) {
	a, b := SharedRedis(t), SharedRedis(t)
	db, sameDB, zoo, sameZoo := SharedMariaDB(t), SharedMariaDB(t), SharedZooKeeper(t), SharedZooKeeper(t)
	if a.Addr != b.Addr || db.Port != sameDB.Port || zoo.Addr() != sameZoo.Addr() {
		t.Fatal("two shared servers of a kind")
	}
	wantNil(t, "ping", a.Client().Ping(t.Context()).Err())
	dir := a.dir
	wantNil(t, "shutdown", Shutdown())
	wantNil(t, "second shutdown", Shutdown())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("folder %s is left: %v", dir, err)
	}
	wantNil(t, "ping a new one", SharedRedis(t).Client().Ping(t.Context()).Err())
}

func TestMariaDBClient(t *testing.T) {
	skipShort(t)
	info, err := os.Stat(MariaDBClient())
	wantNil(t, "find client", err)
	if info.Mode()&0o111 == 0 {
		t.Errorf("%s is not a program", MariaDBClient())
	}
}

func sqlExec(t *testing.T, dsn, statement string) {
	t.Helper()
	wantNil(t, statement, trySQL(t.Context(), dsn, statement))
}

func trySQL(ctx context.Context, dsn, statement string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// running reports whether pid lives; a zombie, left by a container whose first
// process does not reap, does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	return !zombie(pid)
}

func TestRedisWithClock(t *testing.T) {
	t.Parallel()
	s, set := RedisWithClock(t)
	if set == nil {
		t.Skip("a server with a clock of its own needs a C compiler")
	}
	for _, want := range []time.Duration{0, 10 * time.Minute, -time.Hour, 0} {
		set(want)
		now, err := s.Client().Time(t.Context()).Result()
		wantNil(t, "ask for the time", err)
		if ahead := time.Until(now); (ahead - want).Abs() > time.Minute/2 {
			t.Errorf("the clock is ahead by %v, want %v", ahead, want)
		}
	}
}
