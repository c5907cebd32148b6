//go:build unix

package sqlstore

import (
	"strconv"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/scripts/check"
)

const holdMs = 60_000 // of the names of the tests, ms

func aName(name string) model.Name {
	return model.Name{Name: name, Layout: model.NameLayout(1288834974657, 1, 12, 0), Hold: holdMs * time.Millisecond}
}

func leased(t *testing.T, s *Store, name, instance string) model.NameLease {
	t.Helper()
	l, err := s.GrantLease(t.Context(), name, instance)
	check.Must(t, err)
	return l
}

func renewLease(t *testing.T, s *Store, l model.NameLease) (model.NameLease, error) {
	t.Helper()
	return s.RenewLease(t.Context(), keyOf(l))
}

func keyOf(l model.NameLease) model.LeaseKey {
	return model.LeaseKey{Name: l.Name.Name, WorkerID: l.WorkerID, Secret: l.Secret}
}

// age makes every lease older by so many ms.
func age(t *testing.T, s *Store, ms int64) {
	t.Helper()
	by := strconv.FormatInt(ms, 10)
	run(t, s, "UPDATE shardid_lease SET after_ms = after_ms - "+by+", until_ms = until_ms - "+by)
}

func TestLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		check.Is(t, check.Err(s.GrantLease(ctx, "orders", "a")), model.ErrUnknownName)
		check.Must(t, check.Err(s.CreateName(ctx, aName("orders"))))

		a := leased(t, s, "orders", "a")
		if a.WorkerID != 0 || a.After != a.Now-holdMs || a.Until != a.Now+holdMs || a.Secret == "" ||
			a.Instance != "a" || a.Name.Layout != aName("").Layout {
			t.Errorf("%+v", a)
		}
		b := leased(t, s, "orders", "b")
		check.Equal(t, b.WorkerID, 1, "worker ID")
		check.Is(t, check.Err(s.GrantLease(ctx, "orders", "c")), model.ErrNoWorkerID)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_lease WHERE secret = '"+a.Secret+"'"), 0,
			"secrets that are stored")

		age(t, s, 1000)
		again, err := renewLease(t, s, a)
		check.OK(t, err)
		if again.Until < a.Until || again.After != a.After-1000 || again.Secret != a.Secret {
			t.Errorf("renewed: %+v", again)
		}
		wrong := a
		wrong.Secret = b.Secret
		check.Is(t, check.Err(renewLease(t, s, wrong)), model.ErrLeaseLost)
		wrong.Secret, wrong.WorkerID = a.Secret, 77
		check.Is(t, check.Err(renewLease(t, s, wrong)), model.ErrLeaseLost)

		// A release is above what was used, once, and nobody else's.
		check.Is(t, s.ReleaseLease(ctx, keyOf(wrong), 0), model.ErrLeaseLost)
		for _, used := range []int64{again.Until + 1, again.After - 1, again.Until / 1000} {
			check.Is(t, s.ReleaseLease(ctx, keyOf(a), used), model.ErrInvalidArgument)
		}
		used := again.Until - holdMs/2
		check.OK(t, s.ReleaseLease(ctx, keyOf(a), used))
		check.Is(t, s.ReleaseLease(ctx, keyOf(a), used), model.ErrLeaseLost)
		check.Is(t, check.Err(renewLease(t, s, a)), model.ErrLeaseLost)
		c := leased(t, s, "orders", "c")
		if c.WorkerID != a.WorkerID || c.After != used || c.Until < c.Now+holdMs {
			t.Errorf("after a release up to %d: %+v", used, c)
		}
		stale := leaseRow{Name: "orders", WorkerID: c.WorkerID, Secret: digest(a.Secret), UntilMs: again.Until}
		overwrite := func(tx *gorm.DB) error { return stale.store(tx, "after_ms = 0") }
		check.Is(t, s.inTx(ctx, "store", overwrite), errRowChanged)
	})
}

// A lease that has ended is left alone for a moment, then its worker ID goes to its instance, or
// to another, above what it could use; it cannot be renewed any more.
func TestLeaseEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		check.Must(t, check.Err(s.CreateName(t.Context(), aName("orders"))))
		a, b := leased(t, s, "orders", "a"), leased(t, s, "orders", "b")
		check.OK(t, check.Err(renewLease(t, s, b)))
		margin := model.LeaseMargin.Milliseconds()
		age(t, s, holdMs+margin/2)
		check.Is(t, check.Err(renewLease(t, s, a)), model.ErrLeaseLost)
		check.Is(t, check.Err(s.GrantLease(t.Context(), "orders", "a")), model.ErrNoWorkerID)
		age(t, s, margin)
		back := leased(t, s, "orders", "b")
		if back.WorkerID != b.WorkerID || back.After < b.Until-holdMs-2*margin || back.Secret == b.Secret {
			t.Errorf("the instance came back to %+v, and had %+v", back, b)
		}
		check.Is(t, check.Err(renewLease(t, s, b)), model.ErrLeaseLost)
		check.Equal(t, leased(t, s, "orders", "z").WorkerID, a.WorkerID, "worker ID")
	})
}

// After the database went on from a copy, new leases begin above all that the lost ones could
// use; a lease that the copy has is renewed as before.
func TestLeasesOfACopy(t *testing.T) {
	s := mariaDB(t, Options{})
	n := aName("orders")
	n.WorkerBits = 4
	check.Must(t, check.Err(s.CreateName(t.Context(), n)))
	kept, lost := leased(t, s, "orders", ""), leased(t, s, "orders", "")
	check.Equal(t, lost.After, lost.Now-holdMs, "a first lease waits for nothing")
	run(t, s, "DELETE FROM shardid_lease WHERE worker_id = 1")
	anotherServer(t, s, time.Second)
	check.OK(t, check.Err(renewLease(t, s, kept)))
	next := leased(t, s, "orders", "")
	if next.WorkerID != lost.WorkerID || next.After < lost.Until ||
		next.After > next.Now+holdMs+model.LeaseMargin.Milliseconds() {
		t.Errorf("the lost lease ended at %d, the next is %+v", lost.Until, next)
	}
	check.Is(t, check.Err(renewLease(t, s, lost)), model.ErrLeaseLost)
	s.opts.Now = func() time.Time { return time.Now().Add(time.Minute) }
	// How old a copy is cannot be told.
	check.Is(t, check.Err(s.GrantLease(t.Context(), "orders", "")), model.ErrClockApart)
}

func TestNames(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		check.Must(t, check.Err(s.CreateName(ctx, aName("b"))))
		check.Must(t, check.Err(s.CreateName(ctx, aName("a"))))
		check.Is(t, check.Err(s.CreateName(ctx, aName("a"))), model.ErrExists)
		check.Is(t, check.Err(s.CreateName(ctx, aName("a/b"))), model.ErrInvalidArgument)
		l := leased(t, s, "a", "host")
		names, err := s.Names(ctx)
		check.OK(t, err)
		if len(names) != 2 || names[0].Name.Name != "a" || names[0].Leased != 1 ||
			names[1].Leased != 0 {
			t.Errorf("%+v", names)
		}
		holders, err := s.Holders(ctx, "a", 10)
		check.OK(t, err)
		if len(holders) != 1 || !holders[0].Leased || holders[0].Instance != "host" || holders[0].Until != l.Until {
			t.Errorf("%+v", holders)
		}
		check.Is(t, check.Err(s.Holders(ctx, "none", 10)), model.ErrUnknownName)

		check.Is(t, check.Err(s.DeleteName(ctx, "a")), model.ErrRefused)
		check.OK(t, s.ReleaseLease(ctx, keyOf(l), 0))
		check.OK(t, check.Err(s.DeleteName(ctx, "a")))
		check.Is(t, check.Err(s.DeleteName(ctx, "a")), model.ErrUnknownName)
		check.Is(t, check.Err(s.GrantLease(ctx, "a", "")), model.ErrUnknownName)
		other := aName("a")
		other.SeqBits--
		check.Is(t, check.Err(s.CreateName(ctx, other)), model.ErrRefused)
		check.OK(t, check.Err(s.CreateName(ctx, aName("a"))))
		if again := leased(t, s, "a", "host"); again.After != l.Until {
			t.Errorf("after its name came back: %+v, before %+v", again, l)
		}
	})
}

// A longer hold counts once copies know of it, a shorter one at once; the wait after a copy is for
// the longest that a lease may have had. The next lease ends no sooner.
func TestHoldChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		check.Must(t, check.Err(s.CreateName(t.Context(), aName("a"))))
		check.Is(t, check.Err(s.ChangeName(t.Context(), "a", time.Second)), model.ErrInvalidArgument)
		check.Is(t, check.Err(s.ChangeName(t.Context(), "none", time.Minute)), model.ErrUnknownName)
		before, after, err := s.ChangeName(t.Context(), "a", time.Hour)
		if err != nil || before.Hold != time.Minute || after.Hold != time.Hour {
			t.Errorf("%+v, %+v, %v", before, after, err)
		}
		l := leased(t, s, "a", "i")
		check.Equal(t, l.Until-l.Now, holdMs, "granted at once after a raise")
		check.Equal(t, 3*l.Renew(), time.Minute, "so that it is renewed in time")
		run(t, s, "UPDATE shardid_name SET low_until = low_until - "+strconv.FormatInt(model.RaiseDelay.Milliseconds(),
			10))
		if l, err = renewLease(t, s, l); err != nil || l.Until-l.Now != time.Hour.Milliseconds() {
			t.Errorf("%+v, %v", l, err)
		}
		_, after, err = s.ChangeName(t.Context(), "a", 5*time.Second)
		check.OK(t, err)
		name, err := s.Name(t.Context(), "a")
		if err != nil || name != after || after.Leased != 1 || after.LostUntil(l.Now) < l.Until {
			t.Errorf("%+v, stored %+v, %v", after, name, err)
		}
		longer := l.Until
		if l, err = renewLease(t, s, l); err != nil || l.Until != longer {
			t.Errorf("a lease became shorter: %+v, %v", l, err)
		}
		check.Must(t, s.ReleaseLease(t.Context(), keyOf(l), 0))
		if next := leased(t, s, "a", "i"); next.WorkerID != l.WorkerID || next.After != longer || next.Until != longer {
			t.Errorf("the next one: %+v", next)
		}
	})
}
