//go:build unix

package e2e_test

import (
	"database/sql"
	"fmt"
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
			eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
			if ids > 0 {
				take(d, books, ids)
			}
			stop(d)
			d.Kill()
		}
	}
	orderly := func(d *daemon) {
		d.Signal(syscall.SIGTERM)
		if code := d.Exit(startLimit); code != 0 {
			t.Errorf("exit status %d", code)
		}
	}
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

// TestDirectedTwoDeploymentsOneRedis: a second database, with an app of the same
// number, on the Redis of the first. The second is told what to do; the first goes on,
// also when Redis restarts, and is not lifted by what the other has.
func TestDirectedTwoDeploymentsOneRedis(t *testing.T) {
	story(t)
	server, books := testserver.Redis(t), &ledger{}
	one, two := narrowApp(t, testserver.SharedMariaDB(t).NewDatabase(t)), narrowApp(t, testserver.SharedMariaDB(t).NewDatabase(t))
	query(t, two, "UPDATE id_alloc SET max_id = 100000")
	first := serve(t, onMariaDB(one).With(onRedis(server.Addr)).With(sweeping()))
	take(first, books, 500)
	second := serve(t, onMariaDB(two).With(onRedis(server.Addr)).With(sweeping()))
	refuse := func() {
		t.Helper()
		ours, theirs := deploymentOf(t, two), deploymentOf(t, one)
		eventually(t, startLimit, "the second is refused", func() bool {
			a := second.get(aliceGet)
			return a.Code == -4 && strings.Contains(a.Message, ours) && strings.Contains(a.Message, theirs) &&
				strings.Contains(a.Message, "redis.db") && strings.Contains(a.Message, "shardid confirm --deployment")
		})
	}
	refuse()
	for range 3 {
		take(first, books, 200)
		order(t, server.Client(), "SAVE")
		server.Kill()
		server.Restart()
		refuse()
		take(first, books, 200)
	}
	if at := number(t, one, aliceMaxID); at > 10_000 {
		t.Errorf("max_id is %d after %d IDs: the other deployment lifted it", at, books.Count())
	}
	books.Settle(t)
}

func deploymentOf(t *testing.T, dsn string) string {
	t.Helper()
	return word(t, dsn, "SELECT deployment FROM shardid_deployment")
}

// TestDirectedSingleRestartsWeeksApart: MariaDB restarts cleanly, weeks later Redis,
// weeks later MariaDB again. Nothing burns, nothing waits for an operator: also not for
// lists that nobody used in between.
func TestDirectedSingleRestartsWeeksApart(t *testing.T) {
	story(t)
	db, server, books := testserver.MariaDB(t), testserver.Redis(t), &ledger{}
	dsn := narrowApp(t, db.NewDatabase(t))
	d := serve(t, onMariaDB(dsn).With(onRedis(server.Addr)).With(sweeping()))
	take(d, books, 100)
	eventually(t, startLimit, "another list is used", func() bool { return batch(d, books, "hello", 20).status == 200 })
	settled := func() {
		t.Helper()
		eventually(t, time.Minute, "settled", func() bool {
			return d.get("/readyz").status == 200 && number(t, dsn, unsettled) == 0
		})
		// Weeks go by: for the rows, as nobody can wait so long.
		query(t, dsn, fmt.Sprintf("UPDATE id_alloc SET allocated_at = allocated_at - %d WHERE allocated_at > 0", 21*24*time.Hour/time.Millisecond))
	}
	witness := func() string { return word(t, dsn, "SELECT witness FROM shardid_deployment") }
	for range 3 {
		settled()
		since := number(t, dsn, "SELECT since FROM shardid_deployment")
		time.Sleep(6 * time.Second) // a server that restarts sooner is not told apart
		db.Stop()
		db.Restart()
		eventually(t, time.Minute, "the restart is noted", func() bool {
			return number(t, dsn, "SELECT since FROM shardid_deployment") > since
		})
		settled()
		before := witness()
		server.Kill() // an old snapshot, or nothing at all
		server.Restart()
		eventually(t, time.Minute, "the new Redis is the witness", func() bool {
			return witness() != before && number(t, dsn, unsettled) == 0
		})
	}
	take(d, books, 100)
	eventually(t, startLimit, "the idle list goes on", func() bool { return batch(d, books, "hello", 20).status == 200 })
	if at := number(t, dsn, aliceMaxID); at > 1000 {
		t.Errorf("max_id is %d after %d IDs", at, books.Count())
	}
	books.Settle(t)
}

// word is the one text that a query gives.
func word(t *testing.T, dsn, statement string) (text string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), statement).Scan(&text); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return text
}
