//go:build unix

package zkstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/zkstore"

	"shardid/scripts/check"
)

// All worker IDs there are, to as many first starts at once, over several
// connections: each gets another one, and the one after them none. The race
// detector makes that slow; under it all are given out in one mode only, in which
// they race for the last ones.
func TestRaceForAll(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			w, racers := newWorld(t), model.SnowflakeWorkers
			if check.Race && mode != zkstore.ModeRecycle {
				racers = 200
			}
			stores := make([]instance, 8)
			for i := range stores {
				stores[i] = w.mode(mode)
			}
			start := time.Now()
			wantDistinct(t, race(t, stores, racers))
			t.Logf("%d worker IDs in %v", racers, time.Since(start))
			if racers < model.SnowflakeWorkers {
				return
			}
			check.Is(t, check.Err(stores[0].Acquire(t.Context(), owner(5000))), model.ErrNoWorkerID, "one more")
		})
	}
}

// race acquires for n owners at once.
func race(t *testing.T, stores []instance, n int) []model.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leases, errs := make([]model.Lease, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { leases[i], errs[i] = stores[i%len(stores)].Acquire(ctx, owner(i)) })
	}
	wg.Wait()
	check.Must(t, errors.Join(errs...))
	return leases
}

func wantDistinct(t *testing.T, leases []model.Lease) {
	t.Helper()
	holder := map[int]model.Owner{}
	for _, lease := range leases {
		if other, taken := holder[lease.WorkerID]; taken {
			t.Errorf("%s and %s have worker ID %d", lease.Owner.Address, other.Address, lease.WorkerID)
		}
		if lease.WorkerID < 0 || lease.WorkerID >= model.SnowflakeWorkers {
			t.Errorf("worker ID %d", lease.WorkerID)
		}
		holder[lease.WorkerID] = lease.Owner
	}
}

// A renewal on its way while somebody else takes the worker ID over changes
// nothing: it names what it has seen.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, w world, mode string) {
		c, slow, quick := w.client(), w.mode(mode), w.mode(mode)
		other := owner(1)
		other.Address = owner(0).Address
		lease := acquire(t, slow, owner(0))
		past := lease.ServerTime - minute
		if mode != zkstore.ModeEphemeral { // there a session keeps the others away
			lease = renew(t, slow, lease, past, past)
		}
		var next model.Lease
		slow.before(func() {
			if next.Owner == other {
				return
			}
			if mode == zkstore.ModeEphemeral {
				w.allow(c.Delete(lease.Node, -1))
			}
			next = acquire(t, quick, other)
		})
		if _, err := slow.Renew(t.Context(), with(lease, past+hour, past+hour)); !errors.Is(err, model.ErrLeaseLost) {
			t.Errorf("renewed: %v", err)
		}
		check.Equal(t, next.WorkerID, lease.WorkerID, "the other has", next)
		if got := renew(t, quick, next, past, past); got.Reserved > past || got.Expires > past {
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
			lease := acquire(t, slow, owner(0))
			renew(t, slow, lease, 1000, 2000)
			one, two := owner(1), owner(2)
			one.Address, two.Address = owner(0).Address, owner(0).Address
			var next model.Lease
			slow.before(func() {
				if next.Owner != two {
					next = acquire(t, quick, two)
				}
			})
			if got := acquire(t, slow, one); got.WorkerID == next.WorkerID {
				t.Errorf("both have worker ID %d", got.WorkerID)
			}
			renew(t, quick, next, 3000, 4000)
		})
	}
}
