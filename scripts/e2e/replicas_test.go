//go:build unix

package e2e_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"shardid/scripts/testserver"
)

// callers is how many ask at the same time in the stories with two replicas.
const callers = 64

// TestE2EReplicasOnOneRedis: two replicas share a MariaDB and a Redis.
func TestE2EReplicasOnOneRedis(t *testing.T) {
	story(t)
	l := twoReplicas(t, onRedis(testserver.Redis(t).Addr))
	l.start(t, callers)
	l.reach(t, 200_000)
	l.stop()
	l.books.Settle(t)
}

// TestE2EReplicasOnCluster: the same on a Redis Cluster of three masters.
func TestE2EReplicasOnCluster(t *testing.T) {
	story(t)
	l := twoReplicas(t, onCluster(testserver.Cluster(t)))
	l.start(t, callers)
	l.reach(t, 200_000)
	l.stop()
	l.books.Settle(t)
}

// TestE2EFailover: the same behind Sentinel, and the master dies in the middle.
// Callers see 503 with Retry-After for a while, and no ID twice.
func TestE2EFailover(t *testing.T) {
	story(t)
	sentinel := testserver.Sentinel(t)
	l := twoReplicas(t, onSentinel(sentinel))
	l.trouble = func(a answer, err error) bool { return err == nil && comeAgain(a) }
	l.start(t, callers)
	l.reach(t, 100_000)
	sentinel.DownAfter(t, 500*time.Millisecond)
	sentinel.Master.Kill()
	killed, before := time.Now(), l.books.Count()
	sentinel.MasterAddr(t, sentinel.Master.Addr)
	t.Logf("new master after %v", time.Since(killed).Round(time.Millisecond))
	for _, d := range l.replicas {
		eventually(t, 20*time.Second, "every shard is served again", func() bool { return servesAll(d, l.books) })
	}
	t.Logf("service resumed %v after the kill, %d requests refused", time.Since(killed).Round(time.Millisecond), l.refused.Load())
	l.reach(t, max(l.books.Count()+30_000, 200_000))
	l.stop()
	l.books.Settle(t)
	if after := l.books.Count(); after < 200_000 || before < 100_000 {
		t.Errorf("%d IDs before, %d in all", before, after)
	}
}

// comeAgain says whether a refusal is one that tells the caller to try again.
func comeAgain(a answer) bool {
	return a.status == 503 && (a.Code == -4 || a.Code == -1) && a.header.Get("Retry-After") != "" && a.Message != ""
}

// servesAll asks for a batch large enough that no replica holds it.
func servesAll(d *daemon, books *ledger) bool {
	f := form{count: 1500}
	a := d.get(f.target(255, "alice"))
	ids, err := f.parse(a)
	if a.status != 200 || err != nil {
		return false
	}
	books.Queue("", 255, "alice", ids...)
	return true
}

// twoReplicas migrates a database from two starters at once, provisions three
// apps by the stored procedure and starts two replicas.
func twoReplicas(t *testing.T, redis settings) *load {
	t.Helper()
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	migrateTwice(t, dsn)
	for _, call := range []string{"1, 'test', NULL", "7, '订单', 'orders'", "255, 'last', ''"} {
		if out, err := mariadb(t, dsn, "CALL alloc_initData("+call+")"); err != nil {
			t.Fatalf("alloc_initData(%s): %v: %s", call, err, out)
		}
	}
	l := &load{apps: []int64{1, 7, 255}, books: &ledger{}}
	for range 2 {
		l.replicas = append(l.replicas, serve(t, onMariaDB(dsn).With(redis)))
	}
	for _, d := range l.replicas {
		eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	}
	return l
}

func migrateTwice(t *testing.T, dsn string) {
	t.Helper()
	var starters sync.WaitGroup
	for range 2 {
		cmd := command(t, t.TempDir(), onMariaDB(dsn), "migrate")
		starters.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("migrate: %v: %s", err, out)
			}
		})
	}
	starters.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// TestE2EOneReplicaSweeps: of three replicas with twenty apps one reads the lists each
// period; when it is killed, another one does.
func TestE2EOneReplicaSweeps(t *testing.T) {
	story(t)
	const period, apps, calls = 10 * time.Second, 20, 10 // of a sweep of 1280 lists, 128 at a time
	dsn := migrated(t)
	for app := range apps {
		query(t, dsn, fmt.Sprintf("CALL alloc_initData(%d, 'app', '')", app))
	}
	s := onMariaDB(dsn).With(onRedis(testserver.Redis(t).Addr)).With(settings{
		"QUEUE_REFILL_CRON": "*/10 * * * * *", "QUEUE_RELOAD_CRON": "0 0 0 1 1 *", // a reload settles lists, which reads them too
	})
	var replicas []*daemon
	for range 3 {
		d := serve(t, s)
		d.ready()
		replicas = append(replicas, d)
	}
	// sweeps gives how often each replica has swept in so many periods.
	sweeps := func(periods int) (each []int) {
		read := func() (now []int) {
			for _, d := range replicas {
				state := `shardid_store_operation_seconds_count{operation="state",store="redis"}`
				now = append(now, int(d.metric(state))/calls)
			}
			return now
		}
		before := read()
		time.Sleep(time.Duration(periods) * period)
		for i, n := range read() {
			each = append(each, n-before[i])
		}
		return each
	}
	eventually(t, startLimit, "the first sweeps", func() bool {
		return number(t, dsn, "SELECT COUNT(*) FROM id_alloc WHERE max_id = 0") == 0
	})
	sweeps(1)
	each := sweeps(3)
	t.Logf("sweeps in three periods: %v", each)
	holder := slices.Index(each, slices.Max(each))
	if sum := each[0] + each[1] + each[2]; sum < 2 || sum > 4 { // periods are not cut at their ends
		t.Errorf("in three periods the replicas swept %v times", each)
	}
	replicas[holder].Kill()
	replicas = slices.Delete(replicas, holder, holder+1)
	each = sweeps(3)
	t.Logf("sweeps in three periods, without the first: %v", each)
	if sum := each[0] + each[1]; sum < 1 || sum > 4 {
		t.Errorf("after the sweeper died the others swept %v times in three periods", each)
	}
}
