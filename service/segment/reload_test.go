package segment_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
)

// A change that is committed counts as soon as Reload has returned.
func TestReloadTakesAChangeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable(10, "orders")
		r := ready(t, db)
		if id, err := r.one("orders"); err != nil || id != 1 {
			t.Fatal(id, err)
		}
		db.set(func(db *table) { delete(db.rows, "orders") })
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if id, err := r.one("orders"); !errors.Is(err, model.ErrUnknownTag) {
			t.Errorf("got %d, %v of a removed tag", id, err)
		}
		now := time.Now()
		if got := r.NextReload(now); got.Sub(now) != time.Minute {
			t.Errorf("the next reload is in %v", got.Sub(now))
		}
	})
}
