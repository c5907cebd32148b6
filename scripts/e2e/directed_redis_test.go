//go:build unix

package e2e_test

import (
	"net"
	"testing"
	"time"

	"shardid/scripts/nemesis"
	"shardid/scripts/testserver"
)

// TestDirectedRedisFromOldRDB: Redis is killed and comes back from a snapshot
// that is 1000 IDs old, while MariaDB goes on.
func TestDirectedRedisFromOldRDB(t *testing.T) {
	story(t)
	server, books := testserver.Redis(t), &ledger{}
	d := serve(t, onMariaDB(appOne(t)).With(onRedis(server.Addr)).With(direct()))
	take(d, books, 700) // of a segment of 1000
	order(t, server.Client(), "SAVE")
	take(d, books, 1000)
	asleep(d, func() {
		server.Kill()
		server.Restart()
		wantStale(t, server, books)
	})
	take(d, books, 3000)
	books.Settle(t)
}

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
	story(t)
	setup, books := testserver.Cluster(t), &ledger{}
	slot := order(t, setup.Nodes[0].Client(), "CLUSTER", "KEYSLOT", aliceList).(int64)
	master := setup.Nodes[slot*3/16384]
	replica := clusterReplica(t, master)
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

// clusterReplica starts a node and makes it a replica of master.
func clusterReplica(t *testing.T, master *testserver.RedisServer) *testserver.RedisServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, bus, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	replica := testserver.Redis(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000")
	m, r := master.Client(), replica.Client()
	host, port, _ := net.SplitHostPort(master.Addr)
	order(t, r, "CLUSTER", "MEET", host, port, m.ConfigGet(t.Context(), "cluster-port").Val()["cluster-port"])
	id := order(t, m, "CLUSTER", "MYID")
	eventually(t, startLimit, "the replica knows its master", func() bool {
		return r.Do(t.Context(), "CLUSTER", "REPLICATE", id).Err() == nil
	})
	return replica
}

// TestDirectedThereAndBack: A is demoted, follows a B that was cut off, and is
// promoted again: it has B's old list, and the run_id it always had.
func TestDirectedThereAndBack(t *testing.T) {
	story(t)
	a, books := testserver.Redis(t), &ledger{}
	b := testserver.RedisReplica(t, a)
	proxy := proxied(t, a)
	d := serve(t, onMariaDB(appOne(t)).With(onRedis(proxy.Addr)).With(direct()))
	take(d, books, 700)
	waitSame(t, a, b)
	cutOff(t, b, a)
	take(d, books, 1200)
	proxy.Switch("127.0.0.1:1") // nobody
	asleep(d, func() {
		order(t, b.Client(), "REPLICAOF", "NO", "ONE")
		follow(t, a, b)
		order(t, a.Client(), "REPLICAOF", "NO", "ONE")
		wantStale(t, a, books)
	})
	proxy.Switch(a.Addr)
	take(d, books, 3000)
	books.Settle(t)
}

// TestDirectedMasterKilledTenTimes: a replica in sync is promoted each time; what
// the master had not told it yet is lost.
func TestDirectedMasterKilledTenTimes(t *testing.T) {
	story(t)
	master := testserver.Redis(t)
	replica := testserver.RedisReplica(t, master)
	proxy := proxied(t, master)
	l := loaded(t, proxy)
	l.start(t, callers)
	for range 10 {
		l.reach(t, l.books.Count()+3000)
		master.Kill()
		order(t, replica.Client(), "REPLICAOF", "NO", "ONE")
		proxy.Switch(replica.Addr)
		l.reach(t, l.books.Count()+3000)
		master.Restart()
		follow(t, master, replica)
		master, replica = replica, master
	}
	l.stop()
	l.books.Settle(t)
}

// TestDirectedRepliesLost: every tenth reply of Redis is lost, on its way from
// pushes too; nothing is pushed again.
func TestDirectedRepliesLost(t *testing.T) {
	story(t)
	proxy := proxied(t, testserver.Redis(t))
	l := loaded(t, proxy)
	l.start(t, callers)
	l.reach(t, 5000)
	proxy.SetWeather(nemesis.Weather{DropReply: 0.1})
	l.reach(t, 40_000)
	proxy.SetWeather(nemesis.Weather{})
	l.reach(t, l.books.Count()+5000)
	l.stop()
	l.books.Settle(t)
}

// loaded is callers on two processes that reach Redis through the proxy.
func loaded(t *testing.T, proxy *nemesis.Proxy) *load {
	t.Helper()
	s := onMariaDB(appOne(t)).With(onRedis(proxy.Addr)).With(direct()).With(settings{"QUEUE_PREFETCH_MAX": "20"})
	l := &load{apps: []int64{1}, books: &ledger{},
		trouble: func(a answer, err error) bool { return err == nil && comeAgain(a) }}
	for range 2 {
		d := serve(t, s)
		eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
		l.replicas = append(l.replicas, d)
	}
	return l
}
