//go:build unix

package stories_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/redis/go-redis/v9"
)

// articleTable is the table as the original article published it.
const articleTable = `CREATE TABLE id_alloc (app_id int(11) NOT NULL, app_name varchar(128) NOT NULL,
	max_id bigint(20) NOT NULL DEFAULT '1', shard_id int(11) NOT NULL, step int(11) NOT NULL DEFAULT '1000',
	description varchar(255) DEFAULT NULL, create_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP,
	update_time datetime NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	max_limit_id bigint(20) DEFAULT NULL, PRIMARY KEY (app_id, shard_id)) ENGINE=InnoDB DEFAULT CHARSET=utf8`

// articleApp gives all rows of an app, whose shards have handed out max_id.
func articleApp(app int, name string, maxID int64, limit string) string {
	rows := make([]string, 64)
	for shard := range rows {
		rows[shard] = fmt.Sprintf("(%d, '%s', %d, %d, %s)", app, name, maxID, shard, limit)
	}
	return "INSERT INTO id_alloc (app_id, app_name, max_id, shard_id, max_limit_id) VALUES " + strings.Join(rows, ", ")
}

// TestArticleLimits: an app of the article's table that is past its limit is named by
// migrate and doctor and refused, which the log tells once; its operator chooses wrap.
func TestArticleLimits(t *testing.T) {
	check.Deep(t)
	story(t)
	const limit = 1000<<14 | 7
	dsn := testserver.SharedMariaDB(t).NewDatabase(t)
	query(t, dsn, articleTable, articleApp(7, "orders", 2000, fmt.Sprint(limit)),
		articleApp(8, "notes", 2000, "NULL"), articleApp(9, "wide", 2000, fmt.Sprint(int64(1)<<40)))
	s := onMariaDB(dsn).With(onRedis(testserver.Redis(t).Addr))
	out := must(t, s, "migrate")
	choose := `shardid apps set --app 7 --limit-policy wrap --confirm "orders"`
	const ofApp7 = "limit of app 7 (orders): max_limit_id 16384007, policy reject"
	for _, want := range []string{ofApp7, choose, "app 9 (wide)"} {
		if !strings.Contains(out, want) {
			t.Errorf("migrate does not say %s:\n%s", want, out)
		}
	}
	if strings.Contains(out, "notes") {
		t.Errorf("an app without a limit in\n%s", out)
	}
	if o := shardid(t, s, "doctor"); o.exit != 0 || !strings.Contains(o.stdout, choose) {
		t.Errorf("doctor does not say %s: %+v", choose, o)
	}
	d := serve(t, s.With(settings{"QUEUE_RELOAD_CRON": "* * * * * *"}))
	d.ready()
	for range 20 {
		d.want("/get?appId=7&gatePass=alice", 409, -5)
		d.want("/get?appId=7&gatePass=hello", 409, -5)
	}
	if told := d.Lines(`"level":"WARN"`, "reached its limit", "--limit-policy wrap"); len(told) != 1 {
		t.Errorf("%d warnings, want 1:\n%s", len(told), d.Output())
	}
	for _, c := range []struct{ args, says string }{
		{"apps set --app 7 --limit-policy wrap", "confirm it"},
		{"apps set --app 7 --limit-policy wrap --confirm notes", `which is "orders"`},
		{"apps set --app 7 --limit-policy wrap --confirm orders --max-limit-id 16400391", "may have been issued"},
	} {
		if o := shardid(t, s, strings.Fields(c.args)...); o.exit == 0 || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: %+v", c.args, o)
		}
	}
	if o := shardid(t, s, "apps", "set", "--app", "7", "--limit-policy", "wrap", "--confirm", "orders"); o.exit != 0 {
		t.Fatalf("%+v", o)
	}
	eventually(t, 10*time.Second, "the app wraps", func() bool {
		return d.get("/get?appId=7&gatePass=alice").status == 200
	})
	first := int64(2001<<14|7) % limit
	for range 3 {
		if a := d.want("/get?appId=7&gatePass=alice", 200, 0); a.ID < first || (a.ID-first)%(1<<14) != 0 {
			t.Errorf("%d is no ID above index 2000, folded at %d", a.ID, limit)
		}
	}
	if out := must(t, s, "migrate"); strings.Contains(out, "orders") || !strings.Contains(out, "app 9 (wide)") {
		t.Errorf("after the choice: %s", out)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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

// TestBesideTheArticle follows docs/migrating.md: the article's service runs, shardid
// takes over its table, both serve from the same lists, the callers move, the old service
// stops. No ID comes twice, and the log of a replica has a handful of lines about it.
func TestBesideTheArticle(t *testing.T) {
	story(t)
	dsn, server := testserver.SharedMariaDB(t).NewDatabase(t), testserver.Redis(t)
	query(t, dsn, articleTable, articleApp(1, "orders", 1, "NULL"), "UPDATE id_alloc SET step = 100")
	l := &load{apps: []int64{1}, books: &ledger{}}
	old, stop := startArticle(t, dsn, server.Addr, 1, l.books)
	alone := func(n int64) {
		goal := old.news.Load() + n
		eventually(t, time.Minute, "the old service issues IDs", func() bool { return old.news.Load() >= goal })
	}
	alone(2000)
	// Two services share what the test gives one: no request is to end sooner.
	env := settings{"SERVER_REQUEST_TIMEOUT": "10s"}
	run := func(s step) {
		words := strings.Fields(s.command)
		switch {
		case words[0] == "export":
			name, value, _ := strings.Cut(strings.TrimPrefix(words[1], "SHARDID_"), "=")
			env[name] = map[string]string{"DATABASE_DSN": dsn, "REDIS_URL": "redis://" + server.Addr}[name]
			if env[name] == "" {
				env[name] = value
			}
		case s.command == "bin/shardid serve":
			for range 2 {
				d := serve(t, env)
				d.ready()
				l.replicas = append(l.replicas, d)
			}
			l.start(t, 8)
			alone(5000)
			l.reach(t, 40_000)
		case strings.HasPrefix(s.command, "kill "): // the old service
			stop()
			l.reach(t, l.books.Count()+10_000)
		case words[0] == "bin/shardid":
			must(t, env, words[1:]...)
			alone(100)
		case words[0] == "curl":
			d := l.replicas[0]
			target, ok := strings.CutPrefix(words[len(words)-1], "'http://127.0.0.1:8080")
			if a := d.get(strings.TrimSuffix(target, "'")); ok && a.status == http.StatusOK {
				l.books.Queue("", 1, "alice", a.ID)
			} else {
				t.Errorf("%s: %d %s", s.command, a.status, a.body)
			}
		default:
			t.Errorf("the test does not know how to follow %q", s.command)
		}
	}
	for _, b := range blocksIn(page{file: docs + "migrating.md", sections: []string{"A Redis-queue service"}}.text(t)) {
		for _, s := range b.steps() {
			if b.kind == "sh" {
				run(s)
			}
		}
	}
	l.stop()
	l.books.Settle(t)
	t.Logf("%d IDs of the old service", old.news.Load())
	for _, d := range l.replicas {
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
