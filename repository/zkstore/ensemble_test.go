//go:build unix

package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestEnsemble: on three servers each registry gives distinct worker IDs while the
// leader is killed, and while a follower that some clients are connected to is cut
// off; leases from before go on.
func TestEnsemble(t *testing.T) {
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
			leases = append(leases, acquireDuring(t, stores, len(leases), func() { e.Cut(follower) })...)
			if mode != zkstore.ModeEphemeral { // whose leases end with a session that was away for too long
				wantDistinct(t, leases)
			}
			e.Mend(follower)
			e.WaitAll()
			for i := range leases {
				leases[i] = goesOn(t, mode, stores[i%len(stores)], leases[i])
			}
			wantDistinct(t, leases)
		})
	}
}

// acquireDuring acquires for 24 owners at once, from the first on, with a fault after
// some of them; what fails is tried again.
func acquireDuring(t *testing.T, stores []instance, first int, fault func()) []model.Lease {
	t.Helper()
	const owners = 24
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
	eventually(t, fmt.Sprintf("%s goes on", lease.Owner.Address), func() error {
		got, err := s.Renew(t.Context(), with(lease, lease.Reserved+1000, lease.Expires+2000))
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
