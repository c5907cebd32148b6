//go:build unix

package bench

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

var (
	compareFlag = flag.String("compare", "", "full or quick; empty measures nothing")
	goalsFlag   = flag.String("goals", "", "only these goals, such as 1,3; empty is all")
	busyFlag    = flag.Float64("busy", 0.07, "share of a core that other processes may use during a measurement")
	profileFlag = flag.String("profile", "", "folder for CPU profiles of the servers; empty takes none")
)

func TestMain(m *testing.M) { testserver.Main(m) }

// plan is how much is measured.
type plan struct {
	name    string
	rounds  int
	warmup  time.Duration // of a load, before it counts
	load    time.Duration // of one measurement of a server
	bench   string        // -benchtime of the libraries
	starts  int           // of the embedded service
	idle    int           // requests at one a second
	away    time.Duration // how long the database is away from what goes on
	outages int           // of a store, to see the recovery
	tries   int           // of one measurement, until it is quiet
	quiet   time.Duration // longest wait for a quiet moment
	bound   time.Duration // from then on nothing is waited for or repeated
}

func plans() map[string]plan {
	return map[string]plan{
		"full": {name: "full", rounds: 3, warmup: 500 * time.Millisecond, load: 2 * time.Second, bench: "300ms", starts: 9, idle: 10,
			away: time.Minute, outages: 3, tries: 8, quiet: 20 * time.Second, bound: 15 * time.Minute},
		"quick": {name: "quick", rounds: 3, warmup: 300 * time.Millisecond, load: time.Second, bench: "30ms", starts: 3, idle: 4,
			away: 8 * time.Second, outages: 1, tries: 2, quiet: time.Second, bound: time.Minute},
	}
}

// suite is one run.
type suite struct {
	plan   plan
	root   string // of the repository
	cores  []int  // of the server and of all else; empty where nothing can be pinned
	report *report
	*referee

	shardid, bare, plain string // binaries
}

// part measures some of the goals.
type part struct {
	name  string
	goals []int
	run   func(*testing.T, *suite)
}

func parts() []part {
	return []part{
		{"servers", []int{1, 3}, measureServers},
		{"idle", []int{2}, measureIdle},
		{"library", []int{4, 5, 6}, measureLibraries},
		{"stores", []int{7}, measureStores},
		{"refilling", []int{8}, measureRefilling},
		{"start", []int{9}, measureStart},
		{"outage", []int{10}, measureOutages},
	}
}

// TestCompare measures the goals and prints the table. It fails when something
// could not be measured, not when a goal is missed: that is what the table says.
func TestCompare(t *testing.T) {
	p, known := plans()[*compareFlag]
	if !known {
		t.Skip("say how much: -compare full, or quick")
	}
	s := newSuite(t, p)
	wanted, err := parseGoals(*goalsFlag)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts() {
		if !slices.ContainsFunc(part.goals, func(g int) bool { return wanted[g] }) {
			continue
		}
		if !t.Run(part.name, func(t *testing.T) { part.run(t, s) }) {
			for _, g := range part.goals {
				s.report.goal(g).absent("all or part of it", "measuring it failed")
			}
		}
	}
	s.finish(t, len(wanted) == len(allGoals()) && *profileFlag == "")
}

func newSuite(t *testing.T, p plan) *suite {
	t.Helper()
	s := &suite{plan: p, root: filepath.Join("..", ".."), cores: cores(2)}
	s.referee = &referee{busy: *busyFlag, tries: p.tries, wait: p.quiet, until: time.Now().Add(p.bound), watch: watchNoise,
		pause: func() { time.Sleep(300 * time.Millisecond) }}
	s.report = &report{Plan: p.name, Busy: *busyFlag, When: time.Now().UTC().Format("2006-01-02"), Machine: machine(),
		Commit: commit(), Contests: map[string]map[string]series{}}
	if len(s.cores) < 2 {
		s.cores = nil
		fmt.Fprintln(os.Stderr, "bench: nothing can be pinned here: server and load share the cores")
	}
	dir := t.TempDir()
	for pkg, path := range map[string]*string{"cmd/shardid": &s.shardid, "scripts/bench/contenders/bare": &s.bare, "scripts/bench/contenders/plain": &s.plain} {
		*path = filepath.Join(dir, filepath.Base(pkg))
		if _, err := run(exec.Command("go", "build", "-o", *path, "shardid/"+pkg), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// contest holds one and keeps its figures.
func (s *suite) contest(title string, contenders []contender) map[string]series {
	got := s.referee.contest(title, s.plan.rounds, contenders)
	s.report.Contests[title] = got
	return got
}

// finish prints the table and, after a run of everything, stores it.
func (s *suite) finish(t *testing.T, complete bool) {
	t.Helper()
	r := s.report
	r.Measured, r.Discarded, r.NoisyRuns = s.measured, s.discarded, s.noisy
	if s.unknown {
		r.Machine += ", which does not say what other processes do"
	}
	fmt.Printf("\n%s\n%s\n", r.table(), r.generatorTable())
	if !complete {
		return
	}
	err := r.write(filepath.Join("results", s.plan.name+".json"))
	if s.plan.name == "full" {
		err = errors.Join(err, r.writePicture(filepath.Join(s.root, "docs", "images", "bench.svg")))
	}
	if err != nil {
		t.Error(err)
	}
}

// onServerCore runs f so that what it starts has the server's core.
func (s *suite) onServerCore(t *testing.T, f func()) { s.onCore(t, 0, f) }

// onLoadCore is for the load and the stores.
func (s *suite) onLoadCore(t *testing.T, f func()) { s.onCore(t, 1, f) }

func (s *suite) onCore(t *testing.T, i int, f func()) {
	t.Helper()
	if s.cores == nil {
		f()
		return
	}
	if err := onCore(s.cores[i], f); err != nil {
		t.Fatal(err)
	}
}

// procs is GOMAXPROCS of what is pinned.
func (s *suite) procs() string {
	if s.cores == nil {
		return strconv.Itoa(runtime.NumCPU())
	}
	return "1"
}

func allGoals() []int { return []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10} }

// parseGoals reads "1,3"; "" is all goals.
func parseGoals(text string) (map[int]bool, error) {
	wanted := map[int]bool{}
	if text == "" {
		for _, g := range allGoals() {
			wanted[g] = true
		}
		return wanted, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		g, err := strconv.Atoi(field)
		if err != nil || !slices.Contains(allGoals(), g) {
			return nil, fmt.Errorf("%q is no goal, 1 to 10", field)
		}
		wanted[g] = true
	}
	return wanted, nil
}

// machine is one line about it.
func machine() string {
	model := runtime.GOARCH
	raw, err := os.ReadFile("/proc/cpuinfo")
	if _, after, found := strings.Cut(string(raw), "model name"); err == nil && found {
		model = strings.Trim(strings.SplitN(after, "\n", 2)[0], " \t:")
	}
	return fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.Version())
}

// commit is the present one, marked when files differ from it.
func commit() string {
	out, err := run(exec.Command("git", "describe", "--always", "--dirty"), time.Minute)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// ratio is NaN when the median of a contender is not there.
func ratio(a, b series, figure string) float64 {
	of := b.median(figure)
	if of == 0 {
		return math.NaN()
	}
	return a.median(figure) / of
}

func TestParseGoals(t *testing.T) {
	if got, err := parseGoals("3,10"); err != nil || len(got) != 2 || !got[3] || !got[10] {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parseGoals(""); err != nil || len(got) != 10 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"0", "11", "1,", "one"} {
		if got, err := parseGoals(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

// Each goal belongs to one part.
func TestPartsCoverTheGoals(t *testing.T) {
	var got []int
	for _, p := range parts() {
		got = append(got, p.goals...)
	}
	slices.Sort(got)
	if !slices.Equal(got, allGoals()) {
		t.Errorf("%v", got)
	}
}
