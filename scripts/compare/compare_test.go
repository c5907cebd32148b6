//go:build unix

// Package compare runs generators of IDs that people use through faults of ordinary life, counts the IDs that came
// twice, and writes docs/comparison.md: make compare.
//
// Each fault has a world of its own, in which it happens to all generators at once. world_test.go starts the servers
// and generators and counts; faults_test.go has the faults; comparison.tmpl is the page, with what the pages of others
// say and why they repeat IDs. Generators of others are in the programs peers (Go) and Peers.java, which
// scripts/stories uses too, with the defaults of their own pages.
//
// The clock of a program in Go is set back by another package time, which adds what a file says to the wall clock and
// leaves the monotonic one alone, as the kernel does; that of a program in Java by a preloaded function in C.
// libfaketime does the same, but costs Java six seconds of CPU time at the start. Machines with one address are network
// namespaces, and containers have process IDs of their own, too.
package compare

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

var write = flag.String("write", "", "measure, for a quarter of an hour, and write this page")

// peer is a generator: a row of the page.
type peer struct {
	kind     string // by which the programs know it
	name     string
	language string // of the program that has it, go or java; the test itself asks the others
	hasStore bool
	counts   bool // it counts, so that it can be told what it skips
	shift    int  // bits below the number in an ID
	// speedOnly leaves it out of the faults: it holds IDs of a row above.
	speedOnly bool
}

var peers = []peer{
	{kind: "queue", name: "**shardid** queue", hasStore: true, counts: true, shift: 14},
	{kind: "segment", name: "**shardid** segment", hasStore: true, counts: true},
	{kind: "segment-alone", name: "the same, MariaDB alone", hasStore: true, counts: true},
	{kind: "sequence", name: "**shardid** sequence", hasStore: true, counts: true},
	{kind: "snowflake", name: "**shardid** snowflake", hasStore: true},
	{kind: "snowflake-alone", name: "the same, MariaDB alone", hasStore: true},
	{kind: "uid", name: "**shardid** UID", hasStore: true},
	{kind: "uid-alone", name: "the same, MariaDB alone", hasStore: true},
	{kind: "lease", name: "**shardid** lease, Go client", hasStore: true, language: "go"},
	{kind: "lease-alone", name: "the same, MariaDB alone", hasStore: true, language: "go"},
	{kind: "lease-java", name: "**shardid** lease, Java client", hasStore: true, language: "java"},
	{kind: "client", name: "**shardid** segment, Go client", language: "go", speedOnly: true},
	{kind: "client-java", name: "**shardid** segment, Java client", language: "java", speedOnly: true},
	{kind: "cosid-redis", name: "CosId SegmentChainId, Redis or JDBC", hasStore: true},
	{kind: "cosid-machine", name: "CosId SnowflakeId, machine ID by Redis", hasStore: true},
	{kind: "cosid-snowflake", name: "CosId SnowflakeId, machine ID by hand", language: "java"},
	{kind: "cosid-memory", name: "CosId SegmentChainId, a counter in memory", language: "java", speedOnly: true},
	{kind: "uidgenerator", name: "UidGenerator, cached", hasStore: true, language: "java"},
	{kind: "leaf", name: "Leaf", hasStore: true},
	{kind: "mybatis-plus", name: "MyBatis-Plus", language: "java"},
	{kind: "hutool", name: "Hutool", language: "java"},
	{kind: "shardingsphere", name: "ShardingSphere `SNOWFLAKE`", language: "java"},
	{kind: "yitter", name: "Yitter IdGenerator", language: "java"},
	{kind: "sonyflake", name: "Sonyflake", language: "go"},
	{kind: "bwmarrin", name: "bwmarrin/snowflake", language: "go"},
	{kind: "incr", name: "`INCR` of one Redis", hasStore: true, counts: true},
	{kind: "uuid", name: "UUIDv7, the control", language: "go"},
}

// tables are what the pages of others have a user make.
var tables = []string{
	"CREATE TABLE WORKER_NODE (ID BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, HOST_NAME VARCHAR(64) NOT NULL, " +
		"PORT VARCHAR(64) NOT NULL, TYPE INT NOT NULL, LAUNCH_DATE DATE NOT NULL, MODIFIED TIMESTAMP NOT NULL, " +
		"CREATED TIMESTAMP NOT NULL)",
}

// tools are the programs, built once.
var tools struct {
	peers, clockedPeers, clockedShardid string
	jar                                 string   // "" where there is no Maven
	clock                               string   // what Java preloads; "" where there is no compiler of C
	log                                 *os.File // what the programs say to people
}

// offsetFile is a part of package time, and readerFile one of a program: it reads the file with the seconds.
const (
	offsetFile = "package time\n\nimport \"sync/atomic\"\n\nvar CompareOffset atomic.Int64\n"
	readerFile = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	read := func() {
		raw, _ := os.ReadFile(os.Getenv("GO_COMPARE_CLOCK"))
		seconds, _ := strconv.Atoi(string(raw))
		time.CompareOffset.Store(int64(seconds))
	}
	read()
	go func() {
		for ; ; time.Sleep(50 * time.Millisecond) {
			read()
		}
	}()
}
`
)

// clockSource reads the file every tenth of a second.
const clockSource = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
	static int (*real)(clockid_t, struct timespec *);
	static long read_at, offset;
	if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
	if (id != CLOCK_REALTIME) return real(id, t);
	real(CLOCK_MONOTONIC, t);
	long now = t->tv_sec * 10 + t->tv_nsec / 100000000;
	FILE *file = now == read_at ? NULL : fopen(getenv("GO_COMPARE_CLOCK"), "r");
	if (file) {
		read_at = now;
		if (fscanf(file, "%ld", &offset) != 1) offset = 0;
		fclose(file);
	}
	int result = real(id, t);
	t->tv_sec += offset;
	return result;
}
`

// build builds the program in a folder.
func build(t *testing.T, folder, name string, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append(append([]string{"build"}, args...), "-o", path, ".")...)
	cmd.Dir = folder
	output(t, cmd)
	return path
}

// buildClocked builds it with a package time whose wall clock can be set.
func buildClocked(t *testing.T, folder, name string) string {
	t.Helper()
	root := strings.TrimSpace(string(output(t, exec.Command("go", "env", "GOROOT"))))
	dir, source := t.TempDir(), filepath.Join(root, "src/time/time.go")
	original, err := os.ReadFile(source)
	check.Must(t, err)
	const reading = "sec, nsec, mono := runtimeNow()\n"
	check.Equal(t, strings.Count(string(original), reading), 1, "places where package time reads the clock")
	main, err := filepath.Abs(filepath.Join(folder, "compareclock.go"))
	check.Must(t, err)
	overlay := map[string]string{}
	for path, text := range map[string]string{
		source: strings.Replace(string(original), reading, reading+"sec += CompareOffset.Load()\n", 1),
		filepath.Join(filepath.Dir(source), "compareoffset.go"): offsetFile,
		main: readerFile,
	} {
		overlay[path] = filepath.Join(dir, fmt.Sprint(len(overlay)))
		check.Must(t, os.WriteFile(overlay[path], []byte(text), 0o600))
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	check.Must(t, err)
	check.Must(t, os.WriteFile(filepath.Join(dir, "overlay"), text, 0o600))
	return build(t, folder, name, "-overlay", filepath.Join(dir, "overlay"))
}

func makeTools(t *testing.T) {
	var err error
	tools.log, err = os.Create(filepath.Join(t.TempDir(), "log"))
	check.Must(t, err)
	t.Cleanup(func() { _ = tools.log.Close() })
	tools.peers = build(t, "peers", "peers")
	tools.clockedPeers = buildClocked(t, "peers", "peers")
	tools.clockedShardid = buildClocked(t, "../../cmd/shardid", "shardid")
	clock := filepath.Join(t.TempDir(), "clock.so")
	cc := exec.Command("cc", "-O2", "-shared", "-fPIC", "-x", "c", "-o", clock, "-")
	cc.Stdin = strings.NewReader(clockSource)
	if cc.Run() == nil {
		tools.clock = clock
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return
	}
	const java = "../stories/testdata/java/"
	output(t, exec.Command("mvn", "-B", "-q", "-f", java, "package", "-DskipTests", "-pl", "bench", "-am"))
	tools.jar, err = filepath.Abs(java + "bench/target/bench-1.jar")
	check.Must(t, err)
}

var begun = time.Now()

// progress says on standard error how far the run has come.
func progress(what string) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(begun).Seconds(), what)
}

func TestCompare(t *testing.T) {
	if *write == "" {
		t.Skip("make compare runs it")
	}
	progress("building the programs")
	makeTools(t)
	results := map[string]map[string]*tally{}
	for _, f := range faults {
		progress(f.name)
		t.Run(f.key, func(t *testing.T) {
			w := newWorld(t)
			if f.key == "clock" || f.key == "restart" {
				w.clock = filepath.Join(w.dir, "clock")
				w.setClock(0)
			}
			f.happens(w)
			results[f.key] = w.tallies
			for kind, l := range w.tallies {
				t.Logf("%-16s %6d IDs, %d twice, %d out of order; after the fault %d, none for %v; last refusal: %s",
					kind, len(l.seen), l.repeats, l.disorder, l.since, l.pause, l.why)
			}
		})
	}
	progress("speed")
	speeds := map[string]string{}
	t.Run("speed", func(t *testing.T) { measureSpeed(t, speeds) })
	check.Must(t, os.WriteFile(*write, []byte(page(t, results, speeds)), 0o644))
	progress("wrote " + *write)
}

// measureSpeed is the nanoseconds of an ID in the process, and the requests a second of services, by kind. The clients
// of shardid hold IDs of an embedded service, which does not bound the rate of a tag.
func measureSpeed(t *testing.T, speeds map[string]string) {
	w := newWorld(t)
	w.jvm = []string{"-Xmx512m"}
	speeds["MariaDB"] = strings.TrimSpace(string(output(t, w.client("mariadb", "-Ne", "SELECT VERSION()"))))
	speeds["Redis"] = w.incr.InfoMap(t.Context(), "server").Item("Server", "redis_version")
	embedded := rig.Settings{"DATA_DIR": t.TempDir()}
	for _, args := range []string{"migrate", "tags add --tag orders --step 1000000", "names add --name demo"} {
		output(t, embedded.Command(t.TempDir(), rig.Binary(t), strings.Fields(args)...))
	}
	service := &process{w: w, url: "not known yet", command: func() *exec.Cmd {
		return embedded.Command(t.TempDir(), rig.Binary(t), "serve", "--set", "server.addr=127.0.0.1:0")
	}}
	w.add(service)
	service.url = "http://" + service.Listens()
	w.addPrograms(0, func(p peer) bool { return p.kind != "lease-alone" })
	for _, p := range w.processes[1:] {
		p.take(some) // a worker ID is leased meanwhile
		p.tell("speed", func(kind, rest string) { speeds[kind] = rest + " ns" })
	}
	w.kill()
	w.processes, w.tallies = nil, map[string]*tally{}
	w.serve(0, "")
	w.settle()
	url := w.processes[0].url
	for mode := range modes {
		speeds[mode] = load(func() error { return check.Err(w.ask(url, mode, 1)) })
	}
	speeds["incr"] = load(func() error { return w.incr.Incr(t.Context(), "load").Err() })
}

// load is how many requests a second sixteen callers get answered.
func load(ask func() error) string {
	const callers, length = 16, 3 * time.Second
	var all sync.WaitGroup
	var answered atomic.Int64
	end := time.Now().Add(length)
	for range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				if ask() == nil {
					answered.Add(1)
				}
			}
		})
	}
	all.Wait()
	return thousands(answered.Load()*int64(time.Second)/int64(length)/100*100) + " requests/s"
}

// thousands writes a number with commas.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// cell is what a fault did to a generator.
func cell(f fault, p peer, l *tally) string {
	switch {
	case f.ofStores && !p.hasStore:
		return "–"
	case l == nil:
		return "not run"
	case len(l.seen) == 0:
		return "none issued"
	}
	text := "0"
	if l.repeats > 0 {
		text = "**" + thousands(int64(l.repeats)) + "** of " + thousands(int64(len(l.seen)+l.repeats))
	}
	if l.disorder > 0 {
		text += ", " + thousands(int64(l.disorder)) + " out of order"
	}
	if n := len(l.last); f.key == "hundred" && n > 3 && n < 100 {
		text += fmt.Sprintf(", %d of 100 issued", len(l.last))
	}
	if l.at.IsZero() {
		return text
	}
	if l.since == 0 {
		return text + ", none after it"
	}
	if l.pause > 2500*time.Millisecond {
		text += fmt.Sprintf(", none for %.0f s", l.pause.Seconds())
	}
	if skipped := (l.highest-l.before)>>p.shift - l.since; p.counts && skipped >= 1_000_000 {
		text += fmt.Sprintf(", skips %s million", thousands(skipped/1_000_000))
	}
	return text
}

// page executes comparison.tmpl. Its function why takes a kind, the keys of faults and the reason why IDs repeated
// there, and gives a row if they did; each repeat must have one, and shardid none.
func page(t *testing.T, results map[string]map[string]*tally, speeds map[string]string) string {
	t.Helper()
	repeats := map[string]bool{}
	rows := "| |"
	for _, f := range faults {
		rows += " " + f.name + " |"
	}
	rows += "\n|---|" + strings.Repeat("---|", len(faults))
	for _, p := range peers {
		if p.speedOnly {
			continue
		}
		rows += "\n| " + p.name + " |"
		for _, f := range faults {
			l := results[f.key][p.kind]
			rows += " " + cell(f, p, l) + " |"
			if l != nil && l.repeats > 0 {
				repeats[p.kind+" "+f.key] = true
			}
		}
	}
	var pinned bytes.Buffer
	const java = "../stories/testdata/java/"
	for _, file := range []string{java + "pom.xml", java + "bench/pom.xml", "peers/go.mod"} {
		raw, err := os.ReadFile(file)
		check.Must(t, err)
		pinned.Write(raw)
	}
	functions := template.FuncMap{
		"repeats": func() string { return rows },
		"speed": func() (rows string) {
			for _, p := range peers {
				if speeds[p.kind] != "" {
					rows += "| " + p.name + " | " + speeds[p.kind] + " |\n"
				}
			}
			return strings.TrimSpace(rows)
		},
		"why": func(kind, keys, reason string) string {
			var names []string
			for _, f := range faults {
				if slices.Contains(strings.Fields(keys), f.key) && repeats[kind+" "+f.key] {
					names = append(names, f.name)
					delete(repeats, kind+" "+f.key)
				}
			}
			if names == nil {
				return ""
			}
			at := slices.IndexFunc(peers, func(p peer) bool { return p.kind == kind })
			return "| " + peers[at].name + " | " + strings.Join(names, "; ") + " | " + reason + " |\n"
		},
		"version": func(artifact string) string {
			pattern := regexp.QuoteMeta(artifact) + `(?:</artifactId>\s*<version>|\S* v|>)([^<\s]+)`
			found := regexp.MustCompile(pattern).FindSubmatch(pinned.Bytes())
			if found == nil {
				t.Error("no version of ", artifact)
				return "?"
			}
			return string(found[1])
		},
		"minutes": func() string { return fmt.Sprintf("%.0f", time.Since(begun).Minutes()) },
	}
	parsed, err := template.New("comparison.tmpl").Funcs(functions).ParseFiles("comparison.tmpl")
	check.Must(t, err)
	var text strings.Builder
	check.Must(t, parsed.Execute(&text, speeds))
	for repeat := range maps.Keys(repeats) {
		t.Errorf("%s: IDs came twice; say in comparison.tmpl why", repeat)
	}
	return text.String()
}
