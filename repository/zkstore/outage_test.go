//go:build unix

package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// wantAll wants the same kind of error from every operation, soon after its
// deadline.
func wantAll(t *testing.T, s workertest.Registry, lease model.Lease, words ...string) {
	t.Helper()
	for name, call := range map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { return check.Err(s.Acquire(ctx, owner(0))) },
		"renew":   func(ctx context.Context) error { return check.Err(s.Renew(ctx, lease)) },
		"release": func(ctx context.Context) error { return s.Release(ctx, lease) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		err := call(ctx)
		cancel()
		if errors.Is(err, model.ErrLeaseLost) || err == nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantAdvice(t, err, words...)
	}
}

// TestAway: whatever is at the address, every operation ends with its deadline and says what to do. Servers without a
// quorum take connections and drop them; one that hangs does not even do that.
func TestAway(t *testing.T) {
	answering := func(serve func(net.Conn)) func(*testing.T) string {
		return func(t *testing.T) string { return testserver.Fake(t, serve) }
	}
	at := func(addr string) func(*testing.T) string { return func(*testing.T) string { return addr } }
	for name, c := range map[string]struct {
		addr  func(*testing.T) string
		words []string
	}{
		"nobody":    {at("127.0.0.1:1"), []string{"connection refused", "start ZooKeeper"}},
		"no host":   {at("nowhere.invalid:2181"), []string{"correct zookeeper.addrs"}},
		"no quorum": {answering(func(net.Conn) {}), []string{"no session was opened", "quorum"}},
		"silence":   {answering(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := world{t: t}.open(zkstore.Options{Addrs: []string{c.addr(t)}})
			check.Eventually(t, "notice what is there", func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				err := s.Check(ctx)
				if err == nil || len(c.words) > 0 && !strings.Contains(err.Error(), c.words[0]) {
					return fmt.Errorf("check says %w", err)
				}
				return nil
			})
			wantAll(t, s, model.Lease{Owner: owner(0)}, c.words...)
		})
	}
}

// TestWhatIsNoPath: owners whose texts cannot be part of a path, and a chroot that does not come last, are refused.
func TestWhatIsNoPath(t *testing.T) {
	s := world{t: t}.open(zkstore.Options{Addrs: []string{"127.0.0.1:1"}}) // never connected
	for name, o := range map[string]model.Owner{"token": {Address: "1.2.3.4:5"},
		"port": {Address: "1.2.3.4", Token: "t"}, "address": {Address: "1.2/3.4:5", Token: "t"}} {
		check.Is(t, check.Err(s.Acquire(t.Context(), o)), model.ErrInvalidArgument, name)
	}
	err := check.Err(zkstore.New(zkstore.Options{Addrs: []string{"a:1/x", "b:1"}}))
	check.Is(t, err, model.ErrInvalidArgument)
}

// TestHungServer: a server that takes connections and says nothing, and one that is not there, do not keep us from
// the next.
func TestHungServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	silent := testserver.Fake(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	s := w.open(zkstore.Options{Addrs: []string{silent, "127.0.0.1:1", w.addr}, SessionTimeout: time.Second})
	check.Eventually(t, "reach the last", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.Check(ctx)
	})
}

// TestEnsemble: on three servers each registry gives distinct worker IDs while the
// leader is killed, and while a follower that some clients are connected to hangs;
// leases from before continue.
func TestEnsemble(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	e := testserver.Ensemble(t)
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			w := world{t, e.Servers[0].Addr(), "ensemble-" + mode}
			stores := make([]instance, 6)
			for i := range stores {
				// Each begins at another server: the client goes round.
				addrs := e.Addrs()
				addrs = append(addrs[i%3:], addrs[:i%3]...)
				stores[i] = w.open(zkstore.Options{Mode: mode, Addrs: addrs, SessionTimeout: 2 * time.Second})
			}
			leases := make([]model.Lease, 48)
			acquire := func(first, n int, fault func()) {
				var wg sync.WaitGroup
				for i := first; i < first+n; i++ {
					wg.Go(func() {
						check.OK(t, check.Within(4*time.Minute, func() (err error) {
							leases[i], err = stores[i%6].Acquire(t.Context(), owner(i))
							return err
						}), "owner", i)
					})
				}
				fault()
				wg.Wait()
			}
			leader := e.Leader()
			acquire(0, 24, e.Servers[leader].Kill)
			e.Servers[leader].Restart()
			e.WaitAll()
			follower := (e.Leader() + 1) % len(e.Servers)
			acquire(24, 24, func() { e.Servers[follower].Pause() })
			if mode != zkstore.ModeEphemeral { // whose leases end with a session that was unreachable for too long
				workertest.WantDistinct(t, leases)
			}
			e.Servers[follower].Resume()
			e.WaitAll()
			for i, lease := range leases {
				check.Eventually(t, fmt.Sprintf("%s continues", lease.Owner.Address), func() (err error) {
					longer := workertest.With(lease, lease.Reserved+1000, lease.Expires+2000)
					leases[i], err = stores[i%6].Renew(t.Context(), longer)
					if mode == zkstore.ModeEphemeral && errors.Is(err, model.ErrLeaseLost) {
						leases[i], err = stores[i%6].Acquire(t.Context(), lease.Owner)
					}
					return err
				})
			}
			workertest.WantDistinct(t, leases)
		})
	}
}
