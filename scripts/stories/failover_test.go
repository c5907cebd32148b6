//go:build unix

// What a deployment loses, and no ID comes twice: the last moment of its database, which is the headline of
// docs/never-twice.md, all of its database, or its processes. Every other fault, and what each may cost, is a row of
// the table of scripts/faults.

package stories_test

import (
	"regexp"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

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
	must(t, s, "tags", "add", "--tag", "carts", "--step", "1000", "--shard-bits", "10")
	sharded := segmentGet + "carts?shardKey=666"
	f := newFleet(t, s, aliceGet, segmentGet+"orders", sharded, snowflakeGet, uidGet)
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
	for _, id := range f.books[sharded].IDs() {
		check.Equal(t, id%1024, int64(666), "low bits of an ID of a key")
	}
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

// TestKilledUnderLoad: the embedded stores survive kill -9 and orderly stops in turns. No ID of any mode comes twice,
// the numbers of a key rise, and each life has a worker ID of the UID mode of its own.
func TestKilledUnderLoad(t *testing.T) {
	story(t)
	p, queue, tag, flakes, uids := newPlace(t, "embedded", nil, "--demo"), &ledger{}, &ledger{}, &ledger{}, &ledger{}
	var numbered rig.Order
	for life := range 4 {
		p.settings = settings{"UID_MODE": []string{"cached", "default"}[life%2]}
		p.start().ready()
		draws := []draw{
			{place: p, target: aliceGet, batch: 10, books: queue},
			{place: p, target: segmentGet + demoTag, batch: 10, books: tag},
			{place: p, target: snowflakeGet, batch: 10, books: flakes},
			{place: p, target: uidGet, batch: 7, books: uids},
		}
		callers, numberers := gather(t, 4, draws...), number(p, &numbered)
		for _, w := range draws {
			reach(t, w.books, w.books.Count()+1000)
		}
		reach(t, &numbered, numbered.Count()+1000)
		if life%2 == 0 {
			p.kill()
		} else {
			p.stop()
		}
		callers.Stop()
		numberers.Stop()
		if workers := uidWorkers(uids); len(workers) != life+1 {
			t.Errorf("UIDs by worker ID after %d lives: %v", life+1, workers)
		}
	}
	for name, books := range map[string]*ledger{"queue": queue, "tag": tag, "snowflake": flakes, "UID": uids} {
		books.Settle(t, name)
	}
	numbered.Settle(t, "sequences")
}

const uidGet = "/api/uid/get"

// uidWorkerOf takes a UID of Baidu's widths apart, without the help of shardid: below the worker ID are 13 bits.
func uidWorkerOf(id int64) int64 { return id >> 13 & (1<<22 - 1) }

// uidWorkers counts UIDs by their worker IDs.
func uidWorkers(books *ledger) map[int64]int {
	counts := map[int64]int{}
	for _, id := range books.IDs() {
		counts[uidWorkerOf(id)]++
	}
	return counts
}

// lease gets a lease of a name, and gives its worker ID.
func (d *daemon) lease(name string) (workerID int64) {
	d.t.Helper()
	a, err := d.do("POST", "/v1/leases/"+name)
	if err != nil || a.status != 200 {
		d.t.Fatalf("lease %s: %d %s, %v", name, a.status, a.body, err)
	}
	return fromJSON[struct{ Lease struct{ WorkerID int64 } }](d.t, a).Lease.WorkerID
}

// TestReplacedDatabase: a database is lost without a backup, and Redis knows how far its lists had come. A new
// database is refused until it has the ID that the error names, and then no ID comes twice.
func TestReplacedDatabase(t *testing.T) {
	check.Deep(t)
	story(t)
	server, books := testserver.Redis(t), &ledger{}
	replica := func(dsn string) *daemon {
		s := onMariaDB(dsn).With(onRedis(server.Addr)).With(noSweeps())
		must(t, s, "provision", "--if-missing", "--app", "1", "--name", "test")
		return serve(t, s.With(settings{"QUEUE_PREFETCH_MAX": "1"}))
	}
	issues := func(d *daemon) {
		callers := gather(t, 4, draw{place: at(d), app: 1, books: books})
		reach(t, books, books.Count()+3000)
		callers.Stop()
		d.Kill()
	}
	issues(replica(migrated(t)))

	found := migrated(t)
	d, owner := replica(found), []string(nil)
	eventually(t, startLimit, "the new database is refused", func() bool {
		owner = regexp.MustCompile(`belongs to deployment (\w+)`).FindStringSubmatch(d.get(aliceGet).Message)
		return owner != nil
	})
	query(t, found, "UPDATE shardid_deployment SET deployment = '"+owner[1]+
		"', witness = '', scramble_secret = 'unknown'")
	d.Kill()
	issues(replica(found))
	books.Settle(t)
}
