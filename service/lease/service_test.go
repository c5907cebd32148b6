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

// fakeStore answers err.
type fakeStore struct{ err error }

func (f *fakeStore) GrantLease(context.Context, string, string) (l model.NameLease, err error) {
	return l, f.err
}

func (f *fakeStore) RenewLease(context.Context, model.LeaseKey) (l model.NameLease, err error) {
	return l, f.err
}

func (f *fakeStore) ReleaseLease(context.Context, model.LeaseKey, int64) error { return f.err }

// A store that hangs holds a caller for callTimeout.
func TestStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := callStore(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, &model.StoreError{Store: "database", Op: "wait", Err: ctx.Err()}
		})
		check.Is(t, err, model.ErrLeaseStore)
		check.Equal(t, time.Since(began), callTimeout, "the call")
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
