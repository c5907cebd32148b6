//go:build unix

package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// askLimit bounds one question to a server; the caller asks again.
const askLimit = time.Second

// RedisServer is one redis-server process, see Redis.
type RedisServer struct {
	// Addr is host:port; it stays the same over a Restart.
	Addr string
	server
}

// Redis starts a private Redis, or the server that KV names, that keeps nothing on disk. args are further
// arguments of redis-server and win over the defaults, for example
// "--appendonly", "yes". It is ready in about 0.1 s.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return private(t, func() (*RedisServer, error) { return startRedis(args...) })
}

// SharedRedis returns the one Redis of this test process, started on first
// use. It may hold what earlier tests wrote, see FlushAll. It cannot be
// stopped or paused. Safe for concurrent use.
func SharedRedis(t testing.TB) *RedisServer {
	t.Helper()
	return sharedRedis.lend(t)
}

// RedisReplica starts a replica of master and returns when it has caught up.
// It takes about 1 s.
func RedisReplica(t testing.TB, master *RedisServer, args ...string) *RedisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	must(t, err)
	s := Redis(t, append([]string{"--replicaof", host, port}, args...)...)
	must(t, waitUntil(startLimit, func() error { return inSync(master.Addr, s.Addr) }))
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
	must(s.t, client.FlushAll(context.Background()).Err())
}

// startRedis starts a Redis that belongs to no test yet.
func startRedis(args ...string) (*RedisServer, error) {
	return startRedisOn(1, redisArgs(args))
}

// redisArgs makes the arguments every Redis gets, and then args. The delay that lets a
// master wait for more replicas before a sync, 5 s by default, is off.
func redisArgs(args []string) func(*process, []int) ([]string, error) {
	return func(_ *process, ports []int) ([]string, error) {
		return append([]string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}, args...), nil
	}
}

// startRedisOn starts redis-server, or what KV names, with the arguments made for n free ports;
// the first is the port for clients. by are words before the command, such as those of env.
func startRedisOn(n int, args func(p *process, ports []int) ([]string, error), by ...string) (*RedisServer, error) {
	e, err := keyValue()
	if err != nil {
		return nil, err
	}
	bin, err := e.program("redis-server", e.programs...)
	if err != nil {
		return nil, err
	}
	s := &RedisServer{}
	return s, s.begin(plan{ports: n, ready: s.isReady, args: func(ports []int) ([]string, error) {
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
		more, err := args(s.process, ports)
		return slices.Concat(by, []string{bin}, more), err
	}})
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
		if got := info["Server"]["process_id"]; got != strconv.Itoa(s.pid) {
			return fmt.Errorf("%s belongs to process %s", s.Addr, got)
		}
		return nil
	})
}

// inSync reports an error until the replica has all of its master's writes.
func inSync(master, replica string) error {
	var want, got map[string]string
	err := errors.Join(replication(master, &want), replication(replica, &got))
	if err != nil {
		return err
	}
	if got["master_link_status"] != "up" || got["master_sync_in_progress"] != "0" ||
		got["slave_repl_offset"] != want["master_repl_offset"] {
		return fmt.Errorf("replica %s is not in sync with %s", replica, master)
	}
	return nil
}

func replication(addr string, into *map[string]string) error {
	return ask(addr, func(ctx context.Context, c *redis.Client) error {
		info, err := c.InfoMap(ctx, "replication").Result()
		*into = info["Replication"]
		return err
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
