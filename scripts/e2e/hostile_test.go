//go:build unix

package e2e_test

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/testserver"

	"github.com/go-sql-driver/mysql"
)

// turncoat stands before a server. As long as it has nothing to say it hands everything on; then
// it says that, again and again, to whoever connects.
type turncoat struct {
	addr string

	mu    sync.Mutex
	says  string
	conns []net.Conn
}

func newTurncoat(t *testing.T, server string) *turncoat {
	t.Helper()
	c := &turncoat{}
	c.addr = testserver.Hostile(t, func(conn net.Conn) {
		c.mu.Lock()
		says := c.says
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
		if says != "" {
			for range 1 + 64<<20/len(says) {
				if _, err := io.WriteString(conn, says); err != nil {
					return
				}
			}
			_, _ = io.Copy(io.Discard, conn)
			return
		}
		testserver.Forward(conn, server, nil, nil)
	})
	return c
}

// turn ends the connections there are; the next ones are told says, or handed on for "".
func (c *turncoat) turn(says string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.says, c.conns = says, nil
}

// TestE2EHostileStores: a Redis, a ZooKeeper and a MySQL turn into servers that announce gigabytes,
// one after the other and back. The process says what they sent, takes little memory, and serves
// what does not need them, and all when they are themselves again.
func TestE2EHostileStores(t *testing.T) {
	story(t)
	s := privateStores(t)
	cfg, err := mysql.ParseDSN(s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	redis, zoo := newTurncoat(t, s.redis.Addr), newTurncoat(t, testserver.SharedZooKeeper(t).Addr())
	db := newTurncoat(t, cfg.Addr)
	by := s.settings().With(onZooKeeper("zk", zoo.addr)).With(onRedis(redis.addr)).
		With(settings{"DATABASE_DSN": strings.Replace(s.dsn, cfg.Addr, db.addr, 1), "SNOWFLAKE_ADVERTISE": address(1)})
	d := serve(t, by)
	all := []string{aliceGet, snowflakeGet, uidTarget(1), "/livez"}
	serves := func(what string, targets ...string) {
		t.Helper()
		eventually(t, startLimit, what, func() bool {
			return !slices.ContainsFunc(targets, func(target string) bool { return d.get(target).status != 200 })
		})
	}
	serves("all modes serve", all...)
	before := d.Memory("VmRSS")
	packet := "\xff\xff\xff\x00" + strings.Repeat("x", 1<<24-1)
	for _, c := range []struct {
		store     *turncoat
		page      string
		says, why string
		others    []string
	}{
		{redis, "/readyz/queue", "*2000000000\r\n", "Redis at " + redis.addr + " announced 2000000000 elements; no answer to shardid has more than 131072", all[1:]},
		{redis, "/readyz/queue", "$2147483647\r\n", "Redis at " + redis.addr + " announced 2147483647 bytes; no answer to shardid has more than 4194304", all[1:]},
		{zoo, "/healthz", "\xff\xff\xff\xff", "ZooKeeper at " + zoo.addr + " announced 4294967295 bytes; no answer to shardid has more than 128", all},
		{db, "/healthz", packet, "MySQL or MariaDB at " + db.addr + " announced a packet of 16777215 bytes", all},
	} {
		c.store.turn(c.says)
		eventually(t, startLimit, "it says "+c.why, func() bool { return strings.Contains(d.get(c.page).body, c.why) })
		for begun := time.Now(); time.Since(begun) < 2*time.Second; time.Sleep(50 * time.Millisecond) {
			for _, target := range c.others {
				d.want(target, 200, 0)
			}
		}
		if grown := (d.Memory("VmRSS") - before) >> 20; grown > 100 {
			t.Errorf("it has %d MB more than before %s", grown, c.why)
		}
		c.store.turn("")
		serves("all modes serve again after "+c.why, all...)
	}
	t.Logf("%d MB, %d at first", d.Memory("VmRSS")>>20, before>>20)
}
