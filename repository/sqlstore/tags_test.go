//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

func addTag(t testing.TB, s *Store, name string, step int64) {
	t.Helper()
	check.Must(t, check.Err(s.CreateTag(context.Background(), model.Tag{Name: name, MaxID: 1, Step: step})))
}

func wantTag(t testing.TB, s *Store, req model.TagRequest, want model.TagSegment) {
	t.Helper()
	got, err := s.AllocateTag(context.Background(), req)
	if err != nil || got != want {
		t.Fatalf("%+v gives %+v, %v, want %+v", req, got, err, want)
	}
}

func TestTagSegmentsFollowOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addTag(t, s, "a", 2000)
		addTag(t, s, "订单", 10)
		wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 1, End: 2001, Step: 2000})
		wantTag(t, s, model.TagRequest{Tag: "a", Step: 100}, model.TagSegment{First: 2001, End: 4001, Step: 2000})
		wantTag(t, s, model.TagRequest{Tag: "a", Step: 8000}, model.TagSegment{First: 4001, End: 12_001, Step: 2000})
		wantTag(t, s, model.TagRequest{Tag: "a", Floor: 12_001},
			model.TagSegment{First: 12_001, End: 14_001, Step: 2000})
		wantTag(t, s, model.TagRequest{Tag: "a", Floor: 20_000},
			model.TagSegment{First: 20_000, End: 22_000, Step: 2000, Lifted: 5999})
		run(t, s, "UPDATE leaf_alloc SET step = 5, max_id = -7 WHERE biz_tag = 'a'")
		wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: 1, End: 6, Step: 5})
		wantTag(t, s, model.TagRequest{Tag: "订单"}, model.TagSegment{First: 1, End: 11, Step: 10})
	})
}

func TestTagRefusals(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addTag(t, s, "a", 1000)
		run(t, s, fmt.Sprintf("INSERT INTO leaf_alloc (biz_tag, max_id, step) "+
			"VALUES ('full', %d, 1000), ('zero', 1, 0)", model.MaxTagID-1000))
		wantTag(t, s, model.TagRequest{Tag: "full"},
			model.TagSegment{First: model.MaxTagID - 1000, End: model.MaxTagID, Step: 1000})
		for name, want := range map[string]error{
			"b": model.ErrUnknownTag, "full": model.ErrLimitReached, "zero": model.ErrInvalidArgument,
		} {
			got, err := s.AllocateTag(t.Context(), model.TagRequest{Tag: name})
			var store *model.StoreError
			if !errors.Is(err, want) || errors.As(err, &store) || got != (model.TagSegment{}) {
				t.Errorf("tag %q: %+v, %v, want %v", name, got, err, want)
			}
		}
		for _, c := range []struct {
			tag  model.Tag
			want error
		}{
			{model.Tag{Name: "a", MaxID: 1, Step: 1}, model.ErrExists},
			{model.Tag{Name: "", MaxID: 1, Step: 1}, model.ErrInvalidArgument},
			{model.Tag{Name: "b", MaxID: 1, Step: 0}, model.ErrInvalidArgument},
			{model.Tag{Name: "b", MaxID: 0, Step: 1}, model.ErrInvalidArgument},
			{model.Tag{Name: "b", MaxID: model.MaxTagID - 999, Step: 1000}, model.ErrInvalidArgument},
			{model.Tag{Name: "b", MaxID: 1, Step: 1, Description: strings.Repeat("描", 257)}, model.ErrInvalidArgument},
		} {
			check.Is(t, check.Err(s.CreateTag(t.Context(), c.tag)), c.want, c.tag)
		}
		check.Equal(t, count(t, s, "SELECT SUM(max_id) FROM leaf_alloc WHERE biz_tag <> 'full'"), 1+1, "stored")
	})
}

// Tags are read in one order, also where Leaf's table ignores case, and a row that cannot be used is told.
// Of names that such a table takes for the same one exists, and the others are unknown, whatever is asked for.
func TestTagsAreRead(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		bad := 0
		opts.OnBadRow = func(error) { bad++ }
		s, ctx := openMigrated(t, opts), t.Context()
		if s.server != nil {
			for _, table := range []string{tagTable, numberTable, deletedTagTable} {
				run(t, s, "ALTER TABLE "+table+" MODIFY biz_tag varchar(128) CHARACTER SET utf8mb4 COLLATE "+
					"utf8mb4_general_ci NOT NULL")
			}
		}
		run(t, s, "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('tag0', 100), ('tag2', 100), ('TAG1x', 100), "+
			"('tag77', 0), ('"+strings.Repeat("长", 50)+"', 5)")
		numbering := model.Numbering{Pattern: "Z{seq:4}", Reset: model.ResetNone}
		numbered := model.Tag{Name: "zahlen", MaxID: 1, Step: model.MaxTagStep, Numbering: numbering,
			Description: strings.Repeat("描", 256)}
		check.Must(t, check.Err(s.CreateTag(ctx, numbered)))
		all, _, err := s.FindTags(ctx, "", 6)
		check.Must(t, err)
		var names []string
		for _, tag := range all {
			names = append(names, tag.Name)
		}
		slices.Sort(names)
		check.Equal(t, fmt.Sprint(names), "[TAG1x tag0 tag2 zahlen]", "tags")
		check.Equal(t, bad, 2, "rows that cannot be used")
		for limit := range 6 { // the first ones are the same, however many are read: pages rely on it
			first, _, err := s.FindTags(ctx, "", limit)
			check.Must(t, err)
			check.Equal(t, slices.Equal(first, all[:len(first)]), true, first)
		}
		one, err := s.Tag(ctx, "zahlen")
		if err != nil || one != all[3] || time.Since(one.UpdatedAt).Abs() > time.Minute {
			t.Errorf("%+v, %v", one, err)
		}
		one.UpdatedAt, one.Numbering = time.Time{}, numbering
		check.Equal(t, one, numbered)
		check.Is(t, check.Err(s.Tag(ctx, "none")), model.ErrUnknownTag)
		check.Is(t, check.Err(s.Tag(ctx, "tag77")), model.ErrInvalidArgument)
		tags, err := s.TagsNamed(ctx, []string{"tag2", "none", "zahlen", "tag77"})
		check.Must(t, err)
		check.Equal(t, len(tags) == 2 && tags[0].Name == "tag2" && tags[1].Pattern == "Z{seq:4}", true, tags)
		none, err := s.TagsNamed(ctx, nil)
		check.OK(t, err)
		check.Equal(t, len(none), 0, "tags of no names")

		for search, want := range map[string]string{
			"": "4 of 6", "TAG": "3 of 4", "g1X": "1 of 1", "长": "0 of 1",
			"t%1": "0 of 0", "a_2": "0 of 0", "!": "0 of 0",
		} {
			found, total, err := s.FindTags(ctx, search, 5)
			check.Must(t, err)
			check.Equal(t, fmt.Sprintf("%d of %d", len(found), total), want, search)
		}
		addTag(t, s, "Äpfel", 10)
		found, _, err := s.FindTags(ctx, "Äp", 5)
		check.OK(t, err)
		check.Equal(t, len(found), 1, "tags with Äp")
		found, total, err := s.FindTags(ctx, "tag", 2)
		if err != nil || len(found) != 2 || total != 4 || found[1].Name != "tag0" && found[1].Name != "TAG1x" {
			t.Errorf("%+v of %d, %v", found, total, err)
		}

		addTag(t, s, "Order", 10)
		order := model.TagRequest{Tag: "Order"}
		wantTag(t, s, order, model.TagSegment{First: 1, End: 11, Step: 10})
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "order"})), model.ErrUnknownTag)
		check.Is(t, check.Err(s.Tag(ctx, "order")), model.ErrUnknownTag)
		check.Is(t, check.Err(s.DeleteTag(ctx, "order")), model.ErrUnknownTag)
		err = check.Err(s.CreateTag(ctx, model.Tag{Name: "order", MaxID: 1, Step: 10}))
		if s.server != nil {
			check.Is(t, err, model.ErrExists)
		} else {
			check.OK(t, err)
		}
		wantTag(t, s, order, model.TagSegment{First: 11, End: 21, Step: 10})
	})
}

// A layout is recorded once, and since then IDs of it may have been issued.
func TestLayouts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ages := func(what string, least, most time.Duration) {
			t.Helper()
			age, err := s.LayoutAge(t.Context(), "uid")
			check.OK(t, err)
			if age < least || age > most {
				t.Errorf("%s: age %v", what, age)
			}
		}
		one := model.LayoutRecord{Kind: "uid", Layout: "28/22/13 from 2026-01-01"}
		other := model.LayoutRecord{Kind: "uid", Layout: strings.ToUpper(one.Layout)}
		check.OK(t, check.Err(s.HasLayout(t.Context(), other))) // it records nothing
		ages("none is recorded", 0, 0)
		for _, want := range []bool{false, true, true} {
			recorded, err := s.HasLayout(t.Context(), one)
			check.OK(t, err)
			check.Equal(t, recorded, want, "recorded")
			check.Must(t, s.LayoutOnce(t.Context(), one))
		}
		check.OK(t, s.LayoutOnce(t.Context(), model.LayoutRecord{Kind: "snowflake", Layout: one.Layout}))
		changed := s.LayoutOnce(t.Context(), other)
		check.Is(t, changed, model.ErrLayoutChanged)
		check.Has(t, fmt.Sprint(changed), "issued with "+one.Layout+", the configuration says "+other.Layout)
		ages("recorded now", 0, time.Minute)
		run(t, s, "UPDATE id_layout SET recorded_at = "+
			s.either("CURRENT_TIMESTAMP - INTERVAL 1 HOUR", "datetime('now', '-1 hour')"))
		ages("recorded an hour ago", time.Hour, time.Hour+time.Minute)
		if s.server != nil {
			run(t, s, "UPDATE shardid_deployment SET server = 'another'")
			ages("a copy may lack the first record", 10*365*24*time.Hour, 1<<62)
		}
	})
}

func TestChangeTag(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addTag(t, s, "订单", 10)
		wantTag(t, s, model.TagRequest{Tag: "订单"}, model.TagSegment{First: 1, End: 11, Step: 10})
		before, after, err := s.ChangeTag(t.Context(), "订单",
			model.TagChange{Step: ptr(int64(20)), MaxID: ptr(int64(500)), Description: ptr("d")})
		if err != nil || before.MaxID != 11 || after.MaxID != 500 || after.Step != 20 || after.Description != "d" ||
			after.Name != "订单" {
			t.Fatalf("from %+v\nto %+v, %v", before, after, err)
		}
		wantTag(t, s, model.TagRequest{Tag: "订单"}, model.TagSegment{First: 500, End: 520, Step: 20})
		lower := model.TagChange{MaxID: ptr(int64(519)), Step: ptr(int64(7))}
		check.Is(t, check.Err(s.ChangeTag(t.Context(), "订单", lower)), model.ErrRefused, "lower")
		none := model.TagChange{MaxID: ptr(int64(model.MaxTagID))}
		check.Is(t, check.Err(s.ChangeTag(t.Context(), "订单", none)), model.ErrInvalidArgument, "nothing left")
		if got, err := s.Tag(t.Context(), "订单"); err != nil || got.MaxID != 520 || got.Step != 20 {
			t.Errorf("now %+v, %v", got, err)
		}
		check.Is(t, check.Err(s.ChangeTag(t.Context(), "none", model.TagChange{Step: ptr(int64(7))})),
			model.ErrUnknownTag)
	})
}

// A tag that was deleted continues above what it had issued, on whatever road it
// comes back; only another name starts anew.
func TestDeletedTagGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addTag(t, s, "a", 2000)
		next := int64(1)
		for _, back := range []func(){
			func() {
				addTag(t, s, "a", 2000)
				check.Equal(t, count(t, s, "SELECT max_id FROM leaf_alloc"), next, "max_id, for Leaf's own programs")
			},
			func() { run(t, s, "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('a', 2000)") },
			func() { run(t, s, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 7, 2000)") },
		} {
			wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: next, End: next + 2000, Step: 2000})
			next += 2000
			if deleted, err := s.DeleteTag(t.Context(), "a"); err != nil || deleted.MaxID != next {
				t.Fatalf("deleted %+v, %v", deleted, err)
			}
			check.Is(t, check.Err(s.DeleteTag(t.Context(), "a")), model.ErrUnknownTag)
			back()
		}
		check.Is(t, check.Err(s.ChangeTag(t.Context(), "a", model.TagChange{MaxID: ptr(next - 1)})), model.ErrRefused,
			"below what was issued before the deletion")
		wantTag(t, s, model.TagRequest{Tag: "a"}, model.TagSegment{First: next, End: next + 2000, Step: 2000})
		addTag(t, s, "A", 2000)
		wantTag(t, s, model.TagRequest{Tag: "A"}, model.TagSegment{First: 1, End: 2001, Step: 2000})
		made, err := s.CreateTag(t.Context(), model.Tag{Name: "b", MaxID: 50, Step: 1})
		if err != nil || made.MaxID != 50 {
			t.Errorf("made %+v, %v", made, err)
		}
	})
}

//nolint:gochecknoglobals // a constant
var daily = model.Numbering{Pattern: "ORD-{yyyyMMdd}-{seq:8}", Reset: model.ResetDay, Zone: "Asia/Shanghai",
	Overflow: model.OverflowWiden}

// addNumbers adds a tag, and gives its numbers with today's period.
func addNumbers(t *testing.T, s *Store, name string, n model.Numbering) (*model.Numbers, int64) {
	t.Helper()
	_, err := s.CreateTag(t.Context(), model.Tag{Name: name, MaxID: 1, Step: 100, Numbering: n})
	check.Must(t, err)
	numbers, err := n.Numbers()
	check.Must(t, err)
	today, err := numbers.Period(time.Now())
	check.Must(t, err)
	return numbers, today << numbers.Bits()
}

// A period begins at 1, above whatever the counter was, and in a doubt numbers are skipped in the present period.
func TestNumbersOfPeriods(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		numbers, today := addNumbers(t, s, "orders", daily)
		req := model.TagRequest{Tag: "orders", Numbers: numbers}
		at := func(days, sequence int64) int64 { return today + days<<numbers.Bits() + sequence }
		take := func(want model.TagSegment) {
			t.Helper()
			want.Step = 100
			wantTag(t, s, req, want)
		}
		take(model.TagSegment{First: at(0, 1), End: at(0, 101)})
		take(model.TagSegment{First: at(0, 101), End: at(0, 201)})
		set := func(sets string, args ...any) {
			t.Helper()
			run(t, s, fmt.Sprintf("UPDATE leaf_alloc SET "+sets, args...))
		}
		set("max_id = %d", at(-1, 5000))
		take(model.TagSegment{First: at(0, 1), End: at(0, 101)})
		set("max_id = %d, doubt = 777", at(-1, 5000))
		run(t, s, fmt.Sprintf("UPDATE shardid_deployment SET jump_from = %d", time.Now().Add(-time.Second).UnixMilli()))
		take(model.TagSegment{First: at(0, 778), End: at(0, 878), Jumped: 777})
		set("max_id = %d, doubt = %d", at(-2, 5000), model.UnknownDoubt)
		check.Is(t, check.Err(s.AllocateTag(t.Context(), req)), model.ErrUnconfirmed)
	})
}

// A tag keeps how it is shown: a caller who would show it otherwise gets nothing, and it
// comes back as it was.
func TestNumbersNeverChange(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := context.Background()
		numbers, today := addNumbers(t, s, "orders", daily)
		addTag(t, s, "plain", 100)
		wantTag(t, s, model.TagRequest{Tag: "orders", Numbers: numbers},
			model.TagSegment{First: today + 1, End: today + 101, Step: 100})
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "orders"})), model.ErrInvalidArgument)
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "plain", Numbers: numbers})),
			model.ErrInvalidArgument)
		tags, _, err := s.FindTags(ctx, "", 2)
		if err != nil || len(tags) != 2 || tags[0].Numbering != daily || tags[1].Numbering != (model.Numbering{}) {
			t.Fatalf("tags %+v, %v", tags, err)
		}
		tag, err := s.Tag(ctx, "orders")
		if err != nil || tag.Numbering != daily {
			t.Fatalf("tag %+v, %v", tag, err)
		}
		wantTag(t, s, model.TagRequest{Tag: "plain"}, model.TagSegment{First: 1, End: 101, Step: 100})
		for _, name := range []string{"orders", "plain"} {
			check.Must(t, check.Err(s.DeleteTag(ctx, name)))
		}
		add := func(name string, n model.Numbering) error {
			return check.Err(s.CreateTag(ctx, model.Tag{Name: name, MaxID: 1, Step: 100, Numbering: n}))
		}
		other := daily
		other.Zone = "UTC"
		err = add("orders", other)
		if check.Is(t, err, model.ErrRefused); err != nil &&
			!strings.Contains(err.Error(), daily.Pattern+" with reset day, zone Asia/Shanghai") {
			t.Error(err)
		}
		check.Is(t, add("orders", model.Numbering{}), model.ErrRefused)
		check.Is(t, add("plain", daily), model.ErrRefused)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM leaf_alloc"), 0, "tags after refusals")
		check.Must(t, add("orders", daily))
		wantTag(t, s, model.TagRequest{Tag: "orders", Numbers: numbers},
			model.TagSegment{First: today + 101, End: today + 201, Step: 100})

		sharded, err := model.ShardNumbering(10)
		check.Must(t, err)
		check.Must(t, add("sharded", sharded))
		ask := model.TagRequest{Tag: "sharded", ShardBits: 10}
		wantTag(t, s, ask, model.TagSegment{First: 1, End: 101, Step: 100})
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "sharded"})), model.ErrInvalidArgument)
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "sharded", ShardBits: 9})),
			model.ErrInvalidArgument)
		tooFar := model.MaxTagNumber(10)
		check.Is(t, check.Err(s.ChangeTag(ctx, "sharded", model.TagChange{MaxID: &tooFar})), model.ErrInvalidArgument)
		check.Must(t, check.Err(s.DeleteTag(ctx, "sharded")))
		nine, _ := model.ShardNumbering(9)
		for _, n := range []model.Numbering{nine, daily, {}} {
			err := add("sharded", n)
			check.Is(t, err, model.ErrRefused, n)
			check.Has(t, fmt.Sprint(err), "10 shard bits")
		}
		check.Is(t, add("plain", sharded), model.ErrRefused, "it had plain IDs")
		check.Must(t, add("unused", model.Numbering{}))
		check.Must(t, check.Err(s.DeleteTag(ctx, "unused")))
		check.Must(t, add("unused", sharded))
		check.Must(t, add("sharded", sharded))
		wantTag(t, s, ask, model.TagSegment{First: 101, End: 201, Step: 100})

		next := today + 1<<numbers.Bits()
		for maxID, want := range map[int64]error{today + 1000: nil, next: model.ErrRefused} {
			if _, _, err := s.ChangeTag(ctx, "orders", model.TagChange{MaxID: &maxID}); !errors.Is(err, want) {
				t.Errorf("max_id %d: %v, want %v", maxID, err, want)
			}
		}
		check.Is(t, check.Err(s.CreateTag(ctx, model.Tag{Name: "late", MaxID: 7, Step: 1, Numbering: daily})),
			model.ErrInvalidArgument)
		check.Is(t, add("wrong", model.Numbering{Pattern: "{seq:4}", Reset: model.ResetDay}), model.ErrInvalidArgument)
		check.Must(t, check.Err(s.CreateTag(ctx,
			model.Tag{Name: "on", MaxID: 7, Step: 1,
				Numbering: model.Numbering{Pattern: "C{seq:4}", Reset: model.ResetNone}})))
	})
}

// What is known to be issued does not shrink a doubt about business numbers: it may lie
// in another period than what is missing.
func TestNumbersSettleWithTheirPeriod(t *testing.T) {
	numbers, err := daily.Numbers()
	check.Must(t, err)
	start := int64(20_000) << numbers.Bits()
	row := tagRow{MaxID: start - 1000, Step: 10, Numbering: daily, Counter: counterRow{Doubt: 500}}
	next := row.counted(&moment{}).counter(&moment{}).Raise(start + 100)
	if next.Last != start+100 || next.Doubt != 500 {
		t.Errorf("%+v", next)
	}
}

// The clock of a server that was replaced may have been ahead when it gave the last segment. The bucket then fills from
// when the present server was noted, and one of that server's own segments stays as it is.
func TestTheClockOfTheServerBefore(t *testing.T) {
	noted := time.Now().UnixMilli()
	m := &moment{deploymentRow: deploymentRow{Changes: 1, Since: noted}, changes: []changeRow{{Number: 1}}}
	for lastChange, want := range map[int64]int64{0: noted, 1: noted + 7_200_000} {
		row := m.listCounted(counterRow{LastChange: lastChange, TakenAt: noted + 7_200_000}, 5, "l:1_0")
		check.Equal(t, row.counter(m).At.UnixMilli(), want, "after change", lastChange)
	}
	row := m.listCounted(counterRow{TakenAt: noted - 1000}, 5, "l:1_0")
	check.Equal(t, row.counter(m).At.UnixMilli(), noted-1000, "a clock that was right")
}

// What an operator confirms is as high as its mark from then on, so that Redis may be lost.
func TestConfirmationReachesTheMark(t *testing.T) {
	s, w := witnessed(t)
	w.marks["t:t"], w.marks["l:1_0"] = 5000, 7000
	run(t, s, "UPDATE leaf_alloc SET doubt = 5",
		"UPDATE id_alloc SET doubt = 5, last_max_id = 9000, current_step = 77 WHERE shard_id = 0")
	check.Must(t, check.Err(s.ConfirmTag(t.Context(), "t")))
	check.Must(t, check.Err(s.ConfirmApp(t.Context(), 1, "test")))
	check.Equal(t, count(t, s, "SELECT max_id FROM leaf_alloc"), 5001, "max_id of the tag")
	check.Equal(t, count(t, s, "SELECT max_id FROM id_alloc WHERE shard_id = 0"), 7000, "max_id of the list")
	check.Equal(t, count(t, s, "SELECT last_max_id + current_step FROM id_alloc WHERE shard_id = 0"), 9077,
		"the rest of it")
}
