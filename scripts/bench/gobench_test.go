//go:build unix

package bench

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// library is a Go package whose benchmarks take part.
type library struct {
	name    string
	dir     string // of the package, from the root of the repository
	pattern string // of benchmarks
	cpu     string // values of GOMAXPROCS
	time    string // -benchtime, if not that of the plan
}

// goBenchLimit bounds one run of a library's benchmarks.
const goBenchLimit = 4 * time.Minute

// contender compiles the benchmarks once and runs them each time.
func (l library) contender(t *testing.T, root, benchtime string) contender {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(l.dir)+".test")
	dir := filepath.Join(root, l.dir)
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = dir
	if _, err := run(build, goBenchLimit); err != nil {
		t.Fatal(err)
	}
	if l.time != "" {
		benchtime = l.time
	}
	return contender{l.name, func() figures {
		t.Helper()
		cmd := exec.Command(binary, "-test.run", "^$", "-test.bench", l.pattern, "-test.benchtime", benchtime, "-test.cpu", l.cpu)
		cmd.Dir = dir
		out, err := run(cmd, goBenchLimit)
		check.Must(t, err)
		got, err := parseGoBench(string(out))
		check.Must(t, err)
		return got
	}}
}

// parseGoBench reads lines such as "BenchmarkX/y-2  100  5.1 ns/op  3 B/op" into
// figures named "X/y-2 ns/op". As go test has it, no number is one processor.
func parseGoBench(out string) (figures, error) {
	got := figures{}
	for line := range strings.Lines(out) {
		name, isBenchmark := strings.CutPrefix(line, "Benchmark")
		fields := strings.Fields(name)
		if !isBenchmark || len(fields) < 4 {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", strings.TrimSpace(line), err)
			}
			got[fields[0]+" "+fields[i+1]] = value
		}
	}
	if len(got) == 0 {
		return nil, fmt.Errorf("no benchmark has run:\n%s", rig.LastLines(out, 5))
	}
	return got, nil
}

func TestParseGoBench(t *testing.T) {
	got, err := parseGoBench(`goos: linux
BenchmarkPeer/google/uuid_v4-2         	 1426682	        70.98 ns/op	      16 B/op
BenchmarkBatch 	    2000	   1000123 ns/op	         0.998 of-cap
BenchmarkBroken
PASS
`)
	want := figures{"Peer/google/uuid_v4-2 ns/op": 70.98, "Peer/google/uuid_v4-2 B/op": 16, "Batch ns/op": 1000123, "Batch of-cap": 0.998}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"PASS\n", "BenchmarkX 10 fast ns/op\n"} {
		if got, err := parseGoBench(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}
