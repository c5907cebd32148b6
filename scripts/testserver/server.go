//go:build unix

package testserver

import (
	"errors"
	"testing"
)

// server is what servers of all kinds can do, in the name of one test.
type server struct {
	*process
	t      testing.TB
	shared bool
}

// Kill ends the server as a power cut would (SIGKILL) and waits for its end.
// A server that is not running stays so.
func (s *server) Kill() {
	s.t.Helper()
	s.control("kill", s.kill)
}

// Stop ends the server in an orderly way (SIGTERM) and waits, 20 s at most,
// for its end. A paused server is resumed for it.
func (s *server) Stop() {
	s.t.Helper()
	s.control("stop", s.stop)
}

// Restart starts the server again on the same port and in the same folder, and
// returns when it answers. A running server is stopped first. What survives is
// up to the server: a Redis keeps nothing unless started with, for example,
// "--appendonly", "yes".
func (s *server) Restart() {
	s.t.Helper()
	s.control("restart", s.restart)
}

// Pause freezes the server (SIGSTOP): connections stay open, connects succeed,
// nothing is answered. It returns when the server stands still.
func (s *server) Pause() {
	s.t.Helper()
	s.control("pause", s.pause)
}

// Resume ends a Pause (SIGCONT).
func (s *server) Resume() {
	s.t.Helper()
	s.control("resume", s.resume)
}

func (s *server) control(what string, f func() error) {
	s.t.Helper()
	if s.shared {
		s.t.Fatalf("testserver: %s: this server is shared with other tests, take a private one", what)
	}
	if err := f(); err != nil {
		s.t.Fatalf("testserver: %s: %v", what, err)
	}
}

// begin starts a server that belongs to no test yet.
func (s *server) begin(p plan) (err error) {
	if s.process, err = newProcess(); err != nil {
		return err
	}
	if s.plan = p; p.prepare != nil {
		err = p.prepare()
	}
	if err == nil {
		err = s.startOnPorts()
	}
	if err != nil {
		return errors.Join(err, s.remove())
	}
	return nil
}

// kind is what the servers of all kinds have.
type kind[S any] interface {
	*S
	own(t testing.TB)
	borrow(t testing.TB)
	remove() error
}

// private starts a server that ends with t.
func private[S any, P kind[S]](t testing.TB, start func() (P, error)) P {
	t.Helper()
	skipShort(t)
	s, err := start()
	must(t, err)
	s.own(t)
	return s
}

// own hands a private server to t: it ends with the test, and a test that
// failed shows the end of the server's log.
func (s *server) own(t testing.TB) {
	s.t = t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("testserver: %s", s.logTail())
		}
		if err := s.remove(); err != nil {
			t.Errorf("testserver: %v", err)
		}
	})
}

// borrow hands a shared server to t, for use and not for control.
func (s *server) borrow(t testing.TB) { s.t, s.shared = t, true }

// skipShort is the first line of every helper.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real server")
	}
}

// must fails the test that could not get its server.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("testserver: %v", err)
	}
}
