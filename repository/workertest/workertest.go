// Package workertest is the contract that every registry of worker IDs keeps:
// one test body, run over ZooKeeper in its three modes, MySQL and SQLite. What the
// bounds of a lease mean is said at model.Lease. It is imported by tests only.
package workertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"shardid/model"
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
