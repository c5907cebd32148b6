//go:build unix

package e2e_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

var restartRounds = flag.Int("restarts", 8, "how many rounds TestDirectedManyRestarts runs")

// narrowLimits are the limits of the apps of TestDirectedManyRestarts, by appId; 0 is none.
var narrowLimits = map[int64]int64{1: 0, 31: 1 << 31, 32: 1 << 32, 53: 1 << 53}

// TestDirectedManyRestarts: in each round a store, both, a replica or all replicas restart,
// by an orderly stop or a power cut, while four apps are used a little. No ID repeats, no
// limit is used up, a restart costs a narrow list no more than a list may hold, and the
// operator is asked only where both stores restarted together.
func TestDirectedManyRestarts(t *testing.T) {
	check.Deep(t)
	story(t)
	r := newRestarts(t)
	begun, redisRestarts := time.Now(), int64(0)
	for round := range *restartRounds {
		kind := []string{"Redis", "database", "replica", "Redis", "database", "replica", "all replicas", "both stores"}[round%8]
		cut := round/8%2 == 1 != (round%8 < 3) // each kind both ways
		if kind == "database" || kind == "both stores" {
			// A database that restarts within five seconds of its start is not told apart.
			eventually(t, startLimit, "the database has run for a while", func() bool { return uptime(t, r.dsn) > 6 })
		}
		before := r.lives()
		r.restart(kind, round, cut)
		r.users.Add(1)
		asked := r.recover(kind, before)
		r.asked += len(asked)
		if len(asked) > 0 && kind != "both stores" {
			t.Errorf("round %d, %s: the operator was asked about the apps %v", round+1, kind, asked)
		}
		if kind == "Redis" || kind == "both stores" {
			redisRestarts++
		}
		gap := r.closeRound(kind)
		if *restartRounds <= 16 || (round+1)%20 == 0 {
			t.Logf("round %d of %d, %s, power cut %v: %v without an ID, %v in all; %s", round+1, *restartRounds, kind, cut, gap.Round(10*time.Millisecond), time.Since(begun).Round(time.Second), r.used())
		}
	}
	r.stop()
	r.report()
	for app, limit := range narrowLimits {
		list, lost := r.worstList(app)
		if most := (redisRestarts + 1) * max(20, limit>>14/500); limit > 0 && lost > most {
			t.Errorf("app %d: list %d lost %d indices in %d restarts of Redis, more than %d", app, list, lost, redisRestarts, most)
		}
	}
	for code := range r.refused {
		if code != "-4" && code != "-1" && code != "no answer" {
			t.Errorf("refused with %s: %d times", code, r.refused[code])
		}
	}
	r.books.Settle(t)
}

// restarts is a deployment whose parts restart, with one caller for each app.
type restarts struct {
	stores
	t       *testing.T
	folders []string // of the replicas, kept over their restarts
	books   *ledger
	stop    func() // ends the callers
	asked   int    // times the operator had to confirm
	client  redis.UniversalClient
	locks   []any        // the command that deletes the locks of all lists
	users   atomic.Int64 // who ask; in each round one more, whose list may be a new one

	mu       sync.Mutex
	replicas []*daemon
	served   map[[2]int]time.Time // when a replica last gave an ID to an app
	message  map[int64]string     // why an app's last request was refused; none when it was served
	refused  map[string]int       // by code
	last     map[int64]time.Time  // when an app got an ID
	longest  time.Duration        // an app went without an ID, in this round
	gaps     map[string]time.Duration
}

func newRestarts(t *testing.T) *restarts {
	t.Helper()
	r := &restarts{
		stores: stores{db: testserver.MariaDB(t), redis: testserver.Redis(t, "--appendonly", "yes", "--auto-aof-rewrite-min-size", "1mb")},
		t:      t, books: &ledger{}, replicas: make([]*daemon, 3),
		served: map[[2]int]time.Time{}, message: map[int64]string{}, refused: map[string]int{},
		last: map[int64]time.Time{}, gaps: map[string]time.Duration{},
	}
	r.client, r.locks = r.redis.Client(), []any{"DEL"}
	r.dsn = r.db.NewDatabase(t)
	must(t, onMariaDB(r.dsn), "migrate")
	for app, limit := range narrowLimits {
		for shard := range 64 {
			r.locks = append(r.locks, fmt.Sprintf("id.gen.lock_%d_%d", app, shard))
		}
		must(t, onMariaDB(r.dsn), "provision", "--app", fmt.Sprint(app), "--name", "app", "--max-limit-id", fmt.Sprint(limit))
	}
	for i := range r.replicas {
		r.folders = append(r.folders, t.TempDir())
		r.start(i)
	}
	r.users.Store(4)
	var callers sync.WaitGroup
	ended := make(chan struct{})
	r.stop = sync.OnceFunc(func() { close(ended); callers.Wait() })
	t.Cleanup(r.stop)
	for app := range narrowLimits {
		callers.Go(func() {
			for turn := int64(0); ; turn++ {
				user := turn / 3 % r.users.Load()
				r.ask(app, int(turn%3), fmt.Sprintf("user%d", user))
				select {
				case <-ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	r.recover("start", [2]string{})
	r.closeRound("start")
	return r
}

// start starts a replica. Its lists are swept and reloaded each second, so that seconds
// between two restarts stand for the minutes of the default settings.
func (r *restarts) start(replica int) {
	d := serveIn(r.t, r.folders[replica], r.settings().With(settings{
		"QUEUE_REFILL_CRON": "* * * * * *", "QUEUE_RELOAD_CRON": "* * * * * *",
		"SERVER_DRAIN_DELAY": "0s", "SNOWFLAKE_ADVERTISE": address(replica),
	}))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replicas[replica] = d
}

// ask asks a replica for one ID of an app, and notes what came.
func (r *restarts) ask(app int64, replica int, pass string) {
	r.mu.Lock()
	d := r.replicas[replica]
	r.mu.Unlock()
	a, err := d.do(http.MethodGet, form{}.target(app, pass))
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.refused["no answer"]++
	case a.status != http.StatusOK:
		r.refused[fmt.Sprint(a.Code)]++
		r.message[app] = a.Message
	default:
		r.books.Queue("", app, pass, a.ID)
		if limit := narrowLimits[app]; limit > 0 && a.ID > limit {
			r.books.Complain("ID %d of app %d is above its limit %d", a.ID, app, limit)
		}
		r.served[[2]int{int(app), replica}] = now
		delete(r.message, app)
		if last, met := r.last[app]; met {
			r.longest = max(r.longest, now.Sub(last))
		}
		r.last[app] = now
	}
}

func (r *restarts) restart(kind string, round int, cut bool) {
	r.t.Helper()
	stopStore := func(stop, kill func()) {
		if cut {
			kill()
		} else {
			stop()
		}
	}
	end := syscall.SIGTERM
	if cut {
		end = syscall.SIGKILL
	}
	restartReplicas := func(replicas ...int) {
		for _, i := range replicas {
			r.replicas[i].Signal(end)
		}
		for _, i := range replicas {
			if status := r.replicas[i].Exit(startLimit); status != 0 && !cut {
				r.t.Errorf("round %d: replica %d ended with status %d", round+1, i, status)
			}
		}
		for _, i := range replicas {
			r.start(i)
		}
	}
	switch kind {
	case "Redis":
		stopStore(r.redis.Stop, r.redis.Kill)
		r.redis.Restart()
	case "database":
		stopStore(r.db.Stop, r.db.Kill)
		r.db.Restart()
	case "both stores":
		stopStore(r.db.Stop, r.db.Kill)
		stopStore(r.redis.Stop, r.redis.Kill)
		r.redis.Restart()
		r.db.Restart()
	case "replica":
		restartReplicas(round % len(r.replicas))
	case "all replicas":
		restartReplicas(0, 1, 2)
	}
}

// lives name the present life of Redis and of the database, as the database has noted them.
func (r *restarts) lives() (l [2]string) {
	r.t.Helper()
	return [2]string(strings.Split(word(r.t, r.dsn, "SELECT CONCAT(SUBSTRING_INDEX(witness, ' ', 1), ' ', since) FROM shardid_deployment"), " "))
}

// recover waits until the restart is noted, each replica serves each app, and each store
// again knows what the other one does of the narrow lists. Before that another restart
// would count as one of both. A command that a refusal names is run, as an operator would;
// asked are the apps that needed it.
func (r *restarts) recover(kind string, before [2]string) (asked []int64) {
	r.t.Helper()
	command := regexp.MustCompile("shardid (confirm[^`]*)`")
	noted := func() bool {
		now, both := r.lives(), kind == "both stores"
		return (now[0] != before[0] || !both && kind != "Redis") && (now[1] != before[1] || !both && kind != "database")
	}
	begun := time.Now()
	eventually(r.t, 3*time.Minute, "served, and each store vouches for the other, after "+kind, func() bool {
		time.Sleep(100 * time.Millisecond)
		r.mu.Lock()
		messages, all := maps.Clone(r.message), true
		for app := range narrowLimits {
			for i := range r.replicas {
				all = all && r.served[[2]int{int(app), i}].After(begun)
			}
		}
		r.mu.Unlock()
		for app, message := range messages {
			if words := command.FindStringSubmatch(message); words != nil && !slices.Contains(asked, app) {
				asked = append(asked, app)
				if o := shardid(r.t, onMariaDB(r.dsn), strings.Fields(strings.ReplaceAll(words[1], `"`, ""))...); o.exit != 0 {
					r.t.Fatalf("%s: %+v", words[1], o)
				}
			}
		}
		if time.Since(begun) > 3*time.Second {
			order(r.t, r.client, r.locks...) // those of a refill that was cut off end after a minute: let it be over
		}
		return all && noted() && number(r.t, r.dsn, unsettled) == 0
	})
	return asked
}

// closeRound gives the longest time that an app went without an ID.
func (r *restarts) closeRound(kind string) (gap time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.replicas {
		_, _ = d.do(http.MethodGet, uidTarget(1)) // uses up a worker ID in each life
	}
	gap, r.longest = r.longest, 0
	r.gaps[kind] = max(r.gaps[kind], gap)
	return gap
}

// used says how much of each limit is used up in the list of which most is.
func (r *restarts) used() string {
	var out []string
	for _, app := range slices.Sorted(maps.Keys(narrowLimits)) {
		maxID, left := number(r.t, r.dsn, fmt.Sprintf("SELECT MAX(max_id) FROM id_alloc WHERE app_id = %d", app)), "no limit"
		if limit := narrowLimits[app]; limit > 0 {
			left = fmt.Sprintf("%.4g %% of 2^%d", 100*float64(maxID)/float64(limit>>14), app)
		}
		out = append(out, fmt.Sprintf("max_id %d (%s)", maxID, left))
	}
	return strings.Join(out, ", ")
}

// worstList is the list of an app that lost most indices: they were taken, and not issued.
func (r *restarts) worstList(app int64) (shard, lost int64) {
	issued := map[int64]int64{}
	for _, id := range r.books.IDs() {
		if id&0xff == app {
			issued[id>>8&0x3f]++
		}
	}
	for s := range int64(64) {
		maxID := number(r.t, r.dsn, fmt.Sprintf("SELECT max_id FROM id_alloc WHERE app_id = %d AND shard_id = %d", app, s))
		if maxID-issued[s] > lost {
			shard, lost = s, maxID-issued[s]
		}
	}
	return shard, lost
}

func (r *restarts) report() {
	r.t.Helper()
	r.t.Logf("%d rounds: %d IDs issued, %d problems (an ID that came twice is one); the operator was asked %d times", *restartRounds, r.books.Count(), len(r.books.Problems()), r.asked)
	r.t.Logf("used up, of the fullest list: %s", r.used())
	for _, app := range slices.Sorted(maps.Keys(narrowLimits)) {
		shard, lost := r.worstList(app)
		r.t.Logf("app %d: at most %d indices of a list were taken and not issued (list %d)", app, lost, shard)
	}
	r.t.Logf("refused, by code: %v", r.refused)
	r.t.Logf("longest time without an ID, by what restarted: %v", r.gaps)
	r.t.Logf("worker IDs: %d of snowflake, the highest of the UID mode is %d",
		number(r.t, r.dsn, "SELECT COUNT(*) FROM leaf_workerid_alloc"), number(r.t, r.dsn, "SELECT COALESCE(MAX(ID), 0) FROM WORKER_NODE"))
}
