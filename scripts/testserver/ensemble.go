//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// ensembleSize is the smallest that outlives one of its servers.
const ensembleSize = 3

// targetLimit is how long a link waits for its target, which may be dead.
const targetLimit = 3 * time.Second

// EnsembleSetup is three ZooKeepers that elect a leader, see Ensemble.
type EnsembleSetup struct {
	Servers []*ZooKeeperServer // server i has the number i+1
	t       testing.TB
	links   []*link // from server i to server j, one for each of two ports
}

// Ensemble starts three ZooKeepers that reach each other by links of their own, so
// that Cut can separate one of them while its clients still reach it. It returns when
// all serve, which takes about 3 s. The links' goroutines end with t.
func Ensemble(t testing.TB) *EnsembleSetup {
	t.Helper()
	skipShort(t)
	e := &EnsembleSetup{t: t}
	t.Cleanup(func() {
		for _, l := range e.links {
			l.close()
		}
	})
	ports, err := freePorts(2 * ensembleSize) // for followers and for votes
	must(t, err)
	for i := range ensembleSize {
		var settings []string
		for j := range ensembleSize {
			seen := []int{ports[2*j], ports[2*j+1]}
			if i != j {
				for k := range seen {
					l, err := newLink(i, j, seen[k])
					must(t, err)
					e.links, seen[k] = append(e.links, l), l.port
				}
			}
			settings = append(settings, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", j+1, seen[0], seen[1]))
		}
		e.Servers = append(e.Servers, e.member(i, settings))
	}
	e.WaitAll()
	return e
}

// member starts a server without waiting for its service: alone it has no quorum.
func (e *EnsembleSetup) member(i int, settings []string) *ZooKeeperServer {
	e.t.Helper()
	return private(e.t, func() (*ZooKeeperServer, error) {
		s := &ZooKeeperServer{}
		prepare := func() error {
			if err := os.MkdirAll(s.path("data"), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(s.path("data"), "myid"), []byte(strconv.Itoa(i+1)), 0o600)
		}
		answers := func() error { _, err := fourLetters(s.addr, "srvr"); return err }
		return s, s.start(plan{prepare: prepare, ready: answers}, append(settings, "initLimit=50", "syncLimit=25"))
	})
}

// Addrs are host:port of all servers.
func (e *EnsembleSetup) Addrs() []string {
	addrs := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// WaitAll waits, 60 s at most, until every server serves and one of them leads.
func (e *EnsembleSetup) WaitAll() {
	e.t.Helper()
	for _, s := range e.Servers {
		must(e.t, waitUntil(startLimit, s.isReady))
	}
	e.Leader()
}

// Leader waits, 60 s at most, for a leader among the servers that answer, and
// returns its index.
func (e *EnsembleSetup) Leader() (leader int) {
	e.t.Helper()
	must(e.t, waitUntil(startLimit, func() error {
		for i, s := range e.Servers {
			if !s.answers() {
				continue
			}
			if status, err := fourLetters(s.addr, "srvr"); err == nil && strings.Contains(status, "\nMode: leader") {
				leader = i
				return nil
			}
		}
		return errors.New("no ZooKeeper leads")
	}))
	return leader
}

// Cut separates server i from the others, until Mend; clients still reach it.
func (e *EnsembleSetup) Cut(i int) { e.each(i, true) }

// Mend ends a Cut.
func (e *EnsembleSetup) Mend(i int) { e.each(i, false) }

func (e *EnsembleSetup) each(i int, cut bool) {
	for _, l := range e.links {
		if l.from == i || l.to == i {
			l.set(cut)
		}
	}
}

// link forwards TCP from one server to a port of another.
type link struct {
	from, to, port int // port is where it listens
	listener       net.Listener
	target         string
	wg             sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func newLink(from, to, target int) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("link two servers: %w", err)
	}
	l := &link{from: from, to: to, port: listener.Addr().(*net.TCPAddr).Port, listener: listener,
		target: net.JoinHostPort("127.0.0.1", strconv.Itoa(target))}
	l.wg.Go(l.accept)
	return l, nil
}

func (l *link) accept() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.wg.Go(func() { l.forward(in) })
	}
}

// forward waits a while for the target: a new leader opens its port a moment after its
// election, and a follower that is cut off before gives it up, which holds up the ensemble
// for as long as the leader waits for followers.
func (l *link) forward(in net.Conn) {
	defer in.Close()
	if !l.enter(in) {
		return
	}
	var out net.Conn
	err := waitUntil(targetLimit, func() (err error) {
		out, err = net.DialTimeout("tcp", l.target, time.Second)
		return err
	})
	if err != nil {
		return
	}
	defer out.Close()
	if !l.enter(out) {
		return
	}
	l.wg.Go(func() {
		_, _ = io.Copy(in, out) // whatever ends one direction ends both
		_, _ = in.Close(), out.Close()
	})
	_, _ = io.Copy(out, in)
}

// enter notes a connection, unless the link is cut.
func (l *link) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.conns = append(l.conns, c)
	}
	return !l.cut
}

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; cut {
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.set(true)
	l.wg.Wait()
}
