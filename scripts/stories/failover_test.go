//go:build unix

package stories_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// The stories of this file are the headlines of docs/never-twice.md: a replica of Redis that lacks pops, a
// replica of the database that lacks a moment, a database that comes back from a backup. What they promise is
// that no ID comes twice. Every other fault, and what each may cost, is a row of the table of scripts/faults.

const (
	aliceList  = "id.gen.idList_1_0" // that alice's IDs of app 1 come from
	aliceMaxID = "SELECT max_id FROM id_alloc WHERE app_id = 1 AND shard_id = 0"
)

// TestSentinelLaggingReplica: the sentinels promote a replica that has missed more than 1000 pops, and many numbers of
// keys.
func TestSentinelLaggingReplica(t *testing.T) {
	story(t)
	setup, dsn, books := testserver.Sentinel(t), migrated(t), &ledger{}
	setup.DownAfter(t, 4*time.Second)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	must(t, onMariaDB(dsn), "spaces", "add", "--space", "chat", "--sections", "16", "--step", "5000")
	d := serve(t, onMariaDB(dsn).With(onSentinel(setup)).With(direct()))
	var numbered rig.Order
	numberers := number(at(d), &numbered)
	reach(t, &numbered, 300)
	take(d, books, 700)
	cutOff(t, setup)
	take(d, books, 1200)
	reach(t, &numbered, numbered.Count()+300)
	text, err := setup.Replica.Client().LIndex(t.Context(), aliceList, 0).Result()
	if first, _ := strconv.ParseInt(text, 10, 64); err != nil || !slices.Contains(books.IDs(), first<<14|1) {
		t.Fatalf("the replica's list begins with %q (%v), which was not issued: it is not old", text, err)
	}
	setup.Master.Kill()
	if got := setup.MasterAddr(t, setup.Master.Addr); got != setup.Replica.Addr {
		t.Fatalf("the sentinels chose %s", got)
	}
	take(d, books, 3000)
	reach(t, &numbered, numbered.Count()+300)
	numberers.Stop()
	books.Settle(t)
	numbered.Settle(t, "sequences")
}

// TestDatabaseRestored: MariaDB comes back from a cold copy that is 5000 IDs old, while Redis continues.
func TestDatabaseRestored(t *testing.T) {
	story(t)
	s, books := privateStores(t), &ledger{}
	live, kept := filepath.Join(filepath.Dir(s.db.Socket), "data"), filepath.Join(t.TempDir(), "data")
	d := serve(t, s.settings().With(direct()))
	take(d, books, 3000)
	s.db.Stop()
	mustCopy(t, live, kept)
	s.db.Restart()
	take(d, books, 5000)
	s.db.Kill()
	mustCopy(t, kept, live)
	s.db.Restart()
	if maxID, highest := valueOf[int64](t, s.dsn, aliceMaxID), books.Last()>>14; highest <= maxID {
		t.Fatalf("max_id is %d and no index above %d was issued: the row is not old", maxID, highest)
	}
	fresh := serve(t, s.settings().With(direct()))
	take(fresh, books, 5000) // knows only what the stores say
	take(d, books, 5000)
	books.Settle(t)
}

// TestDatabaseFailover: the database fails over to a replica that has missed the last second, in which
// all modes issued and a replica of shardid started. Two more start after it.
func TestDatabaseFailover(t *testing.T) {
	story(t)
	db := testserver.MariaDBReplicated(t)
	proxy := testserver.NewProxy(t, db.Primary.Addr()) // the database's address, which stays
	query(t, db.Primary.DSN(""), "CREATE DATABASE shardid")
	s := onMariaDB("root@tcp(" + proxy.Addr + ")/shardid").With(onRedis(testserver.Redis(t).Addr))
	s = s.With(settings{"QUEUE_PREFETCH_MAX": "1"})
	must(t, s, "migrate")
	must(t, s, "provision", "--app", "1", "--name", "test")
	must(t, s, "tags", "add", "--tag", "orders", "--step", "1000")
	f := newFleet(t, s, aliceGet, segmentGet+"orders", snowflakeGet, uidGet)
	f.add(2)
	f.serves()
	time.Sleep(3 * time.Second) // it issues
	db.CatchUp()
	db.Lag()
	f.add(1)
	f.serves()
	db.Primary.Kill()
	db.Promote()
	proxy.Switch(db.Primary.Addr())
	f.add(2)
	f.serves()
	time.Sleep(3 * time.Second) // and issues
	f.settle()
}

// direct makes a process take nothing ahead and refill only on demand, so that what Redis holds is what would
// be served next.
func direct() settings {
	return settings{"QUEUE_PREFETCH_MAX": "1", "QUEUE_REFILL_CRON": "0 0 0 1 1 *", "SERVER_REQUEST_TIMEOUT": "500ms"}
}

// take gets n IDs for alice, some at a time; the first may need a while.
func take(d *daemon, books *ledger, n int) {
	d.t.Helper()
	for goal := books.Count() + n; books.Count() < goal && len(books.Problems()) == 0; {
		eventually(d.t, time.Minute, "IDs are issued", func() bool {
			return batch(d, books, "alice", min(100, goal-books.Count())).status == 200
		})
	}
}

// cutOff keeps a replica that has all that its master has from hearing more: it gives a password that the
// master does not have.
func cutOff(t *testing.T, setup *testserver.SentinelSetup) {
	t.Helper()
	master, replica := setup.Master.Client(), setup.Replica.Client()
	state := func(c *redis.Client) map[string]string {
		return c.InfoMap(t.Context(), "replication").Val()["Replication"]
	}
	eventually(t, startLimit, "the replica has caught up", func() bool {
		got := state(replica)
		return got["master_link_status"] == "up" && got["slave_repl_offset"] == state(master)["master_repl_offset"]
	})
	if err := errors.Join(replica.ConfigSet(t.Context(), "masterauth", "nonsense").Err(),
		master.Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err()); err != nil {
		t.Fatal(err)
	}
}

// mustCopy replaces one folder by another.
func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	check.Must(t, os.RemoveAll(to))
	check.Must(t, os.CopyFS(to, os.DirFS(from)))
}

// fleet is replicas that share stores and are asked for all modes, and what came of each.
type fleet struct {
	t        *testing.T
	settings settings
	release  string             // of the replicas that are added, as of a place
	books    map[string]*ledger // by what is asked for
	places   []*place
	callers  []*rig.Callers
}

func newFleet(t *testing.T, s settings, targets ...string) *fleet {
	f := &fleet{t: t, settings: s, books: map[string]*ledger{}}
	for _, target := range targets {
		f.books[target] = &ledger{}
	}
	return f
}

// add starts replicas with a caller for each mode, who asks to the end.
func (f *fleet) add(n int) {
	f.t.Helper()
	for range n {
		own := address(len(f.places) + 1)
		p := newPlace(f.t, own, f.settings.With(settings{"SNOWFLAKE_ADVERTISE": own}))
		p.release = f.release
		p.start()
		f.places = append(f.places, p)
		for target, books := range f.books {
			f.callers = append(f.callers, gather(f.t, 1, draw{
				place: p, target: target, batch: 100, books: books, pause: 10 * time.Millisecond, anyOrder: true}))
		}
	}
}

// serves returns when every replica answers in all modes.
func (f *fleet) serves() {
	f.t.Helper()
	for _, p := range f.places {
		for target, books := range f.books {
			eventually(f.t, time.Minute, p.name+" serves "+target, func() bool {
				ids, _, _ := p.now.Load().take(target, 100)
				books.Add("", plain, ids...)
				return ids != nil
			})
		}
	}
}

// settle ends the callers and fails the test for every ID that came twice, and whatever else was wrong.
func (f *fleet) settle() {
	f.t.Helper()
	for _, callers := range f.callers {
		callers.Stop()
	}
	for target, books := range f.books {
		books.Settle(f.t, target)
	}
}
