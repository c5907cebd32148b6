//go:build unix

package sqlstore

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/testserver"
)

// takeOne takes a segment of list 1_0 as a list store of that history would ask
// for it.
func takeOne(t *testing.T, s *Store, history string, marked bool) model.Allocation {
	t.Helper()
	return s.Allocate(t.Context(), []model.AllocRequest{{
		Key: model.ListKey{App: 1}, History: history, Marked: marked, MaxStep: 1000, MaxRate: 50,
	}})[0]
}

func TestIncarnation(t *testing.T) {
	t.Parallel()
	server := testserver.MariaDB(t)
	now := time.UnixMilli(time.Now().UnixMilli()) // as exact as the row
	s := openMigrated(t, Options{Driver: MySQL, DSN: server.NewDatabase(t), Now: func() time.Time { return now }})
	provision(t, s, model.App{ID: 1, Name: "a", Step: 1000, Limit: model.Limit{Policy: model.LimitReject}})
	step := func(what, history string, marked bool, wantJump int64) {
		t.Helper()
		now = now.Add(10 * time.Second)
		a := takeOne(t, s, history, marked)
		if a.Err != nil || a.Jumped != wantJump {
			t.Errorf("%s: %+v, want a jump of %d", what, a, wantJump)
		}
	}
	restart := func() {
		time.Sleep(7 * time.Second) // more than two boot times may differ by
		server.Restart()
	}
	step("the first", "h1", false, 0)
	step("the same", "h1", true, 0)
	step("another history alone", "h2", true, 0)
	restart()
	step("the database alone", "h2", true, 0)
	step("and again", "h2", true, 0)
	restart()
	step("both", "h3", true, 12_000)
	step("which is once", "h3", true, 0)
	restart()
	if err := s.Confirm(t.Context(), 1); err != nil {
		t.Error(err)
	}
	step("both, confirmed", "h4", true, 0)
	if err := s.Confirm(t.Context(), 2); !errors.Is(err, model.ErrUnknownApp) {
		t.Errorf("confirm of no app: %v", err)
	}
}

func TestRaise(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, model.App{ID: 1, Name: "a", Step: 1000, Limit: model.Limit{Policy: model.LimitReject}})
		a := takeOne(t, s, "h", true)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		raise := func(floor int64) model.Allocation {
			return s.Raise(t.Context(), []model.AllocRequest{{Key: model.ListKey{App: 9}, Floor: 5}, {Key: model.ListKey{App: 1}, Floor: floor}})[1]
		}
		for _, c := range []struct{ floor, lifted int64 }{{a.Segment.Last, 0}, {a.Segment.Last - 1, 0}, {a.Segment.Last + 500, 500}, {a.Segment.Last + 500, 0}} {
			if got := raise(c.floor); got.Err != nil || got.Lifted != c.lifted {
				t.Errorf("Raise to %d = %+v, want a lift of %d", c.floor, got, c.lifted)
			}
		}
		if next := takeOne(t, s, "h", true); next.Err != nil || next.Segment.First != a.Segment.Last+501 {
			t.Errorf("after the lift: %+v", next)
		}
	})
}
