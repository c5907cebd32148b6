//go:build unix

// What happens to users when stores die: what is held is served on, the other modes continue, a refusal says to
// come again, the operator has one alarm that names the cause, and all is well soon after the store is back.
// Where a replica is stopped, its callers lose nothing, and its operator need not wait.

package stories_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

const (
	aliceGet = "/get?appId=1&gatePass=alice" // shard 0
	helloGet = "/get?appId=1&gatePass=hello" // shard 18
)

// stores are private servers, so that a story may take them away.
type stores struct {
	db    *testserver.MariaDBServer
	redis *testserver.RedisServer
	dsn   string
}

func privateStores(t *testing.T) stores {
	t.Helper()
	s := stores{db: testserver.MariaDB(t), redis: testserver.Redis(t)}
	s.dsn = s.db.NewDatabase(t)
	must(t, onMariaDB(s.dsn), "migrate")
	must(t, onMariaDB(s.dsn), "provision", "--app", "1", "--name", "test")
	return s
}

// settings shorten the wait for a refill, so that outages take less of it.
func (s stores) settings() settings {
	return onMariaDB(s.dsn).With(onRedis(s.redis.Addr)).With(settings{"SERVER_REQUEST_TIMEOUT": "500ms"})
}

// batch asks for count IDs of app 1 and enters them; it gives the answer.
func batch(d *daemon, books *ledger, pass string, count int) answer {
	d.t.Helper()
	ids, a, err := d.take(queueGet(1, pass), count)
	if err != nil {
		d.t.Fatalf("%v: %.300s", err, a.body)
	}
	books.Queue("", 1, pass, ids...)
	return a
}

// wantRefusal wants one that says which store is unreachable, and to come again.
func wantRefusal(t *testing.T, a answer, code int, store string) {
	t.Helper()
	if !a.comesAgain() || a.Code != code || !strings.Contains(a.Message, store) {
		t.Errorf("%d %v %s, want 503, code %d, Retry-After and %q", a.status, a.header, a.body, code, store)
	}
}

// TestDatabaseDies: what Redis holds is served on, until a list is dry; who has a worker ID continues, and who
// starts comes up, says what it waits for, and is not ready. When the database is back, all is well without a caller
// and without a restart.
func TestDatabaseDies(t *testing.T) {
	story(t)
	s, books := privateStores(t), &ledger{}
	d := serve(t, s.settings())
	d.ready()
	for _, pass := range []string{"alice", "hello"} { // of two lists
		eventually(t, startLimit, pass+" is served", func() bool { return batch(d, books, pass, 10).status == 200 })
	}
	others := []string{snowflakeGet, uidGet}
	for _, target := range others {
		eventuallyID(t, d, target)
	}
	s.db.Kill()
	eventually(t, startLimit, "degraded", func() bool { return d.get("/readyz").Status == "degraded" })
	var a answer
	eventually(t, startLimit, "the list runs dry", func() bool {
		a = batch(d, books, "alice", 50)
		return a.status != 200 && strings.Contains(a.Message, "database") // once a refill has failed
	})
	wantRefusal(t, a, -4, "database")
	if n := books.Count(); n < 500 {
		t.Errorf("only %d IDs were served of what Redis held", n)
	}
	if a := batch(d, books, "hello", 10); a.status != 200 {
		t.Errorf("another list: %d %s, want IDs", a.status, a.body)
	}
	for _, target := range append(others, "/livez", "/readyz", "/readyz/queue") {
		d.want(target, 200, 0)
	}
	d.alarm("ShardidStoreAway", true)
	late := serve(t, s.settings())
	eventually(t, startLimit, "who starts now waits for the database", func() bool {
		a := late.get("/readyz")
		return a.status == 503 && strings.Contains(a.body, `{"name":"uid","ok":false`) &&
			strings.Contains(a.body, `{"name":"database","ok":false`)
	})
	late.want("/livez", 200, 0)
	late.want("/healthz", 503, 0)
	for _, target := range []string{uidGet, aliceGet} {
		wantRefusal(t, late.get(target), -1, "database")
	}

	s.db.Restart()
	d.recovers()
	for _, d := range []*daemon{d, late} {
		eventually(t, startLimit, "served", func() bool { return batch(d, books, "alice", 500).status == 200 })
		eventuallyID(t, d, uidGet)
	}
	eventually(t, startLimit, "ready", func() bool { return late.get("/readyz").Status == "ok" })
	books.Settle(t)
}

// TestRedisDies: Redis dies and comes back empty. Its lists are refused and the other modes continue, and no ID comes
// twice. Who starts meanwhile comes up, and serves once Redis is back.
func TestRedisDies(t *testing.T) {
	story(t)
	s, books := privateStores(t), &ledger{}
	d := serve(t, s.settings())
	d.recovers()
	served := func() bool { return batch(d, books, "alice", 300).status == 200 }
	eventually(t, startLimit, "served", served)
	others := []string{snowflakeGet, uidGet}
	for _, target := range others {
		eventuallyID(t, d, target)
	}
	s.redis.Kill()
	var a answer
	eventually(t, startLimit, "what it held in advance is used up", func() bool {
		a = batch(d, books, "alice", 300)
		return a.status != 200
	})
	wantRefusal(t, a, -4, "")
	late := serve(t, s.settings())
	eventually(t, startLimit, "the late one says what it waits for", func() bool {
		a := late.get("/readyz/queue")
		return a.status == 503 && strings.Contains(a.body, `{"name":"redis","ok":false`)
	})
	late.want("/livez", 200, 0)
	late.want("/healthz", 503, 0)
	wantRefusal(t, late.get(aliceGet), -1, "")
	eventually(t, startLimit, "/readyz/queue names redis", func() bool {
		a := d.get("/readyz/queue")
		return a.status == 503 && strings.Contains(a.Message, "redis")
	})
	for _, target := range append(others, "/livez", "/readyz", "/readyz/segment", "/readyz/uid") {
		d.want(target, 200, 0)
	}
	d.alarm("ShardidStoreAway", true)
	batch(d, books, "alice", 300) // the alarm tells of those who asked a moment ago
	d.alarm("ShardidStarved", true)
	check.Lacks(t, strings.Join(d.alarms(), " "), "ShardidConditionFailing", "what only follows from that")
	check.Has(t, d.get("/metrics").body, "\nshardid_condition_ok{name=\"redis\"} 0\n", "the metrics")
	s.redis.Restart()
	eventually(t, startLimit, "served again", served)
	eventually(t, startLimit, "the late one serves", func() bool {
		return batch(late, books, "alice", 10).status == 200
	})
	d.recovers()
	books.Settle(t)
}

// TestDrains: after SIGTERM /readyz says so at once, IDs are served for the whole delay by answers that close
// their connections, and the process ends well. Clients that never end what they began to send hold nothing up.
func TestDrains(t *testing.T) {
	story(t)
	d := serve(t, settings{"SERVER_DRAIN_DELAY": "3s"}, "--demo")
	d.ready()
	check.Dial(t, strings.TrimPrefix(d.url, "http://"),
		"GET "+aliceGet+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	if a := d.want(aliceGet, 200, 0); a.closes {
		t.Error("an answer closes its connection while nothing stops")
	}
	p, books := at(d), &ledger{}
	callers := gather(t, 8, draw{place: p, app: 1, books: books, always: true})
	reach(t, books, 1000)
	d.Signal(syscall.SIGTERM)
	var a answer
	eventually(t, startLimit, "/readyz turns", func() bool { a = d.get("/readyz"); return a.status == 503 })
	if !strings.Contains(a.Message, "shutting down") || !a.closes {
		t.Errorf("/readyz while it drains: %s, closes its connection: %t", a.body, a.closes)
	}
	reach(t, books, books.Count()+1)
	p.ending.Store(true)
	wantStopped(t, d)
	callers.Stop()
	books.Settle(t)
}

// TestStopsAtOnce: Ctrl-C waits for no load balancer, and a second signal for nothing.
func TestStopsAtOnce(t *testing.T) {
	story(t)
	const never = "14s" // longer than a test waits for the end
	d := serve(t, settings{"SERVER_DRAIN_DELAY": never}, "--demo")
	d.ready()
	d.Signal(syscall.SIGINT)
	wantStopped(t, d)

	d = serve(t, settings{"SERVER_DRAIN_DELAY": never}, "--demo")
	d.Signal(syscall.SIGTERM)
	eventually(t, startLimit, "draining", func() bool { return len(d.Lines("draining")) == 1 })
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(10 * time.Second); code == 0 {
		t.Error("exit 0 of a process that was killed")
	}
}

// wantStopped waits for the end, which the log tells, and for nothing worse.
func wantStopped(t *testing.T, d *daemon) {
	t.Helper()
	if code := d.Exit(12 * time.Second); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if len(d.Lines(`"msg":"stopped"`)) != 1 || len(d.Lines(`"level":"ERROR"`, "panic")) != 0 {
		t.Errorf("the log does not tell of an orderly end:\n%s", d.Output())
	}
}

// TestClientsThatDoNotRead: 2500 clients that ask for large batches, one after the other, and read none cost
// less memory than the smallest limit in deploy/, and others are served.
func TestClientsThatDoNotRead(t *testing.T) {
	check.Deep(t)
	const clients, most = 2500, 256 << 20
	for name, one := range map[string]string{
		"RESP": "*3\r\n$4\r\nLPOP\r\n$25\r\nsegment:leaf-segment-test\r\n$5\r\n10000\r\n",
		"HTTP": "GET /v1/segment/leaf-segment-test/ids?count=10000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			story(t)
			smallest := settings{"RESP_ADDR": "127.0.0.1:0", "GOMEMLIMIT": "220MiB"} // as deploy/ has it for that limit
			d := serve(t, smallest, "--demo")
			d.ready()
			addr := map[string]string{"RESP": d.respAddr(), "HTTP": strings.TrimPrefix(d.url, "http://")}[name]
			var conns sync.WaitGroup
			done := make(chan struct{})
			for range clients {
				conns.Go(func() {
					conn, err := net.Dial("tcp", addr)
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					_ = conn.(*net.TCPConn).SetReadBuffer(4096)
					_, _ = io.WriteString(conn, strings.Repeat(one, 60)) // some are closed meanwhile
					<-done
				})
			}
			asks := 0
			eventually(t, 90*time.Second, "one is cut, and others are served for a while", func() bool {
				a, err := d.do(http.MethodGet, aliceGet) // nobody else asks for these
				if err != nil || a.status != http.StatusOK {
					t.Errorf("meanwhile: %d %s, %v", a.status, a.body, err)
				}
				asks++
				return asks > 500 && d.metric("shardid_connections_cut_total") > 0
			})
			if peak := d.Memory("VmHWM"); peak > most {
				t.Errorf("%d MiB at most, want %d", peak>>20, most>>20)
			}
			close(done)
			conns.Wait()
		})
	}
}
