//go:build unix

package testserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

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
	s := &SentinelSetup{MasterName: sentinelMaster, Master: master, Replica: RedisReplica(t, master)}
	for range sentinels {
		one := startSentinel(t, master.Addr)
		s.Sentinels = append(s.Sentinels, one)
		s.Addrs = append(s.Addrs, one.Addr)
	}
	for _, addr := range s.Addrs {
		must(t, waitUntil(startLimit, func() error { return sentinelKnowsAll(addr) }))
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
		must(t, c.Do(t.Context(),
			"SENTINEL", "SET", s.MasterName, "down-after-milliseconds", silence.Milliseconds()).Err())
	}
}

func startSentinel(t testing.TB, master string) *RedisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(master)
	must(t, err)
	return private(t, func() (*RedisServer, error) {
		return startRedisOn(1, func(p *process, ports []int) ([]string, error) {
			file := p.path("sentinel.conf")
			return []string{file, "--sentinel"}, os.WriteFile(file, sentinelConf(ports[0], host, port), 0o600)
		})
	})
}

// sentinelConf is a file as sentinels refuse to run without one to rewrite.
func sentinelConf(own int, host, port string) []byte {
	return fmt.Appendf(nil, `port %[1]d
bind 127.0.0.1
sentinel monitor %[2]s %[3]s %[4]s 2
sentinel down-after-milliseconds %[2]s 60000
sentinel failover-timeout %[2]s 3000
`, own, sentinelMaster, host, port)
}

// sentinelKnowsAll reports an error until a failover could begin.
func sentinelKnowsAll(addr string) (err error) {
	var others, replicas []map[string]string
	err = askSentinel(addr, func(ctx context.Context, c *redis.SentinelClient) error {
		if others, err = c.Sentinels(ctx, sentinelMaster).Result(); err == nil {
			replicas, err = c.Replicas(ctx, sentinelMaster).Result()
		}
		return err
	})
	if err != nil {
		return err
	}
	if up(others, "sentinel") != sentinels-1 || up(replicas, "slave") != 1 ||
		replicas[0]["master-link-status"] != "ok" {
		return fmt.Errorf("sentinel %s does not know all others yet", addr)
	}
	return nil
}

// up counts the instances without a flag such as s_down or disconnected.
func up(instances []map[string]string, flags string) (n int) {
	for _, i := range instances {
		if strings.TrimSpace(i["flags"]) == flags {
			n++
		}
	}
	return n
}

// MasterAddr waits, 60 s at most, until the sentinels agree on a master that
// is not the one at notAddr, and returns its host:port. Give "" to learn the
// present master.
func (s *SentinelSetup) MasterAddr(t testing.TB, notAddr string) (addr string) {
	t.Helper()
	must(t, waitUntil(startLimit, func() (err error) {
		addr, err = agreedMaster(s.Addrs, notAddr)
		return err
	}))
	return addr
}

func agreedMaster(sentinels []string, notAddr string) (string, error) {
	agreed := ""
	for _, addr := range sentinels {
		var pair []string
		err := askSentinel(addr, func(ctx context.Context, c *redis.SentinelClient) (err error) {
			pair, err = c.GetMasterAddrByName(ctx, sentinelMaster).Result()
			return err
		})
		if err != nil {
			return "", err
		}
		master := net.JoinHostPort(pair[0], pair[1])
		if master == notAddr || (agreed != "" && master != agreed) {
			return "", fmt.Errorf("sentinel %s still names the master %s", addr, master)
		}
		agreed = master
	}
	return agreed, nil
}

func askSentinel(addr string, question func(context.Context, *redis.SentinelClient) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	c := redis.NewSentinelClient(newClient(addr, askLimit).Options())
	defer c.Close()
	if err := question(ctx, c); err != nil {
		return fmt.Errorf("ask sentinel %s: %w", addr, err)
	}
	return nil
}
