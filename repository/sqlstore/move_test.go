//go:build unix

package sqlstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// used is an embedded database that has issued something of each kind, and has deleted some of that.
func used(t *testing.T) *Store {
	t.Helper()
	s, ctx := openMigrated(t, Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "shardid.db")}), t.Context()
	secret := app(3)
	secret.Scramble = true
	for _, a := range []model.App{app(1), app(2), secret} {
		provision(t, s, a)
		check.Must(t, one(s, key(a.ID, 0), 0).Err)
	}
	check.Must(t, check.Err(s.DeleteApp(ctx, 2, "test")))
	for _, tag := range []model.Tag{
		{Name: "orders", MaxID: 5, Step: 10}, {Name: "gone", MaxID: 50, Step: 10},
		{Name: "bills", MaxID: 1, Step: 10, Numbering: model.Numbering{Pattern: "B-{yyyy}-{seq:4}", Reset: "year"}},
	} {
		check.Must(t, check.Err(s.CreateTag(ctx, tag)))
	}
	check.Must(t, check.Err(s.DeleteTag(ctx, "gone")))
	for _, name := range []string{"carts", "gone"} {
		named := model.Name{Name: name, Layout: model.NameLayout(1, 4, 12, 0), Hold: model.MinHold}
		check.Must(t, check.Err(s.CreateName(ctx, named)))
	}
	check.Must(t, check.Err(s.GrantLease(ctx, "carts", "pod-1")))
	check.Must(t, check.Err(s.DeleteName(ctx, "gone")))
	addSpace(t, s, "s", 700)
	grant(t, s, sectionAsk(3, "life one", 0, 0))
	addSpace(t, s, "gone", 2)
	check.Must(t, check.Err(s.DeleteSpace(ctx, "gone")))
	owner := model.Owner{Address: "10.0.0.7:80", Identity: "one", Token: "one"}
	check.Must(t, check.Err(workersOf(s).Acquire(ctx, owner)))
	own, err := s.Deployment(ctx)
	check.Must(t, err)
	check.Must(t, check.Err(s.ClaimWorker(ctx, model.WorkerClaim{
		Token: "one", Registry: "mysql " + own, WorkerID: 1, Until: time.Now().Add(time.Hour).UnixMilli(), First: true,
	})))
	check.Must(t, check.Err(s.registerStart(ctx, startOf("one"))))
	check.Must(t, s.LayoutOnce(ctx, model.LayoutRecord{Kind: model.KindSnowflake, Layout: "epoch_ms=1"}))
	run(t, s, "CREATE TABLE id_alloc_leftover (app_id INTEGER)", "INSERT INTO id_alloc_leftover VALUES (1)",
		"ALTER TABLE id_alloc ADD COLUMN allocated_at INTEGER NOT NULL DEFAULT 1") // as a file of 0.3 has
	return s
}

// rowsOf are the rows of a table as text, in order.
func rowsOf(t *testing.T, s *Store, table movedTable) []string {
	t.Helper()
	columns := make([]string, len(table.columns))
	for i, c := range table.columns {
		columns[i] = "COALESCE(CAST(`" + c + "` AS CHAR), '-')"
	}
	row := s.either("CONCAT_WS('|', "+strings.Join(columns, ", ")+")", strings.Join(columns, "||'|'||"))
	rows, err := query[[]string](s.gorm.WithContext(t.Context()), "read", "SELECT "+row+" FROM "+table.name)
	check.Must(t, err)
	slices.Sort(rows)
	return rows
}

// TestMove: a database that an embedded one moved to has all of its rows, and continues above all of its numbers; the
// embedded one hands out nothing any more.
func TestMove(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		from, ctx := used(t), t.Context()
		tables, err := s.movedTables(ctx, from)
		check.Must(t, err)
		want := map[string][]string{}
		for _, table := range tables {
			if want[table.name] = rowsOf(t, from, table); len(want[table.name]) == 0 {
				t.Errorf("%s is empty: this test says nothing of it", table.name)
			}
		}
		moved, err := s.MoveFrom(ctx, from)
		check.Must(t, err)
		for _, table := range tables {
			if table.name != claimTable { // the registry has another name
				check.Equal(t, fmt.Sprint(rowsOf(t, s, table)), fmt.Sprint(want[table.name]), table.name)
			}
			i := slices.IndexFunc(moved, func(m Moved) bool { return m.Table == table.name })
			check.Equal(t, i < 0, len(want[table.name]) == 0, table.name, "is told")
		}
		const secret = "SELECT scramble_secret FROM " + deploymentTable
		check.Equal(t, text(t, s, secret), text(t, from, secret))

		wantSegment(t, one(s, key(1, 0), 0), 1001, 2000)
		provision(t, s, app(2))
		wantSegment(t, one(s, key(2, 0), 0), 1001, 2000)
		tag, err := s.CreateTag(ctx, model.Tag{Name: "gone", MaxID: 1, Step: 10})
		check.Must(t, err)
		check.Equal(t, tag.MaxID, int64(50), "the tag that was deleted")
		lease, err := s.GrantLease(ctx, "carts", "pod-2")
		check.Must(t, err)
		check.Equal(t, lease.WorkerID, int64(1), "the next lease")
		numbers := grant(t, s, model.SectionRequest{Key: section(3), Life: "life two", Claim: true, Want: 1})
		check.Equal(t, numbers.Segment.First, int64(11), "the next number of a sequence")
		node, err := s.registerStart(ctx, startOf("two"))
		check.Must(t, err)
		check.Equal(t, node.ID, int64(2), "the next start")
		owner := model.Owner{Address: "10.0.0.8:80", Identity: "two", Token: "two"}
		worker, err := workersOf(s).Acquire(ctx, owner)
		check.Must(t, err)
		check.Equal(t, worker.WorkerID, 2, "the next worker ID")
		check.Must(t, check.Err(s.ClaimWorker(ctx, model.WorkerClaim{
			Token: "two", Registry: worker.Registry, WorkerID: 2, First: true,
			Until: time.Now().Add(time.Hour).UnixMilli(),
		})))
		age, err := s.LayoutAge(ctx, model.KindSnowflake)
		if err != nil || age > 24*time.Hour {
			t.Errorf("the layout is %v old, %v", age, err)
		}

		got := one(from, key(1, 0), 0)
		check.Is(t, got.Err, model.ErrLayoutChanged, "the embedded database hands out", got.Segment)
		if err := from.CheckRegion(ctx); !errors.Is(err, model.ErrLayoutChanged) ||
			!strings.HasPrefix(err.Error(), "set database.driver and database.dsn to those of deployment ") {
			t.Errorf("a process may serve with it: %v", err)
		}
	})
}

// TestMoveRefuses: only an empty database takes one over; a move that was cut off is finished to the same one, and to
// no other. What is refused changes nothing.
func TestMoveRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		from, ctx := used(t), t.Context()
		provision(t, s, app(9))
		_, err := s.MoveFrom(ctx, from)
		if !errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), table+" has rows already") {
			t.Error(err)
		}
		wantSegment(t, one(from, key(1, 0), 0), 1001, 2000)

		elsewhere := openMigrated(t, Options{
			Driver: SQLite, DSN: filepath.Join(t.TempDir(), "elsewhere.db"), Region: model.Region{ID: 1, Bits: 2},
		})
		if _, err := elsewhere.MoveFrom(ctx, from); !errors.Is(err, model.ErrRefused) {
			t.Error(err)
		}
		wantSegment(t, one(from, key(1, 0), 0), 2001, 3000)

		run(t, s, "DELETE FROM "+table, "DELETE FROM "+deletedTable, "CREATE TRIGGER fails BEFORE INSERT ON "+
			workerTable+s.either(" FOR EACH ROW SIGNAL SQLSTATE '45000'", " BEGIN SELECT RAISE(ABORT, 'no'); END"))
		check.Has(t, fmt.Sprint(check.Err(s.MoveFrom(ctx, from))), "fill "+workerTable)
		wantSegment(t, one(from, key(1, 0), 0), 3001, 4000)

		third := openMigrated(t, Options{Driver: SQLite, DSN: filepath.Join(t.TempDir(), "third.db")})
		own, err := third.Deployment(ctx)
		check.Must(t, err)
		check.Must(t, check.Err(from.markMoved(ctx, own))) // and then the power went out
		if _, err := s.MoveFrom(ctx, from); !errors.Is(err, model.ErrLayoutChanged) {
			t.Error(err)
		}
		run(t, from, "INSERT INTO "+claimTable+" VALUES ('z', 'zk', 1, 1)")
		check.Must(t, check.Err(third.MoveFrom(ctx, from)))
		if age, err := third.LayoutAge(ctx, model.KindSnowflake); err != nil || age < 365*24*time.Hour {
			t.Errorf("to another registry the layout is %v old, %v", age, err)
		}
		wantSegment(t, one(third, key(1, 0), 0), 4001, 5000)
		check.Is(t, check.Err(third.MoveFrom(ctx, from)), ErrMoved)
	})
}
