package model_test

import (
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// held is a row of a section whose numbers up to 100 are taken, the last of them a minute ago.
func held(life string, change func(*model.SectionRow)) model.SectionRow {
	r := model.SectionRow{Counter: model.Counter{Last: 100, At: noon.Add(-time.Minute)}, Life: life, Term: 91,
		Open: true}
	if change != nil {
		change(&r)
	}
	return r
}

// sectionCase is a request to a row: fenced, with a step of 10, at noon, and above floor.
type sectionCase struct {
	row      model.SectionRow
	req      model.SectionRequest
	floor    int64
	unfenced bool

	term        int64 // answered, and stored
	open        bool
	first, last int64 // 0 for no segment
	err         error
}

func (c sectionCase) run(t *testing.T) {
	t.Helper()
	grant, next, err := c.row.Next(c.req, c.floor, 10, model.MaxSequence, !c.unfenced, noon)
	check.Is(t, err, c.err)
	if err != nil {
		check.Equal(t, next, c.row, "the row of a request that was refused")
		check.Equal(t, grant.Segment, model.Segment{}, "numbers of a request that was refused")
		return
	}
	check.Equal(t, grant.Term, c.term, "term")
	check.Equal(t, grant.Open, c.open, "open")
	check.Equal(t, next.Term, c.term, "stored term")
	check.Equal(t, next.Open, c.open, "stored open")
	check.Equal(t, next.Life, c.req.Life, "stored life")
	check.Equal(t, grant.Segment, model.Segment{First: c.first, Last: c.last}, "numbers")
	check.Equal(t, next.Last, max(c.last, c.row.Last), "highest number")
}

// unsure is a row that may be a copy's, with a doubt of so many numbers.
func unsure(doubt int64) func(*model.SectionRow) {
	return func(r *model.SectionRow) { r.Unsure, r.Doubt = true, doubt }
}

// asks is a request of a life that knows a term and a bound, and wants numbers.
func asks(life string, term, bound, want int64) model.SectionRequest {
	return model.SectionRequest{Life: life, Term: term, Bound: bound, Want: want}
}

// A section goes to another life of Redis only where it may, each time under a higher term, and is
// open only where no lease of an earlier term can live.
func TestSectionIsClaimed(t *testing.T) {
	a, b := asks("a-1", 0, 0, 1), asks("b-1", 0, 0, 1)
	none, row, claim := model.SectionRow{}, held("a-1", nil), b
	claim.Claim = true
	opening := claim
	opening.Open = 91
	takenNow := held("a-1", func(r *model.SectionRow) { r.At = noon })
	knewNobody := held("", func(r *model.SectionRow) { *r = model.SectionRow{Unsure: true} })
	lacksSome, lacksNone := held("a-1", unsure(50)), held("a-1", unsure(0))
	unknown := held("a-1", unsure(model.UnknownDoubt))
	const first, last = 101, 110 // of the next numbers
	for name, c := range map[string]sectionCase{
		"the first claim opens at once":    {row: none, req: a, term: 1, open: true, first: 1, last: 10},
		"it takes numbers anyway":          {row: none, req: asks("a-1", 0, 0, 0), term: 1, open: true, first: 1, last: 10},
		"it is above the floor":            {row: none, req: a, floor: 500, term: 501, open: true, first: 501, last: 510},
		"it takes more than a step":        {row: none, req: asks("a-1", 0, 0, 25), term: 1, open: true, first: 1, last: 25},
		"another server is refused":        {row: row, req: b, err: model.ErrFence},
		"and is refused its term":          {row: row, req: asks("b-1", 91, 100, 0), err: model.ErrFence},
		"another server that claims waits": {row: row, req: claim, term: first, first: first, last: last},
		"a claim does not open by itself":  {row: row, req: opening, term: first, first: first, last: last},
		"another life on the server needs no claim": {row: row, req: asks("a-2", 0, 0, 1), term: first, first: first,
			last: last},
		"a server whose name has a hyphen": {row: held("a-x-1", nil), req: asks("a-y-1", 0, 0, 1), err: model.ErrFence},
		"who had it is not known": {row: held(model.UnknownLife, nil), req: b, term: first, first: first,
			last: last},
		"unfenced opens at once": {row: row, req: claim, unfenced: true, term: first, open: true, first: first,
			last: last},
		"a claim takes no heed of one a moment ago": {row: takenNow, req: claim, term: first, first: first, last: last},
		"a claim asks for the highest number too": {row: row, req: claim, floor: model.MaxSequence,
			err: model.ErrLimitReached},
		"a copy that lacks numbers": {row: lacksSome, req: asks("a-1", 91, 100, 0), term: 151, first: 151, last: 160},
		"a copy whose floor is higher": {row: lacksNone, req: asks("a-1", 91, 100, 0), floor: 130, term: 131, first: 131,
			last: 140},
		"a copy that lacks numbers, and another server": {row: lacksSome, req: b, term: 151, first: 151, last: 160},
		"a copy that knew nobody is not open":           {row: knewNobody, req: a, floor: 20, term: 21, first: 21, last: 30},
		"a copy that lacks nothing keeps its term": {row: lacksNone, req: asks("a-1", 91, 100, 0), floor: 100, term: 91,
			open: true},
		"and refuses another server": {row: lacksNone, req: b, floor: 100, err: model.ErrFence},
		"a sure row with a higher floor keeps it": {row: row, req: asks("a-1", 91, 100, 1), floor: 130, term: 91,
			open: true, first: 131, last: 140},
		"a doubt is too large": {row: unknown, req: asks("a-1", 91, 100, 1), err: model.ErrUnconfirmed},
	} {
		t.Run(name, c.run)
	}
}

// The life that has a section gets its term, numbers where it wants some, and has it opened for
// the term that it has known.
func TestSectionGoesOn(t *testing.T) {
	row, shut := held("a-1", nil), held("a-1", func(r *model.SectionRow) { r.Open = false })
	before := func(d time.Duration) model.SectionRow {
		return held("a-1", func(r *model.SectionRow) { r.At = noon.Add(-d) })
	}
	end := func(left int64) model.SectionRow {
		return held("a-1", func(r *model.SectionRow) { r.Last = model.MaxSequence - left })
	}
	look, one := asks("a-1", 91, 100, 0), asks("a-1", 91, 100, 1)
	behind, atEnd := asks("a-1", 91, 90, 1), asks("a-1", 91, model.MaxSequence, 1)
	opens := func(term int64) model.SectionRequest {
		look := look
		look.Open = term
		return look
	}
	for name, c := range map[string]sectionCase{
		"it wants nothing": {row: row, req: look, term: 91, open: true},
		"it wants numbers": {row: row, req: one, term: 91, open: true, first: 101, last: 110},
		"it wants more than a step": {row: row, req: asks("a-1", 91, 100, 11), term: 91, open: true, first: 101,
			last: 111},
		"numbers of a term that waits": {row: shut, req: one, term: 91, first: 101, last: 110},
		"the term is opened":           {row: shut, req: opens(91), term: 91, open: true},
		"an earlier term is not":       {row: shut, req: opens(90), term: 91},
		"a later term is not":          {row: shut, req: opens(92), term: 91},
		"an open term stays open":      {row: row, req: opens(7), term: 91, open: true},
		"numbers are on their way":     {row: before(0), req: behind, err: model.ErrSectionBusy},
		"the term is on its way":       {row: before(0), req: asks("a-1", 0, 100, 1), err: model.ErrSectionBusy},
		"they arrived at once":         {row: before(0), req: one, term: 91, open: true, first: 101, last: 110},
		"only the term while they are": {row: before(0), req: asks("a-1", 91, 90, 0), term: 91, open: true},
		"they are lost":                {row: before(time.Second), req: behind, term: 91, open: true, first: 101, last: 110},
		"a clock that was set back":    {row: before(-time.Second), req: behind, term: 91, open: true, first: 101, last: 110},
		"the last numbers": {row: end(3), req: asks("a-1", 91, model.MaxSequence-3, 1), term: 91, open: true,
			first: model.MaxSequence - 2, last: model.MaxSequence},
		"none are left":                {row: end(0), req: atEnd, err: model.ErrLimitReached},
		"none are left, only the term": {row: end(0), req: asks("a-1", 91, model.MaxSequence, 0), term: 91, open: true},
	} {
		t.Run(name, c.run)
	}
}

// A key has its section for ever: another one may have lower numbers.
func TestSectionOfAKey(t *testing.T) {
	for key, want := range map[string][3]int{ // of 1024, 16384 and 7 sections
		"a": {140, 11404, 5}, "foobar": {1000, 10216, 6}, "order:1": {594, 4690, 2}, "用户:42": {63, 15423, 4},
		"\x00\xff\n": {286, 1310, 3},
	} {
		for i, sections := range []int{1024, 16_384, 7} {
			space := model.Space{Name: "s", Sections: sections, Step: 1}
			check.Equal(t, space.SectionOf(key), want[i], key, "of", sections)
			hash := fnv.New64a()
			_, _ = hash.Write([]byte(key))
			check.Equal(t, space.SectionOf(key), int(hash.Sum64()%uint64(sections)), key, "by the hash")
		}
	}
	check.Equal(t, model.Space{Sections: 1}.SectionOf("any"), 0, "the only section")
}

// A life of a section names the life of its server before the last hyphen.
func TestServerOf(t *testing.T) {
	for life, want := range map[string]string{"a-1": "a", "a-b-1": "a-b", "a": "a", "": "", "?": "?", "a-": "a"} {
		check.Equal(t, model.ServerOf(life), want, life)
	}
}

// What cannot be a space, a step or a key is refused.
func TestSequenceArguments(t *testing.T) {
	const sections, step = model.MaxSections, model.MaxSequenceStep
	refused := map[bool]error{false: model.ErrInvalidArgument}
	for space, good := range map[model.Space]bool{
		{Name: "orders.v1", Sections: sections, Step: step}: true, {Name: "s", Sections: 1, Step: 1}: true,
		{Sections: 1, Step: 1}: false, {Name: "a/b", Sections: 1, Step: 1}: false, {Name: "s", Step: 1}: false,
		{Name: "s", Sections: sections + 1, Step: 1}: false, {Name: "s", Sections: 1}: false,
		{Name: "s", Sections: 1, Step: -1}: false, {Name: "s", Sections: 1, Step: step + 1}: false,
	} {
		check.Is(t, space.Validate(), refused[good], space)
	}
	long := strings.Repeat("k", model.MaxSequenceKey)
	for key, good := range map[string]bool{"\x00": true, " \n:": true, "\xff\xfe": true, long: true, "": false,
		long + "k": false} {
		check.Is(t, model.CheckSequenceKey(key), refused[good], key)
	}
}
