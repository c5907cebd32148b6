package workerid_test

import (
	"context"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workerid"
	"shardid/scripts/check"
)

// records are a store that is only taken from, when nobody else does.
type records struct {
	workerid.Store
	all []workerid.Record
	now int64
}

func (r records) Take(_ context.Context, _ model.Owner, take workerid.Take) error {
	c := workerid.Choice{Moment: workerid.Moment{Now: r.now}, Among: 1}
	for id, record := range r.all {
		c.Slots = append(c.Slots, workerid.Slot{Record: record, ID: id})
	}
	return check.Err(take(c))
}

// TestChoice: who gets which of the worker IDs 0…2.
func TestChoice(t *testing.T) {
	const now, margin = 1_000_000, 5_000
	me := model.Owner{Address: "10.0.0.1:1", Identity: "me", Token: "t"}
	type record = workerid.Record
	live := record{Address: "10.0.0.9:1", Identity: "x", Token: "x", Reserved: now, Expires: now + 1}
	at := func(r record, expires int64) record { r.Reserved, r.Expires = 1, expires; return r }
	here := record{Address: me.Address, Identity: "x", Token: "x"}
	for name, c := range map[string]struct {
		records []record
		want    int   // -1: none
		after   int64 // of its lease
	}{
		"the one that its process has": {
			[]record{{Identity: "me"}, {Token: "t", Reserved: 7, Expires: now + 9}, {}}, 1, 7},
		"the one that its folder had": {
			[]record{{}, at(here, 3), {Identity: "me", Token: "x", Reserved: 7, Expires: now + 9}}, 2, 7},
		"the one that its address had": {[]record{{}, {}, at(here, now)}, 2, now},
		"not if a holder lives there":  {[]record{live, {}, at(here, now+1)}, 1, 0},
		"nor if it was taken a moment ago": {
			[]record{live, {}, {Address: me.Address, Token: "x", Acquired: now - 9_999}}, 1, 0},
		"nor if another program reports":     {[]record{live, {}, record{}.OfOthers(me.Address, 1, 1, now+1)}, 1, 0},
		"a new one before an old one":        {[]record{at(live, 4), {}, {}}, 1, 0},
		"the one that has ended longest ago": {[]record{at(live, 9), at(live, 3), at(live, 4)}, 1, 3},
		"one that has just been released": {
			[]record{live, {Address: "10.0.0.9:1", Reserved: now - 1, Expires: now - 1}, live}, 1, now - 1},
		"another program's, above what we had reserved": {
			[]record{live, at(live, 9).OfOthers("10.0.0.9:1", 1, 1, 2), live}, 1, 9},
		"none that may live by another clock": {
			[]record{at(live, now-margin), live, live}, -1, 0},
		"none that its last holder keeps": {
			[]record{live, {Address: "10.0.0.9:1", Reserved: 1, Expires: now + 1}, live}, -1, 0},
		"none of another program": {[]record{live, record{}.OfOthers("10.0.0.9:1", 1, 1, now-margin), live}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			store := records{all: c.records, now: now}
			lease, err := workerid.NewRegistry(store, margin*time.Millisecond).Acquire(t.Context(), me)
			if c.want < 0 {
				check.Is(t, err, model.ErrNoWorkerID)
				return
			}
			check.Must(t, err)
			check.Equal(t, lease.WorkerID, c.want)
			check.Equal(t, lease.After, c.after, "After")
		})
	}
}

// TestBounds: what a record keeps of the times that may have been used, whatever its owner or the next one says.
func TestBounds(t *testing.T) {
	had := workerid.Record{Identity: "me", Token: "t", Reserved: 50, Expires: 90}
	said := func(after, reserved, expires int64) model.Lease {
		return model.Lease{After: after, Reserved: reserved, Expires: expires}
	}
	for what, c := range map[string]struct {
		is                workerid.Record
		reserved, expires int64
	}{
		"renewed":                       {had.Renewed(said(10, 60, 100)), 60, 100},
		"renewed late":                  {had.Renewed(said(10, 40, 80)), 50, 90},
		"released":                      {had.Released(said(10, 45, 45)), 45, 45},
		"released, and kept for a time": {had.Released(said(10, 45, 70)), 45, 70},
		"released before an ID":         {had.Released(said(30, 0, 0)), 30, 30},
		"taken by the same identity":    {had.Taken(model.Owner{Identity: "me", Token: "u"}, 1), 50, 90},
		"taken from another program":    {workerid.Record{}.OfOthers("", 50, 40, 200).Taken(model.Owner{}, 1), 90, 90},
		"taken by another":              {had.Taken(model.Owner{Identity: "other", Token: "u"}, 1), 90, 90},
	} {
		check.Equal(t, c.is.Reserved, c.reserved, what, "Reserved")
		check.Equal(t, c.is.Expires, c.expires, what, "Expires")
	}
}
