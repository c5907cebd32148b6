package workertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func testFirst(t *testing.T, b Backend) {
	r := b.New(t)
	first := Acquire(t, r, Owner(0))
	if off := time.Since(time.UnixMilli(first.ServerTime)).Abs(); off > time.Minute {
		t.Errorf("server time %d is off by %v, and the servers of tests run here", first.ServerTime, off)
	}
	if first.After > first.ServerTime || first.KeptSince != first.ServerTime {
		t.Errorf("after %d, kept since %d, with nothing there at %d", first.After, first.KeptSince, first.ServerTime)
	}
	Renew(t, r, first, now(first)-hour, now(first)-minute)
	if next := Acquire(t, b.New(t), Owner(1)); next.KeptSince > first.ServerTime {
		t.Errorf("kept since %d, but it knew a lease at %d", next.KeptSince, first.ServerTime)
	}
}

func testSameToken(t *testing.T, b Backend) {
	r := b.New(t)
	first := Acquire(t, r, Owner(0))
	Acquire(t, b.New(t), Owner(1))
	r = another(t, b, r)
	again := follow(t, r, Owner(0), first)
	check.Equal(t, again.After, first.After, "After")
	Renew(t, r, again, now(first)-hour, now(first)+hour)
	third := follow(t, r, Owner(0), first)
	if third.After < first.After || third.After > now(first)-hour {
		t.Errorf("After is %d, want %d…%d", third.After, first.After, now(first)-hour)
	}
	Renew(t, r, third, now(first)-hour+second, now(first)+hour)
}

func testRaceSelf(t *testing.T, b Backend) {
	const calls = 4
	var leases [calls]model.Lease
	r := b.New(t)
	inParallel(t, []Registry{r, another(t, b, r)}, calls, func(r Registry, i int) {
		var err error
		if leases[i], err = r.Acquire(t.Context(), Owner(0)); err != nil {
			t.Error(err)
		}
	})
	for _, lease := range leases {
		check.Equal(t, lease.WorkerID, leases[0].WorkerID, "the worker ID of one owner")
	}
	Renew(t, r, leases[0], now(leases[0])-hour, now(leases[0])+hour)
}

func testRace(t *testing.T, b Backend) {
	leases := make([]model.Lease, Workers)
	inParallel(t, instancesOf(t, b.New, Workers), Workers, func(r Registry, i int) {
		leases[i] = raceFor(t, r, Owner(i))
	})
	WantDistinct(t, leases)
	check.Is(t, check.Err(b.New(t).Acquire(t.Context(), Owner(6000))), model.ErrNoWorkerID, "when all are given")
}

// testSharedAddress: owners that come from one address, as containers on one host
// network do, or one after the other on a machine that gives addresses out anew, get a
// worker ID each, at once and though all but the first of them race.
func testSharedAddress(t *testing.T, b Backend) {
	leases, all := make([]model.Lease, instances), instancesOf(t, b.New, instances)
	raceAt := func(r Registry, i int) {
		owner := Owner(i)
		owner.Address = Address(0)
		leases[i] = raceFor(t, r, owner)
	}
	raceAt(all[0], 0)
	inParallel(t, all[1:], instances-1, func(r Registry, i int) { raceAt(r, i+1) })
	WantDistinct(t, leases)
	Renew(t, all[0], leases[0], now(leases[0])-hour, now(leases[0])+hour) // undisturbed
	for i, lease := range leases {
		follow(t, all[i], lease.Owner, lease)
	}
}

// testSwapped: two owners that come back with each other's address, and a third that
// comes from the address of the first, are known by their folders, at once.
func testSwapped(t *testing.T, b Backend) {
	r := b.New(t)
	one, two := Acquire(t, r, Owner(0)), Acquire(t, r, Owner(1))
	reserved, expires := now(one)+second, now(one)+hour
	Renew(t, r, one, reserved, expires)
	Renew(t, r, two, reserved, expires)
	b.Crash(t, r)
	for range 2 { // and back again
		r = b.New(t)
		one.Owner.Address, two.Owner.Address = two.Owner.Address, one.Owner.Address
		wantAfter(t, follow(t, r, reborn(one.Owner), one), reserved, expires)
		wantAfter(t, follow(t, b.New(t), reborn(two.Owner), two), reserved, expires)
		one.Owner.Token, two.Owner.Token = reborn(one.Owner).Token, reborn(two.Owner).Token
	}
	third := Owner(2)
	third.Address = one.Owner.Address
	if lease := Acquire(t, b.New(t), third); lease.WorkerID == one.WorkerID || lease.WorkerID == two.WorkerID {
		t.Errorf("a third owner got worker ID %d", lease.WorkerID)
	}
	Renew(t, r, follow(t, r, one.Owner, one), reserved, expires)
}

// testIdentity: all instances see one registry, and one that lost everything is
// another.
func testIdentity(t *testing.T, b Backend) {
	r := b.New(t)
	first := Acquire(t, r, Owner(0))
	if first.Registry == "" || first.Registry != Acquire(t, b.New(t), Owner(1)).Registry {
		t.Errorf("the registry is %q to one and another to the other", first.Registry)
	}
	check.Equal(t, Renew(t, r, first, now(first), now(first)+second).Registry, first.Registry,
		"the registry of a renewed lease")
	release(t, r, first, now(first))
	check.Equal(t, Acquire(t, b.New(t), Owner(2)).Registry, first.Registry, "the registry")
	if fresh := Acquire(t, b.fresh(t).New(t), Owner(0)); fresh.Registry == first.Registry {
		t.Errorf("a registry that knows nothing is %q as well", fresh.Registry)
	}
}

// testNoIdentity: two owners without a data folder are not the same one.
func testNoIdentity(t *testing.T, b Backend) {
	r, one, two := b.New(t), Owner(0), Owner(1)
	one.Identity, two.Identity = "", ""
	lease := Acquire(t, r, one)
	lease = Renew(t, r, lease, now(lease)-hour, now(lease)+hour)
	if other := Acquire(t, r, two); other.WorkerID == lease.WorkerID {
		t.Errorf("both have worker ID %d", lease.WorkerID)
	}
	follow(t, r, one, lease)
	if other := Acquire(t, b.New(t), reborn(one)); other.WorkerID == lease.WorkerID {
		t.Errorf("worker ID %d was taken over", lease.WorkerID)
	}
	Renew(t, r, lease, now(lease)-hour, now(lease)+hour)
}

func testCancelled(t *testing.T, b Backend) {
	r := b.New(t)
	lease := With(Acquire(t, r, Owner(0)), 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := r.Acquire(ctx, Owner(1)); return err },
		"renew":   func() error { _, err := r.Renew(ctx, lease); return err },
		"release": func() error { return r.Release(ctx, lease) },
	} {
		start := time.Now()
		if err := call(); !errors.Is(err, context.Canceled) || errors.Is(err, model.ErrLeaseLost) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// held is a lease of Owner(0) whose bounds are stored: the registry's clock is
// past Expires, and between the two bounds lies half an hour, so that a test
// tells which one was used.
func held(t *testing.T, r Registry) (lease model.Lease, reserved, expires int64) {
	t.Helper()
	lease = Acquire(t, r, Owner(0))
	reserved, expires = now(lease)-hour/2, now(lease)-minute
	return Renew(t, r, lease, reserved, expires), reserved, expires
}

func testRenew(t *testing.T, b Backend) {
	r := b.New(t)
	first := Acquire(t, r, Owner(0))
	sent := With(first, now(first)+second, now(first)+hour)
	got := Renew(t, r, sent, sent.Reserved, sent.Expires)
	if got.WorkerID != sent.WorkerID || got.Owner != sent.Owner || got.After != sent.After ||
		got.Reserved != sent.Reserved || got.Expires != sent.Expires {
		t.Errorf("sent %+v, got %+v", sent, got)
	}
	if got.ServerTime < first.ServerTime || got.KeptSince > got.ServerTime {
		t.Errorf("server time went from %d to %d, kept since %d", first.ServerTime, got.ServerTime, got.KeptSince)
	}
	Renew(t, r, got, got.Reserved, got.Expires) // a repeated call is no other one
}

// testReturn: also that the process before is told.
func testReturn(t *testing.T, b Backend) {
	old := b.New(t)
	lease := Acquire(t, old, Owner(0))
	reserved, expires := now(lease)+second, now(lease)+hour // very much alive
	Renew(t, old, lease, reserved, expires)
	b.Crash(t, old)
	r := b.New(t)
	next := follow(t, r, reborn(Owner(0)), lease)
	wantAfter(t, next, reserved, expires)
	if !b.Session { // there the process before has no connection any more
		WantLost(t, old, With(lease, now(lease)+hour, now(lease)+hour))
	}
	Renew(t, r, next, reserved+second, expires)
}

// testSilentHolder: the one in the middle crashes before its first Renew. What
// is stored since it came must not be mistaken for its own.
func testSilentHolder(t *testing.T, b Backend) {
	r := b.New(t)
	lease, _, expires := held(t, r)
	b.Lapse(t, r, lease)
	b.Crash(t, r)
	r = b.New(t)
	next := successor(lease.Owner)
	wantAfter(t, follow(t, r, next, lease), expires, now(lease))
	b.Crash(t, r)
	wantAfter(t, follow(t, b.New(t), reborn(next), lease), expires, now(lease))
}

func testRelease(t *testing.T, b Backend) {
	r := b.New(t)
	lease := Acquire(t, r, Owner(0))
	issued := now(lease) - hour
	lease = Renew(t, r, lease, now(lease)-minute, now(lease)+hour)
	release(t, r, lease, issued)
	WantLost(t, r, With(lease, now(lease)+hour, now(lease)+hour))
	wantAfter(t, follow(t, b.New(t), successor(lease.Owner), lease), issued, now(lease))
}

func testTakenOver(t *testing.T, b Backend) {
	old := b.New(t)
	lease, reserved, expires := held(t, old)
	b.Lapse(t, old, lease)
	r := b.New(t)
	next := follow(t, r, successor(lease.Owner), lease)
	WantLost(t, old, With(lease, now(lease)+hour, now(lease)+hour))
	next = Renew(t, r, next, now(lease)+second, now(lease)+hour)
	WantLost(t, old, With(lease, reserved, reserved))
	next = Renew(t, r, next, now(lease)+second, now(lease)+hour)
	if third := Acquire(t, b.New(t), Owner(7)); third.WorkerID == lease.WorkerID {
		t.Errorf("worker ID %d was given to a third owner", lease.WorkerID)
	}
	b.Crash(t, r)
	wantAfter(t, follow(t, b.New(t), reborn(next.Owner), lease), max(expires, now(lease)+second), now(lease)+hour)
}

// testReleaseLate: a release arrives when its caller has given up, and the same process has taken its worker ID again
// and renewed it. The next owner must not start below what was issued since.
func testReleaseLate(t *testing.T, b Backend) {
	slow, hold := b.Late(t)
	lease, reserved, _ := held(t, slow)
	sent, arrive := hold()
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		_ = slow.Release(ctx, With(lease, reserved, reserved)) // its caller does not hear of it
		close(gone)
	}()
	<-sent
	giveUp()
	<-gone
	r := b.New(t)
	again := follow(t, r, Owner(0), lease)
	again = Renew(t, r, again, now(again)-second, now(again)+hour)
	arrive()
	got := Renew(t, r, again, reserved, reserved)
	check.Equal(t, got.Reserved, again.Reserved, "Reserved")
	check.Equal(t, got.Expires, again.Expires, "Expires")
}
