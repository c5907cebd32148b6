//go:build unix

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// stock is what there may be very many of in the stores of a replica.
type stock struct {
	name string
	rows []string // statements of MariaDB that make them; %d is the time, Unix ms
}

const (
	allApps    = "256 apps, 16 384 lists, 1024 in use"
	insertName = "INSERT INTO shardid_name (name, epoch_ms, worker_bits, seq_bits, hold_ms, made_at) " +
		"SELECT CONCAT('name-', seq), 1288834974657, 14, 8, 600000, %[1]d FROM "
	leaseOf = ", CONCAT('host-', seq), SHA2(seq, 256), %[1]d, %[1]d + 600000, %[1]d, %[1]d FROM seq_1_to_10000"
)

func stocks() []stock {
	return []stock{
		{"3 apps, 192 lists", nil},
		{allApps, nil},
		{"1 000 000 tags", []string{"INSERT INTO leaf_alloc (biz_tag, max_id, step) " +
			"SELECT CONCAT('orders-of-customer-', seq), 1, 1000 FROM seq_1_to_1000000"}},
		{"10 000 names of a lease each", []string{insertName + "seq_1_to_10000",
			"INSERT INTO shardid_lease SELECT CONCAT('name-', seq), 0" + leaseOf}},
		{"10 000 leases of a name", []string{insertName + "seq_1_to_1",
			"INSERT INTO shardid_lease SELECT 'name-1', seq" + leaseOf}},
	}
}

// growthGoals are what a replica costs beside each stock.
func (c *comparison) growthGoals() (all []goal) {
	for _, s := range stocks() {
		all = append(all,
			goal{"beside " + s.name + ": start to first ID", s.name + " start", "", "ms", "", 0},
			goal{"memory", s.name + " memory", "", "MiB", "", 0},
			goal{"/api/status, all of it for the first time", s.name + " /api/status", "", "ms", "", 0})
		if s.name == allApps {
			memory := &all[len(all)-2]
			memory.sign, memory.wanted = "≤", 80
		}
	}
	return all
}

// growth measures the start of the embedded service, and replicas beside each stock.
func (c *comparison) growth() {
	c.contest("start", 3*c.rounds, []contender{{"embedded", c.firstID}})
	for _, s := range stocks() {
		if s.rows != nil && testserver.OnMySQL() {
			c.t.Log(s.name, "are made by statements that MySQL does not have")
			continue
		}
		c.contest("beside "+s.name, 1, []contender{{s.name, func() figures { return c.beside(s) }}})
	}
}

func (c *comparison) beside(s stock) figures {
	d := c.deploy()
	for _, row := range s.rows {
		rig.Query(c.t, d.dsn, fmt.Sprintf(row+" /* %[1]d */", time.Now().UnixMilli()))
	}
	lists := 3 * 64
	if s.name == allApps {
		c.provisionAll(d)
		lists = 256 * 64
	}
	c.serveFilled(d, lists).Kill()
	p := c.serveShardid(d.settings)
	got := figures{"start": time.Since(p.Begun).Seconds() * 1000}
	defer p.Kill()
	if s.name == allApps { // 16 of them, all lists of each, take turns
		for app := range 16 {
			newLoad(p.Listens(), fmt.Sprint("/get?appId=", app, "&gatePass=%s"), 1, 0).run(c.t, 0, c.load/4)
		}
	}
	begun := time.Now()
	_, err := get(p, "/api/status")
	check.Must(c.t, err)
	got["/api/status"] = time.Since(begun).Seconds() * 1000
	got["memory"] = float64(p.Memory("VmRSS")) / (1 << 20)
	return got
}

// firstID starts the embedded service in an empty folder and takes its first ID.
func (c *comparison) firstID() figures {
	p := c.serveShardid(nil, "--demo")
	defer p.Kill()
	return figures{"start": time.Since(p.Begun).Seconds() * 1000}
}

// provisionAll makes the apps that are missing of 256.
func (c *comparison) provisionAll(d deployment) {
	path, list := filepath.Join(c.t.TempDir(), "apps.yaml"), ""
	for app := range 256 {
		if app != 1 && app != 3 && app != 4 {
			list += fmt.Sprintf("- {id: %d, name: app %d, step: 1000}\n", app, app)
		}
	}
	check.Must(c.t, os.WriteFile(path, []byte(list), 0o600))
	c.run(d, "provision", "--file", path)
}

// libraries runs the Go benchmarks of packages that goals are about, in turns.
func (c *comparison) libraries() {
	usual := "30ms"
	if c.full {
		usual = "300ms"
	}
	var contenders []contender
	for _, l := range []struct{ folder, benchmarks string }{
		{"service/segment", "Issue/(atomic_add|key)$"},
		{"service/uid", "Cached/one"},
		{"service/httpapi", "Modes/(get|snowflake)$"},
		{"service/resp", "Commands/INCR$"},
		{"client", "Next"},
		{"client/idgen", "Take"},
	} {
		folder, name := filepath.Join("..", "..", l.folder), filepath.Base(l.folder)
		binary := filepath.Join(c.t.TempDir(), name+".test")
		c.do(folder, "go", "test", "-c", "-o", binary, ".")
		words := c.onCores(c.cores, binary, "-test.run", "^$", "-test.bench", l.benchmarks, "-test.benchtime", usual,
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
