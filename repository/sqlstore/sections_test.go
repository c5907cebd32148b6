//go:build unix

package sqlstore

import (
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// addSpace makes a space with a step of 10.
func addSpace(t testing.TB, s *Store, name string, sections int) model.Space {
	t.Helper()
	space, err := s.CreateSpace(t.Context(), model.Space{Name: name, Sections: sections, Step: 10})
	check.Must(t, err)
	return space
}

func section(n int) model.SectionKey { return model.SectionKey{Space: "s", Section: n} }

// sectionAsk is a request of a section of space s that wants a number.
func sectionAsk(n int, life string, term, bound int64) model.SectionRequest {
	return model.SectionRequest{Key: section(n), Life: life, Term: term, Bound: bound, Want: 1}
}

// grants answers requests, of a store at "here" that no majority decides about.
func grants(t testing.TB, s *Store, reqs ...model.SectionRequest) []model.SectionGrant {
	t.Helper()
	return s.AllocateSections(t.Context(), reqs, "here", false)
}

func grant(t testing.TB, s *Store, req model.SectionRequest) model.SectionGrant {
	t.Helper()
	g := grants(t, s, req)[0]
	check.Must(t, g.Err)
	return g
}

// wantGrant fails the test unless a grant is for a term, and has numbers from first on, ten of them.
func wantGrant(t testing.TB, g model.SectionGrant, term int64, open bool, first int64) {
	t.Helper()
	segment := model.Segment{First: first, Last: first + 9}
	if first == 0 {
		segment = model.Segment{}
	}
	if g.Err != nil || g.Term != term || g.Open != open || g.Segment != segment {
		t.Fatalf("got %+v, want term %d, open %t, numbers %+v", g, term, open, segment)
	}
}

// fence renews leases at "here".
func fence(t testing.TB, s *Store, servers ...string) map[string]int64 {
	t.Helper()
	f, err := s.RenewFence(t.Context(), servers, "here")
	check.Must(t, err)
	check.Equal(t, f.Changes, s.Changes(), "changes of the server")
	return f.Numbers
}

// arrive lets the numbers that sections took a moment ago be lost.
func arrive(t testing.TB, s *Store) {
	t.Helper()
	run(t, s, "UPDATE shardid_section SET taken_at = taken_at - 1000")
}

// Sections of one call are answered in order, each by its own row, which has the time of its numbers; who is known gets
// more without a claim, and one that is unknown nothing.
func TestAllocateSections(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addSpace(t, s, "s", 4)
		addSpace(t, s, "s_1", 1)
		other := model.SectionRequest{Key: model.SectionKey{Space: "s_1"}, Life: "a-1", Want: 25}
		gone, far := other, sectionAsk(4, "a-1", 0, 0)
		gone.Key.Space = "none"
		all := grants(t, s, sectionAsk(3, "a-1", 0, 0), gone, sectionAsk(0, "a-1", 0, 500), far, other)
		wantGrant(t, all[0], 1, true, 1)
		check.Is(t, all[1].Err, model.ErrUnknownSpace)
		wantGrant(t, all[2], 501, true, 501) // above what Redis has
		check.Is(t, all[3].Err, model.ErrUnknownSpace)
		check.Equal(t, all[4].Segment, model.Segment{First: 1, Last: 25}, "more than a step")
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_section WHERE taken_at > 0"), 3, "with their time")
		wantGrant(t, grant(t, s, sectionAsk(3, "a-1", 1, 10)), 1, true, 11)
		arrive(t, s)
		wantGrant(t, grant(t, s, sectionAsk(3, "a-1", 1, 10)), 1, true, 21)
		look := sectionAsk(3, "a-1", 1, 30)
		look.Want = 0
		wantGrant(t, grant(t, s, look), 1, true, 0)
		check.Equal(t, count(t, s, "SELECT max_id FROM shardid_section WHERE space = 's' AND section = 3"), 30,
			"max_id")
		check.Equal(t, count(t, s, "SELECT COUNT(*) FROM shardid_section WHERE term > 0"), 3, "sections that were used")
	})
}

// On a server a section goes from one life of Redis to another only with a claim, and to one at
// another place only once the first is not used any more; its term is then to be opened. In a
// file, which one process has, nobody else can have a lease.
func TestSectionGoesToAnotherLife(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		addSpace(t, s, "s", 4)
		fence(t, s, "a", "b")
		grants(t, s, sectionAsk(0, "a-1", 0, 0), sectionAsk(1, "a-1", 0, 0), sectionAsk(2, "a-1", 0, 0))
		waits := s.server != nil

		wantGrant(t, grant(t, s, sectionAsk(0, "a-2", 0, 0)), 11, !waits, 11) // it was deleted: no claim
		check.Is(t, grants(t, s, sectionAsk(1, "b-1", 0, 0))[0].Err, model.ErrFence)
		claim := sectionAsk(1, "b-1", 0, 0)
		claim.Claim = true
		if elsewhere := s.AllocateSections(t.Context(), []model.SectionRequest{claim}, "there", false)[0]; waits {
			check.Is(t, elsewhere.Err, model.ErrFence, "from another place")
			run(t, s, "UPDATE shardid_fence SET renewed_at = renewed_at - 6000 WHERE server = 'a'")
			elsewhere = s.AllocateSections(t.Context(), []model.SectionRequest{claim}, "there", false)[0]
			wantGrant(t, elsewhere, 11, false, 11)
		}
		third := sectionAsk(2, "b-1", 0, 0)
		third.Claim = true
		fence(t, s, "a")
		sure := s.AllocateSections(t.Context(), []model.SectionRequest{third}, "there", true)[0]
		wantGrant(t, sure, 11, !waits, 11)
		open := model.SectionRequest{Key: section(2), Life: "b-1", Term: 11, Bound: 20, Open: 11}
		wantGrant(t, grant(t, s, open), 11, true, 0)
		open.Open = 0
		wantGrant(t, grant(t, s, open), 11, true, 0) // it is stored
	})
}

// When a life loses a section, to another or as its space is deleted, leases of it get another number,
// for all who renew them; those of other lives keep theirs.
func TestLostSectionEndsLeases(t *testing.T) {
	s := mariaDB(t, Options{})
	addSpace(t, s, "s", 4)
	before := fence(t, s, "a", "b", "c")
	check.Equal(t, len(before), 3, "numbers")
	for server, number := range fence(t, s, "a", "b", "c") {
		check.Equal(t, number, before[server], "renewed", server)
	}
	g := grant(t, s, sectionAsk(0, "a-1", 0, 0))
	check.Equal(t, g.Number, before["a"], "number of a grant")
	check.Equal(t, g.Changes, s.Changes(), "changes of a grant")
	check.Equal(t, fence(t, s, "a")["a"], before["a"], "after the first claim")

	claim := sectionAsk(0, "b-1", 0, 0)
	claim.Claim = true
	g = grant(t, s, claim)
	check.Equal(t, g.Number, before["b"], "who took it")
	after := fence(t, s, "a", "b", "c")
	if after["a"] == before["a"] || after["b"] != before["b"] || after["c"] != before["c"] {
		t.Errorf("%v, before %v", after, before)
	}
	// A section that another follows on the same server: its leases too, and the answer has the new number.
	g = grant(t, s, sectionAsk(0, "b-2", 0, 0))
	last := fence(t, s, "a", "b")
	if last["b"] == after["b"] || last["a"] != after["a"] || g.Number != last["b"] {
		t.Errorf("%v, before %v, the answer has %d", last, after, g.Number)
	}
	// A replica that stood still while the space was deleted and added again does not continue by its lease.
	check.Must(t, check.Err(s.DeleteSpace(t.Context(), "s")))
	if end := fence(t, s, "a", "b"); end["b"] == last["b"] || end["a"] != last["a"] {
		t.Errorf("%v after the deletion, before %v", end, last)
	}
}

// lag makes section 0 that of a copy from before its second segment and its claim by b.
func lag(t *testing.T, s *Store) {
	t.Helper()
	run(t, s, "UPDATE shardid_section SET max_id = 10, life = 'a-1', term = 1, open = 1 WHERE section = 0")
}

// A copy of the database lacks that b took the section from a. With a witness it knows that it
// lacks something: neither continues under the term that the copy has, and the next is above all. A space
// that the copy lacks is made again above the mark of all its sections where the witness vouches; where
// nobody does, above the doubt, and nobody is taken for the first.
func TestSectionOfACopy(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{"the witness vouches": {Witness: aWitness()}, "nobody does": {}} {
		t.Run(name, func(t *testing.T) {
			s := mariaDB(t, opts)
			addSpace(t, s, "s", 2)
			grants(t, s, sectionAsk(0, "a-1", 0, 0), sectionAsk(1, "a-1", 0, 0))
			claim := sectionAsk(0, "b-1", 0, 0)
			claim.Claim = true
			wantGrant(t, grant(t, s, claim), 11, false, 11)
			addSpace(t, s, "gone", 2)
			gone := model.SectionRequest{Key: model.SectionKey{Space: "gone"}, Life: "a-1", Want: 1}
			far := gone
			far.Key.Section, far.Bound = 1, 3000
			grants(t, s, gone, far)
			changes := s.Changes()
			lag(t, s)
			run(t, s, "DELETE FROM shardid_section WHERE space = 'gone'",
				"DELETE FROM shardid_sequence WHERE name = 'gone'")
			anotherServer(t, s, 10*time.Second)
			look := sectionAsk(0, "a-1", 1, 10)
			look.Want = 0
			g := grant(t, s, look)
			if g.Open || g.Term <= 11 || g.Segment.First <= 20 || g.Changes != changes+1 {
				t.Errorf("the section that lacks a claim: %+v", g)
			}
			untouched := sectionAsk(1, "a-1", 1, 10)
			untouched.Want = 0
			if g = grant(t, s, untouched); opts.Witness != nil {
				wantGrant(t, g, 1, true, 0)
			} else if g.Open || g.Term <= 10 {
				t.Errorf("one that may lack a claim: %+v", g)
			}
			addSpace(t, s, "gone", 2)
			g = grant(t, s, gone)
			if g.Open || g.Segment.First <= 3010 || opts.Witness != nil && g.Segment.First != 3011 {
				t.Errorf("a space that it lacks: %+v", g)
			}
		})
	}
}

// Settled rows are as high as their marks, and who gives their numbers is not known: the next is
// not open.
func TestSettleSections(t *testing.T) {
	t.Parallel()
	w := aWitness()
	s := mariaDB(t, Options{Witness: w})
	addSpace(t, s, "s", 3)
	grants(t, s, sectionAsk(0, "a-1", 0, 0), sectionAsk(1, "a-1", 0, 0))
	claim := sectionAsk(0, "b-1", 0, 0)
	claim.Claim = true
	grant(t, s, claim)
	check.Equal(t, w.marks["q:s_0"], 20, "mark of the section")
	check.Equal(t, w.marks["s:s"], 20, "mark of the space")
	w.marks["q:lost_7"], w.marks["s:lost"] = 700, 900
	lag(t, s)
	anotherServer(t, s, 10*time.Second)
	check.Must(t, s.Beat(t.Context())) // settles
	check.Equal(t, count(t, s, "SELECT settled FROM shardid_change"), 1, "settled")
	check.Equal(t, text(t, s, "SELECT CONCAT(max_id, ' ', life) FROM shardid_section WHERE section = 0"), "20 ?",
		"the row that lacked numbers")
	check.Equal(t, text(t, s, "SELECT CONCAT(max_id, ' ', life) FROM shardid_section WHERE section = 1"), "10 a-1",
		"a row that lacked none")
	w.lose("r2")
	check.Must(t, s.Beat(t.Context()))
	wantGrant(t, grant(t, s, sectionAsk(0, "a-1", 1, 10)), 21, false, 21)
	wantGrant(t, grant(t, s, sectionAsk(1, "a-1", 1, 10)), 1, true, 11)
	// A space of which there are marks only has a tombstone.
	check.Equal(t, count(t, s, "SELECT max_id FROM shardid_sequence_deleted WHERE name = 'lost'"), 900, "tombstone")
	check.Is(t, check.Err(s.CreateSpace(t.Context(), model.Space{Name: "lost", Sections: 1, Step: 10})),
		model.ErrRefused)
	run(t, s, "UPDATE shardid_sequence_deleted SET deleted_at = deleted_at - 15000")
	addSpace(t, s, "lost", 1)
	g := grant(t, s, model.SectionRequest{Key: model.SectionKey{Space: "lost"}, Life: "a-1", Want: 1})
	check.Equal(t, g.Segment.First, 901, "the first number")
}

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
