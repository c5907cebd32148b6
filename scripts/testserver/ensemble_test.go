//go:build unix

package testserver

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// TestEnsemble: without its leader it elects another; a server that is cut off serves
// nobody while the others go on, and follows again afterwards.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := Ensemble(t)
	conn := zkSession(t, e.Addrs()...)
	create := func(path string) {
		t.Helper()
		wantNil(t, path, waitUntil(startLimit, func() error {
			_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			if err == zk.ErrNodeExists { //nolint:errorlint // the client's own value
				return nil
			}
			return err
		}))
	}
	create("/before")
	first := e.Leader()
	e.Servers[first].Kill()
	create("/without")
	if second := e.Leader(); second == first {
		t.Fatal("a killed server leads")
	}
	e.Servers[first].Restart()
	e.WaitAll()

	follower := (e.Leader() + 1) % ensembleSize
	e.Cut(follower)
	wantNil(t, "the end of its service", waitUntil(startLimit, func() error {
		status, err := fourLetters(e.Servers[follower].addr, "srvr")
		if err == nil && strings.Contains(status, "Mode:") {
			return errRunning
		}
		return err
	}))
	create("/cut")
	e.Mend(follower)
	e.WaitAll()
	for _, path := range []string{"/before", "/without", "/cut"} {
		if !zkExists(t, e.Servers[follower].addr, path) {
			t.Errorf("the server that was cut off has no %s", path)
		}
	}
}
