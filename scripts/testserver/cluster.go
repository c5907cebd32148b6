//go:build unix

package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	clusterNodes = 3
	clusterSlots = 16384 // fixed by the Redis Cluster specification
)

// ClusterSetup is a Redis Cluster of three masters without replicas, see
// Cluster. Node i has the i-th third of the slots.
type ClusterSetup struct {
	Addrs []string // host:port
	Nodes []*RedisServer
	t     testing.TB
}

// Cluster starts three masters that share all slots, and returns when all of
// them say cluster_state:ok. Redis makes masters wait 2 s before that. args
// are further arguments of every node.
func Cluster(t testing.TB, args ...string) *ClusterSetup {
	t.Helper()
	c := &ClusterSetup{t: t}
	for range clusterNodes {
		node := startNode(t, args)
		c.Nodes = append(c.Nodes, node)
		c.Addrs = append(c.Addrs, node.Addr)
	}
	for i, node := range c.Nodes {
		must(t, giveSlots(node.Addr, i))
		must(t, meet(c.Addrs[0], node))
	}
	c.WaitOK()
	return c
}

// Join starts one more master, which owns no slot, and returns when all know it. WaitOK
// cannot be used afterwards.
func (c *ClusterSetup) Join(args ...string) *RedisServer {
	c.t.Helper()
	node := startNode(c.t, args)
	must(c.t, meet(c.Addrs[0], node))
	id := node.NodeID(c.t)
	for _, addr := range c.Addrs {
		must(c.t, waitUntil(startLimit, func() error {
			return ask(addr, func(ctx context.Context, client *redis.Client) error {
				if nodes, err := client.ClusterNodes(ctx).Result(); err != nil || !strings.Contains(nodes, id) {
					return fmt.Errorf("%s does not know %s: %w", addr, id, err)
				}
				return nil
			})
		}))
	}
	must(c.t, waitUntil(startLimit, func() error { return clusterSays(node.Addr, "cluster_state:ok") }))
	return node
}

// NodeID is the name that the nodes of a cluster have for this one.
func (s *RedisServer) NodeID(t testing.TB) (id string) {
	t.Helper()
	must(t, ask(s.Addr, func(ctx context.Context, c *redis.Client) (err error) {
		id, err = c.ClusterMyID(ctx).Result()
		return err
	}))
	return id
}

// Client returns a new cluster client, closed when the test ends.
func (c *ClusterSetup) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs,
		MaintNotificationsConfig: newClient("", 0).Options().MaintNotificationsConfig})
	c.t.Cleanup(func() { closeClient(c.t, client) })
	return client
}

// WaitOK waits, 60 s at most, until every node says cluster_state:ok and sees
// every slot served; for use after a node was restarted.
func (c *ClusterSetup) WaitOK() {
	c.t.Helper()
	for _, addr := range c.Addrs {
		must(c.t, waitUntil(startLimit, func() error { return clusterOK(addr) }))
	}
}

func startNode(t testing.TB, args []string) *RedisServer {
	t.Helper()
	return private(t, func() (*RedisServer, error) {
		return startRedisOn(2, func(p *process, ports []int) ([]string, error) {
			return redisArgs(append([]string{"--cluster-enabled", "yes",
				"--cluster-port", strconv.Itoa(ports[1]), "--cluster-node-timeout", "2000"}, args...))(p, ports)
		})
	})
}

// giveSlots also gives every node an epoch of its own: equal ones would have
// to be told apart by the nodes, which takes them time.
func giveSlots(addr string, i int) error {
	first, end := i*clusterSlots/clusterNodes, (i+1)*clusterSlots/clusterNodes
	return ask(addr, func(ctx context.Context, c *redis.Client) error {
		if err := c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("set config epoch: %w", err)
		}
		return c.ClusterAddSlotsRange(ctx, first, end-1).Err()
	})
}

// meet introduces node to the one at addr; the bus port must be told as it is
// not the usual 10000 above the client port.
func meet(addr string, node *RedisServer) error {
	if addr == node.Addr {
		return nil
	}
	host, port, err := net.SplitHostPort(node.Addr)
	if err != nil {
		return fmt.Errorf("cluster meet: %w", err)
	}
	return ask(addr, func(ctx context.Context, c *redis.Client) error {
		bus, err := busPort(node.Addr)
		if err != nil {
			return err
		}
		return c.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err()
	})
}

func busPort(addr string) (port string, err error) {
	err = ask(addr, func(ctx context.Context, c *redis.Client) error {
		got, err := c.ConfigGet(ctx, "cluster-port").Result()
		port = got["cluster-port"]
		return err
	})
	return port, err
}

func clusterOK(addr string) error {
	return clusterSays(addr, "cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3", "cluster_size:3")
}

func clusterSays(addr string, words ...string) error {
	return ask(addr, func(ctx context.Context, c *redis.Client) error {
		info, err := c.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("cluster info: %w", err)
		}
		for _, want := range words {
			if !strings.Contains(info, want+"\r\n") {
				return errors.New(addr + " does not say " + want)
			}
		}
		return nil
	})
}
