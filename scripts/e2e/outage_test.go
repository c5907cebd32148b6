//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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

func privateStores(t *testing.T, more ...settings) stores {
	t.Helper()
	s := stores{db: testserver.MariaDB(t), redis: testserver.Redis(t)}
	s.dsn = s.db.NewDatabase(t)
	by := onMariaDB(s.dsn)
	for _, m := range more {
		by = by.With(m)
	}
	must(t, by, "migrate")
	must(t, by, "provision", "--app", "1", "--name", "test")
	return s
}

// settings shorten the wait for a refill, so that outages take less of it.
func (s stores) settings() settings {
	return onMariaDB(s.dsn).With(onRedis(s.redis.Addr)).With(settings{"QUEUE_TIMEOUT": "500ms"})
}

// TestE2EStartsWithoutStores: the process comes up, says what it waits for, and
// serves soon after the last store has come.
func TestE2EStartsWithoutStores(t *testing.T) {
	story(t)
	for _, away := range [][]string{{"database"}, {"redis"}, {"redis", "database"}} {
		t.Run(strings.Join(away, " and "), func(t *testing.T) {
			t.Parallel()
			startWithout(t, privateStores(t), away)
		})
	}
}

// startWithout lets the stores that are away come back one after the other.
func startWithout(t *testing.T, s stores, away []string) {
	servers := map[string]interface {
		Stop()
		Restart()
	}{"database": s.db, "redis": s.redis}
	for _, name := range away {
		servers[name].Stop()
	}
	d := serve(t, s.settings())
	for i, name := range away {
		waitsFor(t, d, away[i:])
		servers[name].Restart()
	}
	limit := 5 * time.Second
	if slices.Contains(away, "database") { // it counts as another one: six seconds pass before indices are left out
		limit += 6 * time.Second
	}
	took := eventually(t, limit, "served after the store came", func() bool { return d.get(aliceGet).status == 200 })
	t.Logf("served %v after the store came", took.Round(time.Millisecond))
	eventually(t, 10*time.Second, "ready", func() bool { return d.get("/readyz").Status == "ok" })
}

// waitsFor checks the answers of a process without some stores: the reason is the
// first, and the checks are of them all. Without Redis alone the other modes serve.
func waitsFor(t *testing.T, d *daemon, away []string) {
	t.Helper()
	eventually(t, 10*time.Second, "/readyz/queue names what is away", func() bool {
		a := d.get("/readyz/queue")
		failing := 0
		for _, name := range away {
			failing += strings.Count(a.body, `{"name":"`+name+`","ok":false`)
		}
		return strings.Contains(a.Message, away[0]) && failing == len(away)
	})
	d.want("/livez", 200, 0)
	if a := d.want("/readyz/queue", 503, 0); a.Status != "not ready" {
		t.Errorf("/readyz/queue: %s", a.body)
	}
	status, code := "not ready", 503
	if away[len(away)-1] == "redis" {
		status, code = "degraded", 200
	}
	eventually(t, startLimit, "/readyz is "+status, func() bool { a := d.get("/readyz"); return a.Status == status && a.status == code })
	d.want("/healthz", 503, 0)
	if a := d.want(aliceGet, 503, -1); !strings.Contains(a.Message, away[0]) || !comeAgain(a) {
		t.Errorf("/get: %v %s", a.header, a.body)
	}
}

// batch asks for count IDs and enters them; it gives the answer.
func batch(d *daemon, books *ledger, pass string, count int) answer {
	d.t.Helper()
	f := form{count: count}
	a := d.get(f.target(1, pass))
	if a.status == http.StatusOK {
		ids, err := f.parse(a)
		if err != nil {
			d.t.Fatalf("%v: %s", err, a.body)
		}
		books.Queue("", 1, pass, ids...)
	}
	return a
}

// TestE2EDatabaseDies: what Redis holds is served on; then -4 until the
// database is back.
func TestE2EDatabaseDies(t *testing.T) {
	story(t)
	s, books := privateStores(t), &ledger{}
	d := serve(t, s.settings())
	d.ready()                                         // and every mode has what it needs of the database
	for _, pass := range []string{"alice", "hello"} { // of two lists
		eventually(t, startLimit, pass+" is served", func() bool { return batch(d, books, pass, 10).status == 200 })
	}
	s.db.Kill()
	eventually(t, 15*time.Second, "degraded", func() bool { return d.get("/readyz").Status == "degraded" })
	if a := d.want("/readyz", 200, 0); !strings.Contains(a.body, `"database"`) {
		t.Errorf("/readyz: %s", a.body)
	}
	d.want("/livez", 200, 0)

	var a answer
	eventually(t, 30*time.Second, "the list runs dry", func() bool { a = batch(d, books, "alice", 50); return a.status != 200 })
	if n := books.Count(); n < 500 {
		t.Errorf("only %d IDs were served", n)
	}
	if !comeAgain(a) || a.Code != -4 || !strings.Contains(a.Message, "database") {
		t.Errorf("dry list: %v %s", a.header, a.body)
	}
	d.want("/readyz", 200, 0)
	d.want("/readyz/queue", 200, 0)
	if a := batch(d, books, "hello", 10); a.status != 200 {
		t.Errorf("another list: %d %s", a.status, a.body)
	}
	s.db.Restart()
	took := eventually(t, 15*time.Second, "recovered", func() bool { return batch(d, books, "alice", 500).status == 200 })
	t.Logf("recovered after %v", took.Round(time.Millisecond))
	d.recovers()
	books.Settle(t)
}

// recovers waits until nothing fails, without a caller; a refused one may be an alarm
// for a while yet.
func (d *daemon) recovers() {
	d.t.Helper()
	eventually(d.t, 15*time.Second, "all is well", func() bool {
		return d.get("/healthz").status == 200 && d.get("/readyz").Status == "ok" && !slices.ContainsFunc(d.alarms(), func(name string) bool {
			return name == "ShardidStoreAway" || name == "ShardidRefillFailing" || name == "ShardidConditionFailing"
		})
	})
}

// TestE2ERedisDies: an empty Redis comes back, and no ID comes twice.
func TestE2ERedisDies(t *testing.T) {
	story(t)
	s, books := privateStores(t), &ledger{}
	d := serve(t, s.settings())
	d.recovers()
	eventually(t, startLimit, "a worker ID of the UID mode", func() bool { return d.get(uidTarget(1)).status == 200 })
	for round := range 3 {
		eventually(t, 15*time.Second, "served", func() bool { return batch(d, books, "alice", 300).status == 200 })
		s.redis.Kill()
		var a answer
		eventually(t, 15*time.Second, "what it held in advance is used up", func() bool { a = batch(d, books, "alice", 300); return a.status != 200 })
		if !comeAgain(a) || a.Code != -4 || !strings.Contains(a.Message, "redis") {
			t.Errorf("round %d: %v %s", round, a.header, a.body)
		}
		eventually(t, 10*time.Second, "/readyz/queue names redis", func() bool {
			a := d.get("/readyz/queue")
			return a.status == 503 && strings.Contains(a.Message, "redis")
		})
		for _, page := range []string{"/livez", "/readyz", "/readyz/segment", "/readyz/snowflake", "/readyz/uid", snowflakeGet, uidTarget(1)} {
			d.want(page, 200, 0)
		}
		s.redis.Restart()
	}
	took := eventually(t, 15*time.Second, "recovered", func() bool { return batch(d, books, "alice", 300).status == 200 })
	t.Logf("recovered after %v", took.Round(time.Millisecond))
	d.recovers()
	books.Settle(t)
}

// TestE2ERedisHangs: a Redis that answers no more costs a caller the timeout.
func TestE2ERedisHangs(t *testing.T) {
	check.Deep(t)
	story(t)
	s, books := privateStores(t), &ledger{}
	d := serve(t, s.settings().With(settings{"QUEUE_TIMEOUT": "2s"}))
	eventually(t, 15*time.Second, "served", func() bool { return batch(d, books, "alice", 300).status == 200 })
	s.redis.Pause()
	for i := range 4 {
		a := batch(d, books, fmt.Sprintf("user%d", i), 1)
		if !comeAgain(a) || a.Code != -4 || a.took > 5*time.Second {
			t.Errorf("%v: %s", a.took, a.body)
		}
		t.Logf("refused after %v", a.took.Round(time.Millisecond))
	}
	d.want("/readyz/queue", 503, 0)
	d.want("/readyz", 200, 0)
	d.want("/livez", 200, 0)
	s.redis.Resume()
	took := eventually(t, 15*time.Second, "recovered", func() bool { return batch(d, books, "alice", 300).status == 200 })
	t.Logf("recovered after %v", took.Round(time.Millisecond))
	books.Settle(t)
}
