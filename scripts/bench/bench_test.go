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
// goals says what is wanted. The other files measure: servers_test.go over HTTP and RESP with the load of load_test.go,
// growth_test.go a replica beside very many of a thing, and the Go benchmarks of the packages. contender/ has the
// servers that shardid is compared with.
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
	fmt.Fprintln(w, "what\tmedian\twanted\t\tthe middle half of the rounds")
	met, wanted := 0, 0
	for _, g := range append(goals(), c.growthGoals()...) {
		values := c.of(g)
		if len(values) == 0 {
			continue // not measured this time
		}
		n := len(values)
		median := (values[n/2] + values[(n-1)/2]) / 2
		low, high := values[n/4], values[n-1-n/4]
		verdict := g.verdict(low)
		if g.verdict(high) != verdict {
			verdict = "too noisy to tell"
		}
		if verdict != "" {
			wanted++
		}
		if verdict == "met" {
			met++
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s to %s\n", g.what, number(median), g.unit, g.bound(), verdict,
			number(low), number(high))
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

// goal is a line of the table: the median of a figure, or of its ratio to another one, and what is wanted of it.
type goal struct {
	what, figure, of string // of is "" for a figure by itself
	unit             string
	sign             string // ≥ or ≤; "" where nothing is wanted
	wanted           float64
}

func (g goal) bound() string {
	if g.sign == "" {
		return ""
	}
	return g.sign + " " + strconv.FormatFloat(g.wanted, 'f', -1, 64)
}

func (g goal) verdict(got float64) string {
	switch {
	case g.sign == "":
		return ""
	case g.sign == "≥" && got >= g.wanted, g.sign == "≤" && got <= g.wanted:
		return "met"
	}
	return "MISSED"
}

// goals are what the project promises itself, in the order of docs/performance.md. Behind the name of a package is
// that of its Go benchmark, as go test prints it.
func goals() []goal {
	return []goal{
		{"/get over 64 lists, requests a second", "/get req/s", "", "", "", 0},
		{"the same, of bare Gin", "/get req/s", "bare Gin req/s", "×", "≥", 0.95},
		{"the same, of a plain LPOP", "/get req/s", "plain LPOP req/s", "×", "≥", 1.9},
		{"its p99, of a plain LPOP's", "/get p99", "plain LPOP p99", "×", "≤", 0.9},
		{"its CPU time, of bare Gin's", "/get CPU", "bare Gin CPU", "×", "", 0},
		{"IDs for one call to Redis", "/get IDs/call", "", "", "≥", 50},
		{"segment, of bare Gin", "segment req/s", "bare Gin req/s", "×", "", 0},
		{"snowflake, of bare Gin", "snowflake req/s", "bare Gin req/s", "×", "", 0},
		{"UID, of bare Gin", "UID req/s", "bare Gin req/s", "×", "", 0},

		{"IDs by count=100, embedded, of bare Gin's requests", "count=100 IDs/s", "bare Gin req/s", "×", "≥", 80},
		{"RESP, INCR, of bare Gin", "RESP req/s", "bare Gin req/s", "×", "≥", 1.5},
		{"the same, pipelined by 16", "RESP pipelined req/s", "bare Gin req/s", "×", "≥", 15},
		{"IDs by LPOP key 100, of bare Gin's requests", "RESP LPOP IDs/s", "bare Gin req/s", "×", "≥", 75},
		{"IDs by the Go client, of bare Gin's requests", "Go client IDs/s", "bare Gin req/s", "×", "≥", 250},

		{"number of a sequence, of a plain INCR", "sequence req/s", "plain INCR req/s", "×", "≥", 1.3},
		{"the same over RESP, of bare Gin", "RESP sequence req/s", "bare Gin req/s", "×", "", 0},
		{"the same, pipelined by 16", "RESP sequence pipelined req/s", "bare Gin req/s", "×", "≥", 4},

		{"at an equal rate: requests a second", "rate req/s", "", "", "", 0},
		{"p50 of /get", "/get at the rate p50", "", "ms", "", 0},
		{"p99 of /get", "/get at the rate p99", "", "ms", "", 0},
		{"p99.9 of /get", "/get at the rate p99.9", "", "ms", "", 0},
		{"p99 of /get, of bare Gin's", "/get at the rate p99", "bare Gin at the rate p99", "×", "≤", 1.2},
		{"its CPU time, of bare Gin's", "/get at the rate CPU", "bare Gin at the rate CPU", "×", "", 0},
		{"p99.9 while every list is refilled, of that without", "refilled at the rate p99.9",
			"/get at the rate p99.9", "×", "≤", 2},
		{"CPU time of a number of a sequence, of a plain INCR's", "sequence at the rate CPU",
			"plain INCR at the rate CPU", "×", "≤", 1},
		{"its p99", "sequence at the rate p99", "plain INCR at the rate p99", "×", "≤", 1},
		{"its p99.9", "sequence at the rate p99.9", "plain INCR at the rate p99.9", "×", "≤", 1},

		{"an atomic add, the floor", "segment Issue/atomic_add/one_goroutine ns/op", "", "ns", "", 0},
		{"the same, two goroutines", "segment Issue/atomic_add/parallel ns/op", "", "ns", "", 0},
		{"segment by key", "segment Issue/key/one_goroutine ns/op", "", "ns", "", 0},
		{"the same, two goroutines", "segment Issue/key/parallel ns/op", "", "ns", "", 0},
		{"snowflakes, of 4096 a millisecond", "idgen Take/cap of-cap", "", "×", "≥", 0.99},
		{"UID, cached", "uid Cached/one,_1_goroutine ns/ID", "", "ns", "", 0},
		{"the same, two goroutines", "uid Cached/one,_2_goroutines ns/ID", "", "ns", "", 0},
		{"Go client, an ID of a tag that it holds", "client Next/segment ns/op", "", "ns", "≤", 30},
		{"the same, of a gatePass", "client Next/queue ns/op", "", "ns", "≤", 30},
		{"the same, two goroutines", "client Next/two_goroutines ns/op", "", "ns", "≤", 20},
		{"a generator of snowflakes, as the Go client has it", "idgen Take/one ns/op", "", "ns", "≤", 40},
		{"the same, two goroutines", "idgen Take/parallel ns/op", "", "ns", "", 0},

		{"allocations of a /get", "httpapi Modes/get allocs/op", "", "", "≤", 0},
		{"of a snowflake, over HTTP", "httpapi Modes/snowflake allocs/op", "", "", "≤", 0},
		{"of a segment, by key", "segment Issue/key/one_goroutine allocs/op", "", "", "≤", 0},
		{"of a UID", "uid Cached/one,_1_goroutine allocs/op", "", "", "≤", 0},
		{"of an INCR", "resp Commands/INCR allocs/op", "", "", "≤", 0},
		{"of an ID that the Go client holds", "client Next/segment allocs/op", "", "", "≤", 0},

		{"embedded, from the start to the first ID", "embedded start", "", "ms", "≤", 300},
	}
}
