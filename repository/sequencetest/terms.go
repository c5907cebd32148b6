package sequencetest

import (
	"slices"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// A higher term begins above its base for every key, whatever came before; a lower one comes to
// nothing.
func testTerm(t *testing.T, s Store) {
	fill(t, s, 1, 1, 10)
	Want(t, s, 1, Of("k", 10), 10)
	fill(t, s, 21, 21, 30)
	check.Equal(t, Ask(t, s, Key(0), 1, Of("k", 1)...).Dry, true, "the term before")
	Want(t, s, 21, append(Of("k", 0, 1), Of("new", 1)...), 20, 21, 21)
	check.Is(t, Push(t, s, Key(0), 1, 41, 50), model.ErrNotAboveHighWater, "the term before")
	// Also one whose numbers are below: a key counts from the base of its term on only.
	fill(t, s, 22, 5, 8)
	Want(t, s, 22, Of("k", 0, 4, 1), 4, 8, model.NoNumber)
	st := State(t, s, Key(0))
	check.Equal(t, st.Term, 22, "term")
	check.Equal(t, st.Bound, 8, "bound")
}

// Who asks for another life or under another term gets nothing, and takes nothing.
func testDry(t *testing.T, s Store) {
	fill(t, s, 5, 11, 20)
	server := State(t, s, Key(0)).Server
	for _, ask := range []model.SectionAsk{
		{Key: Key(0), Server: server, Term: 4}, {Key: Key(0), Server: server, Term: 6}, {Key: Key(0), Server: server},
		{Key: Key(0), Server: server + "0", Term: 5}, {Key: Key(0), Server: "", Term: 5},
		{Key: Key(1), Server: server, Term: 5},
	} {
		ask.Asks = append(Of("k", 1, 0), Of("j", 3)...)
		a := s.Next(t.Context(), []model.SectionAsk{ask})[0]
		if a.Err != nil || !a.Dry || len(a.Last) > 0 {
			t.Errorf("%+v: %+v", ask, a)
		}
	}
	Want(t, s, 5, append(Of("k", 1), Of("j", 1)...), 11, 11)
}

// Numbers up to the highest are exact, and none is above.
func testHighest(t *testing.T, s Store) {
	const most = model.MaxSequence
	fill(t, s, most-4, most-4, most)
	Want(t, s, most-4, Of("k", 0, 2, 1, 2), most-5, most-3, most-2, most)
	Want(t, s, most-4, Of("k", 1), model.NoNumber)
	Want(t, s, most-4, Of("j", model.MaxBatch), model.NoNumber)
	Want(t, s, most-4, Of("j", 5), most)
	st := State(t, s, Key(0))
	check.Equal(t, st.Bound, most, "bound")
	check.Equal(t, st.Term, most-4, "term")
}

// Many sections, of several lives and in one call, are answered in order, each by itself.
func testMany(t *testing.T, s Store) {
	const sections = 300
	keys := make([]model.SectionKey, sections)
	for i := range keys {
		keys[i] = Key(i)
	}
	states := s.State(t.Context(), keys)
	pushes, asks := make([]model.SectionPush, sections), make([]model.SectionAsk, sections)
	for i, st := range states {
		check.Must(t, st.Err)
		first := int64(1000 * i)
		pushes[i] = model.SectionPush{Key: keys[i], Life: st.Life, Term: first + 1,
			Segment: model.Segment{First: first + 1, Last: first + 10}}
		asks[i] = model.SectionAsk{Key: keys[i], Server: st.Server, Term: first + 1,
			Asks: Of("k", slices.Repeat([]int64{1}, i%12+1)...)}
		switch i % 10 {
		case 3:
			pushes[i].Life = "x"
		case 7:
			asks[i].Server = "x"
		}
	}
	for i, err := range s.Push(t.Context(), pushes) {
		if i%10 == 3 {
			check.Is(t, err, model.ErrLifeChanged, i)
			continue
		}
		check.OK(t, err, i)
	}
	for i, a := range s.Next(t.Context(), asks) {
		check.OK(t, a.Err, i)
		check.Equal(t, a.Dry, i%10 == 3 || i%10 == 7, "dry", i)
		for j, last := range a.Last {
			want := int64(1000*i + j + 1)
			if j >= 10 {
				want = model.NoNumber
			}
			check.Equal(t, last, want, i, j)
		}
		if !a.Dry && len(a.Last) != i%12+1 {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

// The sections of a space that was deleted are gone; those of others are not, and another space of
// the name begins under its term.
func testForget(t *testing.T, s Store) {
	for section := range 3 {
		check.Must(t, Push(t, s, Key(section), 1, 1, 10))
	}
	other := model.SectionKey{Space: "s_1", Section: 0}
	check.Must(t, Push(t, s, other, 1, 1, 10))
	check.Must(t, s.Forget(t.Context(), model.Space{Name: "s", Sections: 2, Step: 1}))
	for section, term := range []int64{0, 0, 1} {
		check.Equal(t, Ask(t, s, Key(section), 1, Of("k", 1)...).Dry, term == 0, "section", section)
		check.Equal(t, State(t, s, Key(section)).Term, term, "term of section", section)
	}
	check.Equal(t, State(t, s, other).Bound, 10, "another space")
	check.Must(t, s.Forget(t.Context(), model.Space{Name: "s", Sections: 2, Step: 1}))
	fill(t, s, 11, 11, 20)
	Want(t, s, 11, Of("k", 1), 11)
}
