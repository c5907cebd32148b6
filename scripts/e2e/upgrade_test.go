//go:build unix

package e2e_test

import (
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/go-zookeeper/zk"
)

// relic is what a deployment of an older version left and had issued; the README beside the
// files says how they were recorded. Times are moved so that it was left just now.
type relic struct {
	folder string
	moved  time.Duration
	replid string // of the Redis that gets the lists; empty: as recorded

	At                             int64 // when it was left, Unix ms
	Replid, Token                  string
	Queue, Segment, Snowflake, UID map[string][]int64  // IDs issued, by app, tag and instance
	Texts                          map[string][]string // business numbers issued, by tag
}

func openRelic(t *testing.T, name string) *relic {
	t.Helper()
	r := &relic{folder: filepath.Join("testdata", name)}
	if err := json.Unmarshal([]byte(r.text(t, "issued.json")), r); err != nil {
		t.Fatal(err)
	}
	r.moved = time.Since(time.UnixMilli(r.At)).Truncate(time.Second)
	for _, ids := range r.Snowflake {
		for i := range ids {
			ids[i] += r.moved.Milliseconds() << 22
		}
	}
	for _, ids := range r.UID {
		for i := range ids {
			ids[i] += int64(r.moved.Seconds()) << 35
		}
	}
	return r
}

// text reads a file. Unix times in it, in s, ms or µs, and those written as text, are
// moved; the replication ID becomes that of the present Redis.
func (r *relic) text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if r.moved == 0 {
		return text
	}
	unix := regexp.MustCompile(`\b` + strconv.FormatInt(r.At, 10)[:4] + `\d{6}(\d{3}){0,2}\b`)
	text = unix.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		unit := map[int]time.Duration{10: time.Second, 13: time.Millisecond, 16: time.Microsecond}[len(s)]
		return strconv.FormatInt(n+int64(r.moved/unit), 10)
	})
	day := time.UnixMilli(r.At).UTC().Format(time.DateOnly)
	text = regexp.MustCompile(day+` \d\d:\d\d:\d\d(\.\d+)?`).ReplaceAllStringFunc(text, func(s string) string {
		at, err := time.Parse("2006-01-02 15:04:05.999999", s)
		if err != nil {
			t.Fatal(err)
		}
		return at.Add(r.moved).Format("2006-01-02 15:04:05.999")
	})
	if r.replid != "" {
		text = strings.ReplaceAll(text, r.Replid, r.replid)
	}
	return text
}

// fillRedis runs the recorded commands and gives the lists.
func (r *relic) fillRedis(t *testing.T, server *testserver.RedisServer) (lists map[string][]int64) {
	t.Helper()
	c := server.Client()
	info := c.Info(t.Context(), "replication").Val()
	r.replid = regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(info)[1]
	lines := csv.NewReader(strings.NewReader(r.text(t, "redis.txt")))
	lines.Comma, lines.FieldsPerRecord = ' ', -1
	commands, err := lines.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	lists = map[string][]int64{}
	for _, words := range commands {
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		if words[0] == "RPUSH" {
			for _, w := range words[2:] {
				index, err := strconv.ParseInt(w, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				lists[words[1]] = append(lists[words[1]], index)
			}
		}
	}
	return lists
}

func (r *relic) fillDatabase(t *testing.T, driver, dsn, name string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), r.text(t, name)); err != nil {
		t.Fatal(err)
	}
}

func (r *relic) fillZooKeeper(t *testing.T, addr string) {
	t.Helper()
	c, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for line := range strings.Lines(r.text(t, "zookeeper.txt")) {
		node, data, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if _, err := c.Create(node, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("%s: %v", node, err)
		}
	}
}

// worker puts a worker file where it was, in the folder of a kind of worker IDs.
func (r *relic) worker(t *testing.T, dir, kind, name string) {
	t.Helper()
	folder := filepath.Join(dir, "data", kind, "8080")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(folder, "worker.json"), r.text(t, name))
}

// TestE2EUpgradeFrom010: the new version refuses what 0.1.0 left until migrate has run, and
// then goes on with it, by the config.yaml of 0.1.0: no ID comes again, apps, tags and limits
// are as they were, lists are used up, and an instance keeps its worker ID.
func TestE2EUpgradeFrom010(t *testing.T) {
	story(t)
	t.Run("embedded", func(t *testing.T) {
		r, dir := openRelic(t, "upgrade-0.1.0/embedded"), t.TempDir()
		writeFile(t, filepath.Join(dir, "config.yaml"), r.text(t, "config.yaml"))
		r.worker(t, dir, "shardid", "worker.json")
		r.fillDatabase(t, "sqlite", filepath.Join(dir, "data/shardid.db"), "sqlite.sql")
		u := &upgrade{T: t, relic: r, dir: dir, instance: "sqlite", workerID: 1,
			settings: settings{"SNOWFLAKE_ADVERTISE": "10.1.0.9:8080", "SERVER_DRAIN_DELAY": "0s"}}
		u.run()
	})
	for _, c := range []struct {
		mode     string
		workerID int64
	}{{"mysql", 1}, {"redis", 0}, {"local", 33}, {"zk", 0}} {
		t.Run(c.mode, func(t *testing.T) {
			server, dir := testserver.Redis(t), t.TempDir()
			r := openRelic(t, "upgrade-0.1.0/server")
			u := &upgrade{T: t, relic: r, dir: dir, instance: c.mode, workerID: c.workerID}
			u.lists = r.fillRedis(t, server)
			dsn := testserver.SharedMariaDB(t).NewDatabase(t)
			r.fillDatabase(t, "mysql", dsn+"&multiStatements=true&time_zone=%27%2B00:00%27", "mysql.sql")
			number := slices.Index([]string{"mysql", "redis", "local", "zk"}, c.mode) + 1
			u.settings = settings{"DATABASE_DSN": dsn, "REDIS_ADDRS": server.Addr,
				"SERVER_ADMIN_TOKEN":    "an-admin-token-of-0.1.0",
				"SERVER_DRAIN_DELAY":    "0s",
				"SNOWFLAKE_WORKER_MODE": c.mode, "SNOWFLAKE_ADVERTISE": fmt.Sprintf("10.1.0.%d:8080", number)}
			config := r.text(t, "config.yaml")
			switch c.mode {
			case "zk":
				zoo := testserver.ZooKeeper(t)
				r.fillZooKeeper(t, zoo.Addr())
				u.settings["ZOOKEEPER_ADDRS"] = zoo.Addr()
				// The tree is as old as the test, so the first snowflake must not be older.
				query(t, dsn, "UPDATE id_layout SET recorded_at = CURRENT_TIMESTAMP(3)")
			case "redis":
				u.acks(config)
				config = strings.Replace(config, "redis_acks: 1", "redis_acks: -1", 1)
			}
			writeFile(t, filepath.Join(dir, "config.yaml"), config)
			writeFile(t, filepath.Join(dir, "tokens.yaml"), r.text(t, "tokens.yaml"))
			if c.mode != "redis" { // which has no worker file
				r.worker(t, dir, "shardid", "worker-"+c.mode+".json")
			}
			u.run()
		})
	}
}

// upgrade is one instance of 0.1.0 that the new version takes the place of.
type upgrade struct {
	*testing.T
	relic    *relic
	dir      string
	settings settings
	instance string // whose IDs relic.Snowflake and relic.UID have
	workerID int64
	lists    map[string][]int64 // that Redis holds
}

func (u *upgrade) run() {
	if u.settings["DATABASE_DSN"] != "" {
		u.refuses()
	}
	for range 2 {
		u.must("migrate")
	}
	for _, c := range []struct{ command, fields, wants string }{
		{"apps", "id name description step maxLimitId limitPolicy",
			"[7 orders the shop 20 0 reject] [8 narrow  10 4194304 reject]"},
		{"tags", "tag maxId step description",
			"[invoices " + u.first("invoices") + " 10 of the books] [tickets " + u.first("tickets") + " 5 ]"},
	} {
		rows := []map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(u.must(c.command, "--json")), &rows); err != nil {
			u.Fatal(err)
		}
		var all []string
		for _, row := range rows {
			var values []string
			for name := range strings.FieldsSeq(c.fields) {
				values = append(values, strings.Trim(string(row[name]), `"`))
			}
			all = append(all, fmt.Sprint(values))
		}
		if got := strings.Join(all, " "); got != c.wants {
			u.Errorf("%s: %s, want %s", c.command, got, c.wants)
		}
	}
	u.must("config", "check")
	u.must("doctor")

	d := serveIn(u.T, u.dir, u.settings)
	d.ready()
	books := &ledger{}
	for _, ids := range u.relic.Queue {
		for _, id := range ids {
			books.Add("0.1.0", rig.List{App: id & 0xff, Shard: id >> 8 & 0x3f}, id>>14)
		}
	}
	u.queue(d, books)
	u.segment(d)
	u.uid(d)
	u.snowflake(d)
	u.deleted(d, books)
	books.Settle(u.T)
	if out := u.must("doctor"); strings.Contains(out, "unsafe") {
		u.Errorf("doctor: %s", out)
	}
	d.stops(syscall.SIGTERM, startLimit)
}

// must runs a command in the folder of the instance.
func (u *upgrade) must(args ...string) string {
	u.Helper()
	o := shardidIn(u.T, u.dir, u.settings, args...)
	if o.exit != 0 || o.stderr != "" {
		u.Fatalf("shardid %s: %+v", strings.Join(args, " "), o)
	}
	return o.stdout
}

// refuses: without migrate a replica stays out of service and no counter changes. Snowflakes
// go on with the worker file.
func (u *upgrade) refuses() {
	dsn := u.settings["DATABASE_DSN"]
	const all = "SELECT (SELECT SUM(max_id) FROM id_alloc) + (SELECT SUM(max_id) FROM leaf_alloc)" +
		" + (SELECT COUNT(*) FROM WORKER_NODE)"
	before := number(u.T, dsn, all)
	d := serveIn(u.T, u.dir, u.settings)
	eventually(u.T, startLimit, "a word about migrate", func() bool {
		return strings.Contains(d.get("/readyz").body, "run `shardid migrate`")
	})
	for _, target := range []string{"/get?appId=7&gatePass=alice", segmentGet + "invoices", "/api/uid/get"} {
		if a := u.get(d, target); a.status != 503 {
			u.Errorf("before migrate %s: %d %s", target, a.status, a.body)
		}
	}
	if u.instance == "mysql" {
		u.snowflake(d)
		time.Sleep(5 * time.Second) // as long as /readyz waits for a mode at most
	}
	if a := d.get("/readyz"); a.status != 503 {
		u.Errorf("before migrate: %d %s", a.status, a.body)
	}
	d.stops(syscall.SIGTERM, startLimit)
	if after := number(u.T, dsn, all); after != before {
		u.Errorf("the counters were %d and are %d", before, after)
	}
	o := shardidIn(u.T, u.dir, u.settings, "apps")
	if o.exit != 1 || !strings.Contains(o.stderr, "run `shardid migrate`") {
		u.Errorf("apps: %+v", o)
	}
}

// acks: Redis alone ignored redis_acks in 0.1.0, whose config.yaml has 1.
func (u *upgrade) acks(config string) {
	writeFile(u.T, filepath.Join(u.dir, "config.yaml"), config)
	writeFile(u.T, filepath.Join(u.dir, "tokens.yaml"), u.relic.text(u.T, "tokens.yaml"))
	s := u.settings.With(onMariaDB(migrated(u.T))).With(onRedis(testserver.Redis(u.T).Addr))
	d := serveIn(u.T, u.dir, s)
	eventually(u.T, startLimit, "a word about redis_acks", func() bool {
		a := u.get(d, snowflakeGet)
		return a.status == 503 && strings.Contains(a.body, "snowflake.worker.redis_acks")
	})
	d.stops(syscall.SIGTERM, startLimit)
}

// get asks with the token of 0.1.0's tokens file.
func (u *upgrade) get(d *daemon, target string) answer {
	u.Helper()
	a, err := d.do(http.MethodGet, target, "Authorization", "Bearer "+u.relic.Token)
	if err != nil {
		u.Fatal(err)
	}
	return a
}

// ids asks until they come. Text has one ID a line.
func (u *upgrade) ids(d *daemon, target string) (ids []int64) {
	u.Helper()
	var a answer
	eventually(u.T, takeover, target, func() bool { a = u.get(d, target); return a.status == 200 })
	texts := strings.Fields(a.body)
	if strings.HasPrefix(target, "/get?") {
		texts = regexp.MustCompile(`\d+`).FindAllString(a.body[strings.Index(a.body, `"id`):], -1)
	}
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			u.Fatalf("%s: %s", target, a.body)
		}
		ids = append(ids, id)
	}
	return ids
}

// queue empties all lists and goes on beyond them.
func (u *upgrade) queue(d *daemon, books *ledger) {
	u.Helper()
	issued := map[string]bool{}
	for shard := range int64(64) {
		pass := rig.PassOf(shard)
		list := fmt.Sprintf("id.gen.idList_7_%d", shard)
		for i, n := range []int{1, 119} {
			ids := u.ids(d, fmt.Sprintf("/get?appId=7&gatePass=%s&count=%d", pass, n))
			if held := u.lists[list]; i == 0 && len(held) > 0 && ids[0]>>14 != held[0] {
				u.Errorf("the first of %s is %d, want %d", list, ids[0]>>14, held[0])
			}
			books.Queue("", 7, pass, ids...)
			for _, id := range ids {
				issued[fmt.Sprint(list, " ", id>>14)] = true
			}
		}
	}
	for list, held := range u.lists {
		for _, index := range held {
			if strings.HasPrefix(list, "id.gen.idList_7_") && !issued[fmt.Sprint(list, " ", index)] {
				u.Errorf("%d of %s was not issued", index, list)
			}
		}
	}
	highest := int64(0) // of the app with a limit
	for a := (answer{status: 200}); a.status == 200 || a.Code == -4; {
		if a = u.get(d, "/get?appId=8&gatePass=user1"); a.status == 200 {
			books.Queue("", 8, "user1", a.ID)
			highest = max(highest, a.ID)
		} else if a.Code != -4 && (a.Code != -5 || highest>>14 < 254 || highest > 1<<22) {
			u.Errorf("after %d: %d %s", highest, a.status, a.body)
		}
	}
}

// first is where a tag goes on.
func (u *upgrade) first(tag string) string {
	name := "mysql.sql"
	if u.instance == "sqlite" {
		name = "sqlite.sql"
	}
	found := regexp.MustCompile(`\('` + tag + `',(\d+),`).FindStringSubmatch(u.relic.text(u.T, name))
	if found == nil {
		u.Fatalf("no tag %s in %s", tag, name)
	}
	return found[1]
}

func (u *upgrade) segment(d *daemon) {
	for _, tag := range []string{"invoices", "tickets"} {
		highest := slices.Max(u.relic.Segment[tag])
		for range 5 {
			for _, id := range u.ids(d, segmentGet+tag+"?count=50") {
				if id <= highest {
					u.Errorf("%s: %d after %d", tag, id, highest)
				}
				highest = max(highest, id)
			}
		}
	}
}

func (u *upgrade) snowflake(d *daemon) {
	highest := slices.Max(u.relic.Snowflake[u.instance])
	for _, id := range u.ids(d, snowflakeGet+"?count=100") {
		if id <= highest || workerOf(id) != u.workerID {
			u.Fatalf("%d of worker ID %d after %d of %d", id, workerOf(id), highest, u.workerID)
		}
		highest = id
	}
	u.relic.Snowflake[u.instance] = []int64{highest}
}

// uid: a worker ID is a new one, or its IDs are later ones.
func (u *upgrade) uid(d *daemon) {
	workerOf := func(id int64) int64 { return id >> 13 & (1<<22 - 1) }
	highest := map[int64]int64{}
	for _, id := range slices.Concat(slices.Collect(maps.Values(u.relic.UID))...) {
		highest[workerOf(id)] = max(highest[workerOf(id)], id)
	}
	for _, id := range u.ids(d, "/api/uid/get?count=100") {
		if id <= highest[workerOf(id)] {
			u.Fatalf("%d of worker ID %d after %d", id, workerOf(id), highest[workerOf(id)])
		}
		highest[workerOf(id)] = id
	}
}

// deleted: an app and a tag that 0.1.0 deleted come back and repeat nothing. 0.1.0 left the
// lists of the app in Redis; they are used up first.
func (u *upgrade) deleted(d *daemon, books *ledger) {
	for _, args := range []string{"provision --app 9 --name gone", "tags add --tag gone"} {
		u.must(strings.Fields(args)...)
	}
	for i := range 100 {
		pass := fmt.Sprint("user", i)
		books.Queue("", 9, pass, u.ids(d, "/get?appId=9&gatePass="+pass+"&count=12")...)
	}
	if id := u.ids(d, segmentGet+"gone")[0]; id < 21 {
		u.Errorf("tag gone: %d", id)
	}
}
