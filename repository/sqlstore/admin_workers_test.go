//go:build unix

package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"shardid/model"
	"shardid/repository/workertest"
)

func TestFreeWorkerID(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{})
		gone, live := workertest.Owner(0), workertest.Owner(1)
		lease := renewed(t, w, gone, -60_000, -60_000)
		renewed(t, w, live, 60_000, 60_000)
		for name, c := range map[string]struct {
			id      int
			address string
			want    error
		}{
			"another address":     {1, live.Address, model.ErrInvalidArgument},
			"no address":          {1, "", model.ErrInvalidArgument},
			"an ID without a row": {3, gone.Address, model.ErrInvalidArgument},
			"an ID that is none":  {1025, gone.Address, model.ErrInvalidArgument},
			"a live one":          {2, live.Address, model.ErrRefused},
		} {
			if _, err := w.Free(t.Context(), c.id, c.address); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantStates(t, w, "1 10.0.0.0:8080 expired", "2 10.0.0.1:8080 leased")
		if was, err := w.Free(t.Context(), 1, gone.Address); err != nil || was.State != model.WorkerExpired {
			t.Fatalf("freed %+v, %v", was, err)
		}
		wantStates(t, w, "1  free", "2 10.0.0.1:8080 leased")
		if _, err := w.Free(t.Context(), 1, gone.Address); !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("the second time: %v", err)
		}
		if _, err := w.Renew(t.Context(), lease); !errors.Is(err, model.ErrLeaseLost) {
			t.Errorf("the one that had it: %v", err)
		}
		if peers, err := w.Peers(t.Context()); err != nil || len(peers) != 1 {
			t.Errorf("peers %+v, %v", peers, err)
		}
	})
}

// The next new address gets a freed ID, above all that was reserved with it.
func TestFreedWorkerIDGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{})
		var leases []model.Lease
		for i := range 3 {
			leases = append(leases, renewed(t, w, workertest.Owner(i), -61_000, -60_000))
		}
		lease := leases[1]
		if _, err := w.Free(t.Context(), 2, workertest.Owner(1).Address); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, w, workertest.Owner(7))
		if next.WorkerID != 2 || next.After < lease.Expires || next.After < lease.Reserved {
			t.Errorf("got %+v after %+v", next, lease)
		}
		if back := acquire(t, w, workertest.Owner(1)); back.WorkerID != 4 {
			t.Errorf("the one that had it got %+v", back)
		}
	})
}

// A bound that has only just passed may be one by another clock.
func TestFreeWaitsForTheMargin(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		owner := workertest.Owner(0)
		renewed(t, s.Workers(WorkersOptions{}), owner, -1000, -1000)
		if _, err := s.Workers(WorkersOptions{}).Free(t.Context(), 1, owner.Address); !errors.Is(err, model.ErrRefused) {
			t.Error(err)
		}
	})
}

// A row of another program is kept for an hour after its last report.
func TestFreeForeignWorkerID(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		w := s.Workers(WorkersOptions{})
		now := acquire(t, w, workertest.Owner(0)).ServerTime
		insertOriginal(t, s, 5, "10.9.9.9:80", now-foreignSilence+60_000)
		insertOriginal(t, s, 6, "10.9.9.8:80", now-foreignSilence-60_000)
		if _, err := w.Free(t.Context(), 5, "10.9.9.9:80"); !errors.Is(err, model.ErrRefused) {
			t.Error(err)
		}
		if was, err := w.Free(t.Context(), 6, "10.9.9.8:80"); err != nil || !was.Foreign {
			t.Errorf("%+v, %v", was, err)
		}
		if next := acquire(t, w, workertest.Owner(7)); next.WorkerID != 6 || next.After < now-foreignSilence-60_000 {
			t.Errorf("got %+v", next)
		}
	})
}

func wantStates(t *testing.T, w *Workers, want ...string) {
	t.Helper()
	entries, err := w.List(t.Context())
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%+v, %v", entries, err)
	}
	for i, e := range entries {
		if got := fmt.Sprintf("%d %s %s", e.WorkerID, e.Address, e.State); got != want[i] {
			t.Errorf("got %s, want %s", got, want[i])
		}
	}
}
