//go:build unix

package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// verdict on a line of the table.
type verdict string

const (
	passed    verdict = "pass"
	missed    verdict = "MISSED"
	reported  verdict = "-" // there is no target
	elsewhere verdict = "not measured here"
)

// line is one of the table: something measured, against its target.
type line struct {
	Goal    int
	What    string
	Value   float64
	Unit    string
	Target  string
	Verdict verdict
	// Noisy says that others disturbed a measurement behind it.
	Noisy bool
	Note  string
}

// report is all that a run has found.
type report struct {
	Commit    string
	When      string
	Machine   string
	Stores    string  // by the names of DB and KV
	Busy      float64 // share of a core that others may use
	Measured  int     // measurements that were wanted
	Discarded int     // done again because others disturbed them
	NoisyRuns int     // disturbed and used all the same
	Lines     []line
	// Contests are the raw figures, by contest and contender.
	Contests map[string]map[string]series
}

// noGoal is the number of what belongs to none; its lines come last.
const noGoal = 13

// goal adds the lines of a goal; noisy series mark them.
type goal struct {
	report *report
	number int
	noisy  bool
}

func (r *report) goal(number int, from ...series) goal {
	return goal{r, number, slices.ContainsFunc(from, func(s series) bool { return s.Noisy })}
}

func (g goal) add(l line) {
	l.Goal, l.Noisy = g.number, g.noisy
	if math.IsNaN(l.Value) || math.IsInf(l.Value, 0) {
		l.Value, l.Verdict = 0, elsewhere
		l.Note = strings.TrimPrefix(l.Note+"; a figure behind it is missing", "; ")
	}
	g.report.Lines = append(g.report.Lines, l)
}

func (g goal) atLeast(what string, value, target float64, unit, note string) {
	l := line{What: what, Value: value, Unit: unit, Target: "≥ " + exactly(target), Verdict: missed, Note: note}
	if value >= target {
		l.Verdict = passed
	}
	g.add(l)
}

func (g goal) atMost(what string, value, target float64, unit, note string) {
	l := line{What: what, Value: value, Unit: unit, Target: "≤ " + exactly(target), Verdict: missed, Note: note}
	if value <= target {
		l.Verdict = passed
	}
	g.add(l)
}

// tell adds a figure that has no target.
func (g goal) tell(what string, value float64, unit, note string) {
	g.add(line{What: what, Value: value, Unit: unit, Verdict: reported, Note: note})
}

// absent says that a part could not be measured, or not all of it, and why.
func (r *report) absent(p part, why string) {
	for _, g := range p.goals {
		r.goal(g).absent("all or part of it", why)
	}
	if len(p.goals) == 0 {
		r.goal(noGoal).absent(p.name, why)
	}
}

// absent says what of a goal is not measured here, and why.
func (g goal) absent(what, why string) {
	g.add(line{What: what, Verdict: elsewhere, Note: why})
}

func exactly(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// number is short and has no exponent.
func number(v float64) string {
	digits := 0
	switch a := math.Abs(v); {
	case a == math.Trunc(a) && a < 1e15:
	case a < 0.1:
		digits = 4
	case a < 1:
		digits = 3
	case a < 10:
		digits = 2
	case a < 100:
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// table is the report for people.
func (r *report) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s, commit %s\n", r.Machine, r.Stores, r.When, r.Commit)
	fmt.Fprintf(&b, "%d measurements; %d discarded because other processes used more than %s %% of a core, and %d used although they did\n\n",
		r.Measured, r.Discarded, number(math.Round(100*r.Busy)), r.NoisyRuns)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "goal\twhat\tmeasured\ttarget\tverdict\tnote")
	slices.SortStableFunc(r.Lines, func(a, b line) int { return a.Goal - b.Goal })
	for _, l := range r.Lines {
		value, word := number(l.Value)+" "+l.Unit, string(l.Verdict)
		if l.Verdict == elsewhere {
			value = ""
		}
		if l.Noisy {
			word += " (noisy)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", goalName(l.Goal), l.What, value, l.Target, word, l.Note)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func goalName(number int) string {
	if number == noGoal {
		return "-"
	}
	return strconv.Itoa(number)
}
