//go:build unix

// Clients of Redis, which hold connections to the RESP port.

package stories_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// redisClient is a Redis client of a daemon that tries nothing again.
func (d *daemon) redisClient() *redis.Client {
	d.t.Helper()
	c := redis.NewClient(&redis.Options{Addr: d.respAddr(), MaxRetries: -1})
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestRedisClients: every mode over RESP, the queue over HTTP at the same time, and no ID comes twice.
// Unknown commands are refused, and counted; a client that waits for its next command holds no stop up.
func TestRedisClients(t *testing.T) {
	story(t)
	s := privateStores(t)
	must(t, onMariaDB(s.dsn), "tags", "add", "--tag", "orders", "--step", "100")
	d := serve(t, s.settings().With(settings{"RESP_ADDR": "127.0.0.1:0"}))
	d.ready()
	c, ctx, books := d.redisClient(), t.Context(), &ledger{}
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			pass := fmt.Sprintf("user-%d", caller%2)
			for range 50 {
				id, err := c.Incr(ctx, "queue:1:"+pass).Result()
				texts, err2 := c.LPopCount(ctx, "queue:1:"+pass, 20).Result()
				ids, _, err3 := d.take(queueGet(1, pass), 2)
				books.Queue("", 1, pass, append(ids, id)...)
				for _, text := range texts {
					id, _ := strconv.ParseInt(text, 10, 64)
					books.Queue("", 1, pass, id)
				}
				if len(texts) != 20 {
					books.Complain("%d IDs, want 20: %v, %v, %v", len(texts), err, err2, err3)
				}
			}
		})
	}
	callers.Wait()
	if books.Settle(t); books.Count() != 4*50*23 {
		t.Errorf("%d IDs, want %d", books.Count(), 4*50*23)
	}
	for _, served := range []string{"segment:orders", "snowflake", "uid"} {
		first, err := c.LPop(ctx, served).Int64()
		second, err2 := c.LPop(ctx, served).Int64()
		if err != nil || err2 != nil || second <= first {
			t.Errorf("%s: %d, then %d, want two that rise: %v, %v", served, first, second, err, err2)
		}
	}
	for refused, want := range map[string]string{"segment:x": "SHARDID -2", "nope": "SHARDID -6"} {
		if err := c.LPop(ctx, refused).Err(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", refused, err, want)
		}
	}
	if !strings.Contains(d.get("/metrics").body, `shardid_refused_total{code="-2",mode="segment"} 1`) {
		t.Error("the metrics do not count the refusal")
	}
	wantOtherProtocolsRefused(t, d)
	d.stops(syscall.SIGTERM, 20*time.Second)
	if err := c.Incr(ctx, "uid").Err(); err == nil {
		t.Error("a stopped replica issued an ID")
	}
}

// wantOtherProtocolsRefused: each protocol at the other's port gets an error, or a closed connection.
func wantOtherProtocolsRefused(t *testing.T, d *daemon) {
	t.Helper()
	http := &http.Client{Timeout: 5 * time.Second}
	if res, err := http.Get("http://" + d.respAddr() + aliceGet); err == nil {
		_ = res.Body.Close()
		t.Error("the RESP port answers HTTP")
	}
	said, err := io.ReadAll(dial(t, d.url, "*1\r\n$4\r\nPING\r\n"))
	if err != nil || !bytes.HasPrefix(said, []byte("HTTP/1.1 400")) {
		t.Errorf("the HTTP port answers RESP with %q, %v, want 400", said, err)
	}
}
