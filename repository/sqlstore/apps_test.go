//go:build unix

package sqlstore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

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
		want := model.AppSummary{App: model.App{ID: 7, Name: "订单", Step: 5000,
			Limit: model.Limit{MaxID: 1 << 40, Policy: model.LimitWrap}}, Shards: 64, HighestIndex: 1000,
			TotalIndices: 1000 + 63*600}
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

// What is refused changes nothing, of no field; what may be is model.AppChange's to say. Shards that an operator, or
// another program, has given values of their own keep those that are not named; one may be past its limit.
func TestChangeAppKeepsTheRest(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		run(t, s, "UPDATE id_alloc SET max_limit_id = 99, step = 5, max_id = 700 WHERE shard_id = 3")
		before, err := s.App(t.Context(), 7)
		if err != nil || !before.MixedLimits || before.Limit.MaxID != 99 {
			t.Errorf("%+v, %v, want a limit of 99 that not all shards have", before, err)
		}
		for what, change := range map[string]model.AppChange{
			"a floor beyond the limit of one shard": {Name: ptr("x"), MinIndex: ptr(int64(800))},
			"a limit below an ID":                   {Step: ptr(int64(7)), MaxLimitID: ptr(int64(98))},
		} {
			check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, change)), model.ErrRefused, what)
		}
		after, err := s.App(t.Context(), 7)
		check.OK(t, err)
		check.Equal(t, after, before, "after what was refused")
		_, after, err = s.ChangeApp(t.Context(), 7, model.AppChange{
			Name: ptr("x"), Step: ptr(int64(9)), LimitPolicy: ptr(model.LimitWrap), Confirm: "test",
		})
		if want := (model.Limit{MaxID: 99, Policy: model.LimitWrap}); err != nil || after.Limit != want {
			t.Fatalf("now %+v, %v", after, err)
		}
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc WHERE app_name = 'x' AND step = 9 AND "+
			"limit_policy = 'wrap' AND (max_limit_id = 99 AND max_id = 700 OR shard_id <> 3 AND max_limit_id = 0)"), 64,
			"rows are as they should be")
		wantSegment(t, one(s, key(7, 3), 0), 701, 709)
		run(t, s, "UPDATE id_alloc SET limit_policy = 'reject' WHERE shard_id = 3")
		after, err = s.App(t.Context(), 7)
		check.OK(t, err)
		check.Equal(t, after.Limit.Policy, model.LimitReject, "the policy of an app of which one shard rejects")
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 9, model.AppChange{Step: ptr(int64(7))})), model.ErrUnknownApp)
	})
}

// Of those who do one thing at once as many do as can: an app is created with all its shards, and deleted; a layout is
// recorded, and worker IDs of one registry are claimed, by whom the others follow who want the same; a name and the UID
// mode give each worker ID once.
func TestOneOfManyWins(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		wins := func(what string, want int, lost error, do func(i int) error) {
			t.Helper()
			n := 0
			_, errs := atOnce(8, func(i int) (none struct{}, err error) { return none, do(i) })
			for _, err := range errs {
				if err == nil {
					n++
				} else {
					check.Is(t, err, lost, what)
				}
			}
			check.Equal(t, n, want, what)
		}
		wins("created", 1, model.ErrExists, func(int) error { return check.Err(s.CreateApp(t.Context(), app(7))) })
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc"), model.Shards, "rows")
		wins("deleted", 1, model.ErrUnknownApp, func(int) error {
			return check.Err(s.DeleteApp(t.Context(), 7, "test"))
		})
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc"), 0, "rows")
		wins("recorded", 4, model.ErrLayoutChanged, func(i int) error {
			layout := model.LayoutRecord{Kind: "uid", Layout: fmt.Sprint("layout ", i%2)}
			return s.LayoutOnce(t.Context(), layout)
		})
		until := time.Now().Add(time.Minute).UnixMilli()
		for range 5 {
			run(t, s, "DELETE FROM shardid_worker_claim")
			wins("claimed", 4, model.ErrRegistryInUse, func(i int) error {
				claim := model.WorkerClaim{
					Token: fmt.Sprint(i), Registry: fmt.Sprint(i % 2), Until: until, First: true,
				}
				return check.Err(s.ClaimWorker(t.Context(), claim))
			})
		}
		check.Must(t, check.Err(s.CreateName(t.Context(), aName("orders"))))
		wins("leased", 2, model.ErrNoWorkerID, func(int) error {
			return check.Err(s.GrantLease(t.Context(), "orders", "same"))
		})
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_lease"), 2, "leases")
		wins("started", 3, model.ErrNoWorkerID, func(i int) error {
			return check.Err(s.registerStart(t.Context(), aStart(fmt.Sprint(i), 4, 1_800_000_000)))
		})
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM WORKER_NODE"), 3, "starts")
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
			byHand(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id"+columns+") VALUES "+strings.Join(rows,
				", "))
		}
	}
	return []road{
		{"provision", false, true, func(t *testing.T, s *Store) { provision(t, s, app(7)) }},
		{"the stored procedure", true, true, func(t *testing.T, s *Store) {
			byHand(t, s,
				"CALL alloc_initData(7, 'test', '')")
		}},
		{"a plain INSERT", false, false, insert("", "")},
		{"rows of a backup", false, false, insert(", max_id, last_max_id, taken_at, current_step",
			", 500, 500, 1700000000000, 500")},
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

// An app that was deleted continues above what it had issued, on whatever road it
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
		// A tombstone only rises, and shards that did not come back keep theirs.
		run(t, s, "UPDATE id_alloc SET max_id = 9000 WHERE shard_id = 3")
		for range 2 {
			check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
			run(t, s, "INSERT INTO id_alloc (app_id, app_name, shard_id, max_id) VALUES (7, 'test', 3, 5)")
		}
		check.Must(t, s.inTx(t.Context(), "bury", func(tx *gorm.DB) error { // as for a mark of a list without a row
			return s.buryLists(tx, []model.AllocRequest{{Key: key(7, 3), Floor: 5}})
		}))
		wantSegment(t, one(s, key(7, 3), 0), 9001, 10_000)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc_deleted"), model.Shards, "tombstones")
	})
}

// What the app had is not only a floor: a limit below it would make an app that can
// issue nothing, or folds onto issued IDs.
func TestProvisionBelowATombstone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		check.Is(t, check.Err(s.DeleteApp(t.Context(), 7, "Test")), model.ErrInvalidArgument, "another name")
		check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
		a := app(7)
		a.Limit.MaxID = key(7, 3).Compose(1000) - 1
		check.Is(t, check.Err(s.CreateApp(t.Context(), a)), model.ErrRefused)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM id_alloc"), 0, "rows")
		a.Limit.MaxID++
		made, err := s.CreateApp(t.Context(), a)
		if err != nil || made.HighestIndex != 1000 || made.TotalIndices != 1000 || made.Shards != 64 {
			t.Errorf("made %+v, %v", made, err)
		}
		// A change of the limit knows it too, where the row does not show it.
		run(t, s, "UPDATE id_alloc SET max_id = 0")
		a.Limit.MaxID--
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{MaxLimitID: &a.Limit.MaxID})),
			model.ErrRefused)
	})
}

// Deletions and every road back, under allocations by four, through two stores as two processes have them: no index
// comes twice.
func TestDeleteUnderLoad(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		stores := []*Store{s, beside(t, s, s.opts)}
		provision(t, s, app(7))
		stop := make(chan struct{})
		taken, _ := atOnce(5, func(caller int) (all []model.Segment, _ error) {
			if caller == 0 {
				defer close(stop)
				for i := range 9 {
					check.OK(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
					if r := roads()[i%3]; !r.mysql || s.server != nil {
						r.take(t, s)
					} else {
						provision(t, s, app(7))
					}
					a := one(s, key(7, 0), 0)
					check.OK(t, a.Err)
					all = append(all, a.Segment)
				}
				return all, nil
			}
			for {
				select {
				case <-stop:
					return all, nil
				default:
				}
				if a := one(stores[caller%2], key(7, 0), 0); a.Err == nil {
					all = append(all, a.Segment)
				} else {
					check.Is(t, a.Err, model.ErrUnknownShard)
				}
			}
		})
		segments, last := slices.Concat(taken...), int64(0)
		slices.SortFunc(segments, func(a, b model.Segment) int { return cmp.Compare(a.First, b.First) })
		for _, s := range segments {
			if s.First <= last || s.Last < s.First {
				t.Fatalf("segment %d…%d after %d", s.First, s.Last, last)
			}
			last = s.Last
		}
	})
}

// What a copy of the database may lack is skipped, too, by an app or a tag that is deleted
// in doubt and comes back. Where that is not known, or lies in another period, it is not
// deleted.
func TestDeletionInDoubt(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, app(7))
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		run(t, s, "UPDATE id_alloc SET doubt = 5000 WHERE shard_id = 3",
			"INSERT INTO leaf_alloc (biz_tag, max_id, step, doubt) VALUES ('orders', 101, 10, 700), ('lost', 101, "+
				"10, 9000000000000000000)")
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

func scrambledApp(id uint8) model.App {
	a := app(id)
	a.Scramble = true
	return a
}

// loadOne gives what Load says about the first list, and what it says of rows that cannot
// be used.
func loadOne(t *testing.T, s *Store) (list model.ListConfig, bad []error) {
	t.Helper()
	s.opts.OnBadRow = func(err error) { bad = append(bad, err) }
	lists, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(lists) > 0 {
		list = lists[0]
	}
	return list, bad
}

// A scrambled app stays one, with one secret, whatever is done to it.
func TestScrambledStays(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, scrambledApp(7))
		provision(t, s, app(8))
		list, _ := loadOne(t, s)
		secret := list.Scramble
		if len(secret) < 50 {
			t.Fatalf("the secret is %q", secret)
		}
		if plain, err := s.App(t.Context(), 8); err != nil || plain.Scramble {
			t.Errorf("%+v, %v", plain, err)
		}
		check.Is(t, check.Err(s.ChangeApp(t.Context(), 7, model.AppChange{MaxLimitID: ptr(int64(1) << 40)})),
			model.ErrInvalidArgument, "a limit")
		if a, err := s.App(t.Context(), 7); err != nil || a.App != scrambledApp(7) {
			t.Errorf("%+v, %v", a, err)
		}
		check.OK(t, s.Migrate(t.Context(), nil), "again")
		wantSegment(t, one(s, key(7, 3), 0), 1, 1000)
		check.Must(t, check.Err(s.DeleteApp(t.Context(), 7, "test")))
		check.Is(t, check.Err(s.CreateApp(t.Context(), app(7))), model.ErrRefused, "plain again")
		check.Must(t, check.Err(s.CreateApp(t.Context(), scrambledApp(7))))
		if list, bad := loadOne(t, s); list.Scramble != secret || bad != nil {
			t.Errorf("now the secret is %q, %v", list.Scramble, bad)
		}
		wantSegment(t, one(s, key(7, 3), 0), 1001, 2000)

		// By hand, too: its rows come back, and are scrambled.
		run(t, s, "DELETE FROM id_alloc WHERE app_id = 7")
		run(t, s, "INSERT INTO id_alloc (app_id, app_name, max_id, shard_id) VALUES (7, 'test', 5000, 0)")
		if list, _ := loadOne(t, s); list.Scramble != secret {
			t.Errorf("a row by hand has the secret %q", list.Scramble)
		}

		// One that was plain is not scrambled later: a replica may still have it, and issue plain IDs.
		provision(t, s, app(9))
		wantSegment(t, one(s, key(8, 0), 0), 1, 1000)
		for id := range uint8(2) {
			check.Must(t, check.Err(s.DeleteApp(t.Context(), 8+id, "test")))
		}
		check.Is(t, check.Err(s.CreateApp(t.Context(), scrambledApp(8))), model.ErrRefused, "with plain IDs")
		check.Is(t, check.Err(s.CreateApp(t.Context(), scrambledApp(9))), model.ErrRefused, "without any")
		check.OK(t, check.Err(s.CreateApp(t.Context(), app(8))), "as it was")
	})
}

// With another secret, or none, IDs would repeat: the app is left out, and says why. A database that takes the place of
// a lost one scrambles no app with another secret.
func TestScrambleSecretChanged(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		provision(t, s, scrambledApp(7))
		const secret = "UPDATE shardid_deployment SET deployment = 'lost', witness = '', scramble_secret = "
		for _, other := range []string{"''", "'another'", "'unknown'"} {
			run(t, s, secret+other)
			list, bad := loadOne(t, s)
			if list.Scramble != "" || len(bad) != model.Shards ||
				!strings.Contains(bad[0].Error(), "restore scramble_secret of shardid_deployment from a backup") {
				t.Errorf("%s: %+v, %v", other, list, bad)
			}
		}
		check.OK(t, s.Migrate(t.Context(), nil), "which makes a secret where there is none")
		err := check.Err(s.CreateApp(t.Context(), scrambledApp(8)))
		check.Is(t, err, model.ErrRefused, "before the secret is known")
		check.Has(t, fmt.Sprint(err), "the place of deployment lost, whose secret")
		run(t, s, secret+"'of the backup'", "UPDATE id_alloc SET max_limit_id = 1000000")
		provision(t, s, scrambledApp(6))
		list, bad := loadOne(t, s)
		check.Equal(t, list.Scramble, "of the backup")
		check.Equal(t, len(bad), model.Shards, "rows that cannot be used")
	})
}
