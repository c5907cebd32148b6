//go:build unix

package e2e_test

import (
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// TestDirectedSentinelLaggingReplica: the sentinels promote a replica that has
// missed more than 1000 pops.
func TestDirectedSentinelLaggingReplica(t *testing.T) {
	story(t)
	setup, books := testserver.Sentinel(t), &ledger{}
	setup.DownAfter(t, 4*time.Second)
	d := serve(t, onMariaDB(appOne(t)).With(onSentinel(setup)).With(direct()))
	take(d, books, 700)
	waitSame(t, setup.Master, setup.Replica)
	cutOff(t, setup.Replica, setup.Master)
	take(d, books, 1200)
	wantStale(t, setup.Replica, books)
	setup.Master.Kill()
	if got := setup.MasterAddr(t, setup.Master.Addr); got != setup.Replica.Addr {
		t.Fatalf("the sentinels chose %s", got)
	}
	take(d, books, 3000)
	books.Settle(t)
}

// waitSame returns when the replica has all that its master has.
func waitSame(t *testing.T, master, replica *testserver.RedisServer) {
	t.Helper()
	m, r := master.Client(), replica.Client()
	eventually(t, startLimit, "the replica has caught up", func() bool {
		of, got := m.InfoMap(t.Context(), "replication").Val()["Replication"], r.InfoMap(t.Context(), "replication").Val()["Replication"]
		return got["master_link_status"] == "up" && got["slave_repl_offset"] == of["master_repl_offset"]
	})
}

// TestDirectedClusterTakeover: a replica of a cluster that has missed more than
// 1000 pops takes over, while its master lives and follows.
func TestDirectedClusterTakeover(t *testing.T) {
	check.Deep(t)
	story(t)
	setup, books := testserver.Cluster(t), &ledger{}
	slot := order(t, setup.Nodes[0].Client(), "CLUSTER", "KEYSLOT", aliceList).(int64)
	master := setup.Nodes[slot*3/16384]
	replica := rig.ClusterReplica(t, master)
	d := serve(t, onMariaDB(appOne(t)).With(onCluster(setup)).With(direct()))
	take(d, books, 700)
	waitSame(t, master, replica)
	cutOff(t, replica, master)
	take(d, books, 1200)
	c := replica.Client()
	asleep(d, func() {
		order(t, c, "CLUSTER", "FAILOVER", "TAKEOVER")
		wantStale(t, replica, books)
	})
	order(t, c, "CONFIG", "SET", "masterauth", "")
	take(d, books, 3000)
	eventually(t, startLimit, "the old master follows", func() bool {
		return master.Client().InfoMap(t.Context(), "replication").Val()["Replication"]["role"] == "slave"
	})
	take(d, books, 3000)
	books.Settle(t)
}
