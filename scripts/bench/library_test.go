//go:build unix

package bench

import (
	"path/filepath"
	"strconv"
	"strings"
)

// libraries runs the Go benchmarks of packages that goals are about, in turns. Those of redisstore bring a server of
// their own.
func (c *comparison) libraries() {
	usual, stores := "30ms", "3x"
	if c.full {
		usual, stores = "300ms", "10x"
	}
	var contenders []contender
	for _, l := range []struct{ folder, benchmarks, time string }{
		{"service/segment", "HandleAndAtomicAdd|Issue/(atomic_add|key)$", usual},
		{"service/snowflake", "Batch", usual},
		{"service/uid", "Cached/one", usual},
		{"service/httpapi", "Modes/(get|snowflake)$", usual},
		{"service/resp", "Commands/INCR$", usual},
		{"client", "Next|Generator/(one|parallel)$", usual},
		{"repository/redisstore", "Push1024Times1000|StateOf16384", stores},
	} {
		folder, name := filepath.Join("..", "..", l.folder), filepath.Base(l.folder)
		binary := filepath.Join(c.t.TempDir(), name+".test")
		c.do(folder, "go", "test", "-c", "-o", binary, ".")
		words := c.onCores(c.cores, binary, "-test.run", "^$", "-test.bench", l.benchmarks, "-test.benchtime", l.time,
			"-test.benchmem", "-test.cpu", "2")
		contenders = append(contenders, contender{name, func() figures { return benchmarks(c.do(folder, words...)) }})
	}
	c.contest("benchmarks", c.rounds, contenders)
}

// benchmarks reads lines such as "BenchmarkX/y-2  100  5.1 ns/op  3 B/op" into figures named "X/y ns/op".
func benchmarks(out string) figures {
	got := figures{}
	for line := range strings.Lines(out) {
		name, is := strings.CutPrefix(line, "Benchmark")
		fields := strings.Fields(name)
		for i := 2; is && i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				got[strings.TrimSuffix(fields[0], "-2")+" "+fields[i+1]] = value
			}
		}
	}
	return got
}
