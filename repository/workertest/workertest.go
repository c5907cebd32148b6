// Package workertest is the contract that every registry of worker IDs keeps:
// one test body, run over ZooKeeper in its three modes, MySQL and SQLite. What the
// bounds of a lease mean is said at model.Lease. It is imported by tests only.
package workertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// Registry is what the service needs of a registry.
type Registry interface {
	Acquire(ctx context.Context, owner model.Owner) (model.Lease, error)
	Renew(ctx context.Context, lease model.Lease) (model.Lease, error)
	Release(ctx context.Context, lease model.Lease) error
}

// Workers is how many worker IDs each registry of the contract gives out.
const Workers = 64

// Backend is one kind of registry, with state of its own that is empty at first.
//
// The cases let a lease run out by renewing it with an Expires a minute behind
// the registry's clock. A registry that compares Expires with its clock needs no
// hook for that, one with another fence has Lapse.
type Backend struct {
	// New returns an instance with a connection of its own to the state all share, of so
	// many worker IDs as Workers says, as another process would have, and closes it when
	// the test ends. Required.
	New func(t *testing.T) Registry

	// Crash ends an instance as kill -9 does: nothing is released. It may be
	// called for one that New's cleanup closes later. nil: it is just not used
	// any more.
	Crash func(t *testing.T, r Registry)
	// Lapse lets the lease run out whose Expires is a minute in the past, and
	// makes its worker ID the one that the next other owner gets. r, the
	// instance that got it, is used again afterwards. nil: nothing is needed.
	Lapse func(t *testing.T, r Registry, lease model.Lease)
	// Late gives an instance whose next write can be held on its way to the store. nil: as long as a write is
	// under way, the store lets nobody else have the worker ID.
	Late func(t *testing.T) (Registry, Hold)

	// Session: a lease belongs to the connection of the instance that got it, and
	// ends with it. Only the owner's own instance renews it.
	Session bool

	fresh func(t *testing.T) Backend // another empty one
}

// Hold keeps the next write back. sent is closed once it is on its way; arrive lets it arrive, and returns when the
// store has answered.
type Hold func() (sent <-chan struct{}, arrive func())

// Run runs the contract. fresh is called once per subtest, for empty state.
func Run(t *testing.T, fresh func(t *testing.T) Backend) {
	for _, test := range []struct {
		name string
		skip func(Backend) bool // nil: for all
		run  func(*testing.T, Backend)
	}{
		{"an empty registry may have forgotten all", nil, testFirst},
		{"the same token gets the same lease", nil, testSameToken},
		{"an owner that races itself gets one lease", nil, testRaceSelf},
		{"racing first starts get all IDs, one each", nil, testRace},
		{"owners of one address differ", nil, testSharedAddress},
		{"owners are known by their folder", func(b Backend) bool { return b.Session }, testSwapped},
		{"a registry has an identity", nil, testIdentity},
		{"without an identity only the token counts", nil, testNoIdentity},
		{"renew tells what is stored", nil, testRenew},
		{"the same identity returns above Reserved", nil, testReturn},
		{"bounds outlive a holder that never renewed", nil, testSilentHolder},
		{"released, another follows above Reserved", nil, testRelease},
		{"what was taken over is lost", nil, testTakenOver},
		{"a late release frees nothing", func(b Backend) bool { return b.Late == nil }, testReleaseLate},
		{"a cancelled call returns", nil, testCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := fresh(t)
			b.fresh = fresh
			if b.Crash == nil {
				b.Crash = func(*testing.T, Registry) {}
			}
			if b.Lapse == nil {
				b.Lapse = func(*testing.T, Registry, model.Lease) {}
			}
			if test.skip != nil && test.skip(b) {
				t.Skip("not promised by this registry")
			}
			test.run(t, b)
		})
	}
}

// WantAdvice wants a StoreError of that store, with advice and in one line, whose text
// holds all the words.
func WantAdvice(t testing.TB, store string, err error, words ...string) {
	var failed *model.StoreError
	if !errors.As(err, &failed) || failed.Store != store || failed.Advice == "" || strings.Contains(err.Error(), "\n") {
		t.Helper()
		t.Fatalf("no StoreError with advice in one line: %v", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Helper()
			t.Errorf("%q does not mention %q", err, word)
		}
	}
}

// All tests count time from the registry's clock, in these steps of ms.
const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// Address is that of Owner(i), for i in 0…9999.
func Address(i int) string { return fmt.Sprintf("10.0.%d.%d:8080", i/100, i%100) }

// Owner is the i-th of owners that have nothing in common.
func Owner(i int) model.Owner {
	return model.Owner{Address: Address(i), Identity: fmt.Sprintf("identity-%d", i), Token: fmt.Sprintf("token-%d", i)}
}

// reborn is the owner after a restart of its process.
func reborn(o model.Owner) model.Owner {
	o.Token += "-reborn"
	return o
}

// successor is another owner, the one that gets the worker ID of an owner that is gone: at its address.
func successor(of model.Owner) model.Owner {
	next := Owner(5000)
	next.Address = of.Address
	return next
}

// raceFor gets a lease while others get theirs, and stores its bounds. It asks again for 20 s while the store is busy:
// on a slow machine an answer of many at once may come too late.
func raceFor(t *testing.T, r Registry, owner model.Owner) (lease model.Lease) {
	t.Helper()
	err := check.Within(20*time.Second, func() (err error) {
		lease, err = r.Acquire(t.Context(), owner)
		return err
	})
	if err == nil {
		lease, err = r.Renew(t.Context(), With(lease, now(lease)-hour, now(lease)+hour))
	}
	check.OK(t, err, owner.Address)
	return lease
}

// instances is how many connections share the work of many owners.
const instances = 8

func instancesOf(t *testing.T, newRegistry func(t *testing.T) Registry, owners int) []Registry {
	t.Helper()
	all := make([]Registry, min(owners, instances))
	for i := range all {
		all[i] = newRegistry(t)
	}
	return all
}

// inParallel calls work for 0…n-1, each in a goroutine.
func inParallel(t *testing.T, registries []Registry, n int, work func(r Registry, i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { work(registries[i%len(registries)], i) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// another is an instance beside r that may use r's leases too.
func another(t *testing.T, b Backend, r Registry) Registry {
	t.Helper()
	if b.Session {
		return r
	}
	return b.New(t)
}

// Acquire gets a lease, which must be a possible one.
func Acquire(t testing.TB, r Registry, owner model.Owner) model.Lease {
	t.Helper()
	lease, err := r.Acquire(t.Context(), owner)
	if err != nil {
		t.Fatalf("acquire for %s: %v", owner.Address, err)
	}
	if lease.WorkerID < 0 || lease.WorkerID >= model.SnowflakeWorkers || lease.Owner != owner || lease.After < 0 {
		t.Fatalf("impossible lease for %+v: %+v", owner, lease)
	}
	return lease
}

// Renew stores the bounds.
func Renew(t testing.TB, r Registry, lease model.Lease, reserved, expires int64) model.Lease {
	t.Helper()
	renewed, err := r.Renew(t.Context(), With(lease, reserved, expires))
	if err != nil {
		t.Fatalf("renew worker ID %d: %v", lease.WorkerID, err)
	}
	return renewed
}

// With is the lease as its owner sends it for storing these bounds.
func With(lease model.Lease, reserved, expires int64) model.Lease {
	lease.Reserved, lease.Expires, lease.Reported = reserved, expires, time.Now().UnixMilli()
	return lease
}

func release(t *testing.T, r Registry, lease model.Lease, reserved int64) {
	t.Helper()
	lease.Reserved, lease.Expires = reserved, reserved
	if err := r.Release(t.Context(), lease); err != nil {
		t.Fatalf("release worker ID %d: %v", lease.WorkerID, err)
	}
}

// WantLost wants ErrLeaseLost, if need be after a reconnect, and of a release, too.
func WantLost(t testing.TB, r Registry, lease model.Lease) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := r.Renew(t.Context(), lease)
		var store *model.StoreError
		switch {
		case errors.Is(err, model.ErrLeaseLost):
			check.Is(t, r.Release(t.Context(), lease), model.ErrLeaseLost, "released")
			return
		case !errors.As(err, &store) || time.Since(began) > time.Minute:
			t.Fatalf("renew of a lost lease: %v, want %v", err, model.ErrLeaseLost)
		}
	}
}

// WantDistinct wants a worker ID of its own for each owner.
func WantDistinct(t testing.TB, leases []model.Lease) {
	t.Helper()
	holder := map[int]model.Owner{}
	for _, lease := range leases {
		if other, taken := holder[lease.WorkerID]; taken {
			t.Errorf("%+v and %+v have worker ID %d", lease.Owner, other, lease.WorkerID)
		}
		if lease.WorkerID < 0 || lease.WorkerID >= model.SnowflakeWorkers {
			t.Errorf("worker ID %d", lease.WorkerID)
		}
		holder[lease.WorkerID] = lease.Owner
	}
}

// follow acquires and fails unless it is the same worker ID: with another one
// the case would prove nothing.
func follow(t *testing.T, r Registry, owner model.Owner, before model.Lease) model.Lease {
	t.Helper()
	lease := Acquire(t, r, owner)
	if lease.WorkerID != before.WorkerID {
		t.Fatalf("%s follows with worker ID %d, want %d", owner.Address, lease.WorkerID, before.WorkerID)
	}
	return lease
}

// wantAfter wants low ≤ After < high.
func wantAfter(t *testing.T, lease model.Lease, low, high int64) {
	t.Helper()
	if lease.After < low {
		t.Fatalf("After %d is %d ms below what may have been issued", lease.After, low-lease.After)
	}
	if lease.After >= high {
		t.Fatalf("After %d makes the owner wait %d ms longer than needed", lease.After, lease.After-high+1)
	}
}

// now is the registry's clock.
func now(lease model.Lease) int64 { return lease.ServerTime }
