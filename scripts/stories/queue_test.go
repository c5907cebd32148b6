//go:build unix

// Apps of the queue mode: replicas share lists in Redis, plain and scrambled ones.

package stories_test

import (
	"fmt"
	"sync"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestReplicas: two replicas share a MariaDB and a Redis, or a Redis Cluster of three masters, and no ID
// comes twice. What callers cannot read from the IDs of a scrambled app, the replicas can.
func TestReplicas(t *testing.T) {
	story(t)
	for _, c := range []struct {
		name  string
		deep  bool
		redis func(*testing.T) settings
	}{
		{"one Redis", false, func(t *testing.T) settings { return onRedis(testserver.Redis(t).Addr) }},
		{"a cluster", true, func(t *testing.T) settings { return onCluster(testserver.Cluster(t)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.deep {
				check.Deep(t)
			}
			l := twoReplicas(t, c.redis(t))
			scrambled := &load{replicas: l.replicas, apps: []int64{8}, books: &ledger{}}
			l.start(t, 48)
			scrambled.start(t, 16)
			l.reach(t, 20_000)
			l.stop()
			scrambled.reach(t, 5000)
			scrambled.stop()
			l.books.Settle(t, "plain")
			scrambled.books.Settle(t, "scrambled")
			wantScrambled(t, l.replicas[1], scrambled.books.IDs())
		})
	}
}

// wantScrambled: the images of the first indices are spread over the whole range, and /decode finds the indices.
func wantScrambled(t *testing.T, d *daemon, ids []int64) {
	t.Helper()
	low := 0
	for _, id := range ids {
		if id>>14 < model.MaxIndex/100 {
			low++
		}
	}
	if highest := ids[len(ids)-1] >> 14; low > len(ids)/25 || highest < model.MaxIndex/10*9 {
		t.Errorf("%d of %d IDs are in the lowest hundredth, the highest is %d", low, len(ids), highest)
	}
	for _, id := range ids[:20] {
		a := d.get(fmt.Sprint("/decode?id=", id))
		if v := fromJSON[struct{ Index, AppID int64 }](t, a); v.Index < 1 || v.Index > 50_000 || v.AppID != 8 {
			t.Errorf("%d is decoded as %s, want an index up to 50000 of app 8", id, a.body)
		}
	}
}

// twoReplicas migrates a database from two starters at once, makes three apps by the stored procedure and one
// that is scrambled, and starts two replicas; the load is of the three.
func twoReplicas(t *testing.T, redis settings) *load {
	t.Helper()
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
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
	for _, call := range []string{"1, 'test', NULL", "7, '订单', 'orders'", "255, 'last', ''"} {
		if out, err := mariadb(t, dsn, "CALL alloc_initData("+call+")"); err != nil {
			t.Fatalf("alloc_initData(%s): %v: %s", call, err, out)
		}
	}
	must(t, onMariaDB(dsn), "provision", "--app", "8", "--name", "hidden", "--scramble")
	s := onMariaDB(dsn).With(redis).With(settings{"SERVER_REQUEST_TIMEOUT": "10s"})
	return &load{apps: []int64{1, 7, 255}, books: &ledger{}, replicas: serveReady(t, 2, s)}
}

// comeAgain says whether a refusal is one that tells the caller to try again.
func comeAgain(a answer) bool {
	return a.status == 503 && (a.Code == -4 || a.Code == -1) && a.header.Get("Retry-After") != "" && a.Message != ""
}
