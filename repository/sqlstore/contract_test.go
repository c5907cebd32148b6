//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/scripts/check"
)

// All columns of a row count, and are stored. What follows from them is model.AllocState's to say.
func TestAllocateByTheRow(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		k := key(1, 0)
		wantSegment(t, one(s, k, 0), 1, 1000)
		wantSegment(t, one(s, k, 0), 1001, 2000)
		wantSegment(t, one(s, key(1, 1), 0), 1, 1000)
		grown := s.Allocate(context.Background(), []model.AllocRequest{{Key: k, Grow: true, MaxStep: model.MaxStep}})
		wantSegment(t, grown[0], 2001, 4000)
		n := count(t, s, "SELECT taken_at FROM id_alloc WHERE app_id = 1 AND shard_id = 0")
		if time.Since(time.UnixMilli(n)) > time.Minute {
			t.Errorf("taken_at %d", n)
		}
		check.Equal(t, count(t, s, "SELECT current_step FROM id_alloc WHERE app_id = 1 AND shard_id = 0"), 2000,
			"current_step")
		run(t, s, "UPDATE id_alloc SET current_step = 8000")
		wantSegment(t, one(s, k, 0), 4001, 12_000)
		run(t, s, "UPDATE id_alloc SET taken_at = taken_at - 31 * 60 * 1000") // idle
		wantSegment(t, one(s, k, 0), 12_001, 16_000)
		lifted := one(s, k, 20_000)
		wantSegment(t, lifted, 20_001, 24_000)
		check.Equal(t, lifted.Lifted, 4000, "Lifted")
		provision(t, s, app(255))
		wantSegment(t, one(s, key(255, 63), model.MaxIndex-2), model.MaxIndex-1, model.MaxIndex)
		check.Is(t, one(s, key(255, 63), 0).Err, model.ErrLimitReached)
	})
}

// What is wrong with one request is not the others' concern, and answers come in
// the order of the requests.
func TestAllocateAnswersEachRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		provision(t, s, app(2))
		run(t, s, "DELETE FROM id_alloc WHERE app_id = 1 AND shard_id = 5",
			"UPDATE id_alloc SET max_limit_id = 1 WHERE app_id = 2 AND shard_id = 3",
			"UPDATE id_alloc SET step = 0 WHERE app_id = 2 AND shard_id = 4",
			"UPDATE id_alloc SET max_id = 77 WHERE app_id = 1 AND shard_id = 63")
		got := s.Allocate(context.Background(), ask(
			key(2, 1), key(1, 63), key(2, 3), key(1, 5), key(9, 0), key(2, 4), key(1, 0), key(1, 0)))
		wantSegment(t, got[0], 1, 1000)
		wantSegment(t, got[1], 78, 1077)
		for i, want := range map[int]error{
			2: model.ErrLimitReached, 3: model.ErrUnknownShard, 4: model.ErrUnknownShard,
			5: model.ErrInvalidArgument, 7: model.ErrUnknownShard, // the second request for one list
		} {
			if !errors.Is(got[i].Err, want) || got[i].Segment != (model.Segment{}) {
				t.Errorf("answer %d: %+v, want %v", i, got[i], want)
			}
		}
		wantSegment(t, got[6], 1, 1000)
		check.Equal(t, count(t, s, "SELECT SUM(max_id) FROM id_alloc"), 1000+1077+1000, "stored")
		if s.Allocate(context.Background(), nil) != nil {
			t.Error("an answer without a request")
		}
	})
}

// A failed transaction stores nothing and answers nothing.
func TestAllocateAllOrNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		stop := "CREATE TRIGGER stop BEFORE UPDATE ON id_alloc FOR EACH ROW " +
			"BEGIN SELECT RAISE(ABORT, 'no') WHERE NEW.shard_id = 9; END"
		if s.server != nil {
			stop = "CREATE TRIGGER stop BEFORE UPDATE ON id_alloc FOR EACH ROW " +
				"BEGIN IF NEW.shard_id = 9 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF; END"
		}
		run(t, s, stop)
		for i, got := range s.Allocate(context.Background(), ask(key(1, 0), key(1, 9), key(1, 1))) {
			var want *model.StoreError
			var begun *model.NotBegunError
			if !errors.As(got.Err, &want) || errors.As(got.Err, &begun) || got.Segment != (model.Segment{}) {
				t.Errorf("answer %d: %+v", i, got)
			}
		}
		check.Equal(t, count(t, s, "SELECT SUM(max_id) FROM id_alloc"), 0, "stored")
		run(t, s, "DROP TRIGGER stop")
		wantSegment(t, one(s, key(1, 0), 0), 1, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var notBegun *model.NotBegunError
		if err := s.Allocate(ctx, ask(key(1, 0)))[0].Err; !errors.Is(err, context.Canceled) ||
			!errors.As(err, &notBegun) {
			t.Errorf("after the context has ended: %v", err)
		}
		addSpace(t, s, "s", 2)
		run(t, s, "DROP TABLE shardid_section")
		for i, g := range grants(t, s, sectionAsk(0, "a-1", 0, 0), sectionAsk(1, "a-1", 0, 0)) {
			if store := new(model.StoreError); !errors.As(g.Err, &store) || g.Segment.Len() > 0 || g.Term != 0 {
				t.Errorf("section %d: %+v", i, g)
			}
		}
	})
}

// However many lists or sections a call is for, it is one transaction of three or four statements, beside BEGIN and
// COMMIT. One more identifies the server on a new connection.
func TestStatementsOfAnAllocation(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(1))
		addTag(t, s, "a", 10)
		addSpace(t, s, "s", model.Shards)
		var keys []model.ListKey
		var sections []model.SectionRequest
		for n := range model.Shards {
			keys = append(keys, key(1, uint8(n)))
			sections = append(sections, sectionAsk(model.Shards-1-n, "a-1", 0, int64(1000*n)))
		}
		for n, g := range grants(t, s, sections...) { // the first claim ends leases, too
			sections[n].Term, sections[n].Bound = g.Term, g.Segment.Last
		}
		statements := 0
		counts := func(*gorm.DB) { statements++ }
		check.Must(t, s.gorm.Callback().Raw().After("gorm:raw").Register("counts", counts))
		check.Must(t, s.gorm.Callback().Row().After("gorm:row").Register("counts", counts))
		check.Must(t, s.gorm.Callback().Query().After("gorm:query").Register("counts", counts))
		for _, c := range []struct {
			name       string
			statements int
			take       func()
		}{
			{"lists", 3, func() {
				for _, a := range s.Allocate(t.Context(), ask(keys...)) {
					wantSegment(t, a, 1, 1000)
				}
			}},
			{"a tag", 3, func() {
				wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 1, End: 11, Step: 10})
			}},
			{"sections", 4, func() {
				for n, g := range grants(t, s, sections...) {
					wantGrant(t, g, int64(1000*n)+1, true, int64(1000*n)+11)
				}
			}},
		} {
			statements = 0
			c.take()
			if statements > c.statements {
				t.Errorf("%s: %d statements, want %d", c.name, statements, c.statements)
			}
		}
	})
}

func TestProvisionAllOrNone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := context.Background()
		a := app(1)
		a.Name, a.Step, a.Limit = "名前", 50, model.Limit{MaxID: 1 << 40, Policy: model.LimitWrap}
		provision(t, s, a)
		again := a
		again.Name = "other"
		_, err := s.CreateApp(ctx, again)
		if !errors.Is(err, model.ErrExists) ||
			!strings.Contains(err.Error(), `already provisioned: app 1 has 64 of 64 shards, name "名前"`) {
			t.Errorf("second call: %v", err)
		}
		run(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (2, 'half', 63)")
		if _, err := s.CreateApp(ctx, app(2)); !errors.Is(err, model.ErrExists) ||
			!strings.Contains(err.Error(), "1 of 64") {
			t.Errorf("half an app: %v", err)
		}
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc"), 65, "rows")
		check.Is(t, check.Err(s.CreateApp(ctx, model.App{ID: 3})), model.ErrInvalidArgument, "no name")
		wantSegment(t, one(s, key(1, 0), 0), 1, 50)
		apps, err := s.Apps(ctx)
		want := model.AppSummary{App: a, Shards: 64, HighestIndex: 50, TotalIndices: 50}
		if err != nil || len(apps) != 2 || apps[0] != want || apps[1].Shards != 1 {
			t.Errorf("apps %+v, %v", apps, err)
		}
	})
}

// A row that cannot be used is told, and is a list with the reason. A server that ignores CHECK may hold anything: app
// 300 must not become app 44.
func TestLoadLeavesBadRowsOut(t *testing.T) {
	good := allocRow{AppID: 44, ShardID: 1, Step: 1, LimitPolicy: "reject"}
	check.OK(t, check.Err(good.config()))
	for name, edit := range map[string]func(*allocRow){
		"app": func(r *allocRow) { r.AppID = 300 }, "shard": func(r *allocRow) { r.ShardID = 64 },
		"policy": func(r *allocRow) { r.LimitPolicy = "what" }, "no step": func(r *allocRow) { r.Step = 0 },
		"number": func(r *allocRow) { r.MaxID = -1 }, "limit": func(r *allocRow) { r.MaxLimitID = -1 },
	} {
		bad := good
		edit(&bad)
		_, err := bad.config()
		check.Is(t, err, model.ErrInvalidArgument, name)
		says := fmt.Sprintf("(app_id %d, shard_id %d) cannot be used", bad.AppID, bad.ShardID)
		check.Has(t, fmt.Sprint(err), says, name)
	}
	onBothEmpty(t, func(t *testing.T, opts Options) {
		bad, want := 0, 1
		opts.OnBadRow = func(error) { bad++ }
		s := openMigrated(t, opts)
		provision(t, s, app(44))
		run(t, s, "UPDATE id_alloc SET step = 2000000 WHERE shard_id = 2")
		if s.server == nil {
			run(t, s, "PRAGMA ignore_check_constraints = 1",
				"INSERT INTO id_alloc (app_id, app_name, shard_id) VALUES (300, 'x', 0)")
			want = 2
		}
		lists, err := s.Load(t.Context())
		if err != nil || len(lists) != 64 || bad != want {
			t.Fatalf("%d lists, %d bad, %v", len(lists), bad, err)
		}
		for i, l := range lists {
			if l.Key != key(44, uint8(i)) || l.AppName != "test" || (l.Err != nil) != (i == 2) {
				t.Errorf("list %d is %+v", i, l)
			}
		}
		if apps, err := s.Apps(t.Context()); err != nil || len(apps) != 1 {
			t.Errorf("apps %+v, %v", apps, err)
		}
	})
}

func TestCheck(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		ctx := context.Background()
		s := open(t, opts)
		wantAdvice(t, s.Check(ctx), "shardid migrate")
		wantAdvice(t, check.Err(s.Load(ctx)), "shardid migrate")
		wantAdvice(t, one(s, key(1, 0), 0).Err, "shardid migrate")
		wantAdvice(t, check.Err(s.CreateApp(context.Background(), app(1))), "shardid migrate")
		check.Must(t, s.Migrate(ctx, nil))
		check.OK(t, s.Check(ctx))
		if s.server != nil { // owners wait for each other at a row
			run(t, s, "DELETE FROM shardid_lock")
			err := check.Err(workersOf(s).Acquire(ctx, workertest.Owner(0)))
			wantAdvice(t, err, "INSERT INTO shardid_lock")
		}
		run(t, s, "ALTER TABLE id_alloc DROP COLUMN taken_at")
		wantAdvice(t, s.Check(ctx), "shardid migrate")
	})
}

// wantAdvice checks an error for operators.
func wantAdvice(t testing.TB, err error, advice string) {
	t.Helper()
	workertest.WantAdvice(t, "database", err, advice)
}
