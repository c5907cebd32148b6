//go:build unix

package testserver

import (
	"testing"
)

// What is committed while the replica lags is gone after the failover, all else is
// there, and the old primary comes back as a replica without what was lost.
func TestReplication(t *testing.T) {
	t.Parallel()
	p := MariaDBReplicated(t)
	first, second := p.Primary, p.Replica
	wantNil(t, "create", first.exec("CREATE DATABASE d", "CREATE TABLE d.t (n int primary key)", "INSERT INTO d.t VALUES (1)"))
	p.CatchUp()
	p.Lag()
	wantNil(t, "insert", first.exec("INSERT INTO d.t VALUES (2)"))
	p.Failover()
	if p.Primary != second || p.Replica != first {
		t.Fatal("the roles are not exchanged")
	}
	wantNil(t, "insert", second.exec("INSERT INTO d.t VALUES (3)"))
	p.Rejoin()
	for _, s := range []*MariaDBServer{p.Primary, p.Replica} {
		var rows string
		wantNil(t, "read", s.scan("SELECT GROUP_CONCAT(n ORDER BY n) FROM d.t", &rows))
		if rows != "1,3" {
			t.Errorf("port %d has %s", s.Port, rows)
		}
	}
	wantNil(t, "insert", second.exec("INSERT INTO d.t VALUES (4)"))
	p.CatchUp()
	p.Failover()
	wantNil(t, "the fourth is there", first.exec("DELETE FROM d.t WHERE n = 4"))
}
