//go:build unix

package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// site is the Redis side of a world: pairs of a master and a replica.
type site interface {
	// env is how process i reaches Redis.
	env(i int) settings
	pairs() []*pair
	// promote makes the replica of a pair the master, as this topology does it.
	promote(w *world, p *pair)
	// settle ends all disorder: each pair has one master, a replica in sync, and
	// all processes find the master. It knows again which is which.
	settle(w *world)
}

// node is one Redis server.
type node struct {
	*testserver.RedisServer
	t *testing.T
	c *redis.Client
}

func newNode(t *testing.T, s *testserver.RedisServer) *node {
	return &node{RedisServer: s, t: t, c: s.Client()}
}

// do runs a command that must succeed.
func (n *node) do(args ...any) any {
	n.t.Helper()
	reply, err := n.c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		n.t.Fatalf("redis %s: %v: %v", n.Addr, args, err)
	}
	return reply
}

// save writes a snapshot, once no other one is being written, as for a replica that joins.
func (n *node) save(w *world) {
	n.t.Helper()
	w.until("a snapshot of Redis", func() error { return n.c.Save(context.Background()).Err() })
}

// keys are the names of the keys that match pattern.
func (n *node) keys(pattern string) []string {
	n.t.Helper()
	names, err := n.c.Keys(context.Background(), pattern).Result()
	check.Must(n.t, err)
	return names
}

// dir is the folder of its files.
func (n *node) dir() string { return n.c.ConfigGet(context.Background(), "dir").Val()["dir"] }

// info is one line of INFO.
func (n *node) info(name string) string {
	raw, err := n.c.Info(context.Background(), "everything").Result()
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(raw, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// follow makes the node a replica of addr: host:port.
func (n *node) follow(addr string) {
	n.t.Helper()
	host, port, err := net.SplitHostPort(addr)
	check.Must(n.t, err)
	n.do("REPLICAOF", host, port)
}

// lead makes the node a master.
func (n *node) lead() {
	n.t.Helper()
	n.do("REPLICAOF", "NO", "ONE")
}

// leads says by an error that the node is no master.
func (n *node) leads() error {
	if role := n.info("role"); role != "master" {
		return fmt.Errorf("%s is %q", n.Addr, role)
	}
	return nil
}

// pair is a master and its replica, which may change their roles.
type pair struct {
	nodes  [2]*node
	master int // which one leads
}

func (p *pair) leader() *node   { return p.nodes[p.master] }
func (p *pair) follower() *node { return p.nodes[1-p.master] }
func (p *pair) swap()           { p.master = 1 - p.master }

// cut keeps the replica from hearing its master, until the world is healed. A
// password that the master does not know does so in every topology.
func (p *pair) cut(w *world) {
	follower, leader := p.follower(), p.leader()
	follower.do("CONFIG", "SET", "masterauth", "nonsense")
	leader.do("CLIENT", "KILL", "TYPE", "replica")
	w.later(func() { follower.do("CONFIG", "SET", "masterauth", "") })
}

// findLeader learns which node leads; an error says that none, or both, do, or
// that the other is not in sync.
func (p *pair) findLeader() error {
	roles := [2]string{p.nodes[0].info("role"), p.nodes[1].info("role")}
	switch roles {
	case [2]string{"master", "slave"}:
		p.master = 0
	case [2]string{"slave", "master"}:
		p.master = 1
	default:
		return fmt.Errorf("%s is %q, %s is %q", p.nodes[0].Addr, roles[0], p.nodes[1].Addr, roles[1])
	}
	return p.inSync()
}

func (p *pair) inSync() error {
	f := p.follower()
	_, port, _ := net.SplitHostPort(p.leader().Addr)
	if link, of := f.info("master_link_status"), f.info("master_port"); link != "up" || of != port {
		return fmt.Errorf("replica %s: link to port %s is %q, the master is %s", f.Addr, of, link, p.leader().Addr)
	}
	return nil
}

// none is no Redis.
type none struct{}

func (none) env(int) settings      { return settings{} }
func (none) pairs() []*pair        { return nil }
func (none) promote(*world, *pair) {}
func (none) settle(*world)         {}

// single is one pair; the processes reach the master through a proxy each.
type single struct {
	pair    *pair
	spare   *node // a Redis of its own, which some process uses now and then
	proxies []*Proxy
}

func newSingle(t *testing.T, conf string, procs int) *single {
	t.Helper()
	s := &single{pair: &pair{}, spare: newNode(t, testserver.Redis(t))}
	for i := range s.pair.nodes {
		s.pair.nodes[i] = newNode(t, testserver.Redis(t, "--include", conf))
	}
	s.pair.follower().follow(s.pair.leader().Addr)
	rig.Until(t, patience, "the replica is in sync", s.pair.inSync)
	for range procs {
		s.proxies = append(s.proxies, testserver.NewProxy(t, s.pair.leader().Addr))
	}
	return s
}

func (s *single) env(i int) settings {
	return settings{"REDIS_URL": "redis://" + s.proxies[i].Addr}
}

func (s *single) pairs() []*pair { return []*pair{s.pair} }

func (s *single) promote(_ *world, p *pair) { s.promoteFor(p, s.proxies) }

// promoteFor sends only some of the processes to the new master.
func (s *single) promoteFor(p *pair, proxies []*Proxy) {
	p.follower().lead()
	p.swap()
	for _, proxy := range proxies {
		proxy.Switch(p.leader().Addr)
	}
}

// leadTo sends all processes to addr.
func (s *single) leadTo(addr string) {
	for _, proxy := range s.proxies {
		proxy.Switch(addr)
	}
}

func (s *single) settle(w *world) {
	leader := s.pair.leader()
	leader.lead()
	s.pair.follower().follow(leader.Addr)
	s.leadTo(leader.Addr)
	w.until("the replica is in sync", s.pair.findLeader)
}

// sentinel is one pair that three sentinels watch.
type sentinel struct {
	setup *testserver.SentinelSetup
	pair  *pair
}

func newSentinel(t *testing.T) *sentinel {
	t.Helper()
	s := &sentinel{setup: testserver.Sentinel(t)}
	s.pair = &pair{nodes: [2]*node{newNode(t, s.setup.Master), newNode(t, s.setup.Replica)}}
	s.setup.DownAfter(t, 1500*time.Millisecond)
	return s
}

func (s *sentinel) env(int) settings {
	return settings{"REDIS_URL": "redis://" + strings.Join(s.setup.Addrs, ",") + "?master_name=" + s.setup.MasterName}
}

func (s *sentinel) pairs() []*pair { return []*pair{s.pair} }

// promote kills the master and lets the sentinels do their work.
func (s *sentinel) promote(w *world, p *pair) {
	old := p.leader()
	old.Kill()
	w.later(old.Restart)
	s.setup.MasterAddr(w.t, old.Addr)
	p.swap()
}

func (s *sentinel) settle(w *world) {
	w.until("master and replica are in sync", func() error {
		s.repair(w)
		return s.pair.findLeader()
	})
}

// repair does what an operator would, and the sentinels do after ten seconds. A
// master that was started as a replica is one again after a restart; then each
// waits for the other, which the sentinels never resolve.
func (s *sentinel) repair(w *world) {
	addr := s.setup.MasterAddr(w.t, "")
	if s.pair.leader().Addr != addr {
		s.pair.swap()
	}
	switch leader, follower := s.pair.leader().info("role"), s.pair.follower().info("role"); {
	case leader == "slave" && follower == "slave":
		s.pair.leader().lead()
	case leader == "master" && follower == "master":
		s.pair.follower().follow(addr)
	}
}

// cluster is three pairs.
type cluster struct {
	setup *testserver.ClusterSetup
	all   []*pair
}

func newCluster(t *testing.T, conf string) *cluster {
	t.Helper()
	setup := testserver.Cluster(t, "--include", conf)
	c := &cluster{setup: setup}
	for _, master := range setup.Nodes {
		replica := setup.Replica(master, "--include", conf)
		c.all = append(c.all, &pair{nodes: [2]*node{newNode(t, master), newNode(t, replica)}})
	}
	c.wait(t)
	return c
}

func (c *cluster) env(int) settings {
	var addrs []string
	for _, p := range c.all {
		addrs = append(addrs, p.nodes[0].Addr, p.nodes[1].Addr)
	}
	return settings{"REDIS_URL": "redis://" + strings.Join(addrs, ",")}
}

func (c *cluster) pairs() []*pair { return c.all }

// promote takes over at once and without asking anybody.
func (c *cluster) promote(w *world, p *pair) {
	p.follower().do("CLUSTER", "FAILOVER", "TAKEOVER")
	w.until("the replica leads", p.follower().leads)
	p.swap()
}

func (c *cluster) settle(w *world) { c.wait(w.t) }

// wait returns when every pair has a master and a replica in sync, and all nodes
// see all slots served.
func (c *cluster) wait(t *testing.T) {
	t.Helper()
	for _, p := range c.all {
		rig.Until(t, patience, "the pair is in sync", p.findLeader)
		for _, n := range p.nodes {
			rig.Until(t, patience, "the cluster is whole", func() error {
				return testserver.ClusterSays(n.Addr,
					"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:6")
			})
		}
	}
}
