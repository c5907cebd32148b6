//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// MySQLGroup is three servers of one group (MySQL Group Replication), of which one is the
// primary. Their acknowledged commits outlive any one of them.
type MySQLGroup struct {
	Nodes []*MariaDBServer
	t     testing.TB
}

// groupName is a UUID, as it must be.
const groupName = "5d2fe5a0-7a3e-4c0a-9e0e-3c1d4d6b8f10"

// Group starts a private group of the MySQL that DB names. It is ready in 10–20 s.
func Group(t testing.TB) *MySQLGroup {
	t.Helper()
	if !OnMySQL() {
		t.Skip("only MySQL has Group Replication")
	}
	const nodes = 3
	g := &MySQLGroup{t: t}
	users := filepath.Join(t.TempDir(), "users.sql") // read at each start
	must(t, os.WriteFile(users, []byte("SET sql_log_bin = 0; CREATE USER IF NOT EXISTS root@'%'; "+
		"GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"), 0o600))
	for i := range nodes {
		g.Nodes = append(g.Nodes, MariaDB(t,
			fmt.Sprintf("--server-id=%d", i+1), "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
			"--log-bin=binlog", "--log-replica-updates=ON",
			"--report-host=127.0.0.1", "--init-file="+users,
			"--plugin-load-add=group_replication.so", "--loose-group-replication-group-name="+groupName,
			// As MySQL's manual has it: a node that is started again takes writes until it joins.
			"--loose-group-replication-start-on-boot=OFF",
			"--loose-group-replication-communication-stack=MYSQL"))
	}
	for i, n := range g.Nodes {
		g.join(n, i == 0)
	}
	return g
}

// Addrs are host:port of the nodes.
func (g *MySQLGroup) Addrs() []string {
	addrs := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		addrs[i] = n.Addr()
	}
	return addrs
}

// join has a node enter the group, or begin it, and returns when it is online.
func (g *MySQLGroup) join(n *MariaDBServer, first bool) {
	g.t.Helper()
	set := func(name string, value any) string {
		return fmt.Sprintf("SET GLOBAL group_replication_%s = '%v'", name, value)
	}
	var seeds []string
	for _, n := range g.Nodes {
		seeds = append(seeds, n.Addr())
	}
	must(g.t, n.exec(set("local_address", n.Addr()), set("group_seeds", strings.Join(seeds, ",")),
		"SET GLOBAL group_replication_recovery_get_public_key = ON",
		"SET GLOBAL group_replication_autorejoin_tries = 0",
		fmt.Sprintf("SET GLOBAL group_replication_bootstrap_group = %v", first),
		"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'root' FOR CHANNEL 'group_replication_recovery'",
		"SET GLOBAL offline_mode = OFF", "START GROUP_REPLICATION",
		"SET GLOBAL group_replication_bootstrap_group = OFF"))
	for till := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		state := ""
		err := n.scan("SELECT member_state FROM performance_schema.replication_group_members "+
			"WHERE member_id = @@server_uuid", &state)
		if state == "ONLINE" {
			return
		}
		if time.Now().After(till) {
			g.t.Fatalf("testserver: a node of the group is %q: %v", state, err)
		}
	}
}

// Primary is the node that the others, which are up, take for the primary.
func (g *MySQLGroup) Primary() *MariaDBServer {
	g.t.Helper()
	n, err := g.primary()
	must(g.t, err)
	return n
}

func (g *MySQLGroup) primary() (*MariaDBServer, error) {
	err := errors.New("no node is online")
	for _, n := range g.Nodes {
		if !n.answers() {
			continue
		}
		var port int
		err = n.scan("SELECT MAX(IF(member_role = 'PRIMARY', member_port, 0)) "+
			"FROM performance_schema.replication_group_members "+
			"HAVING SUM(member_id = @@server_uuid AND member_state = 'ONLINE') = 1 "+
			"AND SUM(member_state <> 'UNREACHABLE') * 2 > COUNT(*)", &port)
		if err != nil {
			continue
		}
		for _, p := range g.Nodes {
			if p.Port == port {
				return p, nil
			}
		}
	}
	return nil, fmt.Errorf("testserver: nobody is the primary: %w", err)
}

// AnotherPrimary returns when the group has a primary that is not the one, which it takes for gone.
func (g *MySQLGroup) AnotherPrimary(but *MariaDBServer) *MariaDBServer {
	g.t.Helper()
	for till := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		n, err := g.primary()
		if err == nil && n != but && n.answers() {
			return n
		}
		if time.Now().After(till) {
			g.t.Fatal(err, "the primary is still the old one")
		}
	}
}

// Switch makes another node the primary, in peace.
func (g *MySQLGroup) Switch() {
	g.t.Helper()
	old := g.Primary()
	for _, n := range g.Nodes {
		if n != old && n.answers() {
			id := ""
			must(g.t, n.scan("SELECT @@server_uuid", &id))
			must(g.t, n.scan("SELECT group_replication_set_as_primary('"+id+"')", new(string)))
			return
		}
	}
}

// Rejoin has a node enter the group again, which was killed or frozen for long. What it has that
// the group has not would keep it out, and fail the test.
func (g *MySQLGroup) Rejoin(n *MariaDBServer) {
	g.t.Helper()
	if n.answers() {
		must(g.t, n.exec("STOP GROUP_REPLICATION"))
	} else {
		n.Restart()
	}
	g.join(n, false)
}
