//go:build unix

package sqlstore

import (
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// A space is made, told, changed and deleted; one of the name continues above all that was handed
// out, but not before replicas have forgotten the first one.
func TestSpaces(t *testing.T) {
	onBothEmpty(t, func(t *testing.T, opts Options) {
		off := time.Duration(0)
		if opts.Driver == SQLite {
			opts.Now = func() time.Time { return time.Now().Add(off) }
		}
		s, ctx := openMigrated(t, opts), t.Context()
		first := addSpace(t, s, "s", 3)
		addSpace(t, s, "r", 1)
		check.Is(t, check.Err(s.CreateSpace(ctx, first)), model.ErrExists)
		check.Is(t, check.Err(s.CreateSpace(ctx, model.Space{Name: "a/b", Sections: 1, Step: 1})),
			model.ErrInvalidArgument)
		grants(t, s, sectionAsk(1, "a-1", 0, 0), sectionAsk(2, "a-1", 0, 500))
		all, err := s.Spaces(ctx)
		check.OK(t, err)
		check.Equal(t, fmt.Sprintf("%+v", all), "[{Space:{Name:r Sections:1 Step:10} Used:0 Highest:0} "+
			"{Space:{Name:s Sections:3 Step:10} Used:2 Highest:510}]", "spaces")
		testChangeSpace(t, s)

		gone, err := s.DeleteSpace(ctx, "s")
		check.OK(t, err)
		check.Equal(t, gone.Sections, 3, "sections of what was deleted")
		check.Is(t, check.Err(s.DeleteSpace(ctx, "s")), model.ErrUnknownSpace)
		check.Is(t, check.Err(s.Space(ctx, "s")), model.ErrUnknownSpace)
		check.Is(t, grants(t, s, sectionAsk(1, "a-1", 1, 10))[0].Err, model.ErrUnknownSpace)
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_section"), 1, "rows")
		again := model.Space{Name: "s", Sections: 5, Step: 10}
		check.Is(t, check.Err(s.CreateSpace(ctx, again)), model.ErrRefused, "at once")
		check.Is(t, check.Err(s.Space(ctx, "s")), model.ErrUnknownSpace)
		if off = 15 * time.Second; s.server != nil {
			run(t, s, "UPDATE shardid_sequence_deleted SET deleted_at = deleted_at - 15000")
		}
		check.Must(t, check.Err(s.CreateSpace(ctx, again)))
		for n := range 5 {
			g := grant(t, s, sectionAsk(n, "a-1", 0, 0))
			if g.Segment.First <= 510 || g.Term <= 510 {
				t.Errorf("section %d began with %+v", n, g)
			}
		}
	})
}

// The step of a space counts at once; its sections never change.
func testChangeSpace(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	before, after, err := s.ChangeSpace(ctx, "s", 20)
	check.OK(t, err)
	check.Equal(t, before, model.Space{Name: "s", Sections: 3, Step: 10}, "before")
	check.Equal(t, after, model.Space{Name: "s", Sections: 3, Step: 20}, "after")
	for step, want := range map[int64]error{0: model.ErrInvalidArgument,
		model.MaxSequenceStep + 1: model.ErrInvalidArgument} {
		check.Is(t, check.Err(s.ChangeSpace(ctx, "s", step)), want, step)
	}
	check.Is(t, check.Err(s.ChangeSpace(ctx, "none", 1)), model.ErrUnknownSpace)
	check.Equal(t, grant(t, s, sectionAsk(1, "a-1", 1, 10)).Segment, model.Segment{First: 11, Last: 30},
		"numbers after the change")
	f, err := s.RenewFence(ctx, nil, "here")
	check.OK(t, err)
	found := false
	for _, space := range f.Spaces {
		found = found || space == after
	}
	check.Equal(t, found, true, "the fence knows the space as it is")
}

// The doubt about a space is ended by an operator, and a space that is in too large a doubt is not
// deleted before.
func TestConfirmSpace(t *testing.T) {
	t.Parallel()
	s := mariaDB(t, Options{})
	addSpace(t, s, "s", 3)
	wantGrant(t, grant(t, s, sectionAsk(0, "a-1", 0, 0)), 1, true, 1)
	n, err := s.ConfirmSpace(t.Context(), "s")
	check.OK(t, err)
	check.Equal(t, n, 0, "nothing waits")
	run(t, s, "UPDATE shardid_deployment SET beat_at = beat_at - 100000000000") // more than model.MaxGap
	anotherServer(t, s, 10*time.Second)
	check.Is(t, grants(t, s, sectionAsk(1, "a-1", 1, 10))[0].Err, model.ErrUnconfirmed)
	check.Is(t, check.Err(s.DeleteSpace(t.Context(), "s")), model.ErrRefused)
	check.Is(t, check.Err(s.ConfirmSpace(t.Context(), "none")), model.ErrUnknownSpace)
	n, err = s.ConfirmSpace(t.Context(), "s")
	check.OK(t, err)
	check.Equal(t, n, 3, "what waited")
	wantGrant(t, grant(t, s, sectionAsk(0, "a-1", 1, 10)), 11, false, 11)
	check.OK(t, check.Err(s.DeleteSpace(t.Context(), "s")))
}
