//go:build unix

package e2e_test

import (
	"sync"
	"testing"

	"shardid/scripts/testserver"
)

// TestE2EReplicas: two replicas share a MariaDB and a Redis, or a Redis Cluster of three masters.
// TestDirectedRefillsGoOn tells of Sentinel.
func TestE2EReplicas(t *testing.T) {
	story(t)
	for name, redis := range map[string]func() settings{
		"one Redis": func() settings { return onRedis(testserver.Redis(t).Addr) },
		"cluster":   func() settings { return onCluster(testserver.Cluster(t)) },
	} {
		l := twoReplicas(t, redis())
		l.start(t, 64)
		l.reach(t, 20_000)
		l.stop()
		l.books.Settle(t, name)
	}
}

// comeAgain says whether a refusal is one that tells the caller to try again.
func comeAgain(a answer) bool {
	return a.status == 503 && (a.Code == -4 || a.Code == -1) && a.header.Get("Retry-After") != "" && a.Message != ""
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
	return &load{apps: []int64{1, 7, 255}, books: &ledger{}, replicas: serveReady(t, 2, onMariaDB(dsn).With(redis).With(settings{"QUEUE_TIMEOUT": "10s"}))}
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
