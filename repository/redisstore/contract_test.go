//go:build unix

package redisstore_test

import (
	"testing"

	"shardid/repository/listtest"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

func TestContractSingle(t *testing.T) {
	server := testserver.SharedRedis(t)
	listtest.Run(t, func(t *testing.T) listtest.Store {
		server.FlushAll()
		return openAt(t, server.Addr)
	})
}

func TestContractUnsafe(t *testing.T) {
	server := testserver.SharedRedis(t)
	listtest.Run(t, func(t *testing.T) listtest.Store {
		server.FlushAll()
		return open(t, redisstore.Options{Mode: "single", Addrs: []string{server.Addr}, UnsafeNoHistory: true})
	})
}

func TestContractSentinel(t *testing.T) {
	setup := testserver.Sentinel(t)
	listtest.Run(t, func(t *testing.T) listtest.Store {
		setup.Master.FlushAll()
		s := open(t, redisstore.Options{Mode: "sentinel", Addrs: setup.Addrs, MasterName: setup.MasterName})
		check.Must(t, s.Check(t.Context()))
		return s
	})
}

func TestContractCluster(t *testing.T) {
	setup := testserver.Cluster(t)
	listtest.Run(t, func(t *testing.T) listtest.Store {
		for _, node := range setup.Nodes {
			node.FlushAll()
		}
		s := open(t, redisstore.Options{Mode: "cluster", Addrs: setup.Addrs})
		check.Must(t, s.Check(t.Context()))
		return s
	})
}
