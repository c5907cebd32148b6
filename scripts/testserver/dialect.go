//go:build unix

package testserver

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
)

// What follows says for tests what MySQL and MariaDB do not say in the same words.

// BypassReadOnly names the rights that let a user write to a server that is
// read-only, for REVOKE.
func BypassReadOnly() string {
	if OnMySQL() {
		return "CONNECTION_ADMIN, SUPER"
	}
	return "READ_ONLY ADMIN, SUPER"
}

// IgnoreCheck returns the statement after which the CHECK of a table no longer holds
// for the same connection.
func IgnoreCheck(table, name string) string {
	if OnMySQL() {
		return "ALTER TABLE " + table + " ALTER CHECK " + name + " NOT ENFORCED"
	}
	return "SET check_constraint_checks = 0"
}

// SemiSync returns what a private server is started with so that it can take part
// in semi-synchronous replication, and what the primary is told to wait for a replica.
func SemiSync() (primaryArgs, replicaArgs []string, wait string) {
	if OnMySQL() {
		return []string{"--plugin-load-add=semisync_source.so"},
			[]string{"--plugin-load-add=semisync_replica.so", "--loose-rpl-semi-sync-replica-enabled=ON"},
			"SET GLOBAL rpl_semi_sync_source_enabled = ON"
	}
	return nil, []string{"--rpl-semi-sync-slave-enabled=ON"}, "SET GLOBAL rpl_semi_sync_master_enabled = ON"
}

// Replicate makes replica follow s, from here on.
func (s *MariaDBServer) Replicate(replica *MariaDBServer) {
	s.t.Helper()
	statements := []string{
		fmt.Sprintf("CHANGE MASTER TO master_host='127.0.0.1', master_user='repl', master_use_gtid=slave_pos, master_port=%d", s.Port), "START SLAVE"}
	stop := "STOP SLAVE"
	if OnMySQL() {
		statements = []string{
			fmt.Sprintf("CHANGE REPLICATION SOURCE TO source_host='127.0.0.1', source_user='repl', get_source_public_key=1, source_port=%d", s.Port), "START REPLICA"}
		stop = "STOP REPLICA"
	}
	must(s.t, errors.Join(s.exec("CREATE USER repl@'127.0.0.1'"), s.exec("GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'")))
	for _, statement := range statements {
		must(s.t, replica.exec(statement))
	}
	s.t.Cleanup(func() { must(s.t, replica.exec(stop)) })
}

// KillConnections ends all connections of a user.
func (s *MariaDBServer) KillConnections(t testing.TB, user string) {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN("information_schema"))
	must(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM processlist WHERE user = ?", user)
	must(t, err)
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		must(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	must(t, rows.Err())
	for _, id := range ids {
		_ = s.exec(fmt.Sprintf("KILL %d", id)) // it may have ended by itself
	}
}
