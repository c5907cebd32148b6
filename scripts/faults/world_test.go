//go:build unix

package faults

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
)

// Topologies of Redis. The database is a pair, but on the last one.
const (
	onSingle   = "single"
	onSentinel = "sentinel"
	onCluster  = "cluster"
	onGroup    = "group" // a single Redis, and MySQL's group replication
)

// topologies are those that can be run here, in the order in which a soak takes them.
func topologies() []string {
	all := []string{onSingle, onSentinel, onCluster}
	if testserver.OnMySQL() {
		all = append(all, onGroup)
	}
	return all
}

// segmentLen is the step of every list: short, so that lists are refilled, and
// segments are in flight, all the time.
const segmentLen = 200

// world is what a run happens in.
type world struct {
	t        *testing.T
	topology string
	rnd      *rand.Rand // of the present round
	undo     []func()   // heals, in reverse order
	notes    string     // what the fault did, for the log
	proof    int        // IDs that verify asks every process for

	db         *testserver.MariaDBPair // nil on a group
	group      *testserver.MySQLGroup  // nil elsewhere
	sql        *sql.DB                 // straight to the primary
	database   string                  // its name
	failedOver bool                    // the replica is dead
	site       site
	conf       string // file that every Redis of single and cluster reads at its start
	dbProxies  []*Proxy
	procs      []*proc
	clients    *clients
	gophers    []*gopher // none beside the plain design
	books      *rig.Ledger
	spaces     []space // of sequences
	patient    bool    // verify waits for them, too
	numbers    rig.Callers
	totals     map[string]float64 // metrics of processes that were killed
	region     region
}

// region is that of a deployment, one of 2^bits.
type region struct{ id, bits int }

func (r region) settings() settings {
	return settings{"REGION_ID": fmt.Sprint(r.id), "REGION_BITS": fmt.Sprint(r.bits)}
}

// row is what a row of the queue knows of an index: all but its highest bits of 49, which are the region.
func (r region) row(index int64) int64 { return index & (1<<(49-r.bits) - 1) }

// newWorld starts servers and processes; all end with the test.
func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	w := &world{t: t, topology: p.topology, rnd: rand.New(rand.NewPCG(p.seed, 1)), proof: p.proof, books: &rig.Ledger{},
		spaces: spaces(), patient: p.patient, totals: map[string]float64{}, region: p.region}
	apps := w.startDatabase()
	w.startRedis(p.procs)
	for i := range p.procs {
		w.startProc(i, p.server)
	}
	if p.gophers > 0 { // not the plain design
		apps = append(apps, youngApp)
	}
	w.clients = newClients(w.procs, apps, w.books)
	w.clients.modes = p.modes
	for i := range p.gophers {
		w.startGopher(i)
	}
	return w
}

// startDatabase provisions two apps through shardid's own commands.
func (w *world) startDatabase() (apps []int64) {
	w.t.Helper()
	if w.database = "shardid"; w.topology == onGroup {
		w.startGroup()
	} else {
		w.db = testserver.MariaDBReplicated(w.t)
	}
	w.sql = openSQL(w.t, w.primary().DSN(""))
	w.exec("CREATE DATABASE " + w.database)
	dsn := w.primary().DSN(w.database)
	w.command(dsn, "migrate")
	w.command(dsn, "tags", "add", "--tag", "orders", "--step", fmt.Sprint(segmentLen))
	apps = []int64{1, 255}
	for _, app := range apps {
		w.command(dsn, "provision", "--app", fmt.Sprint(app), "--name", "test")
	}
	w.sql = openSQL(w.t, dsn)
	w.exec("UPDATE id_alloc SET step = ?", segmentLen)
	for _, s := range w.spaces {
		w.command(dsn, "sequences", "add", "--space", s.name, "--sections", fmt.Sprint(s.sections), "--step", fmt.Sprint(s.step))
	}
	w.command(dsn, "names", "add", "--name", leasedName, "--worker-bits", "3", "--hold", "5s")
	return apps
}

// followDatabase returns when the database has a replica that knows all.
func (w *world) followDatabase() {
	w.t.Helper()
	if w.failedOver {
		w.db.Rejoin()
		w.failedOver = false
	}
	w.db.CatchUp()
}

// promoteDatabase kills the primary and sends all processes to what was its replica.
func (w *world) promoteDatabase() {
	w.t.Helper()
	w.db.Failover()
	w.failedOver = true
	w.sql = openSQL(w.t, w.db.Primary.DSN(w.database))
	for _, proxy := range w.dbProxies {
		proxy.Switch(w.db.Primary.Addr())
	}
}

// primary is the database that takes writes.
func (w *world) primary() *testserver.MariaDBServer {
	w.t.Helper()
	if w.group != nil {
		return w.group.Primary()
	}
	return w.db.Primary
}

func openSQL(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = &mysql.NopLogger{} // of connections that a kill broke
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (w *world) command(dsn string, args ...string) {
	w.t.Helper()
	w.must(w.try(dsn, args...))
}

// try runs a command that may be refused.
func (w *world) try(dsn string, args ...string) error {
	w.t.Helper()
	env := settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": dsn}.With(w.region.settings())
	if w.site != nil { // a command has the Redis of the replicas, which vouches for what was handed out
		env = env.With(w.site.env(0))
	}
	cmd := env.Command(w.t.TempDir(), rig.Binary(w.t), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("shardid %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	if _, err := w.sql.ExecContext(context.Background(), statement, args...); err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

func (w *world) startRedis(procs int) {
	w.t.Helper()
	w.conf = filepath.Join(w.t.TempDir(), "extra.conf")
	w.configure("")
	switch w.topology {
	case onSentinel:
		w.site = newSentinel(w.t)
	case onCluster:
		w.site = newCluster(w.t, w.conf)
	default:
		w.site = newSingle(w.t, w.conf, procs)
	}
}

// configure sets what a Redis reads at its next start.
func (w *world) configure(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.conf, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// startProc starts process i. They differ in how much they take ahead.
func (w *world) startProc(i int, how func(settings) server) {
	w.t.Helper()
	servers := []string{w.primary().Addr()}
	if w.group != nil {
		servers = w.group.Addrs()
	}
	var hosts []string
	for _, addr := range servers {
		proxy := newTestProxy(w.t, addr)
		w.dbProxies = append(w.dbProxies, proxy)
		hosts = append(hosts, proxy.Addr)
	}
	env := w.site.env(i).With(w.region.settings()).With(settings{
		"DATABASE_DRIVER": "mysql", "DATABASE_DSN": "root@tcp(" + hosts[0] + ")/" + w.database,
		"SNOWFLAKE_ADVERTISE": fmt.Sprintf("10.0.0.%d:8080", i+1), "SEGMENT_MAX_STEP": fmt.Sprint(5 * segmentLen), "SEGMENT_RUNWAY": "1s",
		"QUEUE_TIMEOUT": "1s", "QUEUE_MAX_STEP": "5000", "QUEUE_PREFETCH_MAX": fmt.Sprint([]int{20, 200, 1000}[i%3]),
		"QUEUE_REFILL_CRON": "*/3 * * * * *", "QUEUE_RELOAD_CRON": "*/5 * * * * *",
		"SEQUENCE_TIMEOUT": "1s",
	})
	if w.group != nil {
		env["DATABASE_HOSTS"] = strings.Join(hosts, ",")
	}
	w.procs = append(w.procs, startProc(w.t, fmt.Sprintf("process %d", i), how(env)))
}

// later notes what heals a fault.
func (w *world) later(f func()) { w.undo = append(w.undo, f) }

// note tells the log what a fault really did.
func (w *world) note(format string, args ...any) { w.notes += "; " + fmt.Sprintf(format, args...) }

// heal ends all faults and returns when the stores are as they should be.
func (w *world) heal() {
	w.t.Helper()
	w.setWeather(Weather{}, Weather{})
	w.drain()
	for i := len(w.undo) - 1; i >= 0; i-- {
		w.undo[i]()
	}
	w.undo = nil
	w.site.settle(w)
}

// drain waits until no request is held back: in calm weather nothing must come
// late any more.
func (w *world) drain() {
	w.t.Helper()
	for _, p := range append(w.redisProxies(), w.dbProxies...) {
		until(w.t, "late requests have arrived", func() error {
			if n := p.Late(); n > 0 {
				return fmt.Errorf("%d are under way", n)
			}
			return nil
		})
	}
}

// redisProxies are there on single only: Sentinel and Cluster tell clients the
// servers' own addresses.
func (w *world) redisProxies() []*Proxy {
	if s, ok := w.site.(*single); ok {
		return append([]*Proxy(nil), s.proxies...)
	}
	return nil
}

func (w *world) setWeather(redis, db Weather) {
	for _, p := range w.redisProxies() {
		p.SetWeather(redis)
	}
	for _, p := range w.dbProxies {
		p.SetWeather(db)
	}
}

// issue waits until n more IDs have been delivered.
func (w *world) issue(n int) {
	w.t.Helper()
	begun := w.books.Count()
	until(w.t, fmt.Sprintf("%d more IDs are delivered", n), func() error {
		if ids := w.books.Count(); ids < begun+n {
			return fmt.Errorf("%d were", ids-begun)
		}
		return nil
	})
}

// linger leaves the world alone for a little, at most that long.
func (w *world) linger(longest time.Duration) {
	time.Sleep(longest/4 + time.Duration(w.rnd.Int64N(int64(longest*3/4))))
}

// verify returns when every process issues again, in each mode.
func (w *world) verify() {
	w.t.Helper()
	for _, p := range w.procs {
		for _, mode := range w.clients.modes {
			if mode.young {
				continue
			}
			until(w.t, p.name+" issues again: "+mode.path, func() error {
				return w.clients.getOf(context.Background(), p, mode, 10)
			})
		}
		until(w.t, p.name+" issues again", func() error {
			return w.clients.get(context.Background(), p, w.clients.apps[0], randomPass(w.rnd), w.proof)
		})
	}
	for _, g := range w.gophers {
		g.verify()
	}
	if w.patient {
		w.verifyNumbers()
	}
}
