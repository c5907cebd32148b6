//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestDirectedGalera: replicas that use one node of a Galera cluster, whichever a proxy leads to, go
// on with the next one when it is killed or frozen, and doubt nothing. When they use several nodes
// at once nothing comes twice either. Without Redis there are no marks that would cover up a commit
// that a node lost.
func TestDirectedGalera(t *testing.T) {
	check.Deep(t)
	story(t)
	if os.Getenv("DB") == "" {
		t.Skip("takes four minutes: make test-stores has it, or DB=mariadb-10.11")
	}
	t.Run("with Redis", func(t *testing.T) { onGalera(t, onRedis(testserver.Redis(t).Addr)) })
	t.Run("without", func(t *testing.T) { onGalera(t, nil) })
}

func onGalera(t *testing.T, redis settings) {
	t.Helper()
	cluster := testserver.Galera(t)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", cluster.Nodes[i].Port) }
	query(t, cluster.Nodes[0].DSN(""), "CREATE DATABASE shardid")
	proxy := proxyTo(t, at(0))
	s := onMariaDB("root@tcp(" + proxy.Addr + ")/shardid").With(redis)
	p := deploy(t, s.With(smallSteps()), allModes())
	if o := shardid(t, s, "doctor"); !regexp.MustCompile(`Galera .* ok +send all replicas of shardid to one node at a time`).MatchString(o.stdout) {
		t.Errorf("doctor says of the cluster: %s", o.stdout)
	}
	p.serves(startLimit, p.add(), p.add())
	time.Sleep(3 * time.Second)

	fault := func(name string, next int, begin func()) {
		t.Helper()
		begun := time.Now()
		begin()
		proxy.Switch(at(next))
		p.serves(time.Minute, p.replicas...)
		t.Logf("%s: all modes after %v", name, time.Since(begun).Round(10*time.Millisecond))
		time.Sleep(2 * time.Second)
	}
	fault("killed", 1, cluster.Nodes[0].Kill)
	cluster.Nodes[0].Restart()
	cluster.Synced(cluster.Nodes[0])
	fault("frozen", 2, cluster.Nodes[1].Pause)
	time.Sleep(15 * time.Second) // the cluster has done without it
	cluster.Nodes[1].Resume()
	cluster.Synced(cluster.Nodes[1])
	fault("switched", 0, func() {})

	apart := make([]*daemon, len(cluster.Nodes))
	for i, n := range cluster.Nodes {
		apart[i] = p.add(onMariaDB(n.DSN("shardid")))
	}
	apart = append(apart, p.add(settings{"DATABASE_HOSTS": strings.Join([]string{at(2), at(1), at(0)}, ",")}))
	p.serves(startLimit, apart...)
	time.Sleep(5 * time.Second)
	cluster.Nodes[2].Kill() // of the fifth replica, and of the sixth, which has others
	p.serves(time.Minute, slices.Delete(slices.Clone(p.replicas), 4, 5)...)
	cluster.Nodes[2].Restart()
	cluster.Synced(cluster.Nodes[2])
	p.serves(time.Minute, p.replicas...)
	time.Sleep(5 * time.Second)

	for _, d := range p.replicas {
		if lines := d.Lines(`"msg":"the database was restarted, failed over or restored`); len(lines) > 0 {
			t.Errorf("the cluster was doubted: %s", lines[0])
		}
		if lines := d.Lines(`was lifted`); len(lines) > 0 && redis == nil { // with Redis also by what was not committed
			t.Errorf("a commit was lost: %s", lines[0])
		}
	}
	p.settle()
}
