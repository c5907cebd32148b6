//go:build unix

package bench

import (
	"database/sql"
	"fmt"
	"strconv"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"shardid/scripts/check"
)

// Growth of cost is no goal. What is measured are deployments as large as two cores
// can carry; what is computed from that says so.
const (
	// growthRate is requests a second over all replicas.
	growthRate = 8000
	// sweepEvery is seconds; by default it is two minutes. Twelve of the runs of a job
	// in a minute are as good as twelve minutes.
	sweepEvery = 5
)

// measureGrowth is what more replicas and more apps cost.
func measureGrowth(t *testing.T, s *suite) {
	sizes, shares, apps := []int{1, 2, 4, 8, 16}, []int{1, 2, 4, 8, 16, 32, 64, 100}, []int{1, 16, 64, 256}
	if s.plan.name == "quick" {
		sizes, shares, apps = []int{1, 2}, []int{1, 2, 100}, []int{1, 16}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n, " replicas"), func(t *testing.T) { s.growReplicas(t, n) })
	}
	t.Run("shares of the rate", func(t *testing.T) { s.shareRate(t, shares) })
	for _, n := range apps {
		t.Run(fmt.Sprint(n, " apps"), func(t *testing.T) { s.growApps(t, n) })
	}
	for _, k := range stocks() {
		sizes := k.sizes
		if s.plan.name == "quick" {
			sizes = sizes[:1]
		}
		for _, n := range sizes {
			t.Run(fmt.Sprint(n, " ", k.of), func(t *testing.T) { s.growStock(t, k, n) })
		}
	}
}

// growReplicas runs n, idle and under load.
func (s *suite) growReplicas(t *testing.T, n int) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	var own []*daemon
	var urls []string
	for range n {
		own = append(own, s.serveShardid(t, d.settings().With(unswept()), singleApp))
		urls = append(urls, own[len(own)-1].url)
	}
	what := fmt.Sprintf("%d replicas, ", n)
	s.settle()
	idle := during(t, d, own, func() { time.Sleep(20 * s.plan.load) })
	s.growth(what+"idle: calls to Redis a second", idle.calls/idle.seconds, "", "between two sweeps; statements of the database a second: "+number(idle.statements/idle.seconds))
	s.growth(what+"idle: CPU of a replica", idle.cpu.Seconds()/float64(n)/idle.seconds*60, "s a minute", "")
	r := request{mode: "queue", app: singleApp, rate: growthRate / n}
	s.loads(t, urls, r, 0, 2*s.plan.load) // they get used to it
	busy := during(t, d, own, func() { s.loads(t, urls, r, 0, 4*s.plan.load) })
	s.growth(what+"calls to Redis for an ID", busy.calls/busy.ids, "", fmt.Sprintf("at %d IDs a second over all, 64 lists; %s commits a minute", growthRate, number(busy.commits/busy.seconds*60)))
}

// shareRate asks one replica for what it would get of the whole rate if there were
// more: that is what decides how much it takes at once.
func (s *suite) shareRate(t *testing.T, replicas []int) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	own := s.serveShardid(t, d.settings().With(unswept()), singleApp)
	for _, n := range replicas {
		r := request{mode: "queue", app: singleApp, rate: growthRate / n}
		s.load(t, own.url, r, 0, 2*s.plan.load) // it gets used to the rate
		got := during(t, d, []*daemon{own}, func() { s.load(t, own.url, r, 0, 4*s.plan.load) })
		s.growth(fmt.Sprintf("one of %d replicas: calls to Redis for an ID", n), got.calls/got.ids, "",
			fmt.Sprintf("one replica with %d IDs a second", r.rate))
	}
}

// growApps runs one replica with n apps, without sweeps and with many.
func (s *suite) growApps(t *testing.T, n int) {
	what := fmt.Sprintf("%d apps, ", n)
	d := s.deploy(t, apps(n))
	fresh := s.serveShardid(t, d.settings().With(unswept()), 0)
	fresh.awaitFilled(n)
	s.growth(what+"lists filled for the first time", time.Since(fresh.Begun).Seconds(), "s", "from the start")
	fresh.Kill()

	still := s.serveShardid(t, d.settings().With(unswept()), 0)
	s.growth(what+"start to first ID", time.Since(still.Begun).Seconds()*1000, "ms", "the lists are full")
	s.settle()
	base := during(t, d, []*daemon{still}, func() { time.Sleep(20 * s.plan.load) })
	s.pages(t, what, still)
	s.growth(what+"memory", float64(still.Memory("VmRSS"))/(1<<20), "MiB", "resident, idle")
	s.growth(what+"idle: CPU", base.cpu.Seconds()/base.seconds*60, "s a minute", "without sweeps")
	still.Kill()

	swept := s.serveShardid(t, d.settings().With(settings{"QUEUE_REFILL_CRON": every(sweepEvery), "QUEUE_RELOAD_CRON": every(sweepEvery)}), 0)
	s.settle()
	runs := 4.0
	all := during(t, d, []*daemon{swept}, func() { time.Sleep(time.Duration(runs) * sweepEvery * time.Second) })
	more := all.minus(base, all.seconds/base.seconds)
	s.growth(what+"a sweep with a reload: calls to Redis", more.calls/runs, "", fmt.Sprintf("%s ms of Redis, %s ms of the replica, %s statements of the database",
		number(more.redis.Seconds()*1000/runs), number(more.cpu.Seconds()*1000/runs), number(more.statements/runs)))
	s.growth(what+"a sweep lasts", (more.redis+more.cpu).Seconds()*1000/runs, "ms", "computed: Redis and the replica take turns")
}

func (s *suite) growth(what string, value float64, unit, note string) {
	s.report.goal(noGoal).tell(what, value, unit, note)
}

// settle lets what a start brings with it end.
func (s *suite) settle() { time.Sleep(4 * s.plan.load) }

func unswept() settings { return settings{"QUEUE_REFILL_CRON": never, "QUEUE_RELOAD_CRON": never} }

// every is a schedule, in seconds.
func every(seconds int) string { return "*/" + strconv.Itoa(seconds) + " * * * * *" }

// cost is what something took of the stores and of the replicas.
type cost struct {
	seconds             float64
	calls               float64 // to Redis
	redis               time.Duration
	statements, commits float64 // of the database
	ids                 float64
	cpu                 time.Duration // of the replicas
}

// minus takes off so many times what something else cost.
func (c cost) minus(other cost, times float64) cost {
	return cost{c.seconds, c.calls - times*other.calls, c.redis - time.Duration(times*float64(other.redis)), c.statements - times*other.statements,
		c.commits - times*other.commits, c.ids - times*other.ids, c.cpu - time.Duration(times*float64(other.cpu))}
}

// during is the cost of f, less what it costs to look.
func during(t *testing.T, d deployment, own []*daemon, f func()) cost {
	t.Helper()
	first := d.costs(t, own)
	begun, before := time.Now(), d.costs(t, own)
	f()
	seconds, after := time.Since(begun).Seconds(), d.costs(t, own)
	got := after.minus(before, 1).minus(before.minus(first, 1), 1)
	got.seconds = seconds
	return got
}

// costs are counted from the start of each.
func (d deployment) costs(t *testing.T, own []*daemon) (c cost) {
	t.Helper()
	for _, o := range own {
		c.cpu += o.cpuExactly()
		c.ids += o.metric("shardid_queue_issued_total")
	}
	c.calls, c.redis = d.redisCalls(t), d.redisCPU(t)
	c.statements, c.commits = d.status(t, "Questions"), d.status(t, "Com_commit")
	return c
}

// redisCPU is the time Redis has used.
func (d deployment) redisCPU(t *testing.T) time.Duration {
	t.Helper()
	c := d.redis.Client()
	defer c.Close()
	info, err := c.InfoMap(t.Context(), "cpu").Result()
	check.Must(t, err)
	used := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		check.Must(t, err)
		used += seconds
	}
	return time.Duration(used * float64(time.Second))
}

// status is a counter of the database server, over its own connection.
func (d deployment) status(t *testing.T, name string) (value float64) {
	t.Helper()
	d.onServer(t, func(db *sql.DB) error {
		return db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value)
	})
	return value
}

func (d deployment) exec(t *testing.T, statement string) {
	t.Helper()
	d.onServer(t, func(db *sql.DB) error { return check.Err(db.ExecContext(t.Context(), statement)) })
}

func (d deployment) onServer(t *testing.T, use func(*sql.DB) error) {
	t.Helper()
	db, err := sql.Open("mysql", d.dsn)
	check.Must(t, err)
	defer db.Close()
	check.Must(t, use(db))
}
