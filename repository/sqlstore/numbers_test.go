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
	"shardid/scripts/check"
)

var daily = model.Numbering{Pattern: "ORD-{yyyyMMdd}-{seq:8}", Reset: model.ResetDay, Zone: "Asia/Shanghai", Overflow: model.OverflowWiden} //nolint:gochecknoglobals // a constant

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

// A period begins at 1, above whatever the counter was; one that began is never opened
// again, and in a doubt numbers are left out in the present period.
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
		set("max_id = %d", at(1, 5))
		take(model.TagSegment{First: at(1, 5), End: at(1, 105)}) // the clock went back, or this replica's is behind

		set("max_id = %d, doubt = 777", at(-1, 5000))
		run(t, s, fmt.Sprintf("UPDATE shardid_deployment SET jump_from = %d", time.Now().Add(-time.Second).UnixMilli()))
		take(model.TagSegment{First: at(0, 778), End: at(0, 878), Jumped: 777})
		set("max_id = %d, doubt = 777", at(-2, 5000))
		run(t, s, fmt.Sprintf("UPDATE shardid_deployment SET jump_from = %d", time.Now().Add(-30*time.Hour).UnixMilli()))
		take(model.TagSegment{First: at(0, 1), End: at(0, 101)}) // no copy can have opened today
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
		wantTag(t, s, model.TagRequest{Tag: "orders", Numbers: numbers}, model.TagSegment{First: today + 1, End: today + 101, Step: 100})
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "orders"})), model.ErrInvalidArgument)
		check.Is(t, check.Err(s.AllocateTag(ctx, model.TagRequest{Tag: "plain", Numbers: numbers})), model.ErrInvalidArgument)
		tags, err := s.Tags(ctx)
		if err != nil || len(tags) != 2 || tags[0].Numbering != daily || tags[1].Numbering != (model.Numbering{}) {
			t.Fatalf("tags %+v, %v", tags, err)
		}
		tag, err := s.Tag(ctx, "orders")
		if err != nil || tag.Numbering != daily {
			t.Fatalf("tag %+v, %v", tag, err)
		}
		for _, name := range []string{"orders", "plain"} {
			check.Must(t, check.Err(s.DeleteTag(ctx, name)))
		}
		add := func(name string, n model.Numbering) error {
			return check.Err(s.CreateTag(ctx, model.Tag{Name: name, MaxID: 1, Step: 100, Numbering: n}))
		}
		other := daily
		other.Zone = "UTC"
		err = add("orders", other)
		if check.Is(t, err, model.ErrRefused); err != nil && !strings.Contains(err.Error(), daily.Pattern+" with reset day, zone Asia/Shanghai") {
			t.Error(err)
		}
		check.Is(t, add("orders", model.Numbering{}), model.ErrRefused)
		check.Is(t, add("plain", daily), model.ErrRefused)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM leaf_alloc"), 0, "tags after refusals")
		check.Must(t, add("orders", daily))
		wantTag(t, s, model.TagRequest{Tag: "orders", Numbers: numbers}, model.TagSegment{First: today + 101, End: today + 201, Step: 100})

		next := today + 1<<numbers.Bits()
		for maxID, want := range map[int64]error{today + 1000: nil, next: model.ErrRefused} {
			if _, _, err := s.ChangeTag(ctx, "orders", model.TagChange{MaxID: &maxID}); !errors.Is(err, want) {
				t.Errorf("max_id %d: %v, want %v", maxID, err, want)
			}
		}
		check.Is(t, check.Err(s.CreateTag(ctx, model.Tag{Name: "late", MaxID: 7, Step: 1, Numbering: daily})), model.ErrInvalidArgument)
		check.Is(t, add("wrong", model.Numbering{Pattern: "{seq:4}", Reset: model.ResetDay}), model.ErrInvalidArgument)
		check.Must(t, check.Err(s.CreateTag(ctx, model.Tag{Name: "on", MaxID: 7, Step: 1, Numbering: model.Numbering{Pattern: "C{seq:4}", Reset: model.ResetNone}})))
	})
}

// What is known to be handed out does not shrink a doubt about business numbers: it may lie
// in another period than what is missing.
func TestNumbersSettleWithTheirPeriod(t *testing.T) {
	numbers, err := daily.Numbers()
	check.Must(t, err)
	start := int64(20_000) << numbers.Bits()
	row := tagRow{MaxID: start - 1000, Step: 10, Numbering: daily, Counter: counterRow{Doubt: 500}}
	c, _, err := new(Store).tagCounter(&gorm.DB{Statement: &gorm.Statement{Context: t.Context()}}, &moment{}, row)
	check.Must(t, err)
	next := c.Raise(start + 100)
	if next.Last != start+100 || next.Doubt != 500 {
		t.Errorf("%+v", next)
	}
}
