//go:build unix

package e2e_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// unsettled is not 0 while a loss of one store would add up with a later one of the other.
const unsettled = "SELECT COUNT(*) FROM shardid_deployment WHERE witness = '' OR EXISTS (SELECT 1 FROM shardid_change WHERE settled = 0 AND witness <> '')"

// TestDirectedRestarts: the stores restart in order, one after the other or together,
// and nothing is lost. An app without a limit goes on within seconds and leaves out
// little; one with a small limit goes on as long as one store still knows, and else
// names the command that an operator has to run.
func TestDirectedRestarts(t *testing.T) {
	check.Deep(t)
	story(t)
	type restart func(t *testing.T, s stores)
	database := func(_ *testing.T, s stores) { s.db.Restart() }
	redis := func(_ *testing.T, s stores) { s.redis.Restart() }
	hung := func(_ *testing.T, s stores) {
		s.db.Pause()
		time.Sleep(8 * time.Second)
		s.db.Kill()
		s.db.Restart()
	}
	emptied := func(_ *testing.T, s stores) { s.redis.FlushAll(); s.redis.Restart() }
	both := func(_ *testing.T, s stores) { s.db.Stop(); s.redis.Restart(); s.db.Restart() }
	// Weeks in which nobody asks, and replicas sweep, and send their heartbeats.
	idle := func(t *testing.T, s stores) {
		time.Sleep(12 * time.Second)
		eventually(t, startLimit, "each store knows what the other has", func() bool {
			return number(t, s.dsn, unsettled) == 0
		})
		query(t, s.dsn, "UPDATE id_alloc SET allocated_at = allocated_at - 65 * 86400000 WHERE allocated_at > 0")
	}
	for name, c := range map[string]struct {
		events []restart
		asks   bool // the operator, for the app with a small limit
	}{
		"database":                                 {events: []restart{database}},
		"database, after it hung":                  {events: []restart{idle, hung}},
		"Redis":                                    {events: []restart{redis}},
		"Redis, which comes back empty":            {events: []restart{emptied}},
		"database, and weeks later Redis":          {events: []restart{database, idle, redis}},
		"database, and weeks later empty Redis":    {events: []restart{database, idle, emptied}},
		"Redis, and weeks later the database":      {events: []restart{redis, idle, database}},
		"each again and again, with weeks between": {events: []restart{database, idle, emptied, idle, database, idle, redis}},
		"both":             {events: []restart{both}, asks: true},
		"both after weeks": {events: []restart{idle, both}, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stores{db: testserver.MariaDB(t), redis: testserver.Redis(t, "--appendonly", "yes")}
			s.dsn = s.db.NewDatabase(t)
			must(t, onMariaDB(s.dsn), "migrate")
			must(t, onMariaDB(s.dsn), "provision", "--app", "1", "--name", "wide")
			must(t, onMariaDB(s.dsn), "provision", "--app", "2", "--name", "narrow", "--max-limit-id", "2147483648")
			d := serve(t, s.settings().With(settings{"QUEUE_REFILL_CRON": "*/2 * * * * *", "QUEUE_RELOAD_CRON": "*/3 * * * * *", "QUEUE_PREFETCH_MAX": "1"}))
			books := &ledger{}
			take(d, books, 1500)
			takeNarrow(d, books, 300, "")
			idleList := func() { // nobody asks for it in between
				t.Helper()
				eventually(t, startLimit, "another list", func() bool { return batch(d, books, "hello", 20).status == 200 })
			}
			idleList()
			// Servers are told apart by when they started, give or take five seconds.
			eventually(t, startLimit, "the database has run for a while", func() bool { return uptime(t, s.dsn) > 8 })
			for _, event := range c.events {
				event(t, s)
			}
			before := number(t, s.dsn, aliceMaxID)
			begun := time.Now()
			take(d, books, 5000)
			took, left := time.Since(begun).Round(100*time.Millisecond), number(t, s.dsn, aliceMaxID)-before
			if t.Logf("the wide app: max_id rose by %d in %v", left, took); left > 100_000_000 || took > 20*time.Second {
				t.Errorf("max_id of the wide app rose by %d in %v", left, took)
			}
			asked := takeNarrow(d, books, 2000, s.dsn)
			if asked != c.asks {
				t.Errorf("the operator was asked: %v", asked)
			}
			idleList()
			if at := number(t, s.dsn, "SELECT max_id FROM id_alloc WHERE app_id = 2 AND shard_id = 0"); !asked && at > 10_000 {
				t.Errorf("max_id of the narrow app is %d", at)
			}
			books.Settle(t)
		})
	}
}

// takeNarrow gets n IDs of the app with a small limit. When a message names a command,
// it is run, as an operator would, once, and asked says so.
func takeNarrow(d *daemon, books *ledger, n int, dsn string) (asked bool) {
	d.t.Helper()
	command := regexp.MustCompile("shardid (confirm[^`]*)`")
	f := form{count: 50}
	for goal := books.Count() + n; books.Count() < goal; {
		eventually(d.t, 25*time.Second, "the narrow app is served", func() bool {
			a := d.get(f.target(2, "alice"))
			if a.status == 200 {
				ids, err := f.parse(a)
				if err != nil {
					d.t.Fatal(err)
				}
				books.Queue("", 2, "alice", ids...)
				return true
			}
			if words := command.FindStringSubmatch(a.Message); words != nil && !asked && dsn != "" {
				asked = true
				d.t.Logf("the operator is asked: %s", a.Message)
				o := shardid(d.t, onMariaDB(dsn), strings.Fields(strings.ReplaceAll(words[1], `"`, ""))...)
				if d.t.Logf("%+v", o); o.exit != 0 {
					d.t.Fatalf("%s: %+v", words[1], o)
				}
			}
			return false
		})
	}
	return asked
}
