//go:build unix

package stories_test

import (
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// The story of this file is the headline of docs/never-twice.md: a replica of the database takes over that lacks a
// moment. Every other fault, and what each may cost, is a row of the table of scripts/faults.

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
