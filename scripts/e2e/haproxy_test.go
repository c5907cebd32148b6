//go:build unix

package e2e_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

// TestE2EHAProxy: with the configuration of docs/clients.md a Redis client goes on when one of two
// replicas is killed, and no ID comes twice.
func TestE2EHAProxy(t *testing.T) {
	check.Deep(t)
	story(t)
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			t.Skip("not installed: haproxy")
		}
	}
	s := privateStores(t)
	addrs := rig.FreeAddrs(t, 3)
	port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
	shown := []string{"127.0.0.1:6379", addrs[0]}
	var replicas []*daemon
	for i, host := range []string{"10.0.0.1", "10.0.0.2"} {
		d := serve(t, s.settings().With(settings{"SERVER_ADDR": addrs[i+1], "RESP_ADDR": "127.0.0.1:0"}))
		replicas = append(replicas, d)
		shown = append(shown, host+":6380 port 8080", d.respAddr()+" port "+port(addrs[i+1]))
	}
	for _, d := range replicas {
		d.ready()
	}
	blocks := blocksOf(t, docs+"clients.md")
	at := slices.IndexFunc(blocks, func(b block) bool { return b.kind == "haproxy" })
	if at < 0 {
		t.Fatal("docs/clients.md has no configuration of HAProxy")
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	writeFile(t, file, strings.NewReplacer(shown...).Replace(blocks[at].text))
	rig.Start(t, exec.Command(program, "-db", "-f", file), "")

	c := redis.NewClient(&redis.Options{Addr: addrs[0], MaxRetries: -1, PoolSize: 8})
	defer c.Close()
	l := &ledger{}
	ask := func() error {
		id, err := c.Incr(t.Context(), "snowflake").Result()
		if err == nil {
			l.Add("", plain, id)
		}
		return err
	}
	eventually(t, startLimit, "HAProxy serves", func() bool { return ask() == nil })
	half := func() {
		for range 500 {
			eventually(t, startLimit, "an ID", func() bool { return ask() == nil })
		}
	}
	half()
	replicas[0].Kill()
	half() // ends only when the other one is used
	l.Settle(t)
	if text, err := c.Info(t.Context()).Result(); err != nil || !strings.Contains(text, "role:master") {
		t.Errorf("%v: %s", err, text)
	}
}
