//go:build unix

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"shardid/scripts/testserver"
)

// cluster is three pairs.
type cluster struct {
	all []*pair
}

func newCluster(t *testing.T, conf string) *cluster {
	t.Helper()
	setup := testserver.Cluster(t, "--include", conf)
	c := &cluster{}
	for _, master := range setup.Nodes {
		leader := newNode(t, master)
		c.all = append(c.all, &pair{nodes: [2]*node{leader, addReplica(t, leader, conf)}})
	}
	c.wait(t)
	return c
}

// addReplica starts a node, brings it into the cluster and gives it its master.
func addReplica(t *testing.T, leader *node, conf string) *node {
	t.Helper()
	n := newNode(t, testserver.Redis(t, "--include", conf, "--cluster-enabled", "yes",
		"--cluster-port", freePort(t), "--cluster-node-timeout", "2000"))
	host, port, _ := net.SplitHostPort(leader.Addr)
	bus := leader.c.ConfigGet(context.Background(), "cluster-port").Val()["cluster-port"]
	n.do("CLUSTER", "MEET", host, port, bus)
	id := leader.do("CLUSTER", "MYID")
	until(t, "the replica has a master", func() error {
		return n.c.Do(context.Background(), "CLUSTER", "REPLICATE", id).Err()
	})
	return n
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func (c *cluster) env(int) settings {
	var addrs []string
	for _, p := range c.all {
		addrs = append(addrs, p.nodes[0].Addr, p.nodes[1].Addr)
	}
	return settings{"REDIS_MODE": "cluster", "REDIS_ADDRS": strings.Join(addrs, ",")}
}

func (c *cluster) pairs() []*pair { return c.all }

// promote takes over at once and without asking anybody.
func (c *cluster) promote(w *world, p *pair) {
	p.follower().do("CLUSTER", "FAILOVER", "TAKEOVER")
	until(w.t, "the replica leads", func() error {
		if p.follower().info("role") != "master" {
			return errors.New("still a replica")
		}
		return nil
	})
	p.swap()
}

func (c *cluster) settle(w *world) { c.wait(w.t) }

// wait returns when every pair has a master and a replica in sync, and all nodes
// see all slots served.
func (c *cluster) wait(t *testing.T) {
	t.Helper()
	for _, p := range c.all {
		until(t, "the pair is in sync", p.findLeader)
		for _, n := range p.nodes {
			until(t, "the cluster is whole", n.clusterOK)
		}
	}
}

func (n *node) clusterOK() error {
	info, err := n.c.ClusterInfo(context.Background()).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6"} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("%s does not say %s", n.Addr, want)
		}
	}
	return nil
}
