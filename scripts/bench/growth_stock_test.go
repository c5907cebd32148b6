//go:build unix

package bench

import (
	"fmt"
	"testing"
	"time"

	"shardid/scripts/check"
)

// stock is what lies in the stores of a deployment, and may be much.
type stock struct {
	of    string
	sizes []int
	rows  []string // statements of MariaDB that make %[1]d of it, at %[2]d, Unix ms
}

// stocks are what there may be most of. Without rows they are keys of sequences.
func stocks() []stock {
	const (
		name  = "INSERT INTO shardid_name (name, epoch_ms, worker_bits, seq_bits, hold_ms, made_at) SELECT CONCAT('name-', seq), 1288834974657, 14, 8, 600000, %[2]d FROM "
		lease = ", CONCAT('host-', seq), SHA2(seq, 256), %[2]d, %[2]d + 600000, %[2]d, %[2]d FROM seq_1_to_%[1]d"
	)
	return []stock{
		{"tags", []int{1000, 100_000, 1_000_000}, []string{"INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT CONCAT('orders-of-customer-', seq), 1, 1000 FROM seq_1_to_%[1]d"}},
		{"names of a lease each", []int{10, 1000, 10_000}, []string{name + "seq_1_to_%[1]d", "INSERT INTO shardid_lease SELECT CONCAT('name-', seq), 0" + lease}},
		{"leases of a name", []int{10, 1000, 10_000}, []string{name + "seq_1_to_1", "INSERT INTO shardid_lease SELECT 'name-1', seq" + lease}},
		{"keys of sequences", []int{1000, 100_000, 1_000_000}, nil},
	}
}

// growStock starts a replica where n of it are, and looks at it while nobody asks.
func (s *suite) growStock(t *testing.T, k stock, n int) {
	what := fmt.Sprintf("%d %s, ", n, k.of)
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	d.fill(t, s, k, n)
	own := s.serveShardid(t, d.settings().With(unswept()), singleApp)
	s.growth(what+"start to first ID", time.Since(own.Begun).Seconds()*1000, "ms", "")
	s.settle()
	s.pages(t, what, own)
	idle := during(t, d, []*daemon{own}, func() { time.Sleep(20 * s.plan.load) })
	s.growth(what+"memory", float64(own.Memory("VmRSS"))/(1<<20), "MiB", "resident, idle")
	s.growth(what+"idle: calls to Redis a second", idle.calls/idle.seconds, "", "statements of the database a second: "+number(idle.statements/idle.seconds))
	s.growth(what+"idle: CPU", idle.cpu.Seconds()/idle.seconds*60, "s a minute", "without sweeps")
	own.Kill()
}

// fill makes n of a stock.
func (d deployment) fill(t *testing.T, s *suite, k stock, n int) {
	t.Helper()
	if k.rows == nil {
		_, err := run(d.command(t, s, "sequences", "add", "--space", chat), time.Minute)
		check.Must(t, err)
		own := s.serveShardid(t, d.settings().With(settings{"RESP_ADDR": "127.0.0.1:0"}), singleApp)
		measurable(t, time.Minute, "sequences are served", func() error { return answers(own.url + sequencePath) })
		useKeys(t, "redis://"+own.Said("listening for Redis clients"), n)
		own.Kill()
	}
	for _, row := range k.rows {
		d.exec(t, fmt.Sprintf(row+" /* %[1]d %[2]d */", n, time.Now().UnixMilli()))
	}
}

// pages are what the console and Prometheus ask for, each for the first time.
func (s *suite) pages(t *testing.T, what string, own *daemon) {
	t.Helper()
	for _, path := range []string{"/api/status", "/metrics", "/api/names"} {
		begun := time.Now()
		body, err := get(own.url + path)
		check.Must(t, err)
		s.growth(what+path, time.Since(begun).Seconds()*1000, "ms", fmt.Sprintf("%d KiB", len(body)>>10))
	}
}
