//go:build unix

// Package bench measures shardid beside what else one could have: a bare Gin that answers a constant, a plain service
// with a call to Redis for each request, and an atomic add. It does so in one run, as nothing but the ratios of such a
// run carries over to another machine. It is a program that go test runs, because testserver and rig start servers for
// a test:
//
//	make bench-quick
//	go test -count=1 -v -run TestCompare ./scripts/bench -compare full -only library
//
// It stays fair by three rules. A server under test has one core, and the load and the stores have another.
// Contenders take turns, and each round begins with another one. The ratio of two contenders is the median of the
// ratios of each round, as a shared machine changes its speed within seconds; the table has the lowest and the
// highest beside it.
//
// goals_test.go says what is wanted. The other files measure: servers_test.go over HTTP and RESP with the load of
// load_test.go, library_test.go the Go benchmarks of the packages, growth_test.go a replica beside very many of a
// thing. contender/ has the servers that shardid is compared with.
package bench

import (
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
	"text/tabwriter"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

var (
	compareFlag = flag.String("compare", "", "full or quick; empty measures nothing")
	onlyFlag    = flag.String("only", "", "measure only servers, library or growth")
)

func TestMain(m *testing.M) {
	_ = os.Setenv("SHARDID_TEST_DATA", os.TempDir()) // a commit takes what it takes on a disk
	testserver.Main(m)
}

// figures are what one measurement found, by name.
type figures map[string]float64

// contender takes its turn in each round.
type contender struct {
	name string
	run  func() figures
}

// comparison is one run: how much it measures, and what it has found.
type comparison struct {
	t      *testing.T
	full   bool
	rounds int                  // of most contests
	load   time.Duration        // of a server, for one measurement
	found  map[string][]float64 // by contender and figure, such as "/get p99", one of each round

	cores              []string // of the servers, and of all else; empty where nothing is pinned
	shardid, contender string   // the binaries
}

// TestCompare measures and prints the table. It fails when a server does, and not when a goal is missed: on a machine
// that others use that says little.
func TestCompare(t *testing.T) {
	if *compareFlag == "" {
		t.Skip("measures only for make bench and make bench-quick")
	}
	c := newComparison(t, *compareFlag == "full")
	parts := []struct {
		name    string
		measure func()
	}{{"servers", c.servers}, {"library", c.libraries}, {"growth", c.growth}}
	for _, part := range parts {
		if *onlyFlag == "" || *onlyFlag == part.name {
			part.measure()
		}
	}
	fmt.Printf("\n%s\n", c.table())
}

func newComparison(t *testing.T, full bool) *comparison {
	c := &comparison{t: t, full: full, rounds: 2, load: 600 * time.Millisecond, found: map[string][]float64{}}
	if full {
		c.rounds, c.load = 3, time.Second
	}
	dir := t.TempDir()
	c.shardid, c.contender = filepath.Join(dir, "shardid"), filepath.Join(dir, "contender")
	c.do("../..", "go", "build", "-o", dir, "./cmd/shardid", "./scripts/bench/contender")
	if c.cores = cores(); len(c.cores) == 2 {
		c.do("", "taskset", "-a", "-c", "-p", c.cores[1], strconv.Itoa(os.Getpid())) // and what this process starts
	} else {
		t.Log("nothing is pinned here, as there is no taskset or a single core")
	}
	runtime.GOMAXPROCS(1)
	return c
}

// cores are the first and the last that this process may use, as taskset tells them.
func cores() []string {
	out, err := exec.Command("taskset", "-c", "-p", strconv.Itoa(os.Getpid())).Output()
	_, list, found := strings.Cut(strings.TrimSpace(string(out)), "list: ") // such as 0-3,6
	ends := strings.FieldsFunc(list, func(r rune) bool { return r == '-' || r == ',' })
	if err != nil || !found || len(ends) < 2 {
		return nil
	}
	return []string{ends[0], ends[len(ends)-1]}
}

// onCores puts a command on cores.
func (c *comparison) onCores(which []string, words ...string) []string {
	if len(c.cores) == 0 {
		return words
	}
	return append([]string{"taskset", "-c", strings.Join(which, ",")}, words...)
}

// do runs a command to its end and gives what it printed.
func (c *comparison) do(dir string, words ...string) string {
	c.t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", cmd, err, rig.LastLines(string(out), 12))
	}
	return string(out)
}

// contest lets contenders take turns; round n begins with the n-th.
func (c *comparison) contest(title string, rounds int, contenders []contender) {
	for round := range rounds {
		c.t.Logf("%s, round %d of %d", title, round+1, rounds)
		for i := range contenders {
			one := contenders[(round+i)%len(contenders)]
			for figure, value := range one.run() {
				c.found[one.name+" "+figure] = append(c.found[one.name+" "+figure], value)
			}
		}
	}
}

// of is a goal's value in each round, in ascending order.
func (c *comparison) of(g goal) []float64 {
	values := slices.Clone(c.found[g.figure])
	if g.of != "" {
		others := c.found[g.of]
		values = values[:min(len(values), len(others))]
		for i := range values {
			values[i] /= others[i]
		}
	}
	slices.Sort(values)
	return values
}

// table is the report for people.
func (c *comparison) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d cores, %s, %s, commit %s", runtime.NumCPU(), runtime.Version(),
		time.Now().UTC().Format(time.DateOnly), c.do("", "git", "describe", "--always", "--dirty"))
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmedian\twanted\t\tlowest to highest of the rounds")
	met, wanted := 0, 0
	for _, g := range append(goals(), c.growthGoals()...) {
		values := c.of(g)
		if len(values) == 0 {
			continue // not measured this time
		}
		n := len(values)
		median := (values[n/2] + values[(n-1)/2]) / 2
		verdict := g.verdict(median)
		if verdict != "" {
			wanted++
		}
		if verdict == "met" {
			met++
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s to %s\n", g.what, number(median), g.unit, g.bound(), verdict,
			number(values[0]), number(values[n-1]))
	}
	check.OK(c.t, w.Flush())
	fmt.Fprintf(&text, "%d of %d goals are met\n", met, wanted)
	return text.String()
}

// number has about three digits that count.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}
