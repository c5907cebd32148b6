//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// One server of a kind per test process, whichever test asks first.
var (
	sharedRedis     = lazily(func() (*RedisServer, error) { return startRedis() })
	sharedMariaDB   = lazily(func() (*MariaDBServer, error) { return startMariaDB(loopback) })
	sharedZooKeeper = lazily(func() (*ZooKeeperServer, error) { return startZooKeeper() })
)

// Main runs a package's tests, stops the shared servers, fails on goroutines
// left over (goleak) and ends the process. Call it from TestMain.
func Main(m *testing.M, opts ...goleak.Option) {
	goleak.VerifyTestMain(suite{m}, opts...)
}

// Shutdown stops the shared servers and removes their folders; a later
// SharedRedis, SharedMariaDB or SharedZooKeeper starts new ones. Main calls it;
// without either the watchdogs do the same once the process is gone. Safe for
// concurrent use.
func Shutdown() error {
	return errors.Join(sharedRedis.shutdown(), sharedMariaDB.shutdown(), sharedZooKeeper.shutdown())
}

type suite struct{ m *testing.M }

// Run stops the shared servers before goleak counts.
func (s suite) Run() int {
	code := s.m.Run()
	if err := Shutdown(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "testserver: stop shared servers:", err)
		return 1
	}
	return code
}

// lazy starts a server on first use and remembers a failure, so that a broken
// installation costs one timeout and not one per test.
type lazy[S any, P kind[S]] struct {
	start func() (P, error)

	mu     sync.Mutex
	done   bool
	server P
	err    error
}

func lazily[S any, P kind[S]](start func() (P, error)) *lazy[S, P] { return &lazy[S, P]{start: start} }

// lend gives the server to t, for use and not for control.
func (l *lazy[S, P]) lend(t testing.TB) P {
	t.Helper()
	skipShort(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done {
		l.server, l.err = l.start()
		l.done = true
	}
	must(t, l.err)
	s := *l.server
	P(&s).borrow(t)
	return &s
}

func (l *lazy[S, P]) shutdown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done || l.err != nil {
		return nil
	}
	l.done = false
	return l.server.remove()
}
