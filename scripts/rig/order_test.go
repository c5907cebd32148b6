package rig

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// replay checks a history that is over.
func replay(history []Call) *Order {
	o := &Order{Keep: true}
	type event struct {
		at   time.Duration
		call int
		ends bool
	}
	var events []event
	for i, c := range history {
		events = append(events, event{c.Asked, i, false})
		if c.Answered > 0 {
			events = append(events, event{c.Answered, i, true})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	flying := make([]*Asking, len(history))
	for _, e := range events {
		switch c := history[e.call]; {
		case !e.ends:
			flying[e.call] = o.Ask(c.By, c.Key)
		case c.Current:
			flying[e.call].Is(c.Last)
		default:
			flying[e.call].Got(c.First, c.Last)
		}
	}
	for i, c := range history {
		if c.Answered == 0 {
			flying[i].Lost()
		}
	}
	return o
}

// got and is are calls of key "a"; one that is answered at 0 has no answer.
func got(asked, answered time.Duration, first, last int64) Call {
	return Call{Key: "a", Asked: asked, Answered: answered, First: first, Last: last}
}

func is(asked, answered time.Duration, current int64) Call {
	return Call{Key: "a", Asked: asked, Answered: answered, Current: true, Last: current}
}

// TestOrderNotices: each history that is wrong breaks one rule, so that the rule is needed.
func TestOrderNotices(t *testing.T) {
	other := got(3, 4, 1, 1)
	other.Key = "b"
	for name, c := range map[string]struct {
		want    string // how the one problem begins
		history []Call
	}{
		"one after the other": {"", []Call{
			got(1, 2, 1, 1), got(3, 4, 2, 5), is(5, 6, 5), is(7, 8, 5), got(9, 10, 6, 6),
		}},
		"gaps": {"", []Call{
			got(1, 2, 7, 7), got(3, 4, 100, 102), is(5, 6, 900), got(7, 8, 901, 901),
		}},
		"at once, in any order": {"", []Call{
			got(1, 10, 3, 3), got(2, 11, 1, 2), is(3, 12, 0), is(4, 13, 2), is(5, 14, 3),
		}},
		"of two keys": {"", []Call{got(1, 2, 5, 5), other}},
		"a call without an answer": {"", []Call{
			got(1, 2, 1, 1), got(3, 0, 0, 0), got(4, 5, 3, 3), is(6, 0, 0), got(8, 9, 4, 4),
		}},
		"current of nothing":             {"", []Call{is(1, 2, 0), got(3, 4, 1, 1)}},
		"current above all":              {"", []Call{got(1, 2, 1, 1), is(3, 4, 1), is(5, 8, 9), got(6, 7, 10, 10)}},
		"the highest number":             {"", []Call{got(1, 2, 1<<53-2, 1<<53-1), is(3, 4, 1<<53-1)}},
		"lower than one answered before": {"BACK", []Call{got(1, 2, 5, 5), got(3, 4, 4, 4)}},
		"lower than an earlier one":      {"BACK", []Call{got(1, 2, 9, 9), got(3, 14, 10, 10), got(4, 5, 4, 4)}},
		"a run that begins too low":      {"BACK", []Call{got(1, 2, 5, 5), got(3, 4, 4, 4), got(5, 6, 6, 9)}},
		"lower than the end of a run":    {"BACK", []Call{got(1, 2, 5, 9), got(3, 4, 4, 4)}},
		"current too low":                {"BACK", []Call{got(1, 2, 5, 9), is(3, 4, 8)}},
		"current goes back":              {"BACK", []Call{is(1, 2, 9), is(3, 4, 8)}},
		"not above current":              {"BACK", []Call{is(1, 2, 9), got(3, 4, 9, 9)}},
		"twice at once":                  {"DUPLICATE", []Call{got(1, 3, 5, 5), got(2, 4, 5, 5)}},
		"runs that overlap at once":      {"DUPLICATE", []Call{got(1, 3, 5, 8), got(2, 4, 8, 9)}},
		"twice after many": {"DUPLICATE", []Call{
			got(1, 100, 5, 5), got(2, 3, 5, 5), got(4, 5, 6, 6), got(6, 7, 7, 9),
		}},
		"current within a run":             {"WITHIN", []Call{got(1, 3, 5, 8), is(2, 4, 7)}},
		"current within a run, before it":  {"WITHIN", []Call{is(1, 3, 5), got(2, 4, 5, 8)}},
		"within a run of an earlier one":   {"WITHIN", []Call{is(1, 9, 5), got(2, 4, 5, 8), got(5, 6, 9, 9)}},
		"above what JavaScript tells":      {"no answer", []Call{got(1, 2, 1<<53, 1<<53)}},
		"zero":                             {"no answer", []Call{got(1, 2, 0, 0)}},
		"a run that begins below 1":        {"no answer", []Call{got(1, 2, -1, 1)}},
		"a run that ends before it begins": {"no answer", []Call{got(1, 2, 3, 2)}},
		"current below 0":                  {"no answer", []Call{is(1, 2, -1)}},
	} {
		t.Run(name, func(t *testing.T) {
			o := replay(c.history)
			got := strings.Join(o.Problems(), "\n")
			if c.want == "" && got != "" || c.want != "" && (!strings.HasPrefix(got, c.want) || len(o.Problems()) > 1) {
				t.Errorf("%q, want %q", got, c.want)
			}
			check.Equal(t, o.Tally().Back > 0, c.want == "BACK", "counted as such")
			if strings.HasPrefix(c.want, "no ") {
				return // porcupine's register knows no bounds
			}
			check.Equal(t, Linear(o.History()), c.want == "", "porcupine says")
		})
	}
}

// answers are those of a register that rises to calls of two keys, which are asked by so many
// at once and take effect at any instant in between.
func answers(rnd *rand.Rand, calls, callers int) (history []Call) {
	free := make([]time.Duration, callers)
	for range calls {
		i := rnd.IntN(callers)
		c := Call{By: fmt.Sprint(i), Key: string(rune('a' + rnd.IntN(2))), Current: rnd.IntN(3) == 0}
		c.Asked = free[i] + 1 + time.Duration(rnd.IntN(10))
		free[i] = c.Asked + 2 + time.Duration(rnd.IntN(20))
		c.Answered = free[i]
		history = append(history, c)
	}
	when := map[int]int{}
	for i, c := range history {
		when[i] = int(c.Asked) + 1 + rnd.IntN(int(c.Answered-c.Asked)-1)
	}
	order := rnd.Perm(calls)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(when[a], when[b]) })
	last := map[string]int64{}
	for _, i := range order {
		c := &history[i]
		if !c.Current {
			c.First = last[c.Key] + 1 + rnd.Int64N(2)
			last[c.Key] = c.First + rnd.Int64N(3)
		}
		c.Last = last[c.Key]
		if rnd.IntN(10) == 0 {
			c.Answered, c.First, c.Last = 0, 0, 0
		}
	}
	return history
}

// TestOrderAgreesWithPorcupine on random histories: what a register answered, and what it
// answered with a number changed here and there.
func TestOrderAgreesWithPorcupine(t *testing.T) {
	check.Deep(t)
	verdicts := map[bool]int{}
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		history := answers(rnd, 4+rnd.IntN(20), 1+rnd.IntN(5))
		changes := rnd.IntN(3)
		for range changes {
			if c := &history[rnd.IntN(len(history))]; c.Answered > 0 {
				by := max(1-c.First, rnd.Int64N(7)-3)
				if c.Last += by; c.Current {
					c.Last = max(0, c.Last)
				} else {
					c.First += by
				}
			}
		}
		o := replay(history)
		right := len(o.Problems()) == 0
		verdicts[right]++
		if linear := Linear(o.History()); linear != right || changes == 0 && !right {
			t.Fatalf("seed %d, %d changes: porcupine says %v, %v\n%v", seed, changes, linear, o.Problems(), history)
		}
	}
	t.Logf("%d histories were right, %d wrong", verdicts[true], verdicts[false])
	if verdicts[true] < 500 || verdicts[false] < 500 {
		t.Error("too few of one kind show nothing")
	}
}

func BenchmarkOrder(b *testing.B) {
	o := &Order{}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("room", i)
	}
	for i := range b.N {
		n := int64(i/1000 + 1)
		o.Ask("me", keys[i%1000]).Got(n, n)
	}
	if len(o.Problems()) > 0 {
		b.Fatal(o.Problems())
	}
}
