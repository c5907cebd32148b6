//go:build unix

// Deployments of the snowflake mode: instances that get their worker IDs from one registry.

package stories_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// takeover is how long an instance may be kept waiting by what others, or its
// earlier life, have reserved: 6 s, and as long again as clocks may differ; the
// rest is for a busy machine.
const takeover = 40 * time.Second

// registry is where the instances of a deployment get their worker IDs.
type registry struct {
	mode     string
	settings settings
	keeps    bool // an instance that was killed gets its worker ID back
}

// address is that of the n-th instance of every deployment.
func address(n int) string { return fmt.Sprintf("10.0.0.%d:8080", n) }

// closeClocks: the less clocks may differ, the less is waited for others. Less than
// this could be a busy machine's pause.
func closeClocks() settings { return settings{"SNOWFLAKE_MAX_CLOCK_OFFSET": "2s"} }

// onZooKeeper is a mode of its own namespace.
func onZooKeeper(mode, addr string) settings {
	name := mode + "-" + strings.ToLower(rand.Text())
	return settings{"SNOWFLAKE_WORKER_MODE": mode, "ZOOKEEPER_ADDRS": addr, "SNOWFLAKE_NAME": name}
}

// byRedis is the mode redis.
func byRedis(addr string) settings {
	return onRedis(addr).With(settings{"SNOWFLAKE_WORKER_MODE": "redis"})
}

// registries are all there are, on servers that stay.
func registries(t *testing.T) []registry {
	t.Helper()
	zoo := testserver.SharedZooKeeper(t).Addr()
	local := settings{"SNOWFLAKE_WORKER_MODE": "local",
		"SNOWFLAKE_WORKER_LOCAL_MAP": address(0) + "=7," + address(1) + "=0," + address(2) + "=1023"}
	return []registry{
		{"zk", onZooKeeper("zk", zoo), true},
		{"zk_recycle", onZooKeeper("zk_recycle", zoo), true},
		{"zk_ephemeral", onZooKeeper("zk_ephemeral", zoo), false},
		{"mysql", settings{"SNOWFLAKE_WORKER_MODE": "mysql"}, true},
		{"redis", byRedis(testserver.Redis(t).Addr), false},
		{"local", local, true},
	}
}

// deployment is instances that share a registry and a database.
type deployment struct {
	registry
	dsn       string
	books     *ledger
	instances []*instance
	workers   []int64 // theirs
	callers   *rig.Callers
	reserved  time.Time // by the instance that was killed
}

func newDeployment(t *testing.T, r registry, size int) *deployment {
	t.Helper()
	d := &deployment{registry: r, dsn: migrated(t), books: &ledger{}, workers: make([]int64, size)}
	s := onMariaDB(d.dsn).With(closeClocks()).With(r.settings)
	for n := range size {
		d.instances = append(d.instances, newInstance(t, fmt.Sprintf("%s %d", r.mode, n), address(n), d.books, s))
	}
	return d
}

// apart fails the test when two instances have one worker ID.
func (d *deployment) apart(t *testing.T) {
	t.Helper()
	holder := map[int64]int{}
	for n, worker := range d.workers {
		if other, taken := holder[worker]; taken {
			t.Errorf("%s: instances %d and %d both have worker ID %d", d.mode, other, n, worker)
		}
		holder[worker] = n
	}
}

// serves waits until all instances do, and begins to ask them.
func (d *deployment) serves(t *testing.T) {
	t.Helper()
	for n, i := range d.instances {
		d.workers[n] = i.serves(takeover)
	}
	d.apart(t)
	d.callers = gather(t, 2, d.instances...)
}

// loseOne kills the first instance in the middle of its work.
func (d *deployment) loseOne(t *testing.T, after int) {
	t.Helper()
	eventually(t, time.Minute, d.mode+": the first IDs", func() bool { return d.books.Count() > after })
	d.reserved = d.instances[0].now.Load().flakeStatus().ReservedUntil
	d.instances[0].kill()
}

// comesBack starts it again, in its folder and at its address. One that gets its
// worker ID back issues nothing of the time that its earlier life has reserved.
func (d *deployment) comesBack(t *testing.T) {
	t.Helper()
	before, i := d.workers[0], d.instances[0]
	i.start()
	d.workers[0] = i.serves(takeover)
	d.apart(t)
	if !d.keeps {
		return
	}
	if d.workers[0] != before {
		t.Errorf("%s: worker ID %d before kill -9, %d after", d.mode, before, d.workers[0])
	}
	if at := timeOf(i.last); !at.After(d.reserved) {
		t.Errorf("%s: an ID of %v, and the time up to %v was reserved before", d.mode, at, d.reserved)
	}
}
