//go:build unix

package rig

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

// FreeAddrs are addresses of this machine that were free a moment ago.
func FreeAddrs(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check.Must(t, err)
		defer listener.Close()
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs
}

// ClusterReplica starts a node with further arguments and makes it a replica of a master of a cluster.
func ClusterReplica(t *testing.T, master *testserver.RedisServer, args ...string) *testserver.RedisServer {
	t.Helper()
	_, bus, err := net.SplitHostPort(FreeAddrs(t, 1)[0])
	check.Must(t, err)
	args = append(args, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000")
	replica := testserver.Redis(t, args...)
	ctx, m, r := context.Background(), master.Client(), replica.Client()
	host, port, err := net.SplitHostPort(master.Addr)
	check.Must(t, err)
	masterBus := m.ConfigGet(ctx, "cluster-port").Val()["cluster-port"]
	check.Must(t, r.Do(ctx, "CLUSTER", "MEET", host, port, masterBus).Err())
	id := m.Do(ctx, "CLUSTER", "MYID").Val()
	Until(t, time.Minute, "the replica knows its master", func() error {
		return r.Do(ctx, "CLUSTER", "REPLICATE", id).Err()
	})
	return replica
}

// Query runs statements one by one; they must succeed.
func Query(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}
