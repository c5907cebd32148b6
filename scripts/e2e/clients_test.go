//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardid/client"
	"shardid/scripts/check"
	"shardid/scripts/rig"

	"github.com/redis/go-redis/v9"
)

// respAddr is where a daemon listens for Redis clients.
func (d *daemon) respAddr() string {
	d.t.Helper()
	addr := d.Said("listening for Redis clients")
	if addr == "" {
		d.t.Fatal("no Redis clients are listened for")
	}
	return addr
}

// TestE2ERedisClients: every mode over RESP and HTTP at once, on real stores, no ID twice;
// what is no command is refused, and a stop answers what has come.
func TestE2ERedisClients(t *testing.T) {
	story(t)
	s := privateStores(t)
	query(t, s.dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 100)")
	d := serve(t, s.settings().With(settings{"RESP_ADDR": "127.0.0.1:0", "LOG_ACCESS": "errors"}))
	d.ready()
	addr := d.respAddr()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer c.Close()
	ctx := t.Context()
	l := &ledger{}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			pass := fmt.Sprintf("user-%d", g%2)
			for range 50 {
				id, err := c.Incr(ctx, "queue:1:"+pass).Result()
				texts, err2 := c.LPopCount(ctx, "queue:1:"+pass, 20).Result()
				if err != nil || err2 != nil || len(texts) != 20 {
					l.Complain("%v, %v, %d IDs", err, err2, len(texts))
					return
				}
				l.Queue("", 1, pass, id)
				a, err := d.do(http.MethodGet, "/v1/queue/1/ids?gatePass="+pass+"&count=2")
				if err != nil {
					l.Complain("%v", err)
				}
				for _, raw := range a.IDs {
					texts = append(texts, strings.Trim(string(raw), `"`))
				}
				for _, text := range texts {
					id, _ := strconv.ParseInt(text, 10, 64)
					l.Queue("", 1, pass, id)
				}
			}
		})
	}
	wg.Wait()
	if l.Settle(t); l.Count() != 4*50*23 {
		t.Errorf("%d IDs", l.Count())
	}
	for key, want := range map[string]string{"segment:orders": "", "snowflake": "", "uid": "", "segment:x": "SHARDID -2", "nope": "SHARDID -6"} {
		first, err := c.LPop(ctx, key).Result()
		second, _ := c.LPop(ctx, key).Result()
		if want == "" && (err != nil || number64(t, second) <= number64(t, first)) || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %s, then %s, %v", key, first, second, err)
		}
	}
	if lines := d.Lines(`"msg":"request"`, `"method":"LPOP"`, `"path":"segment:(hidden)"`, `"code":-2`); len(lines) != 2 {
		t.Errorf("the log has %d lines of the refusals", len(lines))
	}
	if m := d.get("/metrics").body; !strings.Contains(m, `shardid_refused_total{code="-2",mode="segment"} 2`) {
		t.Error("the metrics do not count the refusals")
	}

	// Each protocol at the other's port: an error, or a closed connection.
	if res, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + addr + "/get?appId=1&gatePass=a"); err == nil {
		_ = res.Body.Close()
		t.Error("the RESP port answers HTTP")
	}
	if said, err := io.ReadAll(dial(t, d.url, "*1\r\n$4\r\nPING\r\n")); err != nil || !bytes.HasPrefix(said, []byte("HTTP/1.1 400")) {
		t.Errorf("the HTTP port answers RESP with %q, %v", said, err)
	}

	// A client that waits for its next command holds no stop up.
	d.stops(syscall.SIGTERM, 20*time.Second)
	if _, err := c.Incr(ctx, "uid").Result(); err == nil {
		t.Error("a stopped replica issued an ID")
	}
}

// TestE2EHalfACommand: a client that says half a command, or nothing, is let go of after
// server.idle_timeout.
func TestE2EHalfACommand(t *testing.T) {
	check.Deep(t)
	story(t)
	d := serve(t, nil, "--demo", "--set", "resp.addr=127.0.0.1:0", "--set", "server.idle_timeout=1s")
	for _, text := range []string{"", "*2\r\n$4\r\nINCR\r\n$3\r\nui"} {
		if said, err := io.ReadAll(dial(t, d.respAddr(), text)); err != nil || len(said) > 0 {
			t.Errorf("%q: %q, %v", text, said, err)
		}
	}
}

// TestE2ERedisClientsOverTLS: with certificates and tokens the port is as closed as that of
// HTTP.
func TestE2ERedisClientsOverTLS(t *testing.T) {
	check.Deep(t)
	story(t)
	a := check.NewAuthority(t)
	cert, key := a.Issue("server", "server")
	known, knownKey := a.Issue("client", "client")
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	token := newToken(t, file, "orders", "get", "--tags", "*", "--rate", "1000")
	d := serve(t, settings{"SERVER_TLS_CERT_FILE": cert, "SERVER_TLS_KEY_FILE": key, "SERVER_TLS_CLIENT_CA_FILE": a.Path("ca.pem"),
		"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true", "RESP_ADDR": "127.0.0.1:0"}, "--demo")
	for name, test := range map[string]struct {
		change func(*redis.Options)
		want   string // how the error of INCR begins; "" for an ID
	}{
		"as it should be": {func(*redis.Options) {}, ""},
		"no TLS":          {func(o *redis.Options) { o.TLSConfig = nil }, "?"},
		"no certificate":  {func(o *redis.Options) { o.TLSConfig = a.Client("", "") }, "?"},
		"no token":        {func(o *redis.Options) { o.Password = "" }, "NOAUTH -7 no valid token: send AUTH"},
		"wrong token":     {func(o *redis.Options) { o.Password = "shardid_wrong" }, "WRONGPASS -7 no valid token"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &redis.Options{Addr: d.respAddr(), TLSConfig: a.Client(known, knownKey), Password: token, MaxRetries: -1}
			test.change(o)
			c := redis.NewClient(o)
			defer c.Close()
			var err error
			eventually(t, startLimit, "the mode serves", func() bool {
				_, err = c.Incr(t.Context(), "segment:leaf-segment-test").Result()
				return err == nil || !strings.HasPrefix(err.Error(), "SHARDID -1")
			})
			if test.want == "" && err != nil || test.want != "" && (err == nil || test.want != "?" && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestE2EGoClient: Go clients that come and go draw from two replicas, each of which is
// killed and comes back; no ID comes twice.
func TestE2EGoClient(t *testing.T) {
	story(t)
	s := privateStores(t)
	query(t, s.dsn, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 1, 1000)")
	addrs := rig.FreeAddrs(t, 2)
	start := func(i int) *daemon {
		return serve(t, s.settings().With(settings{"SNOWFLAKE_ENABLED": "false", "UID_ENABLED": "false"}), "--set", "server.addr="+addrs[i])
	}
	replicas := []*daemon{start(0), start(1)}
	replicas[0].ready()
	l := &ledger{}
	orders := &ledger{}
	end := time.Now().Add(12 * time.Second)
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for time.Now().Before(end) { // a client lives for two seconds and takes its buffers with it
				c, err := client.New(client.Options{Addrs: []string{"http://" + addrs[0], "http://" + addrs[1]}, Timeout: 10 * time.Second})
				if err != nil {
					l.Complain("%v", err)
					return
				}
				pass := fmt.Sprintf("user-%d", g)
				for died := time.Now().Add(2 * time.Second); time.Now().Before(died); time.Sleep(2 * time.Millisecond) {
					id, err := c.Queue(1).Next(context.Background(), pass)
					if err == nil {
						l.Queue("", 1, pass, id)
					}
					batch, err := c.Segment("orders").Take(context.Background(), 37)
					if err == nil {
						orders.Add("", plain, batch...)
					}
				}
				_ = c.Close()
			}
		})
	}
	for i := 0; time.Now().Before(end.Add(-3 * time.Second)); i++ {
		time.Sleep(2 * time.Second)
		replicas[i%2].Kill()
		time.Sleep(300 * time.Millisecond)
		replicas[i%2] = start(i % 2)
	}
	wg.Wait()
	l.Settle(t)
	orders.Settle(t)
	if l.Count() < 1000 || orders.Count() < 10_000 {
		t.Errorf("only %d and %d IDs", l.Count(), orders.Count())
	}
	t.Logf("%d queue IDs, %d IDs of a tag", l.Count(), orders.Count())
}
