//go:build unix

package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// askLimit bounds one question to a server; the caller asks again.
const askLimit = time.Second

// RedisServer is one redis-server process, see Redis.
type RedisServer struct {
	Addr string // host:port; it stays the same over a Restart
	bus  int    // port of a node of a cluster, for the others
	server
}

// Redis starts a private Redis, or the server that KV names, that keeps nothing on disk. args are further
// arguments of redis-server and win over the defaults, for example
// "--appendonly", "yes". It is ready in about 0.1 s.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, 1, redisArgs(args))
}

var sharedRedis shared[RedisServer]

// SharedRedis returns the one Redis of this test process, started on first
// use. It may hold what earlier tests wrote, see FlushAll. It cannot be
// stopped or paused. Safe for concurrent use.
func SharedRedis(t testing.TB) *RedisServer {
	t.Helper()
	s := sharedRedis.get(t, func(t testing.TB) *RedisServer { return Redis(t) })
	s.t, s.shared = t, true
	return &s
}

// RedisReplica starts a replica of master and returns when it has caught up.
// It takes about 1 s.
func RedisReplica(t testing.TB, master *RedisServer) *RedisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	check.Must(t, err)
	s := Redis(t, "--replicaof", host, port)
	check.Must(t, check.Within(startLimit, func() error { return inSync(master.Addr, s.Addr) }))
	return s
}

// Client returns a new client of this server, closed when the test ends.
func (s *RedisServer) Client() *redis.Client {
	client := newClient(s.Addr, 0)
	s.t.Cleanup(func() { closeClient(s.t, client) })
	return client
}

// FlushAll empties the server: all databases, functions not included.
func (s *RedisServer) FlushAll() {
	s.t.Helper()
	client := newClient(s.Addr, 0)
	defer closeClient(s.t, client)
	check.Must(s.t, client.FlushAll(context.Background()).Err())
}

// redisArgs makes the arguments every Redis gets, and then args. The delay that lets a
// master wait for more replicas before a sync, 5 s by default, is off.
func redisArgs(args []string) func(*RedisServer, []int) []string {
	return func(_ *RedisServer, ports []int) []string {
		return append([]string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}, args...)
	}
}

// startRedis starts redis-server, or what KV names, with the arguments made for n free ports;
// the first is the port for clients.
func startRedis(t testing.TB, n int, args func(s *RedisServer, ports []int) []string) *RedisServer {
	t.Helper()
	s := &RedisServer{}
	s.begin(t)
	e, err := keyValue()
	check.Must(t, err)
	bin, err := e.program("redis-server", e.programs...)
	check.Must(t, err)
	s.ready = s.isReady
	s.startOnPorts(n, func(ports []int) []string {
		s.Addr, s.bus = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), ports[n-1]
		return append([]string{bin}, args(s, ports)...)
	})
	return s
}

// isReady checks the process ID too: on a port clash the one who answers is
// another program's server.
func (s *RedisServer) isReady() error {
	return ask(s.Addr, func(ctx context.Context, c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil {
			return err
		}
		info, err := c.InfoMap(ctx, "server").Result()
		if err != nil {
			return err
		}
		if got := info["Server"]["process_id"]; got != strconv.Itoa(s.life.Cmd.Process.Pid) {
			return fmt.Errorf("%s belongs to process %s", s.Addr, got)
		}
		return nil
	})
}

// inSync reports an error until the master says that the replica has all of its writes, and this that it has the link.
func inSync(master, replica string) error {
	err := ask(replica, func(ctx context.Context, c *redis.Client) error {
		info, err := c.InfoMap(ctx, "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("replica %s has no link to %s", replica, master)
		}
		return err
	})
	if err != nil {
		return err
	}
	return ask(master, func(ctx context.Context, c *redis.Client) error {
		info, err := c.InfoMap(ctx, "replication").Result()
		if err != nil {
			return err
		}
		all := info["Replication"]
		_, port, _ := net.SplitHostPort(replica)
		for _, line := range all { // such as slave0:ip=127.0.0.1,port=6380,state=online,offset=14,lag=0
			if strings.Contains(line, "port="+port+",state=online,offset="+all["master_repl_offset"]+",") {
				return nil
			}
		}
		return fmt.Errorf("replica %s is not in sync with %s", replica, master)
	})
}

// ask puts one question to the server at addr. It connects by itself first, as
// the pool of a client would retry and log while the server is starting.
func ask(addr string, question func(context.Context, *redis.Client) error) error {
	conn, err := net.DialTimeout("tcp", addr, askLimit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	client := newClient(addr, askLimit)
	return errors.Join(conn.Close(), question(ctx, client), client.Close())
}

// newClient leaves out what only Redis Enterprise answers. timeout is for
// reads and writes; 0 is the client's default.
func newClient(addr string, timeout time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: timeout, WriteTimeout: timeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
}

// closeClient accepts a client the test has closed already.
func closeClient(t testing.TB, c interface{ Close() error }) {
	if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		t.Errorf("testserver: close client: %v", err)
	}
}

const (
	sentinels      = 3
	sentinelMaster = "shardid"
)

// SentinelSetup is a master and a replica watched by three sentinels, see
// Sentinel. After a failover Master and Replica still name the processes in
// the roles they started with.
type SentinelSetup struct {
	MasterName string
	Addrs      []string // host:port of the sentinels
	Sentinels  []*RedisServer
	Master     *RedisServer
	Replica    *RedisServer
}

// Sentinel starts a master, a replica and three sentinels: quorum 2, a failover is
// tried again after 3 s, see DownAfter. It returns when every sentinel knows the
// replica and the other two, which takes about 3 s.
func Sentinel(t testing.TB) *SentinelSetup {
	t.Helper()
	master := Redis(t)
	host, port, err := net.SplitHostPort(master.Addr)
	check.Must(t, err)
	s := &SentinelSetup{MasterName: sentinelMaster, Master: master, Replica: RedisReplica(t, master)}
	for range sentinels {
		one := startRedis(t, 1, func(s *RedisServer, ports []int) []string { // it rewrites its file
			file, conf := s.path("sentinel.conf"), fmt.Appendf(nil, sentinelConf, ports[0], host, port)
			check.Must(t, os.WriteFile(file, conf, 0o600))
			return []string{file, "--sentinel"}
		})
		s.Sentinels = append(s.Sentinels, one)
		s.Addrs = append(s.Addrs, one.Addr)
	}
	for _, addr := range s.Addrs {
		check.Must(t, check.Within(startLimit, func() error { return sentinelKnowsAll(addr) }))
	}
	return s
}

// DownAfter says how long a server may be silent before it counts as down: a minute
// until then, as a busy machine keeps a healthy one silent for seconds. The sentinels
// promote a replica that was cut off for up to ten times this.
func (s *SentinelSetup) DownAfter(t testing.TB, silence time.Duration) {
	t.Helper()
	for _, one := range s.Sentinels {
		c := one.Client()
		check.Must(t, c.Do(t.Context(),
			"SENTINEL", "SET", s.MasterName, "down-after-milliseconds", silence.Milliseconds()).Err())
	}
}

// sentinelConf has the port of a sentinel, and host and port of the master.
const sentinelConf = `port %d
bind 127.0.0.1
sentinel monitor ` + sentinelMaster + ` %s %s 2
sentinel down-after-milliseconds ` + sentinelMaster + ` 60000
sentinel failover-timeout ` + sentinelMaster + ` 3000
`

// sentinelKnowsAll reports an error until the sentinel has heard of the replica and of the other two.
func sentinelKnowsAll(addr string) error {
	return ask(addr, func(ctx context.Context, c *redis.Client) error {
		info, err := c.InfoMap(ctx, "sentinel").Result()
		// Such as "name=shardid,status=ok,address=127.0.0.1:6379,slaves=1,sentinels=3".
		line := info["Sentinel"]["master0"]
		if all := fmt.Sprintf(",slaves=1,sentinels=%d", sentinels); err == nil && !strings.HasSuffix(line, all) {
			err = fmt.Errorf("sentinel %s does not know all others yet: %s", addr, line)
		}
		return err
	})
}

// MasterAddr waits, 60 s at most, until the sentinels agree on a master that
// is not the one at notAddr, and returns its host:port. Give "" to learn the
// present master.
func (s *SentinelSetup) MasterAddr(t testing.TB, notAddr string) (addr string) {
	t.Helper()
	check.Must(t, check.Within(startLimit, func() error {
		addr = ""
		for _, sentinel := range s.Addrs {
			// What INFO says is the master is the former one for as long as a promotion goes on.
			var pair []string
			err := ask(sentinel, func(ctx context.Context, c *redis.Client) (err error) {
				pair, err = c.Do(ctx, "SENTINEL", "get-master-addr-by-name", sentinelMaster).StringSlice()
				return err
			})
			if err != nil {
				return err
			}
			master := net.JoinHostPort(pair[0], pair[1])
			if master == notAddr || addr != "" && master != addr {
				return fmt.Errorf("sentinel %s still names the master %q", sentinel, master)
			}
			addr = master
		}
		return nil
	}))
	return addr
}

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
		check.Must(t, giveSlots(node.Addr, i))
		check.Must(t, meet(c.Addrs[0], node))
	}
	c.WaitOK()
	return c
}

// Join starts one more master, which owns no slot, and returns when all know it. WaitOK
// cannot be used afterwards.
func (c *ClusterSetup) Join() *RedisServer {
	c.t.Helper()
	node := startNode(c.t, nil)
	check.Must(c.t, meet(c.Addrs[0], node))
	id := node.NodeID(c.t)
	for _, addr := range c.Addrs {
		check.Must(c.t, check.Within(startLimit, func() error {
			return ask(addr, func(ctx context.Context, client *redis.Client) error {
				if nodes, err := client.ClusterNodes(ctx).Result(); err != nil || !strings.Contains(nodes, id) {
					return fmt.Errorf("%s does not know %s: %w", addr, id, err)
				}
				return nil
			})
		}))
	}
	check.Must(c.t, check.Within(startLimit, func() error { return ClusterSays(node.Addr, "cluster_state:ok") }))
	return node
}

// Replica starts a node with further arguments and makes it a replica of a master.
func (c *ClusterSetup) Replica(master *RedisServer, args ...string) *RedisServer {
	c.t.Helper()
	replica := startNode(c.t, args)
	check.Must(c.t, meet(master.Addr, replica))
	id := master.NodeID(c.t)
	check.Must(c.t, check.Within(startLimit, func() error {
		return ask(replica.Addr, func(ctx context.Context, client *redis.Client) error {
			return client.ClusterReplicate(ctx, id).Err()
		})
	}))
	return replica
}

// NodeID is the name that the nodes of a cluster have for this one.
func (s *RedisServer) NodeID(t testing.TB) (id string) {
	t.Helper()
	check.Must(t, ask(s.Addr, func(ctx context.Context, c *redis.Client) (err error) {
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
		check.Must(c.t, check.Within(startLimit, func() error {
			return ClusterSays(addr, "cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3",
				"cluster_size:3")
		}))
	}
}

func startNode(t testing.TB, args []string) *RedisServer {
	t.Helper()
	return startRedis(t, 2, func(s *RedisServer, ports []int) []string {
		return redisArgs(append([]string{"--cluster-enabled", "yes",
			"--cluster-port", strconv.Itoa(ports[1]), "--cluster-node-timeout", "2000"}, args...))(s, ports)
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
		return c.Do(ctx, "CLUSTER", "MEET", host, port, node.bus).Err()
	})
}

// ClusterSays reports an error unless the node at addr has all of the lines in its CLUSTER INFO.
func ClusterSays(addr string, lines ...string) error {
	return ask(addr, func(ctx context.Context, c *redis.Client) error {
		info, err := c.ClusterInfo(ctx).Result()
		if err != nil {
			return fmt.Errorf("cluster info: %w", err)
		}
		for _, want := range lines {
			if !strings.Contains(info, want+"\r\n") {
				return errors.New(addr + " does not say " + want)
			}
		}
		return nil
	})
}
