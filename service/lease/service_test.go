package lease

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/metric"
)

// fakeStore answers err. Calls take took.
type fakeStore struct {
	err  error
	took time.Duration
}

func (f *fakeStore) wait(ctx context.Context) error {
	select {
	case <-time.After(f.took):
		return f.err
	case <-ctx.Done():
		return &model.StoreError{Store: "database", Op: "wait", Err: ctx.Err()}
	}
}

func (f *fakeStore) GrantLease(ctx context.Context, _, _ string) (l model.NameLease, err error) {
	return l, f.wait(ctx)
}

func (f *fakeStore) RenewLease(ctx context.Context, _ model.LeaseKey) (l model.NameLease, err error) {
	return l, f.wait(ctx)
}

func (f *fakeStore) ReleaseLease(ctx context.Context, _ model.LeaseKey, _ int64) error {
	return f.wait(ctx)
}

// A store that hangs holds a caller for callTimeout.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&fakeStore{took: time.Hour}, slog.New(slog.DiscardHandler), nil)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return check.Err(s.Grant(ctx, "", "n", "")) },
			func(ctx context.Context) error { return check.Err(s.Renew(ctx, model.LeaseKey{})) },
			func(ctx context.Context) error { return s.Release(ctx, "", model.LeaseKey{}, 0) },
		} {
			began := time.Now()
			check.Is(t, call(t.Context()), model.ErrLeaseStore)
			check.Equal(t, time.Since(began), callTimeout, "the call")
		}
	})
}

func TestAnswers(t *testing.T) {
	f := &fakeStore{}
	s := New(f, slog.New(slog.DiscardHandler), nil)
	check.Is(t, check.Err(s.Grant(t.Context(), "", "no/name", "")), model.ErrInvalidArgument)
	check.Is(t, check.Err(s.Grant(t.Context(), "", "n", strings.Repeat("x", model.MaxInstanceBytes+1))),
		model.ErrInvalidArgument)
	check.OK(t, check.Err(s.Grant(t.Context(), "", "n", "")))
	check.OK(t, check.Err(s.Renew(t.Context(), model.LeaseKey{})))
	check.OK(t, s.Release(t.Context(), "", model.LeaseKey{}, 0))
	f.err = model.ErrNoWorkerID
	check.Is(t, check.Err(s.Grant(t.Context(), "", "n", "")), model.ErrNoWorkerID)
	f.err = model.ErrLeaseLost
	check.Is(t, check.Err(s.Renew(t.Context(), model.LeaseKey{})), model.ErrLeaseLost)
	check.Is(t, s.Release(t.Context(), "", model.LeaseKey{}, 0), model.ErrLeaseLost)
	check.Equal(t, metric.Value(s.noneFree), 1, "refused for want of a worker ID")
	check.Equal(t, s.NoneFreeOf(), "n", "the name")
}
