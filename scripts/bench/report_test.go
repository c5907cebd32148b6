//go:build unix

package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"shardid/scripts/check"
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
	Goal    int     `json:"goal"`
	What    string  `json:"what"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Target  string  `json:"target,omitempty"`
	Verdict verdict `json:"verdict"`
	// Noisy says that others disturbed a measurement behind it.
	Noisy bool   `json:"noisy,omitempty"`
	Note  string `json:"note,omitempty"`
}

// report is all that a run has found.
type report struct {
	Plan      string  `json:"plan"`
	Commit    string  `json:"commit"`
	When      string  `json:"when"`
	Machine   string  `json:"machine"`
	Stores    string  `json:"stores"`      // by the names of DB and KV
	Busy      float64 `json:"busyAllowed"` // share of a core that others may use
	Measured  int     `json:"measured"`    // measurements that were wanted
	Discarded int     `json:"discarded"`   // done again because others disturbed them
	NoisyRuns int     `json:"noisy"`       // disturbed and used all the same
	Lines     []line  `json:"goals"`
	// Contests are the raw figures, by contest and contender.
	Contests map[string]map[string]series `json:"contests"`
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

// write stores the report as JSON; the folder is made.
func (r *report) write(path string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

func TestReport(t *testing.T) {
	r := &report{Machine: "a machine", Stores: "two stores", When: "today", Commit: "abc", Busy: 0.07, Measured: 30, Discarded: 4, NoisyRuns: 1}
	quiet := r.goal(3, series{})
	quiet.atLeast("reached", 0.95, 0.95, "×", "")
	quiet.atLeast("too little", 0.949, 0.95, "×", "")
	r.goal(1, series{}, series{Noisy: true}).atMost("few enough", 0.0123, 0.02, "calls/ID", "")
	quiet.atMost("too much", 61.25, 60, "MiB", "why")
	quiet.atMost("never ran", median(nil), 60, "MiB", "")
	quiet.absent("Java", "it is not here")
	quiet.tell("for information", 71234.5, "req/s", "")
	r.absent(part{name: "odd"}, "measuring it failed")
	r.absent(part{name: "even", goals: []int{2, 4}}, "measuring it failed")
	got := r.table()
	words := strings.Join(strings.Fields(got), " ")
	for _, want := range []string{
		"a machine, two stores, today, commit abc",
		"30 measurements; 4 discarded because other processes used more than 7 % of a core, and 1 used although they did",
		"3 reached 0.950 × ≥ 0.95 pass",
		"3 too little 0.949 × ≥ 0.95 MISSED",
		"1 few enough 0.0123 calls/ID ≤ 0.02 pass (noisy)",
		"3 too much 61.2 MiB ≤ 60 MISSED why",
		"3 never ran ≤ 60 not measured here a figure behind it is missing",
		"3 Java not measured here it is not here",
		"3 for information 71234 req/s -",
		"2 all or part of it not measured here measuring it failed",
		"4 all or part of it not measured here measuring it failed",
		"- odd not measured here measuring it failed",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
	if strings.Index(got, "few enough") > strings.Index(got, "reached") {
		t.Error("goals are not in order")
	}
	path := filepath.Join(t.TempDir(), "new", "r.json")
	if err := r.write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	var back report
	if err != nil || json.Unmarshal(raw, &back) != nil || back.table() != got {
		t.Errorf("%v: read back as\n%s", err, back.table())
	}
}

// TestPerformancePage: docs/performance.md says what the last full run has measured, and no
// other page says something else.
func TestPerformancePage(t *testing.T) {
	raw, err := os.ReadFile("results/full.json")
	check.Must(t, err)
	var r report
	check.Must(t, json.Unmarshal(raw, &r))
	rows := tableRows(t, "../../docs/performance.md")
	for label, want := range map[string]string{
		"`/get` on Redis and MariaDB, requests a second":     thousands(r.Contests[httpContest][queueMode].median("req/s")),
		"of a bare Gin server that answers the same bytes":   r.figures(t, "/get over 64 lists, of bare Gin"),
		"of the plain design":                                r.figures(t, "/get, of the plain design"),
		"segment, snowflake, UID, of bare Gin":               r.figures(t, segmentMode+", of bare Gin", snowflakeMode+", of bare Gin", uidMode+", of bare Gin"),
		"IDs for one call to Redis":                          number(math.Round(1 / r.value(t, "calls to Redis for an ID"))),
		"memory, 16 384 lists, 1024 of them in use":          number(math.Round(r.value(t, "memory with 16 384 lists, 1024 in use"))) + " MiB",
		"from the start to the first ID, embedded":           number(math.Round(r.value(t, "embedded, from the start to the first ID"))) + " ms",
		"segments last without their database":               number(math.Round(r.value(t, "segment: what is held lasts, at the present rate"))) + " s",
		"back at full speed after the database, after Redis": fmt.Sprintf("%.2f s, %.2f s", r.value(t, "segment that ran dry is at full speed after the database's return"), r.value(t, "queue is at full speed after Redis came back, empty")),
		"`count=100` over HTTP, embedded":                    number(math.Round(100 * r.value(t, "requests of: "+batchEmbedded+"; of: "+bareGin))),
		"RESP, one at a time; pipelined by 16":               r.figures(t, "RESP, one ID at a time, of bare Gin", "the same, pipelined by 16"),
		"RESP, `LPOP key 100`":                               number(math.Round(r.value(t, "IDs by LPOP key 100, of requests to bare Gin"))),
		"Go client, refills included":                        number(math.Round(r.value(t, "IDs by the Go client, of requests to bare Gin"))),
		"**shardid** Go client, an ID that it holds (a tag)": number(r.value(t, "an ID that the Go client holds, of a tag")),
	} {
		check.Equal(t, rows[label], want, label)
	}
	for _, g := range generators() {
		label, ours := strings.NewReplacer("segment, by key", "**shardid** segment, by key", "UID, cached", "**shardid** UID, cached").Replace(g.name), r.Contests[libraryContest][g.contender]
		if want := nanoseconds(ours, g.one); rows[label] != "" && rows[label] != want {
			t.Errorf("%s: the page says %q, the run %s", label, rows[label], want)
		}
	}
	// What other pages say of the same is a link, or the same figure.
	for _, page := range []string{"README.md", "docs/README.md", "docs/operations.md", "docs/running.md", "docs/clients.md", "docs/http.md", "docs/laboratory.md"} {
		text, err := os.ReadFile("../../" + page)
		check.Must(t, err)
		found := regexp.MustCompile(`\d[\d ,]*\d requests a second a core|memory of a replica \| \d+ MiB|one for \d+ IDs`).Find(text)
		check.Equal(t, string(found), "", page, "says what belongs on docs/performance.md")
	}
}

// tableRows are the second cells of a page's tables, by their first.
func tableRows(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	check.Must(t, err)
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|`).FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	return rows
}

func (r *report) value(t *testing.T, what string) float64 {
	t.Helper()
	for _, l := range r.Lines {
		if l.What == what {
			return l.Value
		}
	}
	t.Fatalf("the run has no %q", what)
	return 0
}

// figures are ratios, with two decimals below 10 and none from 10 on.
func (r *report) figures(t *testing.T, what ...string) string {
	t.Helper()
	var texts []string
	for _, w := range what {
		if v := r.value(t, w); v < 10 {
			texts = append(texts, fmt.Sprintf("%.2f", v))
		} else {
			texts = append(texts, fmt.Sprintf("%.0f", v))
		}
	}
	return strings.Join(texts, ", ")
}

// thousands is a number of five digits, as the pages write it.
func thousands(v float64) string {
	n := int(math.Round(v / 1000))
	return fmt.Sprintf("%d 000", n)
}
