package segment_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

//nolint:gochecknoglobals // a constant
var daily = model.Numbering{Pattern: "O{yyyyMMdd}-{seq:6}", Reset: model.ResetDay, Zone: "UTC",
	Overflow: model.OverflowWiden}

// numbered is a table with a tag of business numbers and a replica that serves it. The
// bubble's clock begins at midnight.
func numbered(t *testing.T, step int64, n model.Numbering) (*table, replica) {
	t.Helper()
	db := newTable(step, "plain")
	db.rows["orders"] = model.Tag{Name: "orders", MaxID: 1, Step: step, Numbering: n}
	return db, ready(t, db)
}

func (r replica) text(t *testing.T, want ...string) {
	t.Helper()
	got, err := r.Numbers(t.Context(), "orders", len(want), nil)
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("%q, %v, want %q", got, err, want)
	}
}

func TestNumbersBeginAgainAtMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := numbered(t, 100, daily)
		r.text(t, "O20000101-000001", "O20000101-000002")
		time.Sleep(24*time.Hour - time.Second)
		r.text(t, "O20000101-000003")
		held := r.view("orders").Held
		time.Sleep(time.Second)
		r.text(t, "O20000102-000001")
		if wasted := r.counted("wasted"); wasted < held {
			t.Errorf("%d of %d IDs were given up at midnight", wasted, held)
		}
		for _, s := range db.segments() {
			if numbers, _ := daily.Numbers(); numbers.PeriodOf(s.First) != numbers.PeriodOf(s.End-1) {
				t.Errorf("the segment %+v is of two days", s)
			}
		}
	})
}

func TestNumbersAreNoIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, r := numbered(t, 100, daily)
		for range 2 {
			check.Is(t, check.Err(r.one("orders")), model.ErrPattern)
			check.Is(t, check.Err(r.Run(t.Context(), "orders", model.ShardKey{})), model.ErrPattern, "a run")
		}
		if err := check.Err(r.Numbers(t.Context(), "plain", 1, nil)); !errors.Is(err, model.ErrInvalidArgument) ||
			errors.Is(err, model.ErrPattern) {
			t.Error(err)
		}
		check.Is(t, check.Err(r.Numbers(t.Context(), "none", 1, nil)), model.ErrUnknownTag)
		r.text(t, "O20000101-000001")
		db.set(func(db *table) { // by SQL; shardid refuses it
			row := db.rows["orders"]
			row.Pattern = "{yyyyMMdd}{seq:1}"
			db.rows["orders"] = row
		})
		check.OK(t, r.Reload(t.Context(), "orders"))
		check.Is(t, check.Err(r.Numbers(t.Context(), "orders", 1, nil)), model.ErrSegmentEmpty)
	})
}

// Those that are left are issued; then callers are refused until the next period.
func TestNumbersThatRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(23 * time.Hour)
		_, r := numbered(t, 4, model.Numbering{Pattern: "{yyyyMMdd}{seq:1}", Reset: model.ResetDay,
			Overflow: model.OverflowRefuse})
		for n := range 9 {
			r.text(t, fmt.Sprint("20000101", n+1))
		}
		check.Is(t, check.Err(r.Numbers(t.Context(), "orders", 1, nil)), model.ErrLimitReached)
		time.Sleep(time.Hour)
		r.text(t, "200001021")
	})
}
