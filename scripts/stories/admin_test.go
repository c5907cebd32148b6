//go:build unix

// What operators change, the database that a deployment has, and what doctor tells them of their stores.

package stories_test

import (
	"regexp"
	"strings"
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
	lost, found := migrated(t), migrated(t)
	server, books := testserver.Redis(t), &ledger{}
	env := func(dsn string) settings {
		return onMariaDB(dsn).With(onRedis(server.Addr)).With(direct())
	}
	must(t, env(lost), "provision", "--app", "1", "--name", "test")
	d := serve(t, env(lost))
	take(d, books, 3000)
	d.Kill()

	must(t, env(found), "provision", "--app", "1", "--name", "test")
	d = serve(t, env(found))
	id := valueOf[string](t, lost, "SELECT deployment FROM shardid_deployment")
	eventually(t, startLimit, "the new database is refused", func() bool {
		return strings.Contains(d.get(aliceGet).Message, "deployment "+id)
	})
	query(t, found, "UPDATE shardid_deployment SET deployment = '"+id+"', witness = '', scramble_secret = 'unknown'")
	d.Kill()
	take(serve(t, env(found)), books, 3000)
	books.Settle(t)
}

// password is what no output may hold.
const password = "hunter2-streng-geheim"

func provisioned(t *testing.T) settings {
	t.Helper()
	s := onMariaDB(migrated(t))
	must(t, s, "provision", "--app", "1", "--name", "test")
	return s
}

// TestDoctor: doctor shows each setting with its verdict. What is unsafe, and what cannot be asked, is in its one
// line on stderr, without passwords; that one store is unreachable hides nothing of the other.
func TestDoctor(t *testing.T) {
	story(t)
	silent := testserver.Redis(t)
	silent.Pause()
	losesCommits := onMariaDB(testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=2").NewDatabase(t))
	must(t, losesCommits, "migrate")
	evicts := testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru")
	for name, c := range map[string]struct {
		on    settings
		shows []string // rows: columns parted by two blanks, without the node
		says  []string // on stderr
	}{
		"the database is unreachable": {
			onMariaDB("root:" + password + "@tcp(127.0.0.1:1)/nowhere").With(onRedis(testserver.Redis(t).Addr)),
			[]string{"database  reachable  no  yes  unknown", "redis  maxmemory-policy  no maxmemory  noeviction  ok"},
			[]string{"start it, or correct database.dsn"},
		},
		"Redis is silent": {
			provisioned(t).With(onRedis(silent.Addr)),
			[]string{"redis  reachable  no  yes  unknown", "database  sync_binlog  log_bin is off  1 with log_bin  ok"},
			[]string{"no answer in time"},
		},
		"unsafe": {losesCommits.With(onRedis(evicts.Addr)), []string{
			"STORE  SETTING  VALUE  WANTED  VERDICT",
			"database  innodb_flush_log_at_trx_commit  2  1  unsafe",
			"redis  maxmemory-policy  allkeys-lru  noeviction  unsafe",
		}, []string{
			"innodb_flush_log_at_trx_commit is 2, it should be 1",
			"maxmemory-policy is allkeys-lru, it should be noeviction",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := shardid(t, c.on, "doctor")
			if o.exit != 1 || strings.Count(o.stderr, "\n") != 1 || strings.Contains(o.stdout+o.stderr, password) {
				t.Errorf("got %+v, want exit 1, a line on stderr and no password", o)
			}
			for _, text := range c.says {
				check.Has(t, o.stderr, text)
			}
			for _, shown := range c.shows {
				row := strings.ReplaceAll(regexp.QuoteMeta(shown), "  ", `  +(?:\S+  +)?`)
				if !regexp.MustCompile(`(?m)^` + row + `  +\S`).MatchString(o.stdout) {
					t.Errorf("no row %q in\n%s", shown, o.stdout)
				}
			}
		})
	}
}
