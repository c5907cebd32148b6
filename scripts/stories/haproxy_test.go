//go:build unix

package stories_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

// TestHAProxy: with the configuration of docs/api.md a Redis client goes on when one of two
// replicas is killed, and no ID comes twice.
func TestHAProxy(t *testing.T) {
	check.Deep(t)
	story(t)
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			t.Skip("not installed: haproxy")
		}
	}
	s := privateStores(t)
	proxy := rig.FreeAddrs(t, 1)[0]
	shown := []string{"127.0.0.1:6379", proxy}
	var replicas []*daemon
	for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
		d := serve(t, s.settings().With(settings{"RESP_ADDR": "127.0.0.1:0"}))
		replicas = append(replicas, d)
		_, health, _ := net.SplitHostPort(d.Listens())
		shown = append(shown, host+":6380 port 8080", d.respAddr()+" port "+health)
	}
	for _, d := range replicas {
		d.ready()
	}
	blocks := blocksOf(t, docs+"api.md")
	at := slices.IndexFunc(blocks, func(b block) bool { return b.kind == "haproxy" })
	if at < 0 {
		t.Fatal("docs/api.md has no configuration of HAProxy")
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	writeFile(t, file, strings.NewReplacer(shown...).Replace(blocks[at].text))
	rig.Start(t, exec.Command(program, "-db", "-f", file), filepath.Join(t.TempDir(), "log"))

	c := redis.NewClient(&redis.Options{Addr: proxy, MaxRetries: -1, PoolSize: 8})
	defer c.Close()
	l := &ledger{}
	ask := func() error {
		id, err := c.Incr(t.Context(), "snowflake").Result()
		if err == nil {
			l.Add("", plain, id)
		}
		return err
	}
	rig.Until(t, startLimit, "HAProxy serves", ask)
	half := func() {
		for range 500 {
			rig.Until(t, startLimit, "an ID", ask)
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
