//go:build unix

package bench

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

var (
	compareFlag = flag.String("compare", "", "full or quick; empty measures nothing")
	goalsFlag   = flag.String("goals", "", "only these goals and parts, such as 1,3,growth; empty is all that belong to the run")
	busyFlag    = flag.Float64("busy", 0.07, "share of a core that other processes may use during a measurement")
	profileFlag = flag.String("profile", "", "folder for CPU profiles of the servers; empty takes none")
)

// plan is how much is measured.
type plan struct {
	name    string
	rounds  int           // of a contest
	races   int           // the same, of servers: many short rounds, as the machine's speed changes
	warmup  time.Duration // of a load, before it counts
	load    time.Duration // of one measurement of a server
	tail    time.Duration // of one measurement of the tail
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
		"full": {name: "full", rounds: 3, races: 11, warmup: 200 * time.Millisecond, load: time.Second, tail: 5 * time.Second, bench: "300ms", starts: 9, idle: 10,
			away: time.Minute, outages: 3, tries: 8, quiet: 20 * time.Second, bound: 15 * time.Minute},
		"quick": {name: "quick", rounds: 2, races: 2, warmup: 200 * time.Millisecond, load: 600 * time.Millisecond, tail: time.Second, bench: "30ms", starts: 3, idle: 3,
			away: 4 * time.Second, outages: 1, tries: 2, quiet: 500 * time.Millisecond, bound: 30 * time.Second},
	}
}

// suite is one run.
type suite struct {
	plan   plan
	root   string // of the repository
	cores  []int  // of the server and of all else; empty where nothing can be pinned
	report *report
	*referee

	shardid, loader, bare, plain, delayer string // binaries
}

// TestCompare measures the goals and prints the table. It fails when shardid or a store
// does, and not when a goal is missed or the machine is too busy to measure it: that is
// what the table says.
func TestCompare(t *testing.T) {
	check.Deep(t)
	p, known := plans()[*compareFlag]
	if !known {
		t.Skip("say how much: -compare full, or quick")
	}
	chosen, err := chooseParts(*goalsFlag, p.name)
	check.Must(t, err)
	s := newSuite(t, p)
	for _, part := range chosen {
		ok := t.Run(part.name, func(t *testing.T) {
			defer func() {
				if t.Skipped() {
					s.report.absent(part, "this machine was too busy for it")
				}
			}()
			part.run(t, s)
		})
		if !ok {
			s.report.absent(part, "measuring it failed")
		}
	}
	s.finish()
}

func newSuite(t *testing.T, p plan) *suite {
	t.Helper()
	s := &suite{plan: p, root: filepath.Join("..", ".."), cores: cores(2)}
	s.referee = &referee{busy: *busyFlag, tries: p.tries, wait: p.quiet, until: time.Now().Add(p.bound), watch: watchNoise,
		pause: func() { time.Sleep(300 * time.Millisecond) }}
	s.report = &report{Busy: *busyFlag, When: time.Now().UTC().Format("2006-01-02"), Machine: machine(),
		Stores: cmp.Or(testserver.Database(), "MariaDB as installed") + " and " + cmp.Or(testserver.KeyValue(), "Redis as installed"),
		Commit: commit(), Contests: map[string]map[string]series{}}
	if len(s.cores) < 2 {
		s.cores = nil
		fmt.Fprintln(os.Stderr, "bench: nothing can be pinned here: server and load share the cores")
	}
	dir := t.TempDir()
	for pkg, path := range map[string]*string{"cmd/shardid": &s.shardid, "scripts/bench/contenders/bare": &s.bare,
		"scripts/bench/contenders/plain": &s.plain,
		"scripts/bench/load":             &s.loader, "scripts/bench/delay": &s.delayer} {
		*path = filepath.Join(dir, filepath.Base(pkg))
		if _, err := run(exec.Command("go", "build", "-o", *path, "shardid/"+pkg), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// contest holds one and keeps its figures.
func (s *suite) contest(title string, rounds int, contenders []contender) map[string]series {
	got := s.referee.contest(title, rounds, contenders)
	s.report.Contests[title] = got
	return got
}

// finish prints the table.
func (s *suite) finish() {
	r := s.report
	r.Measured, r.Discarded, r.NoisyRuns = s.measured, s.discarded, s.noisy
	if s.unknown {
		r.Machine += ", which does not say what other processes do"
	}
	fmt.Printf("\n%s\n%s\n", r.table(), r.generatorTable())
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
	check.Must(t, onCore(s.cores[i], f))
}

// procs is GOMAXPROCS of what is pinned.
func (s *suite) procs() string {
	if s.cores == nil {
		return strconv.Itoa(runtime.NumCPU())
	}
	return "1"
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

// ratio is the median of those of each round: what two contenders did within the same
// seconds can be compared, even when the machine's speed changes. It is NaN without one.
func ratio(a, b series, figure string) float64 { return median(ratios(a, b, figure)) }

func ratios(a, b series, figure string) (each []float64) {
	for i := range min(len(a.Rounds), len(b.Rounds)) {
		of, known := b.Rounds[i][figure]
		if v, ok := a.Rounds[i][figure]; ok && known && of != 0 {
			each = append(each, v/of)
		}
	}
	return each
}

// spread says between which ratios half of the rounds are.
func spread(a, b series, figure string) string {
	each := slices.Sorted(slices.Values(ratios(a, b, figure)))
	if len(each) < 4 {
		return ""
	}
	return fmt.Sprintf("; half of the rounds had %.2f to %.2f", each[len(each)/4], each[len(each)-1-len(each)/4])
}

// part measures some of the goals.
type part struct {
	name  string
	goals []int
	run   func(*testing.T, *suite)
	when  occasion
}

// occasion is which runs a part belongs to that is not asked for by its name.
type occasion int

const (
	always occasion = iota
	inFull          // too long for a quick run
	named           // in none
)

func parts() []part {
	return []part{
		{"servers", []int{1, 3}, measureServers, always},
		{"idle", []int{2}, measureIdle, always},
		{"library", []int{4, 5, 6}, measureLibraries, always},
		{"stores", []int{7}, measureStores, always},
		{"refilling", []int{8}, measureRefilling, always},
		{"start", []int{9}, measureStart, always},
		{"outage", []int{10}, measureOutages, always},
		{"clients", []int{11}, measureClients, always},
		{"sequences", []int{12}, measureSequences, always},
		{"tail", nil, measureTail, inFull},
		{"growth", nil, measureGrowth, named},
	}
}

// chooseParts reads goals and names of parts such as "1,3,tail"; "" is all that
// belongs to the plan.
func chooseParts(text, plan string) ([]part, error) {
	if text == "" {
		return slices.DeleteFunc(parts(), func(p part) bool {
			return p.when == named || p.when == inFull && plan != "full"
		}), nil
	}
	fields := strings.Split(text, ",")
	for _, field := range fields {
		if !slices.ContainsFunc(parts(), func(p part) bool { return p.is(field) }) {
			return nil, fmt.Errorf("%q is neither a goal, 1 to 12, nor a part: %s", field, partNames())
		}
	}
	return slices.DeleteFunc(parts(), func(p part) bool { return !slices.ContainsFunc(fields, p.is) }), nil
}

// is says whether a field names the part or one of its goals.
func (p part) is(field string) bool {
	g, err := strconv.Atoi(field)
	return field == p.name || err == nil && slices.Contains(p.goals, g)
}

func partNames() string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
