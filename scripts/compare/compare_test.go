//go:build unix

// Package compare runs generators of IDs that people use through faults of ordinary life, counts the IDs that came
// twice, and writes docs/comparison.md: make compare.
//
// Each fault has a world of its own, in which it happens to all generators at once. faults_test.go has the generators
// and the faults; world_test.go starts and asks them, and counts; comparison.tmpl is the page, with what the pages of
// others say and why they repeat IDs. Generators of others are in the programs peers (Go) and Peers.java, which
// scripts/stories uses too, with the defaults of their own pages.
//
// The clock of a program in Go is set back by another package time, which adds what a file says to the wall clock and
// leaves the monotonic one alone, as the kernel does; that of a program in Java by a preloaded function in C.
// libfaketime does the same, but costs Java six seconds of CPU time at the start.
//
// Root runs all in a network of its own, with the address that Docker gives to the first container of each host. The
// two containers share it and have process IDs of their own, so that generators see what they see on two such hosts.
package compare

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

var write = flag.String("write", "", "measure, for a quarter of an hour, and write this page")

// tools is the folder of the programs; what is in its folder clocked has a clock that can be set.
var tools = os.Getenv("COMPARE_TOOLS")

// java is the folder of the programs in Java.
const java = "../stories/testdata/java/"

// programs are what has generators here; java comes last where there is one.
var programs = []string{"shardid", "go"}

// clockGo ends a file of package time. Now may be called where no file may be read, such as in a timer.
const clockGo = `
// compareOffset is by how many seconds the wall clock is off.
var compareOffset atomic.Int64

func init() {
	path, _ := syscall.Getenv("GO_COMPARE_CLOCK")
	read := func() {
		text, _ := readFile(path)
		seconds, _ := atoi(text)
		compareOffset.Store(int64(seconds))
	}
	read()
	go func() {
		for ; ; Sleep(50 * Millisecond) {
			read()
		}
	}()
}
`

// clockC is what Java preloads.
const clockC = `#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
	long seconds = 0;
	FILE *file = id == CLOCK_REALTIME ? fopen(getenv("GO_COMPARE_CLOCK"), "r") : NULL;
	if (file) {
		if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
		fclose(file);
	}
	int result = syscall(SYS_clock_gettime, id, t);
	t->tv_sec += seconds;
	return result;
}
`

// network has one address, to which the host's name leads.
const network = `
ip link set lo up
ip link add eth0 address 02:42:ac:11:00:02 type veth peer name peer0
ip addr add 172.17.0.2/16 dev eth0
ip link set eth0 up
ip link set peer0 up
hostname machine
printf '127.0.0.1 localhost\n172.17.0.2 machine\n' >"$0"
mount --bind "$0" /etc/hosts
exec "$@"`

// output is what a command says, which must succeed.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, rig.LastLines(string(said), 20))
	}
	return strings.TrimSpace(string(said))
}

// makeTools needs Maven, and a compiler of C for the clock, to make those of Java.
func makeTools(t *testing.T) {
	do := func(name string, args ...string) string { return output(t, exec.Command(name, args...)) }
	file := func(name, text string) string {
		path := filepath.Join(tools, name)
		check.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	original := filepath.Join(do("go", "env", "GOROOT"), "src/time/time.go")
	text, err := os.ReadFile(original)
	check.Must(t, err)
	const imports, reading = "import (\n", "sec, nsec, mono := runtimeNow()\n"
	check.Equal(t, strings.Count(string(text), reading), 1, "places where package time reads the clock")
	changed := strings.NewReplacer(imports, imports+"\"sync/atomic\"\n\"syscall\"\n",
		reading, reading+"sec += compareOffset.Load()\n")
	overlay, err := json.Marshal(map[string]any{
		"Replace": map[string]string{original: file("time.go", changed.Replace(string(text))+clockGo)},
	})
	check.Must(t, err)
	for name, folder := range map[string]string{"peers": "peers", "shardid": "../../cmd/shardid"} {
		do("go", "build", "-C", folder, "-o", filepath.Join(tools, name))
		do("go", "build", "-C", folder, "-o", filepath.Join(tools, "clocked", name),
			"-overlay", file("overlay", string(overlay)))
	}
	_, noMaven := exec.LookPath("mvn")
	_, noCompiler := exec.LookPath("cc")
	if noMaven == nil && noCompiler == nil {
		do("cc", "-O2", "-shared", "-fPIC", "-o", filepath.Join(tools, "clock.so"), file("clock.c", clockC))
		do("mvn", "-B", "-q", "-f", java, "package", "-DskipTests", "-pl", "bench", "-am")
		do("cp", java+"bench/target/bench-1.jar", filepath.Join(tools, "peers.jar"))
	}
}

func TestCompare(t *testing.T) {
	if *write == "" {
		t.Skip("make compare runs it")
	}
	if tools == "" {
		tools = t.TempDir()
		makeTools(t)
		if os.Geteuid() == 0 {
			argv := append([]string{"--net", "--uts", "--mount", "sh", "-euc", network, tools + "/hosts"}, os.Args...)
			cmd := exec.Command("unshare", argv...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "COMPARE_TOOLS="+tools), os.Stdout, os.Stderr
			check.Equal(t, rig.Start(t, cmd, "").Status(), 0, "exit status in the network")
			return
		}
	}
	if _, err := os.Stat(filepath.Join(tools, "peers.jar")); err == nil {
		programs = append(programs, "java")
	}
	r := results{repeats: map[string]bool{}, tallies: map[string]map[string]*tally{}, Values: map[string]string{}}
	for _, f := range faults {
		t.Run(f.key, func(t *testing.T) { r.suffer(newWorld(t), f) })
	}
	t.Run("speed", func(t *testing.T) { r.measure(newWorld(t)) })
	check.Must(t, os.WriteFile(*write, []byte(r.page(t)), 0o644))
}

// results are what the page says.
type results struct {
	tallies map[string]map[string]*tally // by faults and kinds
	repeats map[string]bool              // kinds whose IDs came twice and which have no reason yet
	Values  map[string]string            // speeds by kinds, and versions of servers
}

func (r *results) suffer(w *world, f fault) {
	r.tallies[f.key] = w.tallies
	f.run(w)
	w.end()
	for kind, l := range w.tallies {
		w.t.Logf("%-16s %6d IDs, %d twice, %d out of order; after the fault %d, none for %v; last refusal: %s",
			kind, len(l.seen), l.repeats, l.disorder, l.since, l.pause, l.why)
		if l.repeats > 0 {
			r.repeats[kind] = true
		}
	}
}

// measure finds the nanoseconds of an ID in the process, and the requests a second of services. The clients of shardid
// hold IDs of an embedded service, which does not bound the rate of a tag.
func (r *results) measure(w *world) {
	w.jvm, w.embedded = []string{"-Xmx512m"}, true
	r.Values["MariaDB"] = w.client("mariadb", "-Ne", "SELECT VERSION()")
	r.Values["Redis"] = w.incr.InfoMap(w.t.Context(), "server").Item("Server", "redis_version")
	for _, program := range programs {
		w.launch(program, 0, func(generator) bool { return true })
	}
	for _, p := range w.processes[1:] {
		for _, g := range p.generators {
			if got, err := w.get(p.addr, g, 0); err == nil {
				r.Values[g.kind] = got[0] + " ns"
			}
		}
	}
	w.end()
	w.embedded = false
	service := w.launch("shardid", 0, everything)
	w.together(2 * time.Second)
	for _, g := range service.generators {
		did := testing.Benchmark(func(b *testing.B) {
			b.SetParallelism(8) // sixteen callers on two cores
			b.RunParallel(func(caller *testing.PB) {
				for caller.Next() {
					check.OK(b, check.Err(w.get(service.addr, g, 1)))
				}
			})
		})
		r.Values[g.kind] = thousands(int64(float64(did.N)/did.T.Seconds()/100)*100) + " requests/s"
	}
}

// thousands writes a number with commas.
func thousands[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// cell is what a fault did to a generator.
func (r *results) cell(f fault, g generator) string {
	l := r.tallies[f.key][g.kind]
	if l == nil {
		return "not run"
	}
	if len(l.seen) == 0 {
		return "none issued"
	}
	text := "0"
	if l.repeats > 0 {
		text = "**" + thousands(l.repeats) + "** of " + thousands(len(l.seen)+l.repeats)
	}
	if l.disorder > 0 {
		text += ", " + thousands(l.disorder) + " out of order"
	}
	if n := len(l.last); f.key == "hundred" && n > 3 && n < 100 {
		text += fmt.Sprintf(", %d of 100 issued", n)
	}
	if f.happens == nil {
		return text
	}
	if l.since == 0 {
		return text + ", none after it"
	}
	if l.pause > 2500*time.Millisecond {
		text += fmt.Sprintf(", %.0f s", l.pause.Seconds())
	}
	skipped := l.highest - l.before
	if g.kind == "queue" {
		skipped >>= 14 // of shard and app
	}
	if millions := (skipped - int64(l.since)) / 1_000_000; g.is >= counting && millions > 0 {
		text += ", skips " + thousands(millions) + " million"
	}
	return text
}

// Table has a row for each generator that faults concern, and a column for each of these.
func (r *results) Table(ofStores bool) string {
	head, line, rows := "| |", "\n|---|", ""
	for _, f := range faults {
		if f.ofStores == ofStores {
			head += " " + f.name + " |"
			line += "---|"
		}
	}
	for _, g := range generators {
		if ofStores && !withStore(g) || g.is == held {
			continue
		}
		rows += "\n| " + g.name + " |"
		for _, f := range faults {
			if f.ofStores == ofStores {
				rows += " " + r.cell(f, g) + " |"
			}
		}
	}
	return head + line + rows
}

// Speeds are rows, too.
func (r *results) Speeds() (rows string) {
	for _, g := range generators {
		if speed := r.Values[g.kind]; speed != "" {
			rows += "\n| " + g.name + " | " + speed + " |"
		}
	}
	return rows
}

// Why gives the reason why IDs of a kind came twice, if they did.
func (r *results) Why(kind, reason string) string {
	if !r.repeats[kind] {
		return ""
	}
	delete(r.repeats, kind)
	return reason
}

// Version is that of an artifact of Java, or of a module of Go.
func (r *results) Version(artifact string) (string, error) {
	pattern := regexp.MustCompile(regexp.QuoteMeta(artifact) + `(?:</artifactId>\s*<version>|\S* v|>)([^<\s]+)`)
	for _, file := range []string{java + "pom.xml", java + "bench/pom.xml", "peers/go.mod"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if found := pattern.FindSubmatch(raw); found != nil {
			return string(found[1]), nil
		}
	}
	return "", errors.New("no version of " + artifact)
}

// page executes comparison.tmpl. shardid has no reason there for an ID that came twice.
func (r *results) page(t *testing.T) string {
	var text strings.Builder
	check.Must(t, template.Must(template.ParseFiles("comparison.tmpl")).Execute(&text, r))
	for kind := range r.repeats {
		t.Errorf("IDs of %s came twice; say in comparison.tmpl why", kind)
	}
	return text.String()
}
