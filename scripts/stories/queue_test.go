//go:build unix

// Apps of the queue mode: replicas share lists in Redis with each other, and with the service of the original article.

package stories_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// articleTable is the table as the original article published it.
const articleTable = `CREATE TABLE id_alloc (app_id int(11) NOT NULL, app_name varchar(128) NOT NULL,
	max_id bigint(20) NOT NULL DEFAULT '1', shard_id int(11) NOT NULL, step int(11) NOT NULL DEFAULT '1000',
	description varchar(255) DEFAULT NULL, create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
	update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	max_limit_id bigint(20) DEFAULT NULL, PRIMARY KEY (app_id, shard_id)) ENGINE=InnoDB DEFAULT CHARSET=utf8`

// startArticle runs a stand-in of the article's service on app 1, with some callers, until they are stopped. It pops
// from either end, and refills a short list. The figure is how many IDs it has issued.
func startArticle(t *testing.T, dsn string, r *testserver.RedisServer, books *ledger) (*rig.Callers, *atomic.Int64) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	service := rig.Plain{Redis: r.Client(), DB: db}
	c, issued := &rig.Callers{}, &atomic.Int64{}
	c.Start(t, 8, func(ctx context.Context, caller int) {
		rnd, whole := rand.New(rand.NewPCG(7, uint64(caller))), context.WithoutCancel(ctx)
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) { // the rate of a caller
			pass := fmt.Sprint("user", rnd.IntN(20))
			list := rig.List{App: 1, Shard: rig.ShardOf(pass)}
			index, err := service.Take(whole, list, rnd.IntN(4) == 0)
			if err == nil {
				books.Queue("the article's service", 1, pass, list.ID(index))
				issued.Add(1)
				if service.Redis.LLen(whole, list.Key()).Val() <= 20 {
					err = service.Refill(whole, list)
				}
			}
			if err != nil {
				books.Complain("the article's service: %v", err)
				return
			}
		}
	})
	return c, issued
}

// TestBesideTheArticle does what docs/migrating.md says: the article's service runs, shardid
// takes over its table, both serve from the same lists, the callers move, the old service
// stops. No ID comes twice, and the log of a replica has a handful of lines about it.
func TestBesideTheArticle(t *testing.T) {
	story(t)
	dsn, server := testserver.SharedMariaDB(t).NewDatabase(t), testserver.Redis(t)
	query(t, dsn, articleTable)
	const row = "INSERT INTO id_alloc (app_id, app_name, shard_id, step) VALUES (1, 'orders', %d, 100)"
	for shard := range 64 {
		query(t, dsn, fmt.Sprintf(row, shard))
	}
	books := &ledger{}
	old, issued := startArticle(t, dsn, server, books)
	alone := func(n int64) {
		goal := issued.Load() + n
		eventually(t, time.Minute, "the old service issues IDs", func() bool { return issued.Load() >= goal })
	}
	alone(2000)
	// Two services share what the test gives one: no request is to end sooner.
	env := onMariaDB(dsn).With(onRedis(server.Addr)).With(settings{"SERVER_REQUEST_TIMEOUT": "10s"})
	for _, command := range []string{"migrate", "apps", "doctor"} {
		must(t, env, command)
		alone(100)
	}
	replicas := serveReady(t, 2, env)
	callers := gather(t, 4, anyList(books, replicas, 1)...)
	alone(5000)
	reach(t, books, 40_000)
	old.Stop()
	reach(t, books, books.Count()+10_000)
	callers.Stop()
	books.Settle(t)
	t.Logf("%d IDs of the old service", issued.Load())
	for _, d := range replicas {
		failed := slices.DeleteFunc(d.Lines(`"level":"ERROR"`), func(line string) bool {
			return strings.Contains(line, "is not busy") // it tells of this machine, and not of the old service
		})
		t.Logf("%v indices refused, %d errors", d.metric("shardid_queue_repeated_indices_total"), len(failed))
		for _, line := range failed {
			// The old service has pushed, or the list was taken over, between State and Push.
			takenOver := strings.Contains(line, "refill fails") &&
				(strings.Contains(line, "the list began another life") ||
					strings.Contains(line, "not above the high-water mark"))
			if len(failed) > 3 || !takenOver && !strings.Contains(line, "find the other writer of this list") {
				t.Errorf("the log has %s", line)
			}
		}
	}
}
