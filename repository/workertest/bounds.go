package workertest

import (
	"context"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

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
