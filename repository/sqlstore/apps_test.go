//go:build unix

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 9, model.AppChange{Step: ptr(int64(7))})), model.ErrUnknownApp)
	})
}

// Shards that an operator has given values of their own keep those that are not
// named.
func TestChangeAppKeepsTheRest(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		run(t, s, "UPDATE id_alloc SET max_limit_id = 99, step = 5, max_id = 700 WHERE shard_id = 3")
		if apps, err := s.Apps(t.Context()); err != nil || len(apps) != 1 || !apps[0].MixedLimits || apps[0].Limit.MaxID != 99 {
			t.Errorf("%+v, %v, want a limit of 99 that not all shards have", apps, err)
		}
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{Name: ptr("x"), MinIndex: ptr(int64(800))})),
			model.ErrRefused, "a floor beyond the limit of one shard")
		check.Must(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{Name: ptr("x"), Step: ptr(int64(9))})))
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc WHERE app_name = 'x' AND step = 9 AND "+
			"(max_limit_id = 99 AND max_id = 700 OR shard_id <> 3 AND max_limit_id = 0)"), 64, "rows are as they should be")
	})
}

// A table of another program has apps past their limit, or with a limit in some shards.
func TestChangeAppToWrapPastItsLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		run(t, s, "UPDATE id_alloc SET max_limit_id = 99, max_id = 700 WHERE shard_id = 3")
		change := model.AppChange{LimitPolicy: ptr(model.LimitWrap), Confirm: "test"}
		_, after, err := s.ChangeApp(t.Context(), 7, change)
		if want := (model.Limit{MaxID: 99, Policy: model.LimitWrap}); err != nil || after.Limit != want {
			t.Fatalf("now %+v, %v", after, err)
		}
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc WHERE limit_policy = 'wrap' AND max_limit_id IN (0, 99)"),
			64, "rows wrap")
		wantSegment(t, one(s, key(7, 3), 0), 701, 1700)
	})
}

func TestDeleteAppNeedsItsName(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		for _, name := range []string{"", "Test", "test ", "7"} {
			check.Is(t, check.Err(s.DeleteApp(t.Context(), 7, name)), model.ErrInvalidArgument, name)
		}
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc")-count(t, s, "SELECT COUNT(*) FROM id_alloc_deleted"),
			64, "rows more than tombstones")
		check.Is(t, check.Err(s.DeleteApp(t.Context(), 9, "")), model.ErrUnknownApp)
	})
}

// Of those who create an app at once one does, and all its shards are there; the
// same with those who delete it.
func TestOneOfManyWins(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		wins := func(what string, rows int64, lost error, do func(int) (model.AppSummary, error)) {
			t.Helper()
			n := 0
			_, errs := atOnce(8, do)
			for _, err := range errs {
				if err == nil {
					n++
				} else {
					check.Is(t, err, lost, what)
				}
			}
			check.Equal(t, n, 1, what)
			check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc"), rows, what, "rows")
		}
		create := func(int) (model.AppSummary, error) { return s.CreateApp(t.Context(), app(7)) }
		wins("created", 64, model.ErrAppExists, create)
		remove := func(int) (model.AppSummary, error) { return s.DeleteApp(t.Context(), 7, "test") }
		wins("deleted", 0, model.ErrUnknownApp, remove)
	})
}

// road is a way on which an app comes back after it was deleted.
type road struct {
	name  string
	mysql bool // only there
	lifts bool // the row has it at once, and not only its first segment
	take  func(t *testing.T, s *Store)
}

func roads() []road {
	insert := func(columns, values string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) {
			rows := make([]string, model.Shards)
			for shard := range rows {
				rows[shard] = fmt.Sprintf("(7, 'test', %d%s)", shard, values)
			}
			byHand(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id"+columns+") VALUES "+strings.Join(rows, ", "))
		}
	}
	return []road{
		{"provision", false, true, func(t *testing.T, s *Store) { provision(t, s, app(7)) }},
		{"the stored procedure", true, true, func(t *testing.T, s *Store) { byHand(t, s, "CALL alloc_initData(7, 'test', '')") }},
		{"a plain INSERT", false, false, insert("", "")},
		{"rows of a backup", false, false, insert(", max_id, last_max_id, taken_at, current_step", ", 500, 500, 1700000000000, 500")},
	}
}

// byHand runs a statement until it is not in another's way.
func byHand(t *testing.T, s *Store, statement string) {
	t.Helper()
	for try := 0; ; try++ {
		if _, err := s.pool.Exec(statement); err == nil {
			return
		} else if !isRolledBack(err) || try == 20 {
			t.Errorf("%s: %v", statement, err)
			return
		}
	}
}

// An app that was deleted goes on above what it had handed out, on whatever road it
// comes back, and nothing calls that a database that went back in time.
func TestDeletedAppGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		wantSegment(t, one(s, key(7, 3), 0), 1001, 2000)
		wantSegment(t, one(s, key(7, 63), 0), 1, 1000)
		end := int64(2000)
		for _, r := range roads() {
			if r.mysql && s.server == nil {
				continue
			}
			deleted, err := s.DeleteApp(t.Context(), 7, "test")
			if err != nil || deleted.HighestIndex != end || count(t, s, "SELECT COUNT(*) FROM id_alloc") != 0 {
				t.Fatalf("%s: deleted %+v, %v", r.name, deleted, err)
			}
			check.Is(t, one(s, key(7, 3), 0).Err, model.ErrUnknownShard)
			r.take(t, s)
			if n := count(t, s, "SELECT max_id FROM id_alloc WHERE app_id = 7 AND shard_id = 3"); r.lifts && n != end {
				t.Errorf("%s: max_id is %d at first, want %d", r.name, n, end)
			}
			got := one(s, key(7, 3), 0)
			if got.Err != nil || got.Segment.First != end+1 || got.Lifted != 0 || got.Jumped != 0 {
				t.Errorf("%s: got %+v, want it from %d on", r.name, got, end+1)
			}
			if first := one(s, key(7, 62), 0); first.Segment.First < 1 || first.Err != nil {
				t.Errorf("%s: a shard that was never used: %+v", r.name, first)
			}
			end = got.Segment.Last
		}
	})
}

// The tombstone holds what was handed out, even of a row that came back lower and was
// never used before the app was deleted again.
func TestTombstonesOnlyRise(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		run(t, s, "UPDATE id_alloc SET max_id = 9000 WHERE shard_id = 3")
		for range 2 {
			check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
			run(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id, max_id) VALUES (7, 'test', 3, 5)", "INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (7, 'test', 4)")
		}
		wantSegment(t, one(s, key(7, 3), 0), 9001, 10_000)
		wantSegment(t, one(s, key(7, 4), 0), 1, 1000)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc_deleted"), 64,
			"tombstones: a shard that did not come back was forgotten")
	})
}

// What the app had is not only a floor: a limit below it would make an app that can
// issue nothing, or folds onto issued IDs.
func TestProvisionBelowATombstone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
		a := app(7)
		for _, policy := range []model.LimitPolicy{model.LimitReject, model.LimitWrap} {
			a.Limit = model.Limit{MaxID: key(7, 3).Compose(1000) - 1, Policy: policy}
			if _, err := s.CreateApp(t.Context(), a); !errors.Is(err, model.ErrRefused) || count(t, s, "SELECT COUNT(*) FROM id_alloc") != 0 {
				t.Errorf("%s: %v", policy, err)
			}
		}
		a.Limit.MaxID++
		made, err := s.CreateApp(t.Context(), a)
		if err != nil || made.HighestIndex != 1000 || made.TotalIndices != 1000 || made.Shards != 64 {
			t.Errorf("made %+v, %v", made, err)
		}
		// A change of the limit knows it too, where the row does not show it.
		run(t, s, "DELETE FROM id_alloc", "INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (7, 'test', 3)")
		a.Limit.MaxID--
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{MaxLimitID: &a.Limit.MaxID})), model.ErrRefused)
	})
}

// Deletions and every road back, under allocations by four: no index twice.
func TestDeleteUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		books := fill(s, 4, func(err error) bool {
			gone := errors.Is(err, model.ErrUnknownShard)
			if !gone {
				t.Error(err)
			}
			return gone
		}, key(7, 0), key(7, 1), key(7, 2))
		for i := range 9 {
			books.wait(t, 10*(i+1))
			check.OK(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
			if r := roads()[i%3]; !r.mysql || s.server != nil {
				r.take(t, s)
			} else {
				provision(t, s, app(7))
			}
		}
		books.end(t)
	})
}

// An allocation that waited for a lock while the app was deleted and came back sees
// the deletion: it looks for it once it has the locks.
func TestDeletionDuringALockWait(t *testing.T) {
	opts := backends()[0].empty(t)
	s, admin := openMigrated(t, opts), plain(t, opts.DSN)
	provision(t, s, app(1))
	provision(t, s, app(7))
	wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
	// It locks no gaps, which would keep the row of app 7 from being inserted below.
	holder, err := admin.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	check.Must(t, err)
	defer func() { _ = holder.Rollback() }() // done below, unless the test fails
	check.Must(t, check.Err(holder.Exec("SELECT * FROM id_alloc WHERE app_id = 1 FOR UPDATE")))
	// The deletion waits for the allocation, which must give its turn up before the other does.
	hasty := open(t, Options{Driver: MySQL, DSN: opts.DSN + "&innodb_lock_wait_timeout=1"})
	got := make(chan []model.Allocation, 1)
	go func() { got <- hasty.Allocate(context.Background(), ask(key(1, 0), key(7, 3))) }()
	eventuallyLocked(t, s)
	check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
	run(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (7, 'test', 3)")
	check.Must(t, holder.Rollback())
	wantSegment(t, (<-got)[1], 1001, 2000)
}

// eventuallyLocked waits until a transaction waits for a lock. The server reads the
// table anew only when nobody has for a tenth of a second.
func eventuallyLocked(t *testing.T, s *Store) {
	t.Helper()
	for range 50 {
		time.Sleep(200 * time.Millisecond)
		if count(t, s, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'") > 0 {
			return
		}
	}
	t.Fatal("no transaction waits for a lock")
}

// segments are all that was handed out of some lists.
type segments struct {
	callers sync.WaitGroup
	done    chan struct{}

	mu  sync.Mutex
	n   int
	all [][]model.Segment // by list
}

// fill has callers allocate lists until the end. goOn says whether one goes on after an error.
func fill(s *Store, callers int, goOn func(error) bool, keys ...model.ListKey) *segments {
	b := &segments{done: make(chan struct{}), all: make([][]model.Segment, len(keys))}
	for range callers {
		b.callers.Go(func() {
			for b.take(s.Allocate(context.Background(), ask(keys...)), goOn) {
			}
		})
	}
	return b
}

func (b *segments) take(got []model.Allocation, goOn func(error) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range got {
		if a.Err == nil {
			b.all[i] = append(b.all[i], a.Segment)
			b.n++
		} else if !goOn(a.Err) {
			return false
		}
	}
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// end wants no index twice.
func (b *segments) end(t *testing.T) {
	t.Helper()
	close(b.done)
	b.callers.Wait()
	for _, list := range b.all {
		disjoint(t, list)
	}
	t.Logf("%d segments", b.n)
}

// wait is until so many segments were handed out.
func (b *segments) wait(t *testing.T, n int) {
	waitFor(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.n >= n
	})
}

// SQLite remembers a DELETE by hand as well.
func TestDeleteByHand(t *testing.T) {
	s := openMigrated(t, backends()[1].empty(t))
	provision(t, s, app(7))
	wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
	addTag(t, s, "a", 2000)
	wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 1, End: 2001, Step: 2000})
	for range 2 { // the second time with the tombstones in place
		run(t, s, "DELETE FROM id_alloc", "DELETE FROM leaf_alloc", "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('a', 2000)")
		provision(t, s, app(7))
	}
	wantSegment(t, one(s, key(7, 3), 0), 1001, 2000)
	wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 2001, End: 4001, Step: 2000})
}

// Without the tables of the deleted nothing may be handed out.
func TestNoTombstones(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		addTag(t, s, "a", 2000)
		run(t, s, "DROP TABLE id_alloc_deleted", "DROP TABLE leaf_alloc_deleted")
		wantAdvice(t, one(s, key(7, 3), 0).Err, "shardid migrate")
		wantAdvice(t, s.Check(t.Context()), "shardid migrate")
		wantAdvice(t, check.Err(s.AllocateTag(t.Context(), model.TagRequest{Tag: "a"})), "shardid migrate")
	})
}

// What a copy of the database may lack is left out, too, by an app or a tag that is deleted
// in doubt and comes back. Where that is not known, or lies in another period, it is not
// deleted.
func TestDeletionInDoubt(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		run(t, s, "UPDATE id_alloc SET doubt = 5000 WHERE shard_id = 3",
			"INSERT INTO leaf_alloc (biz_tag, max_id, step, doubt) VALUES ('orders', 101, 10, 700), ('lost', 101, 10, 9000000000000000000)")
		check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
		check.Must(t, check.Err(s.CreateApp(t.Context(), app(7))))
		wantSegment(t, one(s, key(7, 3), 0), 6001, 7000)
		wantSegment(t, one(s, key(7, 4), 0), 1, 1000)

		check.Must(t, check.Err(s.DeleteTag(t.Context(), "orders")))
		made, err := s.CreateTag(t.Context(), model.Tag{Name: "orders", MaxID: 1, Step: 10})
		if err != nil || made.MaxID != 801 {
			t.Errorf("%+v, %v", made, err)
		}
		run(t, s, "UPDATE id_alloc SET doubt = 1152921504606846976 WHERE shard_id = 3")
		check.Is(t, check.Err(s.DeleteApp(t.Context(), 7, "test")), model.ErrRefused, "an app in unknown doubt")
		run(t, s, "UPDATE leaf_alloc SET max_id = 9000000000000000000 WHERE biz_tag = 'lost'")
		check.Is(t, check.Err(s.DeleteTag(t.Context(), "lost")), model.ErrRefused, "a tag in unknown doubt")

		days := model.Numbering{Pattern: "{yyyyMMdd}{seq:4}", Reset: model.ResetDay}
		check.Must(t, check.Err(s.CreateTag(t.Context(), model.Tag{Name: "days", MaxID: 1, Step: 10, Numbering: days})))
		run(t, s, "UPDATE leaf_alloc SET doubt = 5 WHERE biz_tag = 'days'")
		check.Is(t, check.Err(s.DeleteTag(t.Context(), "days")), model.ErrRefused, "business numbers in doubt")
		check.Must(t, check.Err(s.ConfirmTag(t.Context(), "days")))
		check.OK(t, check.Err(s.DeleteTag(t.Context(), "days")))
	})
}
