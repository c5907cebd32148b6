package model_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// held is an open row of a section whose numbers up to 100 are taken, the last of them a minute ago, with changes.
func held(life string, changes ...func(*model.SectionRow)) model.SectionRow {
	r := model.SectionRow{Counter: model.Counter{Last: 100, At: noon.Add(-time.Minute)}, Life: life, Term: 91,
		Open: true}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// A section goes to another life of Redis only where it may, each time under a higher term, and is open only where no
// lease of an earlier term can live. The life that has it gets its term, numbers where it wants some, and has it opened
// for the term that it has known.
func TestSections(t *testing.T) {
	ask := func(life string, term, bound, want int64) model.SectionRequest {
		return model.SectionRequest{Life: life, Term: term, Bound: bound, Want: want}
	}
	own := func(want int64) model.SectionRequest { return ask("a-1", 91, 100, want) }
	claim := func(life string, open int64) model.SectionRequest {
		return model.SectionRequest{Life: life, Claim: true, Open: open, Want: 1}
	}
	open := func(term int64) model.SectionRequest {
		return model.SectionRequest{Life: "a-1", Term: 91, Bound: 100, Open: term}
	}
	unsure := func(doubt int64) func(*model.SectionRow) { // perhaps a copy's, which may lack so many numbers
		return func(r *model.SectionRow) { r.Unsure, r.Doubt = true, doubt }
	}
	used := func(after time.Duration) func(*model.SectionRow) {
		return func(r *model.SectionRow) { r.At = noon.Add(after) }
	}
	left := func(n int64) func(*model.SectionRow) {
		return func(r *model.SectionRow) { r.Last = model.MaxSequence - n }
	}
	shut := func(r *model.SectionRow) { r.Open = false }
	const most = int64(model.MaxSequence)
	none := model.SectionRow{}
	for name, c := range map[string]struct {
		row   model.SectionRow
		req   model.SectionRequest
		floor int64
		want  any // the term, whether it is open, and the numbers; or an error
	}{
		"the first claim opens at once":             {none, ask("a-1", 0, 0, 1), 0, "1 open 1…10"},
		"the first claim takes numbers anyway":      {none, ask("a-1", 0, 0, 0), 0, "1 open 1…10"},
		"the first claim is above the floor":        {none, ask("a-1", 0, 0, 1), 500, "501 open 501…510"},
		"it takes more than a step":                 {none, ask("a-1", 0, 0, 25), 0, "1 open 1…25"},
		"another server is refused":                 {held("a-1"), ask("b-1", 0, 0, 1), 0, model.ErrFence},
		"and is refused its term":                   {held("a-1"), ask("b-1", 91, 100, 0), 0, model.ErrFence},
		"another server that claims waits":          {held("a-1"), claim("b-1", 0), 0, "101 shut 101…110"},
		"a claim does not open by itself":           {held("a-1"), claim("b-1", 91), 0, "101 shut 101…110"},
		"another life on the server needs no claim": {held("a-1"), ask("a-2", 0, 0, 1), 0, "101 shut 101…110"},
		"a server whose name has a hyphen":          {held("a-x-1"), ask("a-y-1", 0, 0, 1), 0, model.ErrFence},
		"who had it is not known":                   {held("?"), ask("b-1", 0, 0, 1), 0, "101 shut 101…110"},
		"a claim takes no heed of one a moment ago": {held("a-1", used(0)), claim("b-1", 0), 0, "101 shut 101…110"},
		"a claim asks for the highest number too":   {held("a-1"), claim("b-1", 0), most, model.ErrLimitReached},

		"a copy that lacks numbers":    {held("a-1", unsure(50)), own(0), 0, "151 shut 151…160"},
		"a copy whose floor is higher": {held("a-1", unsure(0)), own(0), 130, "131 shut 131…140"},
		"and for another server": {held("a-1", unsure(50)), ask("b-1", 0, 0, 1), 0,
			"151 shut 151…160"},
		"a copy that knew nobody is shut": {model.SectionRow{Unsure: true}, ask("a-1", 0, 0, 1), 20,
			"21 shut 21…30"},
		"a copy that lacks nothing keeps its term": {held("a-1", unsure(0)), own(0), 100, "91 open"},
		"and refuses another server":               {held("a-1", unsure(0)), ask("b-1", 0, 0, 1), 100, model.ErrFence},
		"a sure row with a higher floor keeps it":  {held("a-1"), own(1), 130, "91 open 131…140"},
		"a doubt is too large": {held("a-1", unsure(model.UnknownDoubt)), own(1), 0,
			model.ErrUnconfirmed},

		"it wants nothing":              {held("a-1"), own(0), 0, "91 open"},
		"it wants numbers":              {held("a-1"), own(1), 0, "91 open 101…110"},
		"it wants more than a step has": {held("a-1"), own(11), 0, "91 open 101…111"},
		"numbers of a term that waits":  {held("a-1", shut), own(1), 0, "91 shut 101…110"},
		"the term is opened":            {held("a-1", shut), open(91), 0, "91 open"},
		"an earlier term is not":        {held("a-1", shut), open(90), 0, "91 shut"},
		"a later term is not":           {held("a-1", shut), open(92), 0, "91 shut"},
		"an open term stays open":       {held("a-1"), open(7), 0, "91 open"},
		"numbers are on their way":      {held("a-1", used(0)), ask("a-1", 91, 90, 1), 0, model.ErrSectionBusy},
		"the term is on its way":        {held("a-1", used(0)), ask("a-1", 0, 100, 1), 0, model.ErrSectionBusy},
		"they arrived at once":          {held("a-1", used(0)), own(1), 0, "91 open 101…110"},
		"only the term while they are":  {held("a-1", used(0)), ask("a-1", 91, 90, 0), 0, "91 open"},
		"they are lost":                 {held("a-1", used(-time.Second)), ask("a-1", 91, 90, 1), 0, "91 open 101…110"},
		"a clock that was set back":     {held("a-1", used(time.Second)), ask("a-1", 91, 90, 1), 0, "91 open 101…110"},
		"the last numbers": {held("a-1", left(3)), ask("a-1", 91, most-3, 1), 0,
			"91 open 9007199254740989…9007199254740991"},
		"none are left":                {held("a-1", left(0)), ask("a-1", 91, most, 1), 0, model.ErrLimitReached},
		"none are left, only the term": {held("a-1", left(0)), ask("a-1", 91, most, 0), 0, "91 open"},
	} {
		t.Run(name, func(t *testing.T) {
			grant, next, err := c.row.Next(c.req, c.floor, 10, model.MaxSequence, true, noon)
			if refusal, isRefused := c.want.(error); isRefused {
				check.Is(t, err, refusal)
				check.Equal(t, next, c.row, "the row")
				check.Equal(t, grant.Segment, model.Segment{}, "numbers")
				return
			}
			check.Must(t, err)
			got := fmt.Sprint(grant.Term, map[bool]string{true: " open", false: " shut"}[grant.Open])
			if grant.Segment.Len() > 0 {
				got += fmt.Sprintf(" %d…%d", grant.Segment.First, grant.Segment.Last)
			}
			check.Equal(t, got, fmt.Sprint(c.want))
			stored := model.SectionRow{Counter: next.Counter, Life: c.req.Life, Term: grant.Term, Open: grant.Open,
				Unsure: c.row.Unsure}
			check.Equal(t, next, stored, "stored")
			check.Equal(t, next.Last, max(grant.Segment.Last, c.row.Last), "highest number")
		})
	}
	grant, _, err := held("a-1").Next(claim("b-1", 0), 0, 10, model.MaxSequence, false, noon)
	if err != nil || !grant.Open {
		t.Errorf("where nothing is fenced a claim opens at once: %+v, %v", grant, err)
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
