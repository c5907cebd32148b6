//go:build unix

// What operators do: they lease worker IDs of a name, and replace a database.

package stories_test

import (
	"regexp"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

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
