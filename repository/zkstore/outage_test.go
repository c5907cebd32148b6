//go:build unix

package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

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
		"peers":   func(ctx context.Context) error { return check.Err(s.Peers(ctx)) },
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
			node := "/snowflake/x/forever/10.0.0.0:8080-0000000000"
			wantAll(t, s, model.Lease{Owner: owner(0), Node: node}, c.words...)
		})
	}
}

// Close returns when the library's goroutines have ended, though one is in the
// middle of a connect. Runs alone: they are found by their stacks.
func TestCloseWaits(t *testing.T) {
	var first sync.Once
	connecting := make(chan struct{})
	s := world{t: t}.openOver(zkstore.Options{Addrs: []string{"127.0.0.1:1"}},
		func(string, string, time.Duration) (net.Conn, error) {
			first.Do(func() { close(connecting) })
			time.Sleep(2 * time.Second) // longer than the library waits by itself
			return nil, errors.New("no answer")
		})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Check(ctx); err == nil {
		t.Error("checked a server that is not there")
	}
	<-connecting
	for _, want := range []bool{true, false} {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if got := strings.Contains(string(stacks), "zk.(*Conn)"); got != want {
			t.Errorf("goroutines of the library: %v, want %v\n%s", got, want, stacks)
		}
		check.OK(t, s.Close())
	}
}

// A server that is killed and comes back, paused and resumed, and then comes back
// having lost everything.
func TestServerLife(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	server := testserver.ZooKeeper(t)
	w := world{t, server.Addr(), "life"}
	stores, leases := map[string]instance{}, map[string]model.Lease{}
	for _, mode := range modes() {
		s := w.open(zkstore.Options{Mode: mode, Name: mode, SessionTimeout: 2 * time.Second})
		stores[mode] = s
		leases[mode] = held(t, s)
	}
	goOn := func() {
		t.Helper()
		for mode, s := range stores {
			check.Eventually(t, mode+" goes on", func() error {
				lease, err := s.Renew(t.Context(), leases[mode])
				if mode == zkstore.ModeEphemeral && errors.Is(err, model.ErrLeaseLost) { // it took too long
					lease, err = s.Acquire(t.Context(), owner(0))
				}
				if err == nil {
					leases[mode] = lease
				}
				return err
			})
		}
	}
	server.Kill()
	wantAll(t, stores[zkstore.ModeRecycle], leases[zkstore.ModeRecycle])
	server.Restart()
	goOn()
	server.Pause()
	wantAll(t, stores[zkstore.ModeForever], leases[zkstore.ModeForever])
	server.Resume()
	goOn()
	server.Kill()
	server.Wipe()
	server.Restart()
	for mode, s := range stores {
		workertest.WantLost(t, s, leases[mode])
		for i := range 2 { // the second does not find it empty, and learns it all the same
			lease := workertest.Acquire(t, s, owner(i))
			if lease.KeptSince == 0 || lease.ServerTime < lease.KeptSince ||
				lease.ServerTime-lease.KeptSince > minute ||
				i == 0 && lease.KeptSince != lease.ServerTime {
				t.Errorf("%s, start %d: kept since %d at %d", mode, i, lease.KeptSince, lease.ServerTime)
			}
		}
	}
}

func TestNoAuth(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, w world, mode string) {
		c := w.client()
		w.write(c, "/lock/"+w.name, "")
		_, err := c.SetACL("/lock/"+w.name, zk.WorldACL(zk.PermRead), -1)
		w.allow(err)
		wantAdvice(t, check.Err(w.mode(mode).Acquire(t.Context(), owner(0))), "setAcl")
	})
}

// TestWhatIsNoPath: owners whose texts cannot be part of a path, and a chroot that does not come last, are refused.
func TestWhatIsNoPath(t *testing.T) {
	s := world{t: t}.open(zkstore.Options{Addrs: []string{"127.0.0.1:1"}}) // never connected
	for name, o := range map[string]model.Owner{"token": {Address: "1.2.3.4:5"},
		"slash": {Address: "1.2.3.4:5", Token: "a/b"},
		"port":  {Address: "1.2.3.4", Token: "t"}, "address": {Address: "1.2/3.4:5", Token: "t"}} {
		check.Is(t, check.Err(s.Acquire(t.Context(), o)), model.ErrInvalidArgument, name)
	}
	err := check.Err(zkstore.New(zkstore.Options{Addrs: []string{"a:1/x", "b:1"}}))
	check.Is(t, err, model.ErrInvalidArgument)
}

// The answer to the transaction that takes a worker ID is lost: the same process
// gets the same one when it asks again.
func TestLostTake(t *testing.T) {
	t.Parallel()
	nodes := map[string]func(world) string{
		zkstore.ModeForever:   world.forever,
		zkstore.ModeRecycle:   func(w world) string { return w.pool("inuse") },
		zkstore.ModeEphemeral: world.root,
	}
	eachMode(t, func(t *testing.T, w world, mode string) {
		c, s := w.client(), w.mode(mode)
		workertest.Acquire(t, s, owner(0))
		lost := false
		s.losing(func(opcode int32, _ []byte) bool {
			hit := opcode == opMulti && !lost
			lost = lost || hit
			return hit
		})
		wantAdvice(t, check.Err(s.Acquire(t.Context(), owner(1))), "opened again")
		var lease model.Lease
		check.Eventually(t, "acquire again", func() (err error) {
			lease, err = s.Acquire(t.Context(),
				owner(1))
			return err
		})
		check.Equal(t, len(w.children(c, nodes[mode](w))), 2, "worker IDs")
		workertest.Renew(t, s, lease, 1000, 2000)
	})
}

// A server that takes connections and says nothing does not keep us from the next.
func TestHungServer(t *testing.T) {
	t.Parallel()
	silent := testserver.Fake(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	w := newWorld(t)
	var first sync.Once
	s := w.openOver(zkstore.Options{SessionTimeout: time.Second},
		func(network, addr string, limit time.Duration) (net.Conn, error) {
			first.Do(func() { addr = silent })
			return net.DialTimeout(network, addr, limit)
		})
	check.Eventually(t, "reach the other", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.Check(ctx)
	})
}

// TestEnsemble: on three servers each registry gives distinct worker IDs while the
// leader is killed, and while a follower that some clients are connected to hangs;
// leases from before go on.
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
			leases := acquireDuring(t, stores, 0, func() {})
			leader := e.Leader()
			leases = append(leases, acquireDuring(t, stores, len(leases), func() { e.Servers[leader].Kill() })...)
			e.Servers[leader].Restart()
			e.WaitAll()
			follower := (e.Leader() + 1) % len(e.Servers)
			leases = append(leases, acquireDuring(t, stores, len(leases), func() { e.Servers[follower].Pause() })...)
			if mode != zkstore.ModeEphemeral { // whose leases end with a session that was away for too long
				workertest.WantDistinct(t, leases)
			}
			e.Servers[follower].Resume()
			e.WaitAll()
			for i := range leases {
				leases[i] = goesOn(t, mode, stores[i%len(stores)], leases[i])
			}
			workertest.WantDistinct(t, leases)
		})
	}
}

// acquireDuring acquires for 24 owners at once, from the first on, with a fault after
// some of them; what fails is tried again.
func acquireDuring(t *testing.T, stores []instance, first int, fault func()) []model.Lease {
	t.Helper()
	const owners = 24
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	leases, errs := make([]model.Lease, owners), make([]error, owners)
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 10 * time.Millisecond)
			for {
				leases[i], errs[i] = stores[(first+i)%len(stores)].Acquire(ctx, owner(first+i))
				if errs[i] == nil || ctx.Err() != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	fault()
	wg.Wait()
	check.Must(t, errors.Join(errs...))
	return leases
}

// goesOn renews a lease; only one that ended with its session is taken anew.
func goesOn(t *testing.T, mode string, s instance, lease model.Lease) model.Lease {
	t.Helper()
	check.Eventually(t, fmt.Sprintf("%s goes on", lease.Owner.Address), func() error {
		got, err := s.Renew(t.Context(), workertest.With(lease, lease.Reserved+1000, lease.Expires+2000))
		if mode == zkstore.ModeEphemeral && errors.Is(err, model.ErrLeaseLost) {
			got, err = s.Acquire(t.Context(), lease.Owner)
		}
		if err == nil {
			lease = got
		}
		return err
	})
	return lease
}

// A renewal on its way while somebody else takes the worker ID over changes
// nothing: it names what it has seen.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, w world, mode string) {
		c, slow, quick := w.client(), w.mode(mode), w.mode(mode)
		other := owner(1)
		other.Address = owner(0).Address
		lease := workertest.Acquire(t, slow, owner(0))
		past := lease.ServerTime - minute
		if mode != zkstore.ModeEphemeral { // there a session keeps the others away
			lease = workertest.Renew(t, slow, lease, past, past)
		}
		var next model.Lease
		slow.before(func() {
			if next.Owner == other {
				return
			}
			if mode == zkstore.ModeEphemeral {
				w.allow(c.Delete(lease.Node, -1))
			}
			next = workertest.Acquire(t, quick, other)
		})
		check.Is(t, check.Err(slow.Renew(t.Context(), workertest.With(lease, past+hour, past+hour))),
			model.ErrLeaseLost,
			"renewed")
		check.Equal(t, next.WorkerID, lease.WorkerID, "the worker ID of", next)
		if got := workertest.Renew(t, quick, next, past, past); got.Reserved > past || got.Expires > past {
			t.Errorf("the bounds became %+v", got)
		}
	})
}

// The same for a takeover: of two, one gets the worker ID.
func TestOvertakenFollower(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{zkstore.ModeForever, zkstore.ModeRecycle} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			slow, quick := w.mode(mode), w.mode(mode)
			lease := workertest.Acquire(t, slow, owner(0))
			workertest.Renew(t, slow, lease, 1000, 2000)
			one, two := owner(1), owner(2)
			one.Address, two.Address = owner(0).Address, owner(0).Address
			var next model.Lease
			slow.before(func() {
				if next.Owner != two {
					next = workertest.Acquire(t, quick, two)
				}
			})
			if got := workertest.Acquire(t, slow, one); got.WorkerID == next.WorkerID {
				t.Errorf("both have worker ID %d", got.WorkerID)
			}
			workertest.Renew(t, quick, next, 3000, 4000)
		})
	}
}
