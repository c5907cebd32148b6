//go:build unix

// Deployments that change: they take over from the service of the original article, or from an older version, and
// become regions.

package stories_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardid/client"
	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// release030 is the commit of version 0.3.0.
const release030 = "dcf9323b6c6789f2062ec0e775478ff867593e5b"

// release builds 0.3.0 and returns its path. It stays in the user's cache, as it never changes; a test that has no git
// history, or not what the commit needs, is skipped.
func release(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	check.Must(t, err)
	path := filepath.Join(cache, "shardid", "releases", "shardid-"+release030)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	const script = `cd "$(git rev-parse --show-toplevel)"
		git archive "$1" -- client cmd docs go.mod go.sum model repository service sql config.yaml | tar -x -C "$2"
		cd "$2"
		CGO_ENABLED=0 GOFLAGS= GOWORK=off go build -tags nomsgpack -o "$3.$$" ./cmd/shardid
		mv "$3.$$" "$3"` // at once, as others may build it too
	out, err := exec.Command("/bin/sh", "-ec", script, "release", release030, t.TempDir(), path).CombinedOutput()
	if err != nil {
		t.Skipf("0.3.0 cannot be built here, as in a shallow clone: %v\n%s", err, out)
	}
	return path
}

// ofRelease is a command of 0.3.0, which has another key for the address of Redis.
func ofRelease(binary, dir string, s settings, args ...string) *exec.Cmd {
	old := s.With(settings{"SERVER_ADDR": "127.0.0.1:0"})
	if addr, is := strings.CutPrefix(s["REDIS_URL"], "redis://"); is {
		old["REDIS_MODE"], old["REDIS_ADDRS"] = "single", addr
	}
	delete(old, "REDIS_URL")
	return old.Command(dir, binary, args...)
}

// TestUpgradeSideBySide: replicas of 0.3.0 continue while the new version migrates their database
// and serves beside them, take the place of each other in the same folder to and fro, also after
// both stores were restarted, and every replica issues every kind of ID all the time, none twice, and
// numbers of keys in order.
func TestUpgradeSideBySide(t *testing.T) {
	check.Deep(t)
	story(t)
	old, redis, database := release(t), testserver.Redis(t), testserver.MariaDB(t)
	s := onMariaDB(database.NewDatabase(t)).With(onRedis(redis.Addr)).With(settings{"SERVER_DRAIN_DELAY": "0s"})
	byOld := func(args string) string {
		t.Helper()
		out, err := ofRelease(old, t.TempDir(), s, strings.Fields(args)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
		return string(out)
	}
	for _, args := range []string{"migrate", "provision --app 1 --name orders",
		"provision --app 8 --name hidden --scramble", "tags add --tag orders --step 100",
		"sequences add --space chat"} {
		byOld(args)
	}
	const hiddenGet = "/get?appId=8&gatePass=alice"
	f := newFleet(t, s, aliceGet, helloGet, hiddenGet, segmentGet+"orders", snowflakeGet, uidGet)
	var numbered rig.Order
	addTwo := func(release string) {
		f.release = release
		f.add(2)
		for _, p := range f.places[len(f.places)-2:] {
			f.callers = append(f.callers, number(p, &numbered))
		}
		f.serves()
		reach(t, &numbered, numbered.Count()+300)
	}
	addTwo(old)
	must(t, s, "migrate")
	addTwo("")
	for command, says := range map[string]string{
		"apps": "orders", "tags": "orders", "doctor": "database", "migrate": "",
	} {
		check.Has(t, byOld(command), says, command, "of 0.3.0")
	}
	for _, p := range f.places {
		for _, failed := range p.now.Load().Lines(`"level":"ERROR"`) {
			if !strings.Contains(failed, "is not busy") { // that tells of this machine
				t.Errorf("%s: %s", p.name, failed)
			}
		}
	}
	one, two := f.places[0], f.places[1]
	again := func(p *place, release string) {
		t.Helper()
		if p.now.Load() != nil {
			p.stop()
		}
		p.release = release
		p.start()
	}
	again(one, old)
	f.serves()

	redis.Kill()
	database.Kill()
	database.Restart()
	redis.Restart()
	f.serves()
	again(one, "")
	two.kill()
	again(two, "")
	f.serves()
	again(two, old) // one goes back
	f.serves()
	again(two, "")
	f.serves()
	reach(t, &numbered, numbered.Count()+300)
	f.settle()
	numbered.Settle(t, "sequences")
	stores, _, _ := strings.Cut(shardid(t, s, "doctor").stdout, "\nreplica ") // whose alarms tell of the failovers
	if strings.Contains(stores, "unsafe") || strings.Contains(stores, "warn") {
		t.Errorf("doctor: %s", stores)
	}
}

// TestMoveFromRelease: the folder of an embedded 0.3.0 moves to servers, however it was stopped. Then snowflakes come
// at once, no ID of any mode comes twice, and the numbers of a key rise.
func TestMoveFromRelease(t *testing.T) {
	check.Deep(t)
	old := release(t)
	for name, end := range map[string]func(*place){"stopped": (*place).stop, "killed": (*place).kill} {
		t.Run(name, func(t *testing.T) {
			story(t)
			p := newPlace(t, name, settings{"SERVER_DRAIN_DELAY": "0s"}, "--demo")
			p.release = old
			var all [4]ledger
			var draws []draw
			for i, target := range []string{aliceGet, segmentGet + demoTag, snowflakeGet, uidGet} {
				draws = append(draws, draw{place: p, target: target, batch: 10, books: &all[i]})
			}
			var numbered rig.Order
			for _, isMoved := range []bool{false, true} {
				if isMoved {
					p.settings = p.settings.With(onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t))).
						With(onRedis(testserver.Redis(t).Addr))
					p.release, p.args = "", nil
					for _, says := range []string{"id_alloc: 64 rows taken over\n", "it was moved here already\n"} {
						check.Has(t, shardidIn(t, p.dir, p.settings, "migrate", "--from", "data").stdout, says)
					}
				}
				d := p.start()
				if isMoved {
					const soon = 10 * time.Second
					eventually(t, soon, "a snowflake", func() bool { return d.get(snowflakeGet).status == 200 })
				}
				d.ready()
				callers, numberers := gather(t, 2, draws...), number(p, &numbered)
				for i := range all {
					reach(t, &all[i], all[i].Count()+1000)
				}
				reach(t, &numbered, numbered.Count()+300)
				end(p)
				callers.Stop()
				numberers.Stop()
			}
			for i := range all {
				all[i].Settle(t, draws[i].target)
			}
			numbered.Settle(t, "sequences")
		})
	}
}

// goClient asks one replica.
func goClient(t *testing.T, d *daemon) *client.Client {
	c, err := client.New(client.Options{Addrs: []string{d.url}})
	check.Must(t, err)
	t.Cleanup(func() { check.OK(t, c.Close()) })
	return c
}

// TestRegions: an ID says the region that issued it, and clients that count on their own do so by its stride. The
// database of a region, such as one that was restored from its backup, serves no other one, and doctor sees two
// deployments of one region.
func TestRegions(t *testing.T) {
	check.Deep(t)
	story(t)
	var urls []string
	for _, id := range []int{1, 2} {
		s := settings{"REGION_ID": strconv.Itoa(id), "REGION_BITS": "2", "RESP_ADDR": "127.0.0.1:0"}
		if id == 1 {
			s = s.With(onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t))).With(onRedis(testserver.Redis(t).Addr))
		}
		d := prepared(t, s, []string{"provision", "--app", "1", "--name", "one"},
			[]string{"tags", "add", "--tag", "orders", "--step", "100"}, []string{"names", "add", "--name", "gophers"},
			[]string{"spaces", "add", "--space", "chat"})
		d.ready()
		urls = append(urls, d.url)
		for kind, path := range map[string]string{
			"queue": "/v1/queue/1/ids?gatePass=bob", "snowflake": "/v1/snowflake/ids", "uid": "/v1/uid/ids",
		} {
			one := fromJSON[answer](t, answer{body: eventuallyID(t, d, path)}).IDs[0]
			target := "/decode?kind=" + kind + "&id=" + strings.Trim(string(one), `"`)
			check.Has(t, d.get(target).body, fmt.Sprintf(`"region":%d`, id), kind)
		}
		check.Equal(t, eventuallyID(t, d, "/v1/sequence/chat/ids?key=bob&count=2"),
			fmt.Sprintf(`{"code":0,"ids":["%d","%d"]}`, 4+id, 8+id), "numbers of a key")
		byRedis, byGo := redis.NewClient(&redis.Options{Addr: d.respAddr()}), goClient(t, d)
		n, err := byRedis.Incr(t.Context(), "sequence:chat:bob").Result()
		check.OK(t, errors.Join(err, byRedis.Close()))
		check.Equal(t, n, int64(12+id), "the next one, of a Redis client")
		n, err = byGo.Sequence("chat").Next(t.Context(), "bob")
		check.OK(t, err)
		check.Equal(t, n, int64(16+id), "the next one, of the Go client")
		if worker, from := d.lease("gophers"), int64(id)*256; worker < from || worker >= from+256 {
			t.Errorf("region %d leases worker ID %d", id, worker)
		}
		run := d.get("/tinyid/id/nextSegmentId?bizType=orders").body
		check.Has(t, run, fmt.Sprintf(`"delta":4,"remainder":%d`, id), "a run of tinyid")
		check.Has(t, d.get("/v1/segment/orders/ids?count=10&ranges=true").body, `"count":10,"stride":"4"`, "ranges")
		if id == 1 { // an embedded database is changed by the process that serves with it
			elsewhere := s.With(settings{"REGION_ID": "3"})
			wrong := shardidIn(t, d.Cmd.Dir, elsewhere, "provision", "--app", "9", "--name", "nine")
			check.Equal(t, wrong.exit, 1, "in another region")
			check.Has(t, wrong.stderr, "region 1/2")
		}
	}
	asks := []string{"doctor", "--json", "--region", urls[0], "--region", urls[1]}
	for id, isUnsafe := range map[string]bool{"0": false, "1": true} { // as a third region, and as one of them
		o := shardid(t, settings{"REGION_ID": id, "REGION_BITS": "2"}, asks...)
		if strings.Contains(o.stdout, `"unsafe"`) != isUnsafe || isUnsafe && o.exit == 0 {
			t.Errorf("as region %s doctor says %+v", id, o)
		}
	}
}

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
				t.Errorf("the article's service: %v", err)
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
	alone(1000) // on a slow disk each one takes a transaction, as the callers empty the lists
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
