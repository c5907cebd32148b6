package lease

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStore answers err, or what a lease is that is held under the secret "s". Calls take took.
type fakeStore struct {
	mu    sync.Mutex
	err   error
	took  time.Duration
	calls []int // leases of each call that renewed
}

func (f *fakeStore) wait(ctx context.Context) error {
	select {
	case <-time.After(f.took):
		return f.err
	case <-ctx.Done():
		return &model.StoreError{Store: "database", Op: "wait", Err: ctx.Err()}
	}
}

func (f *fakeStore) GrantLease(ctx context.Context, name, instance string) (model.NameLease, error) {
	return model.NameLease{Name: model.Name{Name: name}, Instance: instance, Secret: "s"}, f.wait(ctx)
}

func (f *fakeStore) RenewLeases(ctx context.Context, keys []model.LeaseKey) ([]model.RenewedLease, error) {
	f.mu.Lock()
	f.calls = append(f.calls, len(keys))
	f.mu.Unlock()
	answers := make([]model.RenewedLease, len(keys))
	for i, k := range keys {
		answers[i].Lease.WorkerID = k.WorkerID
		if k.Secret != "s" {
			answers[i].Err = model.ErrLeaseLost
		}
	}
	return answers, f.wait(ctx)
}

func (f *fakeStore) ReleaseLease(ctx context.Context, _ model.LeaseKey, _ int64) error {
	return f.wait(ctx)
}

func newService(t *testing.T, f *fakeStore) *Service {
	t.Helper()
	s := New(f, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	return s
}

// Ten thousand leases that renew at once are a call for the first, and one for every 500 of the others;
// each gets its own answer.
func TestRenewalsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases = 10_000
		f := &fakeStore{took: 10 * time.Millisecond}
		s := newService(t, f)
		var callers sync.WaitGroup
		for i := range leases {
			callers.Go(func() {
				key := model.LeaseKey{Name: "n", WorkerID: int64(i), Secret: "s"}
				if i%100 == 7 {
					key.Secret = "another"
				}
				l, err := s.Renew(t.Context(), key)
				if key.Secret == "s" && (err != nil || l.WorkerID != key.WorkerID) || key.Secret != "s" && !errors.Is(err, model.ErrLeaseLost) {
					t.Errorf("%d: %+v, %v", i, l, err)
				}
			})
		}
		callers.Wait()
		if calls := len(f.calls); calls > leases/batch+1 {
			t.Errorf("%d calls of the store: %v", calls, f.calls)
		}
		stats := s.Stats()
		if stats.Renewed != leases-leases/100 || stats.Lost != leases/100 || stats.Calls != int64(len(f.calls)) {
			t.Errorf("%+v", stats)
		}
		time.Sleep(time.Second)
		began := time.Now()
		check.OK(t, check.Err(s.Renew(t.Context(), model.LeaseKey{Secret: "s"})))
		check.Equal(t, time.Since(began), f.took, "a single renewal waits for nothing else")
	})
}

// A store that hangs holds a renewal for callTimeout, and those behind it for as long again; a
// caller that goes away waits for nothing.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{took: time.Hour}
		s := newService(t, f)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return check.Err(s.Grant(ctx, "", "n", "")) },
			func(ctx context.Context) error { return check.Err(s.Renew(ctx, model.LeaseKey{Secret: "s"})) },
			func(ctx context.Context) error { return s.Release(ctx, "", model.LeaseKey{}, 0) },
		} {
			began := time.Now()
			check.Is(t, call(t.Context()), model.ErrLeaseStore)
			check.Equal(t, time.Since(began), callTimeout, "the call")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Is(t, check.Err(s.Renew(ctx, model.LeaseKey{})), context.DeadlineExceeded)
		check.Equal(t, s.Stats(), Stats{Calls: 2}, "nothing was done")
	})
}

func TestAnswers(t *testing.T) {
	f := &fakeStore{}
	s := newService(t, f)
	check.Is(t, check.Err(s.Grant(t.Context(), "", "no/name", "")), model.ErrInvalidArgument)
	check.Is(t, check.Err(s.Grant(t.Context(), "", "n", strings.Repeat("x", model.MaxInstanceBytes+1))), model.ErrInvalidArgument)
	check.OK(t, check.Err(s.Grant(t.Context(), "", "n", "")))
	check.OK(t, s.Release(t.Context(), "", model.LeaseKey{}, 0))
	f.err = model.ErrNoWorkerID
	check.Is(t, check.Err(s.Grant(t.Context(), "", "n", "")), model.ErrNoWorkerID)
	f.err = model.ErrLeaseLost
	check.Is(t, s.Release(t.Context(), "", model.LeaseKey{}, 0), model.ErrLeaseLost)
	check.Equal(t, s.Stats(), Stats{Granted: 1, Released: 1, Lost: 1, NoneFree: 1, NoneFreeOf: "n"})

	check.OK(t, s.Stop(context.Background()))
	check.Is(t, check.Err(s.Renew(t.Context(), model.LeaseKey{})), model.ErrLeaseStore) // it waits for nobody
}
