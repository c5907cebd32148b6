//go:build unix

package testserver

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestMain also is the child that watchdog_test.go kills.
func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		os.Exit(child(kind))
	}
	Main(m)
}

// wantRemoved checks *dir at the very end of t, after the server's own cleanup.
func wantRemoved(t *testing.T, dir *string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := os.Stat(*dir); *dir != "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder %s is left: %v", *dir, err)
		}
	})
}

func wantNil(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// short returns a context for something that must not be answered.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestRedisLife(t *testing.T) {
	var dir string
	wantRemoved(t, &dir)
	s := Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	dir = s.dir
	c, ctx, addr := s.Client(), t.Context(), s.Addr
	wantNil(t, "set", c.Set(ctx, "k", "v", 0).Err())

	s.Kill()
	s.Kill() // harmless
	if _, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		t.Fatal("a killed server accepts connections")
	}
	s.Restart()
	if got, err := s.Client().Get(ctx, "k").Result(); got != "v" || s.Addr != addr {
		t.Fatalf("after a restart on %s: %q, %v", s.Addr, got, err)
	}
	s.Stop()
	s.Restart()
	s.Restart() // of a running server
	s.FlushAll()
	if n, err := s.Client().DBSize(ctx).Result(); n != 0 || err != nil {
		t.Fatalf("after FlushAll: %d keys, %v", n, err)
	}
}

func TestRedisPause(t *testing.T) {
	s := Redis(t)
	c := s.Client()
	wantNil(t, "ping", c.Ping(t.Context()).Err())
	s.Pause()
	s.Pause() // harmless
	one := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: 200 * time.Millisecond, MaxRetries: -1})
	defer one.Close()
	if err := one.Ping(short(t)).Err(); err == nil {
		t.Fatal("a paused server answers")
	}
	s.Resume()
	wantNil(t, "ping after resume", c.Ping(t.Context()).Err())
	s.Pause()
	s.Stop() // resumes it first
	s.Restart()
	s.Pause() // and is removed while paused
}

func TestRedisReplica(t *testing.T) {
	t.Parallel()
	master := Redis(t)
	wantNil(t, "set", master.Client().Set(t.Context(), "k", "v", 0).Err())
	replica := RedisReplica(t, master)
	if got, err := replica.Client().Get(t.Context(), "k").Result(); got != "v" {
		t.Fatalf("replica has %q, %v", got, err)
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := Sentinel(t)
	if got := s.MasterAddr(t, ""); got != s.Master.Addr || len(s.Addrs) != 3 {
		t.Fatalf("master %s, want %s; sentinels %v", got, s.Master.Addr, s.Addrs)
	}
	s.DownAfter(t, 500*time.Millisecond)
	s.Master.Kill()
	if got := s.MasterAddr(t, s.Master.Addr); got != s.Replica.Addr {
		t.Fatalf("new master %s, want %s", got, s.Replica.Addr)
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.MasterName, SentinelAddrs: s.Addrs})
	defer c.Close()
	wantNil(t, "write to the new master", c.Set(t.Context(), "k", "v", 0).Err())
	s.Sentinels[0].Kill()
	s.Sentinels[0].Restart()
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := Cluster(t)
	c := s.Client()
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		wantNil(t, "set "+key, c.Set(t.Context(), key, key, 0).Err())
	}
	s.Nodes[1].Kill()
	s.Nodes[1].Restart()
	s.WaitOK()
	wantNil(t, "set after restart", c.Set(t.Context(), "b", "b", 0).Err())
}

func TestMariaDBLife(t *testing.T) {
	t.Parallel()
	var dir string
	wantRemoved(t, &dir)
	s := MariaDB(t)
	dir = s.dir
	if len(s.Socket) >= 100 {
		t.Errorf("socket path has %d bytes", len(s.Socket))
	}
	dsn := s.NewDatabase(t)
	sqlExec(t, dsn, "CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB")
	sqlExec(t, dsn, "INSERT INTO t VALUES (1)")
	s.Kill()
	s.Restart()
	sqlExec(t, dsn, "INSERT INTO t VALUES (2)")
	if err := trySQL(t.Context(), dsn, "INSERT INTO t VALUES (1)"); err == nil {
		t.Error("a committed row is lost by a kill")
	}
	s.Stop()
	s.Restart()
	s.Pause()
	if err := trySQL(short(t), dsn, "INSERT INTO t VALUES (3)"); err == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	sqlExec(t, dsn, "INSERT INTO t VALUES (4)")
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
