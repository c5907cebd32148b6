//go:build unix

package e2e_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// narrow is the limit of an app whose IDs must fit into 31 bits: 131,071 indices for
// each shard.
const narrow = "2147483647"

// sweeping makes the sweep and the reload run each second.
func sweeping() settings {
	return settings{"QUEUE_REFILL_CRON": "* * * * * *", "QUEUE_RELOAD_CRON": "* * * * * *", "QUEUE_TIMEOUT": "500ms"}
}

// narrowApp is a database with a narrow app 1.
func narrowApp(t *testing.T, dsn string) string {
	t.Helper()
	must(t, onMariaDB(dsn), "migrate")
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test", "--max-limit-id", narrow)
	return dsn
}

// TestDirectedRestartsOfAnEmbeddedServer: 131 restarts used up a 32-bit app although
// nobody asked for an ID. An orderly stop now loses nothing, and a crash little.
func TestDirectedRestartsOfAnEmbeddedServer(t *testing.T) {
	story(t)
	dir, books := t.TempDir(), &ledger{}
	shardidIn(t, dir, nil, "provision", "--app", "1", "--name", "test", "--max-limit-id", narrow)
	restart := func(times, ids int, stop func(*daemon)) {
		t.Helper()
		for range times {
			d := serveIn(t, dir, nil)
			d.ready()
			if ids > 0 {
				take(d, books, ids)
			}
			stop(d)
			d.Kill()
		}
	}
	orderly := func(d *daemon) { d.stops(syscall.SIGTERM, startLimit) }
	highest := func() (index int64) {
		t.Helper()
		d := serveIn(t, dir, nil)
		take(d, books, 1)
		orderly(d)
		return books.Last() >> 14
	}
	restart(10, 0, orderly)
	restart(10, 0, func(*daemon) {}) // killed
	if at := highest(); at != 1 {
		t.Errorf("20 restarts without an ID: index %d", at)
	}
	restart(40, 1, orderly)
	if at, want := highest(), int64(books.Count()); at > want+30 {
		t.Errorf("40 orderly restarts: index %d after %d IDs", at, want)
	}
	before := highest()
	restart(20, 1, func(*daemon) {})
	if at := highest(); at > before+20*20 {
		t.Errorf("20 crashes: index %d, before %d", at, before)
	}
	t.Logf("%d IDs in some 85 lives, highest index %d", books.Count(), highest())
	books.Settle(t)
}

// TestDirectedRedisFull: for as long as Redis takes no writes no segment is taken,
// however many callers try. 100 s of it used up a 32-bit app.
func TestDirectedRedisFull(t *testing.T) {
	story(t)
	server, books := testserver.Redis(t), &ledger{}
	dsn := narrowApp(t, testserver.SharedMariaDB(t).NewDatabase(t))
	d := serve(t, onMariaDB(dsn).With(onRedis(server.Addr)).With(sweeping()))
	take(d, books, 1000)
	const sum = "SELECT SUM(max_id) FROM id_alloc"
	c := server.Client()
	order(t, c, "CONFIG", "SET", "maxmemory", "1mb", "maxmemory-policy", "noeviction")
	before, refused, explained := number(t, dsn, sum), 0, 0
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		for _, pass := range []string{"alice", "hello", "bob"} {
			if a := batch(d, books, pass, 50); a.status != http.StatusOK {
				refused++
				if !comeAgain(a) || a.Code != -4 {
					t.Errorf("%v %s", a.header, a.body)
				}
				if strings.Contains(a.Message, "OOM") && strings.Contains(a.Message, "maxmemory") {
					explained++ // a caller who came before Redis answered hears that it has not
				} else if !strings.Contains(a.Message, "the stores have not answered yet") {
					t.Fatalf("refusal: %s", a.body)
				}
			}
		}
	}
	if taken := number(t, dsn, sum) - before; taken != 0 || refused < 10 || explained < refused*9/10 {
		t.Errorf("%d indices were taken while Redis was full; %d refusals, %d of them name the reason", taken, refused, explained)
	}
	if n := len(d.Lines(`"level":"ERROR"`, "OOM")); n < 1 || n > 5 {
		t.Errorf("%d lines of errors:\n%s", n, d.Output())
	}
	order(t, c, "CONFIG", "SET", "maxmemory", "0")
	took := eventually(t, 10*time.Second, "served again", func() bool { return batch(d, books, "hello", 1).status == 200 })
	t.Logf("%d refusals, served %v after there was memory", refused, took)
	take(d, books, 100)
	books.Settle(t)
}

// TestDirectedCommitsWithoutAnswer: a semi-synchronous database whose replica is away
// answers no COMMIT. Four minutes of it used up 6065 indices of a shard, and seven the day
// of a tag with 9999 numbers.
func TestDirectedCommitsWithoutAnswer(t *testing.T) {
	story(t)
	if testserver.OnMySQL() {
		t.Skip("the plugin has to be installed there")
	}
	server, books := testserver.MariaDB(t, "--log-bin=b", "--server-id=1", "--rpl-semi-sync-master-timeout=3600000"), &ledger{}
	dsn := narrowApp(t, server.NewDatabase(t))
	must(t, onMariaDB(dsn), "tags", "add", "--tag", "orders", "--pattern", "{seq:4}", "--reset", "none", "--overflow", "refuse")
	d := serve(t, onMariaDB(dsn).With(onRedis(testserver.Redis(t).Addr)).With(sweeping()))
	draw := func() bool {
		a, err := d.do("POST", "/v1/segment/orders/ids?count=20")
		return err == nil && a.status == http.StatusOK
	}
	take(d, books, 1000)
	eventually(t, startLimit, "numbers are issued", draw)
	const indices, numbers = "SELECT SUM(max_id) FROM id_alloc", "SELECT MAX(max_id) FROM leaf_alloc"
	before, tag := number(t, dsn, indices), number(t, dsn, numbers)
	issued, refused, got := books.Count(), 0, 0
	query(t, dsn, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
	for began := time.Now(); time.Since(began) < 40*time.Second; {
		if batch(d, books, "alice", 50).status != http.StatusOK {
			refused++
		}
		if draw() {
			got += 20
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: COMMITs are answered")
	}
	if lost := number(t, dsn, indices) - before - int64(books.Count()-issued); lost > 131_071/100 {
		t.Errorf("%d indices are gone", lost)
	}
	if lost := number(t, dsn, numbers) - tag - int64(got); lost > 9999/100 {
		t.Errorf("%d numbers are gone", lost)
	}
	query(t, dsn, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
	took := eventually(t, 10*time.Second, "served again", func() bool { return batch(d, books, "alice", 50).status == 200 && draw() })
	t.Logf("%d refusals, served after %v", refused, took)
	take(d, books, 100)
	books.Settle(t)
}
