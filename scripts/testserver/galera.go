//go:build unix

package testserver

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// GaleraCluster is three nodes of MariaDB with Galera, each of which takes writes.
type GaleraCluster struct {
	Nodes []*MariaDBServer
	t     testing.TB
}

// galeraProvider is where Debian's package galera-4 lies, which mariadb-server brings along.
const galeraProvider = "/usr/lib/galera/libgalera_smm.so"

// HasGalera says whether Galera works here: its scripts are those of the installed version.
func HasGalera() bool {
	e, err := database()
	_, missing := os.Stat(galeraProvider)
	return err == nil && missing == nil && e.root == ""
}

// Galera starts a private cluster of the installed MariaDB, which HasGalera. A
// node that joins gets a dump of another one's data. It is ready in 20–40 s.
func Galera(t testing.TB) *GaleraCluster {
	t.Helper()
	const nodes = 3
	ports, err := freePorts(2 * nodes) // of a node: the cluster's, and that for what it has missed
	must(t, err)
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	cluster := "gcomm://" + strings.Join([]string{address(0), address(1), address(2)}, ",")
	c := &GaleraCluster{t: t}
	for i := range nodes {
		args := []string{"--wsrep-on=ON", "--wsrep-provider=" + galeraProvider, "--wsrep-cluster-address=" + cluster,
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
	for till := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		state := ""
		err := n.scan("SELECT variable_value FROM information_schema.global_status "+
			"WHERE variable_name = 'wsrep_local_state_comment'", &state)
		if state == "Synced" {
			return
		}
		if time.Now().After(till) {
			c.t.Fatalf("testserver: a node of Galera is %q: %v", state, err)
		}
	}
}
