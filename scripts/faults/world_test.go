//go:build unix

package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// Topologies. The database is a pair of MariaDB, or MySQL, but on the last two.
const (
	onSingle   = "single"
	onSentinel = "sentinel"
	onCluster  = "cluster"
	onNone     = "none"   // no Redis: there are no queue and no sequences
	onGroup    = "group"  // a single Redis, and MySQL's group replication
	onGalera   = "galera" // no Redis, and three nodes of MariaDB that each take writes
)

// topologies are those that can be run here, in the order in which a soak takes them.
func topologies() []string {
	all := []string{onSingle, onSentinel, onCluster, onNone}
	switch {
	case testserver.OnMySQL():
		all = append(all, onGroup)
	case testserver.HasGalera():
		all = append(all, onGalera)
	}
	return all
}

// segmentLen is the step of every list: short, so that lists are refilled, and
// segments are in flight, all the time.
const segmentLen = 200

// world is what a run happens in.
type world struct {
	plan
	t     *testing.T // of the present round
	whole *testing.T // of the run, with which servers and processes end

	rnd   *rand.Rand // of the present round
	undo  []func()   // heals, in reverse order
	notes string     // what the fault did, for the log

	db         *testserver.MariaDBPair   // nil on a group and on Galera
	group      *testserver.MySQLGroup    // nil elsewhere
	galera     *testserver.GaleraCluster // nil elsewhere
	node       *testserver.MariaDBServer // of Galera, to which all are sent
	sql        *sql.DB                   // straight to the primary
	failedOver bool                      // the replica is dead, or knows what its primary does not
	lacking    bool                      // the database may lack numbers, as the operator knows
	site       site
	conf       string // file that every Redis of single and cluster reads at its start
	dbProxies  []*Proxy
	procs      []*proc
	gophers    []*gopher
	http       *http.Client // asks all processes
	callers    rig.Callers
	books      rig.Ledger
	spaces     []space // of sequences
	numbers    rig.Callers
	confirmed  int           // times that an operator had to confirm an app
	restarting time.Duration // longest restart of the database's server in this round
}

// database is the name of that of the deployment.
const database = "shardid"

// newStores starts the servers of a world, which end with the test.
func newStores(t *testing.T, p plan) *world {
	t.Helper()
	w := &world{plan: p, t: t, whole: t, rnd: rand.New(rand.NewPCG(p.seed, 1)), spaces: spaces()}
	w.startDatabase()
	w.startRedis()
	return w
}

// newWorld starts servers and processes; all end with the test.
func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	w := newStores(t, p)
	if p.topology == onNone { // the copy knows of nothing that happens from before the first ID on
		w.db.CatchUp()
		w.db.Lag()
	}
	for i := range replicas {
		w.startProc(i)
	}
	w.http = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(w.http.CloseIdleConnections)
	for i := range goClients {
		w.startGopher(i)
	}
	return w
}

// startDatabase provisions apps, tags, spaces and names through shardid's own commands.
func (w *world) startDatabase() {
	w.t.Helper()
	switch w.topology {
	case onGroup:
		w.startGroup()
	case onGalera:
		w.galera = testserver.Galera(w.t)
		w.node = w.galera.Nodes[0]
	default:
		w.db = testserver.MariaDBReplicated(w.t)
	}
	rig.Query(w.t, w.primary().DSN(""), "CREATE DATABASE "+database)
	w.command("migrate")
	w.command("tags", "add", "--tag", ordersTag, "--step", fmt.Sprint(segmentLen))
	for _, app := range []int64{1, 255} {
		w.command("provision", "--app", fmt.Sprint(app), "--name", "test")
	}
	w.reconnect()
	w.exec("UPDATE id_alloc SET step = ?", segmentLen)
	for _, app := range narrowApps {
		w.command("provision", "--app", fmt.Sprint(app), "--name", "narrow", "--step", fmt.Sprint(segmentLen),
			"--max-limit-id", fmt.Sprint(int64(1)<<app))
	}
	for _, s := range w.spaces[:young] {
		w.command("spaces", "add", "--space", s.name,
			"--sections", fmt.Sprint(s.sections), "--step", fmt.Sprint(s.step))
	}
	w.command("names", "add", "--name", leasedName, "--worker-bits", "3", "--hold", "5s")
}

// primary is the database that takes writes.
func (w *world) primary() *testserver.MariaDBServer {
	w.t.Helper()
	switch {
	case w.group != nil:
		return w.group.Primary()
	case w.galera != nil:
		return w.node
	}
	return w.db.Primary
}

// reconnect opens the present primary for the test's own statements.
func (w *world) reconnect() {
	w.t.Helper()
	db, err := sql.Open("mysql", w.primary().DSN(database))
	check.Must(w.t, err)
	w.whole.Cleanup(func() { _ = db.Close() })
	w.sql = db
}

func (w *world) command(args ...string) {
	w.t.Helper()
	check.Must(w.t, w.try(args...))
}

// rates are those of lists and of tags, and so the most that a segment has: it is short, so that many are taken.
// A jump is twice as much for each second that the database may lack.
func rates() settings {
	return settings{"QUEUE_MAX_LIST_RATE": "5000", "SEGMENT_MAX_RATE": "50000"}
}

// try runs a command that may be refused.
func (w *world) try(args ...string) error {
	w.t.Helper()
	env := rates().With(settings{"DATABASE_DRIVER": "mysql", "DATABASE_DSN": w.primary().DSN(database)})
	if w.site != nil { // a command has the Redis of the replicas, which vouches for what was issued
		env = env.With(w.site.env(0))
	}
	cmd := env.Command(w.whole.TempDir(), rig.Binary(w.t), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("shardid %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// exec runs a statement on the primary and gives how many rows it changed.
func (w *world) exec(statement string, args ...any) (rows int64) {
	w.t.Helper()
	result, err := w.sql.ExecContext(context.Background(), statement, args...)
	if err == nil {
		rows, err = result.RowsAffected()
	}
	if err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
	return rows
}

// number is the one that a query of the primary gives.
func (w *world) number(query string, args ...any) (n int64) {
	w.t.Helper()
	if err := w.sql.QueryRowContext(context.Background(), query, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (w *world) startRedis() {
	w.t.Helper()
	w.conf = filepath.Join(w.t.TempDir(), "extra.conf")
	w.configure("")
	switch w.topology {
	case onSentinel:
		w.site = newSentinel(w.t)
	case onCluster:
		w.site = newCluster(w.t, w.conf)
	case onNone, onGalera:
		w.site = none{}
	default:
		w.site = newSingle(w.t, w.conf, replicas)
	}
}

// hasRedis says whether there are a queue and sequences.
func (w *world) hasRedis() bool { return len(w.site.pairs()) > 0 }

// configure sets what a Redis reads at its next start.
func (w *world) configure(text string) {
	w.t.Helper()
	check.Must(w.t, os.WriteFile(w.conf, []byte(text), 0o600))
}

// startProc starts process i and returns when it listens. They differ in how much they take ahead.
func (w *world) startProc(i int) {
	w.t.Helper()
	servers := []string{w.primary().Addr()}
	if w.group != nil {
		servers = w.group.Addrs()
	}
	var hosts []string
	for _, addr := range servers {
		proxy := testserver.NewProxy(w.t, addr)
		w.dbProxies = append(w.dbProxies, proxy)
		hosts = append(hosts, proxy.Addr)
	}
	env := w.site.env(i).With(rates()).With(settings{
		"SERVER_ADDR": "127.0.0.1:0", "RESP_ADDR": "127.0.0.1:0",
		"DATABASE_DRIVER": "mysql", "DATABASE_DSN": "root@tcp(" + hosts[0] + ")/" + database,
		"SNOWFLAKE_ADVERTISE": fmt.Sprintf("10.0.0.%d:8080", i+1),
		"SEGMENT_RUNWAY":      "1s", "SERVER_REQUEST_TIMEOUT": "1s",
		"QUEUE_PREFETCH_MAX": fmt.Sprint([]int{20, 200, 1000}[i%3]),
		"QUEUE_REFILL_CRON":  "*/3 * * * * *", "QUEUE_RELOAD_CRON": "*/5 * * * * *",
		"SERVER_DRAIN_DELAY": "0s",
	})
	if w.group != nil {
		env["DATABASE_HOSTS"] = strings.Join(hosts, ",")
	}
	p := &proc{t: w.t, name: fmt.Sprintf("process %d", i), env: env, dir: w.t.TempDir(),
		front: testserver.NewProxy(w.t, nobody), absent: map[mode]*absence{}}
	w.t.Cleanup(func() { p.hangUp(nil) })
	p.start()
	w.procs = append(w.procs, p)
}

// later notes what heals a fault.
func (w *world) later(f func()) { w.undo = append(w.undo, f) }

// note tells the log what a fault really did.
func (w *world) note(format string, args ...any) { w.notes += "; " + fmt.Sprintf(format, args...) }

// coin is true in one of two cases.
func (w *world) coin() bool { return w.rnd.IntN(2) == 0 }

// heal ends all faults and returns when the stores are as they should be. In calm weather nothing must come
// late any more, so requests that are held back are waited for first.
func (w *world) heal() {
	w.t.Helper()
	w.setWeather(Weather{}, Weather{})
	for _, p := range append(w.redisProxies(), w.dbProxies...) {
		w.until("late requests have arrived", func() error {
			if n := p.Late(); n > 0 {
				return fmt.Errorf("%d are under way", n)
			}
			return nil
		})
	}
	for i := len(w.undo) - 1; i >= 0; i-- {
		w.undo[i]()
	}
	w.undo = nil
	w.site.settle(w)
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
	rig.Until(w.t, patience*time.Duration(1+n/lag), fmt.Sprintf("%d more IDs are delivered", n), func() error {
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

// patience is far above what a busy machine needs.
const patience = 2 * time.Minute

// until calls f until it returns nil.
func (w *world) until(what string, f func() error) {
	w.t.Helper()
	rig.Until(w.t, patience, what, f)
}

// rest returns when no earlier fault has an effect any more: each store vouches for the other, and servers of
// the database, which are told apart by when they started, give or take five seconds, have run for longer.
func (w *world) rest() {
	w.t.Helper()
	if w.db != nil {
		w.until("the database has run for a while", func() error {
			var seconds int64
			row := w.sql.QueryRowContext(context.Background(), "SHOW GLOBAL STATUS LIKE 'Uptime'")
			if err := row.Scan(new(string), &seconds); err != nil || seconds >= 8 {
				return err
			}
			return fmt.Errorf("%d s", seconds)
		})
	}
	if !w.hasRedis() {
		return
	}
	rig.Until(w.t, patience, "each store knows what the other has", func() error {
		if w.number(open) > 0 {
			return errors.New("a change of the server is not settled")
		}
		if n := w.number(holders); n < int64(len(w.procs)) {
			return fmt.Errorf("%d processes hold the witness", n)
		}
		return nil
	})
}

// open counts the changes of the server that the present witness has yet to settle; those of one that nobody
// uses any more stay open.
const open = "SELECT COUNT(*) FROM shardid_change WHERE settled = 0" +
	" AND witness = (SELECT witness FROM shardid_deployment WHERE witness <> '')"

// holders counts the replicas that may let the witness vouch, of those that said so a moment ago.
const holders = "SELECT COUNT(*) FROM shardid_replica r, shardid_deployment d" +
	" WHERE r.holds = d.witness AND d.witness <> ''" +
	" AND r.seen_at > (SELECT MAX(seen_at) FROM shardid_replica) - 12000"

// verify returns when every process issues again, in each mode, numbers that were taken from now on.
func (w *world) verify() {
	w.t.Helper()
	rows := w.rows()
	for _, p := range w.procs {
		for _, m := range w.modes() {
			count := 10
			if m.app == aliceList.App {
				count = proof
			}
			w.until(p.name+" issues again: "+m.name(), func() error {
				err := w.ask(context.Background(), p, m, alice, count)
				if err != nil {
					w.operate(m.app, err)
				}
				return err
			})
		}
	}
	w.beyond(rows)
	for _, g := range w.gophers {
		g.verify(w)
	}
	if w.numbered && w.hasRedis() {
		w.verifyNumbers()
	}
}

type (
	settings = rig.Settings
	Proxy    = testserver.Proxy
	Weather  = testserver.Weather
)

// proc is a process of shardid, over all its lives.
type proc struct {
	*rig.Process // the present life
	t            *testing.T
	name         string
	env          settings
	dir          string
	baseURL      atomic.Pointer[string]       // of the present life
	redis        atomic.Pointer[redis.Client] // asks the present life
	front        *Proxy                       // of the present life's address, for Go clients
	broken       bool                         // by the fault of this round

	mu     sync.Mutex
	absent map[mode]*absence
}

// absence is for how long a process had no IDs of a mode.
type absence struct {
	since   time.Time
	longest time.Duration
}

// start begins a life of the process.
func (p *proc) start() {
	p.t.Helper()
	cmd := p.env.Command(p.dir, rig.Binary(p.t), "serve")
	p.Process = rig.Start(p.t, cmd, filepath.Join(p.dir, "log"))
	addr := p.Listens()
	url := "http://" + addr
	p.baseURL.Store(&url)
	p.front.Switch(addr)
	resp := p.Said("listening for Redis clients")
	p.hangUp(redis.NewClient(&redis.Options{Addr: resp, ReadTimeout: 5 * time.Second, MaxRetries: 1}))
}

func (p *proc) url() string {
	if u := p.baseURL.Load(); u != nil {
		return *u
	}
	return ""
}

// served notes that IDs of a mode came.
func (p *proc) served(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.absent[m]; a != nil {
		a.longest, a.since = max(a.longest, time.Since(a.since)), time.Now()
	}
}

// absences are for how long the process had no IDs of each mode, at most, since the last call.
func (p *proc) absences(modes []mode) map[mode]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[mode]time.Duration{}
	for m, a := range p.absent {
		out[m] = max(a.longest, time.Since(a.since))
	}
	for _, m := range modes {
		p.absent[m] = &absence{since: time.Now()}
	}
	return out
}
