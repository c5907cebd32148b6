//go:build unix

package sqlstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// nobody is an address where no server listens.
const nobody = "127.0.0.1:1"

// Of several hosts the one that takes writes is used. If it answers all questions and commits nothing, as one does that
// a network cuts off from its group, it is left for one that the group has promoted.
func TestHostThatCommitsNothing(t *testing.T) {
	check.Deep(t)
	t.Parallel()
	pair := testserver.MariaDBReplicated(t)
	s := openMigrated(t, Options{Driver: MySQL, DSN: pair.Primary.NewDatabase(t),
		Hosts: []string{pair.Replica.Addr(), pair.Primary.Addr()}})
	provision(t, s, app(1))
	pair.CatchUp()
	end := pair.Stall()
	take := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.Allocate(ctx, []model.AllocRequest{{Key: model.ListKey{App: 1}, MaxStep: 10}})[0].Err
	}
	var hung sync.WaitGroup
	hung.Go(func() { _ = take(time.Minute) }) // locks the row, and waits for its COMMIT
	defer func() { end(); hung.Wait() }()
	time.Sleep(500 * time.Millisecond)
	pair.Promote()
	check.Eventually(t, "the promoted one answers", func() error {
		err := take(2 * time.Second)
		if errors.Is(err, model.ErrJumping) { // as nobody vouches for it
			return nil
		}
		return err
	})
}

// A host is doubted when a transaction broke and nothing was committed for long enough; what only reads commits
// everywhere.
func TestDoubtOfAHost(t *testing.T) {
	s := openMigrated(t, backends()[1].empty(t))
	s.hosts = &primary{broke: true}
	is := func(want bool, what string) {
		t.Helper()
		_, doubted := s.hosts.inUse()
		check.Equal(t, doubted, want, what)
	}
	is(true, "it broke, and never committed anything")
	check.OK(t, check.Err(s.Names(t.Context())))
	is(true, "a transaction that only reads")
	provision(t, s, app(1))
	is(false, "one that writes")
	s.hosts.tell(false)
	is(false, "it broke a moment after a commit")
	s.hosts.committed = s.hosts.committed.Add(-commitsWithin)
	is(true, "it broke, and commits nothing")
}

// A host is used by the very connection that one which is gone did not give, and one of another deployment does not
// take its place.
func TestHostsOfTwoDeployments(t *testing.T) {
	t.Parallel()
	own, other := testserver.MariaDB(t), testserver.MariaDB(t)
	dsn := own.NewDatabase(t)
	cfg, err := parseDSN(dsn)
	check.Must(t, err)
	check.Must(t, check.Err(plain(t, other.DSN("")).Exec("CREATE DATABASE "+cfg.DBName)))
	for _, dsn := range []string{dsn, other.DSN(cfg.DBName)} {
		openMigrated(t, Options{Driver: MySQL, DSN: dsn})
	}
	s := open(t, Options{Driver: MySQL, DSN: dsn, Hosts: []string{nobody, own.Addr(), other.Addr()}})
	check.Must(t, s.Beat(t.Context()))
	check.Equal(t, s.hosts.at, 1, "the host in use")
	own.Kill()
	check.Is(t, s.Beat(t.Context()), errDeployments)
	nowhere := open(t, Options{Driver: MySQL, DSN: dsn, Hosts: []string{nobody}})
	wantAdvice(t, nowhere.Beat(t.Context()), "start the database server "+
		"at "+nobody+", or correct database.hosts: ")
}

// What the DSN says of its own host does not count for the others.
func TestOnHost(t *testing.T) {
	for _, dsn := range []string{"u:p@tcp(any:3306)/ids?tls=true", "u:p@unix(/run/mysqld.sock)/ids"} {
		cfg, err := parseDSN(dsn)
		check.Must(t, err)
		cfg = onHost(cfg, "db2:3307")
		if cfg.Net != "tcp" || cfg.Addr != "db2:3307" || cfg.TLS != nil && cfg.TLS.ServerName != "db2" {
			t.Errorf("%s: %s %s %+v", dsn, cfg.Net, cfg.Addr, cfg.TLS)
		}
	}
}
