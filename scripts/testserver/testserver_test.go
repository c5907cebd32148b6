//go:build unix

package testserver

import (
	"errors"
	"os"
	"syscall"
	"testing"
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

// running reports whether pid lives; a zombie, left by a container whose first
// process does not reap, does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	return !zombie(pid)
}
