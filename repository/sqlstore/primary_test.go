//go:build unix

package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// nobody is an address where no server listens.
const nobody = "127.0.0.1:1"

func address(s *testserver.MariaDBServer) string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// Of several hosts the one that takes writes is used, also after a failover and back, and when
// the old primary is frozen, of which a connection hears nothing.
func TestHosts(t *testing.T) {
	t.Parallel()
	pair := testserver.MariaDBReplicated(t)
	dsn := pair.Primary.NewDatabase(t)
	hosts := []string{address(pair.Replica), nobody, address(pair.Primary)}
	s := openMigrated(t, Options{Driver: MySQL, DSN: dsn, Hosts: hosts})
	provision(t, s, app(1))
	takes := func(what string) {
		t.Helper()
		begun := time.Now()
		check.Eventually(t, what, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return s.Beat(ctx)
		})
		t.Logf("%s after %v", what, time.Since(begun).Round(time.Millisecond))
	}
	takes("the primary")
	pair.CatchUp()
	pair.Failover()
	takes("the promoted one")
	pair.Rejoin()
	pair.CatchUp()
	pair.Primary.Pause()
	frozen := pair.Primary
	pair.Promote()
	takes("the first one again")
	frozen.Kill()
	takes("without the other")
	run(t, s, "SET GLOBAL read_only = 1")
	check.Is(t, s.Beat(t.Context()), errReadOnly, "no host takes writes")
}

// Hosts of two deployments are refused before anything is handed out.
func TestHostsOfTwoDeployments(t *testing.T) {
	t.Parallel()
	dsn := testserver.MariaDB(t).NewDatabase(t)
	cfg, err := parseDSN(dsn)
	check.Must(t, err)
	other := testserver.MariaDB(t)
	db, err := sql.Open("mysql", other.DSN(""))
	check.Must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE "+cfg.DBName)
	check.Must(t, err)
	for _, dsn := range []string{dsn, other.DSN(cfg.DBName)} {
		openMigrated(t, Options{Driver: MySQL, DSN: dsn})
	}
	s := open(t, Options{Driver: MySQL, DSN: dsn, Hosts: []string{cfg.Addr, address(other)}})
	check.Is(t, s.Beat(t.Context()), errDeployments)
	check.Is(t, s.Migrate(t.Context(), nil), errDeployments)
	other.Kill() // one that is not there is no other deployment
	check.Must(t, s.Beat(t.Context()))
}
