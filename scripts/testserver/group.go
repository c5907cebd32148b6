//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardid/scripts/check"
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
	check.Must(t, os.WriteFile(users, []byte("SET sql_log_bin = 0; CREATE USER IF NOT EXISTS root@'%'; "+
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
	check.Must(g.t, n.exec(set("local_address", n.Addr()), set("group_seeds", strings.Join(g.Addrs(), ",")),
		"SET GLOBAL group_replication_recovery_get_public_key = ON",
		"SET GLOBAL group_replication_autorejoin_tries = 0",
		fmt.Sprintf("SET GLOBAL group_replication_bootstrap_group = %v", first),
		"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'root' FOR CHANNEL 'group_replication_recovery'",
		"SET GLOBAL offline_mode = OFF", "START GROUP_REPLICATION",
		"SET GLOBAL group_replication_bootstrap_group = OFF"))
	check.Must(g.t, check.Within(startLimit, func() error {
		return n.says("ONLINE", "SELECT member_state FROM performance_schema.replication_group_members "+
			"WHERE member_id = @@server_uuid")
	}))
}

// says is an error unless a query gives that text.
func (s *MariaDBServer) says(want, query string) error {
	got := ""
	if err := s.scan(query, &got); err != nil || got != want {
		return fmt.Errorf("testserver: %s gave %q, want %s: %w", query, got, want, err)
	}
	return nil
}

// Primary is the node that the others, which are up, take for the primary.
func (g *MySQLGroup) Primary() *MariaDBServer {
	g.t.Helper()
	n, err := g.primary()
	check.Must(g.t, err)
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
func (g *MySQLGroup) AnotherPrimary(but *MariaDBServer) (n *MariaDBServer) {
	g.t.Helper()
	check.Must(g.t, check.Within(startLimit, func() (err error) {
		if n, err = g.primary(); err == nil && (n == but || !n.answers()) {
			err = errors.New("the primary is still the old one")
		}
		return err
	}))
	return n
}

// Switch makes another node the primary, in an orderly way.
func (g *MySQLGroup) Switch() {
	g.t.Helper()
	old := g.Primary()
	for _, n := range g.Nodes {
		if n != old && n.answers() {
			id := ""
			check.Must(g.t, n.scan("SELECT @@server_uuid", &id))
			check.Must(g.t, n.scan("SELECT group_replication_set_as_primary('"+id+"')", new(string)))
			return
		}
	}
}

// Rejoin has a node enter the group again, which was killed or frozen for long. What it has that
// the group has not would keep it out, and fail the test.
func (g *MySQLGroup) Rejoin(n *MariaDBServer) {
	g.t.Helper()
	if n.answers() {
		check.Must(g.t, n.exec("STOP GROUP_REPLICATION"))
	} else {
		n.Restart()
	}
	g.join(n, false)
}

// GaleraCluster is three nodes of MariaDB with Galera, each of which takes writes.
type GaleraCluster struct {
	Nodes []*MariaDBServer
	t     testing.TB
}

// GaleraProvider is where Debian's package galera-4 lies, which mariadb-server brings along.
const GaleraProvider = "/usr/lib/galera/libgalera_smm.so"

// HasGalera says whether Galera works here: its scripts are those of the installed version.
func HasGalera() bool {
	e, err := database()
	_, missing := os.Stat(GaleraProvider)
	return err == nil && missing == nil && e.root == ""
}

// Galera starts a private cluster of the installed MariaDB, which HasGalera. A
// node that joins gets a dump of another one's data. It is ready in 20–40 s.
func Galera(t testing.TB) *GaleraCluster {
	t.Helper()
	const nodes = 3
	ports, err := FreePorts(2 * nodes) // of a node: the cluster's, and that for what it has missed
	check.Must(t, err)
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	cluster := "gcomm://" + strings.Join([]string{address(0), address(1), address(2)}, ",")
	c := &GaleraCluster{t: t}
	for i := range nodes {
		args := []string{"--wsrep-on=ON", "--wsrep-provider=" + GaleraProvider, "--wsrep-cluster-address=" + cluster,
			"--wsrep-node-address=" + address(i), "--wsrep-sst-method=mysqldump", "--wsrep-sst-auth=root:",
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;gcache.size=32M",
				address(i), address(nodes+i))}
		if i == 0 {
			args = append(args, "--wsrep-new-cluster")
		}
		n := MariaDB(t, args...)
		if i == 0 {
			n.argv = n.argv[:len(n.argv)-1] // it begins the cluster once
		}
		c.Nodes = append(c.Nodes, n)
		c.Synced(n)
	}
	return c
}

// Synced returns when a node has caught up with the others and takes writes. One that has ended, as
// a node does that the others left behind, is started again, as a service manager would.
func (c *GaleraCluster) Synced(n *MariaDBServer) {
	c.t.Helper()
	if !n.alive() {
		n.Restart()
	}
	check.Must(c.t, check.Within(startLimit, func() error {
		return n.says("Synced", "SELECT variable_value FROM information_schema.global_status "+
			"WHERE variable_name = 'wsrep_local_state_comment'")
	}))
}
