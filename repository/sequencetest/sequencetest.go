// Package sequencetest is the contract that every store of sequences keeps: one test body, run
// over the store in the process and over Redis in each of its modes. It is imported by tests
// only.
package sequencetest

import (
	"context"
	"slices"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// Store is what the service needs of a store of sequences.
type Store interface {
	State(ctx context.Context, keys []model.SectionKey) []model.SectionState
	Next(ctx context.Context, asks []model.SectionAsk) []model.SectionAnswer
	Push(ctx context.Context, pushes []model.SectionPush) []error
	Confirm(ctx context.Context, key model.SectionKey) (server string, err error)
	Forget(ctx context.Context, space model.Space) error
}

// Run runs the contract. newStore is called once per subtest and gives a store without
// sections, which it also closes.
func Run(t *testing.T, newStore func(t *testing.T) Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"a section that is new", testNew},
		{"numbers rise up to the bound", testRise},
		{"what does not fit consumes nothing", testRefused},
		{"keys share nothing", testKeys},
		{"numbers that follow", testFollows},
		{"numbers that do not follow", testGap},
		{"numbers that come twice or late", testLate},
		{"numbers for another life", testOtherLife},
		{"a higher term begins anew", testTerm},
		{"a term or a life that is not the present one", testDry},
		{"the highest numbers are exact", testHighest},
		{"many sections in order", testMany},
		{"a space is forgotten", testForget},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newStore(t)) })
	}
}

// Key is a section of the space "s".
func Key(section int) model.SectionKey { return model.SectionKey{Space: "s", Section: section} }

// State asks for one section and fails the test on an error.
func State(t testing.TB, s Store, key model.SectionKey) model.SectionState {
	t.Helper()
	st := s.State(t.Context(), []model.SectionKey{key})[0]
	check.Must(t, st.Err)
	return st
}

// Push gives a section first…last under a term, in its present life.
func Push(t testing.TB, s Store, key model.SectionKey, term, first, last int64) error {
	t.Helper()
	push := model.SectionPush{Key: key, Term: term, Segment: model.Segment{First: first, Last: last}}
	push.Life = State(t, s, key).Life
	return s.Push(t.Context(), []model.SectionPush{push})[0]
}

// Ask asks a section in its present life.
func Ask(t testing.TB, s Store, key model.SectionKey, term int64, asks ...model.KeyAsk) model.SectionAnswer {
	t.Helper()
	a := s.Next(t.Context(), []model.SectionAsk{{Key: key, Server: State(t, s, key).Server, Term: term, Asks: asks}})[0]
	check.Must(t, a.Err)
	return a
}

// Want asks section 0 under a term for numbers, and fails the test unless the last ones are these.
func Want(t testing.TB, s Store, term int64, asks []model.KeyAsk, last ...int64) {
	t.Helper()
	if a := Ask(t, s, Key(0), term, asks...); a.Dry || !slices.Equal(a.Last, last) {
		t.Fatalf("asked %v, got %+v, want %v", asks, a, last)
	}
}

// Of asks for so many numbers of a key, one after the other.
func Of(key string, counts ...int64) (asks []model.KeyAsk) {
	for _, n := range counts {
		asks = append(asks, model.KeyAsk{Key: key, Count: n})
	}
	return asks
}

func fill(t testing.TB, s Store, term, first, last int64) {
	t.Helper()
	check.Must(t, Push(t, s, Key(0), term, first, last))
}

// A section that nobody has used has a life, no term and no bound, and gives nothing; its life
// stays the same, and its server is the one that Confirm gives.
func testNew(t *testing.T, s Store) {
	st := State(t, s, Key(0))
	if st.Server == "" || model.ServerOf(st.Life) != st.Server || st.Term != 0 || st.Bound != 0 {
		t.Errorf("%+v", st)
	}
	check.Equal(t, State(t, s, Key(0)), st, "the state again")
	server, err := s.Confirm(t.Context(), Key(0))
	check.OK(t, err)
	check.Equal(t, server, st.Server, "the server")
	for _, term := range []int64{0, 1} {
		check.Equal(t, Ask(t, s, Key(0), term, Of("k", 1)...).Dry, true, "term", term)
	}
	fill(t, s, 1, 1, 10)
	after := State(t, s, Key(0))
	st.Term, st.Bound = 1, 10
	check.Equal(t, after, st, "the state after numbers")
}

// Numbers of a key rise without a gap, up to exactly the bound. A look gives how far it has come, or the
// base for one that is new, and takes nothing; of nothing there is nothing to do.
func testRise(t *testing.T, s Store) {
	fill(t, s, 101, 101, 110)
	Want(t, s, 101, Of("k", 0, 1, 1, 0, 3), 100, 101, 102, 102, 105)
	Want(t, s, 101, Of("k", 4), 109)
	Want(t, s, 101, nil)
	Want(t, s, 101, Of("k", 1, 0), 110, 110)
	Want(t, s, 101, Of("k", 1), model.NoNumber)
	Want(t, s, 101, Of("j", 10), 110)
	check.Equal(t, Ask(t, s, Key(0), 101, Of("k", 0)...).Bound, 110, "bound")
	answers := len(s.State(t.Context(), nil)) + len(s.Push(t.Context(), nil)) + len(s.Next(t.Context(), nil))
	check.Equal(t, answers, 0, "answers")
}

// From the first ask on that does not fit none is answered, smaller ones and looks neither, as
// that would be out of order; the numbers that it did not get are there for the next.
func testRefused(t *testing.T, s Store) {
	fill(t, s, 1, 1, 10)
	no := int64(model.NoNumber)
	Want(t, s, 1, append(Of("k", 4, 7, 1, 0), Of("j", 1, 0)...), 4, no, no, no, no, no)
	Want(t, s, 1, append(Of("k", 0), Of("j", 0)...), 4, 0)
	Want(t, s, 1, Of("k", 7), no)
	Want(t, s, 1, Of("new", 11, 1), no, no)
	Want(t, s, 1, Of("k", 6), 10)
	Want(t, s, 1, Of("new", 10), 10)
	check.Equal(t, State(t, s, Key(0)).Bound, 10, "bound")
}

// A key is any bytes: none is taken for another, nor for what the store keeps beside them.
func testKeys(t *testing.T, s Store) {
	fill(t, s, 1, 1, 100)
	keys := []string{"k", "K", "k ", " k", " ", "\n", "k\n", "\x00", "k\x00", "\x00k", ":", ":k", "::k",
		"用户", "\xff\xfe", "h", "e", "d", "t", "b", "m", "0", "-", "-1", "%s", "'",
		string(make([]byte, model.MaxSequenceKey))}
	for round := range int64(3) {
		for i, key := range keys {
			Want(t, s, 1, Of(key, int64(i+1)), (round+1)*int64(i+1))
		}
	}
	st := State(t, s, Key(0))
	check.Equal(t, st.Term, 1, "term")
	check.Equal(t, st.Bound, 100, "bound")
}

// Numbers that follow those before leave no gap.
func testFollows(t *testing.T, s Store) {
	fill(t, s, 1, 1, 10)
	Want(t, s, 1, Of("k", 8), 8)
	fill(t, s, 1, 11, 20)
	Want(t, s, 1, Of("k", 4), 12)
	Want(t, s, 1, Of("new", 1), 1)
	Want(t, s, 1, Of("k", 8, 1), 20, model.NoNumber)
}

// Where numbers were skipped, every key continues above them: they may have been given elsewhere.
func testGap(t *testing.T, s Store) {
	fill(t, s, 1, 1, 10)
	Want(t, s, 1, Of("k", 8), 8)
	fill(t, s, 1, 51, 60)
	Want(t, s, 1, Of("k", 0), 50)
	Want(t, s, 1, Of("k", 4, 7, 1), 54, model.NoNumber, model.NoNumber)
	Want(t, s, 1, Of("new", 11), model.NoNumber)
	Want(t, s, 1, append(Of("new", 1), Of("k", 6)...), 51, 60)
	Want(t, s, 1, Of("other", 10), 60)
}

// Numbers that come again, or after higher ones, come to nothing.
func testLate(t *testing.T, s Store) {
	fill(t, s, 5, 11, 20)
	fill(t, s, 5, 21, 30)
	before := State(t, s, Key(0))
	for _, p := range [][3]int64{{5, 21, 30}, {5, 11, 20}, {5, 30, 40}, {5, 5, 100}, {4, 31, 40}, {0, 31, 40}} {
		check.Is(t, Push(t, s, Key(0), p[0], p[1], p[2]), model.ErrNotAboveHighWater, p)
	}
	check.Equal(t, State(t, s, Key(0)), before, "the state")
	Want(t, s, 5, Of("k", 20, 1), 30, model.NoNumber)
}

// Numbers that were allocated for another life come to nothing, also for a section that is new.
func testOtherLife(t *testing.T, s Store) {
	fill(t, s, 1, 1, 10)
	before := State(t, s, Key(0))
	for _, key := range []model.SectionKey{Key(0), Key(1)} {
		for _, life := range []string{"", "x", before.Life + "0", "x" + before.Life, before.Server + "-"} {
			push := model.SectionPush{Key: key, Life: life, Term: 11, Segment: model.Segment{First: 11, Last: 20}}
			check.Is(t, s.Push(t.Context(), []model.SectionPush{push})[0], model.ErrLifeChanged, key, life)
		}
	}
	check.Equal(t, State(t, s, Key(0)), before, "the state")
	check.Equal(t, State(t, s, Key(1)).Term, 0, "term of a section that is new")
}

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
		first := int64(1000*i + 1)
		pushes[i] = model.SectionPush{Key: keys[i], Life: st.Life, Term: first,
			Segment: model.Segment{First: first, Last: first + 9}}
		asks[i] = model.SectionAsk{Key: keys[i], Server: st.Server, Term: first,
			Asks: Of("k", slices.Repeat([]int64{1}, i%12+1)...)}
	}
	pushes[3].Life, asks[70].Server = "x", "x"
	for i, err := range s.Push(t.Context(), pushes) {
		if i == 3 {
			check.Is(t, err, model.ErrLifeChanged)
			continue
		}
		check.OK(t, err, i)
	}
	for i, a := range s.Next(t.Context(), asks) {
		check.OK(t, a.Err, i)
		check.Equal(t, a.Dry, i == 3 || i == 70, "dry", i)
		check.Equal(t, a.Dry || len(a.Last) == i%12+1, true, "answers", i, a)
		for j, last := range a.Last {
			want := int64(1000*i + j + 1)
			if j >= 10 {
				want = model.NoNumber
			}
			check.Equal(t, last, want, i, j)
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
