//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"shardid/scripts/rig"
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
		c.all = append(c.all, &pair{nodes: [2]*node{leader, newNode(t, rig.ClusterReplica(t, master, "--include", conf))}})
	}
	c.wait(t)
	return c
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
