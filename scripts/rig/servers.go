//go:build unix

package rig

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	"shardid/scripts/testserver"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

// FreeAddrs are addresses of this machine that were free a moment ago.
func FreeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs
}

// ClusterReplica starts a node with further arguments and makes it a replica of a master of a cluster.
func ClusterReplica(t *testing.T, master *testserver.RedisServer, args ...string) *testserver.RedisServer {
	t.Helper()
	_, bus, _ := net.SplitHostPort(FreeAddrs(t, 1)[0])
	replica := testserver.Redis(t, append(args, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000")...)
	ctx, m, r := context.Background(), master.Client(), replica.Client()
	host, port, _ := net.SplitHostPort(master.Addr)
	if err := r.Do(ctx, "CLUSTER", "MEET", host, port, m.ConfigGet(ctx, "cluster-port").Val()["cluster-port"]).Err(); err != nil {
		t.Fatal(err)
	}
	id := m.Do(ctx, "CLUSTER", "MYID").Val()
	Until(t, time.Minute, "the replica knows its master", func() error { return r.Do(ctx, "CLUSTER", "REPLICATE", id).Err() })
	return replica
}

// Query runs statements one by one; they must succeed.
func Query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
