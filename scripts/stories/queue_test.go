//go:build unix

// Apps of the queue mode: replicas share lists in Redis, plain and scrambled ones.

package stories_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
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
			replicas, books, scrambled := twoReplicas(t, c.redis(t)), &ledger{}, &ledger{}
			draws := append(anyList(books, replicas, 1, 7, 255), anyList(scrambled, replicas, 8)...)
			callers := gather(t, 8, draws...)
			reach(t, books, 20_000)
			reach(t, scrambled, 5000)
			callers.Stop()
			books.Settle(t, "plain")
			scrambled.Settle(t, "scrambled")
			wantScrambled(t, replicas[1], scrambled.IDs())
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
// that is scrambled, and starts two replicas.
func twoReplicas(t *testing.T, redis settings) []*daemon {
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
	query(t, dsn, "CALL alloc_initData(1, 'test', NULL)", "CALL alloc_initData(7, '订单', 'orders')",
		"CALL alloc_initData(255, 'last', '')")
	must(t, onMariaDB(dsn), "provision", "--app", "8", "--name", "hidden", "--scramble")
	return serveReady(t, 2, onMariaDB(dsn).With(redis).With(settings{"SERVER_REQUEST_TIMEOUT": "10s"}))
}

// articleTable is the table as the original article published it.
const articleTable = `CREATE TABLE id_alloc (app_id int(11) NOT NULL, app_name varchar(128) NOT NULL,
	max_id bigint(20) NOT NULL DEFAULT '1', shard_id int(11) NOT NULL, step int(11) NOT NULL DEFAULT '1000',
	description varchar(255) DEFAULT NULL, create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
	update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	max_limit_id bigint(20) DEFAULT NULL, PRIMARY KEY (app_id, shard_id)) ENGINE=InnoDB DEFAULT CHARSET=utf8`

// articleApp gives all rows of an app, whose shards have issued max_id.
func articleApp(app int, name string, maxID int64, limit string) string {
	rows := make([]string, 64)
	for shard := range rows {
		rows[shard] = fmt.Sprintf("(%d, '%s', %d, %d, %s)", app, name, maxID, shard, limit)
	}
	return "INSERT INTO id_alloc (app_id, app_name, max_id, shard_id, max_limit_id) VALUES " + strings.Join(rows, ", ")
}

// articleService is a stand-in of the article's service, which pops from either end and refills a
// short list.
type articleService struct {
	rig.Plain
	books *ledger
	news  atomic.Int64 // IDs issued
}

// start runs the service with so many callers of one app until stop is called.
func startArticle(t *testing.T, dsn, addr string, app int64, books *ledger) (a *articleService, stop func()) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	a = &articleService{Plain: rig.Plain{Redis: redis.NewClient(&redis.Options{Addr: addr}), DB: db}, books: books}
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for i := range 8 {
		rnd := rand.New(rand.NewPCG(7, uint64(i)))
		callers.Go(func() {
			for ctx.Err() == nil {
				pass := fmt.Sprint("user", rnd.IntN(20))
				if err := a.get(context.WithoutCancel(ctx), app, pass, rnd.IntN(4) == 0); err != nil {
					books.Complain("the article's service: %v", err)
					return
				}
				time.Sleep(time.Millisecond) // the rate of a caller
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		callers.Wait()
		_ = errors.Join(a.Redis.Close(), db.Close())
	})
	t.Cleanup(stop)
	return a, stop
}

// get issues one ID.
func (a *articleService) get(ctx context.Context, app int64, pass string, right bool) error {
	list := rig.List{App: app, Shard: rig.ShardOf(pass)}
	index, err := a.Take(ctx, list, right)
	if err != nil {
		return err
	}
	a.books.Queue("", app, pass, list.ID(index))
	a.news.Add(1)
	if a.Redis.LLen(ctx, list.Key()).Val() > 20 {
		return nil
	}
	return a.Refill(ctx, list)
}

// TestBesideTheArticle does what docs/migrating.md says: the article's service runs, shardid
// takes over its table, both serve from the same lists, the callers move, the old service
// stops. No ID comes twice, and the log of a replica has a handful of lines about it.
func TestBesideTheArticle(t *testing.T) {
	story(t)
	dsn, server := testserver.SharedMariaDB(t).NewDatabase(t), testserver.Redis(t)
	query(t, dsn, articleTable, articleApp(1, "orders", 1, "NULL"), "UPDATE id_alloc SET step = 100")
	books := &ledger{}
	old, stop := startArticle(t, dsn, server.Addr, 1, books)
	alone := func(n int64) {
		goal := old.news.Load() + n
		eventually(t, time.Minute, "the old service issues IDs", func() bool { return old.news.Load() >= goal })
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
	stop()
	reach(t, books, books.Count()+10_000)
	callers.Stop()
	books.Settle(t)
	t.Logf("%d IDs of the old service", old.news.Load())
	for _, d := range replicas {
		failed := d.Lines(`"level":"ERROR"`)
		t.Logf("%v indices refused, %d errors", d.metric("shardid_queue_repeated_indices_total"), len(failed))
		for _, line := range failed {
			// The old service has pushed, or the list was taken over, between State and Push.
			takenOver := strings.Contains(line, "refill fails") &&
				(strings.Contains(line, "the list began another life") ||
					strings.Contains(line, "not above the high-water mark"))
			if len(failed) > 3 || !takenOver && !strings.Contains(line, "another writer pushes to this list") {
				t.Errorf("the log has %s", line)
			}
		}
	}
}
