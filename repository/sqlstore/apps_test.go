//go:build unix

package sqlstore

import (
	"errors"
	"sync"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

func ptr[T any](v T) *T { return &v }

func TestChangeApp(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		provision(t, s, app(8))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		before, after, err := s.ChangeApp(t.Context(), 7, model.AppChange{
			Name: ptr("订单"), Description: ptr(""), Step: ptr(int64(5000)), MaxLimitID: ptr(int64(1) << 40),
			LimitPolicy: ptr(model.LimitWrap), MinIndex: ptr(int64(600)), Confirm: "test",
		})
		want := model.AppSummary{App: model.App{ID: 7, Name: "订单", Step: 5000, Limit: model.Limit{MaxID: 1 << 40, Policy: model.LimitWrap}}, Shards: 64, HighestIndex: 1000, TotalIndices: 1000 + 63*600}
		if err != nil || before.App != app(7) || after != want {
			t.Fatalf("from %+v\nto %+v, %v", before, after, err)
		}
		if got, err := s.App(t.Context(), 7); err != nil || got != want {
			t.Errorf("stored %+v, %v", got, err)
		}
		if other, err := s.App(t.Context(), 8); err != nil || other.App != app(8) || other.HighestIndex != 0 {
			t.Errorf("the other app is %+v, %v", other, err)
		}
		wantSegment(t, one(s, key(7, 4), 0), 601, 5600)
	})
}

// What is refused changes nothing, of no field.
func TestChangeAppRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		a := app(7)
		a.Limit.MaxID = key(7, 63).Compose(50_000)
		provision(t, s, a)
		wantSegment(t, one(s, key(7, 3), 0), 1, 500) // a hundredth of what the limit leaves
		wantSegment(t, one(s, key(7, 3), 500), 501, 995)
		wantSegment(t, one(s, key(7, 3), 999), 1000, 1489)
		issued := key(7, 3).Compose(1489)
		for name, c := range map[string]struct {
			change model.AppChange
			want   error
		}{
			"limit below an ID":    {model.AppChange{Step: ptr(int64(7)), MaxLimitID: ptr(issued - 1)}, model.ErrRefused},
			"unconfirmed wrap":     {model.AppChange{Step: ptr(int64(7)), LimitPolicy: ptr(model.LimitWrap)}, model.ErrInvalidArgument},
			"step":                 {model.AppChange{Name: ptr("x"), Step: ptr(int64(0))}, model.ErrInvalidArgument},
			"floor over the limit": {model.AppChange{Name: ptr("x"), MinIndex: ptr(int64(60_000))}, model.ErrRefused},
		} {
			check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, c.change)), c.want, name)
			if got, err := s.App(t.Context(), 7); err != nil || got.App != a || got.TotalIndices != 1489 {
				t.Errorf("%s: now %+v, %v", name, got, err)
			}
		}
		if _, after, err := s.ChangeApp(t.Context(), 7, model.AppChange{MaxLimitID: &issued}); err != nil || after.Limit.MaxID != issued {
			t.Errorf("a limit at the last ID: %+v, %v", after, err)
		}
		check.Is(t, one(s, key(7, 3), 0).Err, model.ErrLimitReached)
		if _, _, err := s.ChangeApp(t.Context(), 9, model.AppChange{Step: ptr(int64(7))}); !errors.Is(err, model.ErrUnknownApp) {
			t.Error(err)
		}
	})
}

// IDs that were issued before a deletion count, though the row does not show them.
func TestChangeAppKnowsTheTombstone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
		run(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (7, 'test', 3)")
		limit := key(7, 3).Compose(999)
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{MaxLimitID: &limit})), model.ErrRefused)
	})
}

// Shards that an operator has given values of their own keep those that are not
// named.
func TestChangeAppKeepsTheRest(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		run(t, s, "UPDATE id_alloc SET max_limit_id = 99, step = 5, max_id = 700 WHERE shard_id = 3")
		if _, _, err := s.ChangeApp(t.Context(), 7, model.AppChange{Name: ptr("x"), MinIndex: ptr(int64(800))}); !errors.Is(err, model.ErrRefused) {
			t.Errorf("a floor beyond the limit of one shard: %v", err)
		}
		check.Must(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{Name: ptr("x"), Step: ptr(int64(9))})))
		if n := count(t, s, "SELECT COUNT(*) FROM id_alloc WHERE app_name = 'x' AND step = 9 AND (max_limit_id = 99 AND max_id = 700 OR shard_id <> 3 AND max_limit_id = 0)"); n != 64 {
			t.Errorf("%d rows are as they should be", n)
		}
	})
}

func TestDeleteAppNeedsItsName(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		for _, name := range []string{"", "Test", "test ", "7"} {
			check.Is(t, check.Err(s.DeleteApp(t.Context(), 7, name)), model.ErrInvalidArgument, name)
		}
		if n := count(t, s, "SELECT COUNT(*) FROM id_alloc") - count(t, s, "SELECT COUNT(*) FROM id_alloc_deleted"); n != 64 {
			t.Errorf("%d rows more than tombstones", n)
		}
		check.Is(t, check.Err(s.DeleteApp(t.Context(), 9, "")), model.ErrUnknownApp)
	})
}

// Of those who create an app at once one does, and all its shards are there; the
// same with those who delete it.
func TestOneOfManyWins(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		wins := func(lost error, do func() error) (n int) {
			var (
				mu sync.Mutex
				wg sync.WaitGroup
			)
			for range 8 {
				wg.Go(func() {
					err := do()
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						n++
					} else if !errors.Is(err, lost) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return n
		}
		made := wins(model.ErrAppExists, func() error { _, err := s.CreateApp(t.Context(), app(7)); return err })
		if n := count(t, s, "SELECT COUNT(*) FROM id_alloc"); made != 1 || n != 64 {
			t.Errorf("%d created the app, it has %d rows", made, n)
		}
		gone := wins(model.ErrUnknownApp, func() error { _, err := s.DeleteApp(t.Context(), 7, "test"); return err })
		if n := count(t, s, "SELECT COUNT(*) FROM id_alloc"); gone != 1 || n != 0 {
			t.Errorf("%d deleted the app, it has %d rows", gone, n)
		}
	})
}
