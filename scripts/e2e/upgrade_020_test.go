//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// heir is a deployment that goes on with what version 0.2.0 left: up to two instances, a and
// b, each with the settings and files that it had then.
type heir struct {
	*testing.T
	relic     *relic
	dsn       string // of the database server; empty: SQLite
	instances []*heirInstance
	issued    map[string]bool    // kind and ID, of every ID so far
	floor     map[string]int64   // below what a kind goes on, if its IDs rise
	lists     map[string][]int64 // that Redis held
}

type heirInstance struct {
	name, dir string
	settings  settings
	workerID  int64 // by its worker file; -1 without one
	*daemon
}

// TestE2EUpgradeFrom020: after migrate, which embedded stores do not need, the new version goes
// on with what 0.2.0 left, by its config.yaml: no ID comes again, in the first life nor in the
// second one, apps, tags and limits are as they were, lists are used up, an instance keeps its
// worker ID, and doctor finds nothing.
func TestE2EUpgradeFrom020(t *testing.T) {
	story(t)
	for _, name := range []string{"embedded", "mysql", "redis", "zk_recycle"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := inherit(t, name)
			if h.dsn != "" {
				h.refuses()
				for range 2 {
					h.must("migrate")
				}
			}
			h.keeps()
			for life := range 2 {
				h.lives(life)
			}
		})
	}
}

// inherit puts what was left on stores of the test.
func inherit(t *testing.T, name string) *heir {
	t.Helper()
	h := &heir{T: t, relic: openRelic(t, "upgrade-0.2.0/"+name), issued: map[string]bool{}, floor: map[string]int64{}}
	s := settings{"SERVER_DRAIN_DELAY": "0s"}
	if name == "embedded" {
		h.heirs(s, "a")
		h.relic.fillDatabase(t, "sqlite", filepath.Join(h.instances[0].dir, "data/shardid.db"), "sqlite.sql")
	} else {
		server := testserver.Redis(t)
		h.lists = h.relic.fillRedis(t, server)
		h.dsn = testserver.SharedMariaDB(t).NewDatabase(t)
		h.relic.fillDatabase(t, "mysql", h.dsn+"&multiStatements=true&time_zone=%27%2B00:00%27", "mysql.sql")
		// The server has not changed, and has run all the time, with the tables that it has.
		query(t, h.dsn, "UPDATE shardid_deployment SET server = LEFT(SHA2("+
			"/*M!100000 CONCAT_WS('|', @@hostname, @@port, @@datadir) *//*!80000 @@server_uuid */, 256), 40), booted_at = UNIX_TIMESTAMP() - "+
			strconv.FormatInt(uptime(t, h.dsn), 10)+", beat_at = 1000 * UNIX_TIMESTAMP()")
		s = s.With(onMariaDB(h.dsn)).With(onRedis(server.Addr)).With(settings{"SNOWFLAKE_WORKER_MODE": name,
			"SERVER_TOKENS_FILE": "tokens.yaml", "SERVER_REQUIRE_TOKEN": "true", "SERVER_ADMIN_TOKEN": "an-admin-token-of-0.2.0"})
		if name == "zk_recycle" {
			zoo := testserver.ZooKeeper(t)
			h.relic.fillZooKeeper(t, zoo.Addr())
			s["ZOOKEEPER_ADDRS"] = zoo.Addr()
			// The tree is as old as the test, so the first snowflake must not be older.
			query(t, h.dsn, "UPDATE id_layout SET recorded_at = CURRENT_TIMESTAMP(3)")
		}
		h.heirs(s, "a", "b")
	}
	h.remember()
	return h
}

// heirs gives each instance the files and settings that it had.
func (h *heir) heirs(s settings, names ...string) {
	h.Helper()
	for i, name := range names {
		in := &heirInstance{name: name, dir: h.TempDir(), workerID: -1, settings: s.With(settings{"SNOWFLAKE_ADVERTISE": fmt.Sprintf("10.1.0.%d:8080", i+1)})}
		if h.dsn == "" {
			in.settings = in.settings.With(settings{"SNOWFLAKE_ADVERTISE": "10.1.0.9:8080", "UID_WORKER": "registry"})
		} else if name == "b" {
			in.settings = in.settings.With(settings{"UID_WORKER": "registry", "UID_MODE": "default"})
		}
		writeFile(h.T, filepath.Join(in.dir, "config.yaml"), h.relic.text(h.T, "../config.yaml"))
		writeFile(h.T, filepath.Join(in.dir, "tokens.yaml"), h.relic.text(h.T, "../tokens.yaml"))
		for of, folder := range map[string]string{"worker": "shardid", "uid": "_uid.shardid"} {
			file := of + "-" + name + ".json"
			if _, err := os.Stat(filepath.Join(h.relic.folder, file)); err != nil {
				continue // an instance that kept none
			}
			h.relic.worker(h.T, in.dir, folder, file)
			if found := regexp.MustCompile(`"worker_id":(\d+)`).FindStringSubmatch(h.relic.text(h.T, file)); of == "worker" {
				in.workerID, _ = strconv.ParseInt(found[1], 10, 64)
			}
		}
		h.instances = append(h.instances, in)
	}
}

// remember notes what 0.2.0 issued.
func (h *heir) remember() {
	for kind, all := range map[string]map[string][]int64{"queue": h.relic.Queue, "segment": h.relic.Segment, "snowflake": h.relic.Snowflake, "uid": h.relic.UID} {
		for name, ids := range all {
			name = kind + " " + name
			if kind == "snowflake" || kind == "uid" { // one series for all instances
				name = kind
			}
			for _, id := range ids {
				h.note(name, strconv.FormatInt(id, 10))
			}
		}
	}
	for tag, texts := range h.relic.Texts {
		for _, text := range texts {
			h.note("segment "+tag, text)
		}
	}
	if len(h.issued) < 300 {
		h.Fatalf("0.2.0 issued %d IDs", len(h.issued))
	}
}

// note enters an ID, which must not have come before.
func (h *heir) note(kind, id string) {
	h.Helper()
	if h.issued[kind+" "+id] {
		h.Errorf("%s: %s came before", kind, id)
	}
	h.issued[kind+" "+id] = true
}

// must runs a command in the folder of the first instance.
func (h *heir) must(args ...string) string {
	h.Helper()
	o := shardidIn(h.T, h.instances[0].dir, h.instances[0].settings, args...)
	if o.exit != 0 || o.stderr != "" {
		h.Fatalf("shardid %s: %+v", strings.Join(args, " "), o)
	}
	return o.stdout
}

// refuses: without migrate a replica is not ready and issues nothing that a row counts.
func (h *heir) refuses() {
	in := h.instances[0]
	d := serveIn(h.T, in.dir, in.settings)
	eventually(h.T, startLimit, "a word about migrate", func() bool {
		return strings.Contains(d.get("/readyz").body, "run `shardid migrate`")
	})
	for _, target := range []string{"/v1/queue/7/ids?gatePass=alice", "/v1/segment/invoices/ids", "/v1/uid/ids"} {
		if a, _ := d.do(http.MethodGet, target, "Authorization", "Bearer "+h.relic.Token); a.status != 503 {
			h.Errorf("before migrate %s: %d %s", target, a.status, a.body)
		}
	}
	d.stops(syscall.SIGTERM, startLimit)
}

// keeps: apps, tags and their settings are as 0.2.0 had them.
func (h *heir) keeps() {
	h.must("config", "check")
	wants := map[string][]string{
		"apps": {"7 orders the shop 20 0 reject false", "8 narrow  10 4194304 reject false", "10 hidden  20 0 reject true", "11 round  10 4194304 wrap false"},
		"tags": {"bills  7 BILL-{yyyyMMdd}-{seq:5} day UTC refuse", "customers  7 C{seq:6} none Asia/Shanghai widen",
			"invoices of the books 10    ", "tickets  5    "},
	}
	if len(h.relic.Queue) == 1 { // the deployments of other registries have less
		wants = map[string][]string{"apps": wants["apps"][:1], "tags": wants["tags"][:3]}
	}
	fields := map[string]string{"apps": "id name description step maxLimitId limitPolicy scramble", "tags": "tag description step pattern reset zone overflow"}
	for command, want := range wants {
		rows := []map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(h.must(command, "--json")), &rows); err != nil {
			h.Fatal(err)
		}
		var got []string
		for _, row := range rows {
			var values []string
			for name := range strings.FieldsSeq(fields[command]) {
				values = append(values, strings.Trim(string(row[name]), `"`))
			}
			got = append(got, strings.Join(values, " "))
		}
		if !slices.Equal(got, want) {
			h.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if h.dsn != "" && len(wants["apps"]) > 1 {
		rates := number(h.T, h.dsn, "SELECT SUM(max_rate) FROM id_alloc WHERE app_id = 7") / 64
		if tag := number(h.T, h.dsn, "SELECT max_rate FROM leaf_alloc WHERE biz_tag = 'tickets'"); rates != 50_000 || tag != 90_000 {
			h.Errorf("rates of %d and %d", rates, tag)
		}
	}
}

// lives: all instances start, issue IDs of every kind, and stop; the first life also uses up
// what the lists held, and has what was deleted come back.
func (h *heir) lives(life int) {
	for _, in := range h.instances {
		in.daemon = serveIn(h.T, in.dir, in.settings)
	}
	for _, in := range h.instances {
		in.ready()
	}
	before := len(h.issued)
	for _, in := range h.instances {
		h.queue(in, life)
		h.counted(in)
		h.timed(in)
	}
	if life == 0 {
		h.usedUp()
		if len(h.relic.Queue["9"]) > 0 {
			h.deleted()
		}
	} else if len(h.relic.Queue["8"]) > 0 {
		h.exhausted()
	}
	h.Logf("life %d: %d IDs after %d", life+1, len(h.issued)-before, before)
	if out := h.must("doctor"); strings.Contains(out, "unsafe") || strings.Contains(out, "warn") {
		h.Errorf("doctor: %s", out)
	}
	for _, in := range h.instances {
		in.stops(syscall.SIGTERM, startLimit)
		for _, line := range in.Lines(`"level":"ERROR"`) {
			h.Errorf("%s says %s", in.name, line)
		}
	}
}

// ids asks until count IDs come, and notes them.
func (h *heir) ids(in *heirInstance, kind, target string, count int) (texts []string) {
	h.Helper()
	var a answer
	eventually(h.T, takeover, target, func() bool {
		var err error
		a, err = in.do(http.MethodGet, target+"count="+strconv.Itoa(count), "Authorization", "Bearer "+h.relic.Token)
		return err == nil && a.status == 200
	})
	var v struct{ IDs []string }
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || len(v.IDs) != count {
		h.Fatalf("%s: %v: %s", target, err, a.body)
	}
	for _, text := range v.IDs {
		h.note(kind, text)
	}
	return v.IDs
}

// queue asks for IDs of all shards of each app that 0.2.0 had.
func (h *heir) queue(in *heirInstance, life int) {
	for app := range h.relic.Queue {
		count := map[string]int{"7": 40, "8": 5, "9": 0, "10": 20, "11": 40}[app]
		for shard := range int64(64) {
			if count > 0 && (app == "7" || shard%8 == int64(life)) {
				h.ids(in, "queue "+app, fmt.Sprintf("/v1/queue/%s/ids?gatePass=%s&", app, rig.PassOf(shard)), count)
			}
		}
	}
}

// usedUp: the lists that Redis held were issued.
func (h *heir) usedUp() {
	for list, held := range h.lists {
		var key rig.List
		if n, err := fmt.Sscanf(list, "id.gen.idList_%d_%d", &key.App, &key.Shard); n != 2 || err != nil {
			continue
		}
		for _, index := range held {
			if id := strconv.FormatInt(key.ID(index), 10); key.App == 7 && !h.issued["queue 7 "+id] {
				h.Errorf("%d of %s was not issued", index, list)
			}
		}
	}
}

// counted: IDs of tags are above all that 0.2.0 issued.
func (h *heir) counted(in *heirInstance) {
	for tag, before := range h.relic.Segment {
		if tag == "gone" {
			continue
		}
		for _, text := range h.ids(in, "segment "+tag, "/v1/segment/"+tag+"/ids?", 60) {
			if id, err := strconv.ParseInt(text, 10, 64); err != nil || id <= slices.Max(before) {
				h.Errorf("%s: %s after %d", tag, text, slices.Max(before))
			}
		}
	}
	for tag, before := range h.relic.Texts {
		for _, text := range h.ids(in, "segment "+tag, "/v1/segment/"+tag+"/ids?", 40) {
			if text <= slices.Max(before) {
				h.Errorf("%s: %s after %s", tag, text, slices.Max(before))
			}
		}
	}
}

// timed: snowflakes and UIDs of a worker ID are later than all before.
func (h *heir) timed(in *heirInstance) {
	for kind, worker := range map[string]func(int64) int64{"snowflake": workerOf, "uid": func(id int64) int64 { return id >> 13 & (1<<22 - 1) }} {
		for _, text := range h.ids(in, kind, "/v1/"+kind+"/ids?", 100) {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				h.Fatal(err)
			}
			series := fmt.Sprint(kind, " ", worker(id))
			if _, known := h.floor[series]; !known {
				for _, ids := range map[string]map[string][]int64{"snowflake": h.relic.Snowflake, "uid": h.relic.UID}[kind] {
					for _, old := range ids {
						if worker(old) == worker(id) {
							h.floor[series] = max(h.floor[series], old)
						}
					}
				}
			}
			if id <= h.floor[series] {
				h.Fatalf("%s: %d after %d", series, id, h.floor[series])
			}
			h.floor[series] = id
			if kind == "snowflake" && in.workerID >= 0 && worker(id) != in.workerID {
				h.Fatalf("%s: worker ID %d, not %d", in.name, worker(id), in.workerID)
			}
		}
	}
}

// deleted: an app and a tag that 0.2.0 deleted come back and repeat nothing.
func (h *heir) deleted() {
	for _, args := range []string{"provision --app 9 --name gone", "tags add --tag gone"} {
		h.must(strings.Fields(args)...)
	}
	for i := range 12 {
		h.ids(h.instances[0], "queue 9", fmt.Sprintf("/v1/queue/9/ids?gatePass=user%d&", i), 12)
	}
	h.ids(h.instances[0], "segment gone", "/v1/segment/gone/ids?", 50)
}

// exhausted: an app with a limit ends at it; one that wraps goes on.
func (h *heir) exhausted() {
	in := h.instances[0]
	highest := int64(0)
	for a := (answer{status: 200}); a.status == 200 || a.Code == -4; {
		var err error
		a, err = in.do(http.MethodGet, "/get?appId=8&gatePass=user1", "Authorization", "Bearer "+h.relic.Token)
		switch {
		case err != nil:
			h.Fatal(err)
		case a.status == 200:
			h.note("queue 8", strconv.FormatInt(a.ID, 10))
			highest = max(highest, a.ID)
		case a.Code != -4 && (a.Code != -5 || highest>>14 < 250 || highest > 1<<22):
			h.Errorf("after %d: %d %s", highest, a.status, a.body)
		}
	}
	for range 30 {
		eventually(h.T, takeover, "an app that wraps", func() bool {
			a, err := in.do(http.MethodGet, "/v1/queue/11/ids?gatePass=user1&count=10", "Authorization", "Bearer "+h.relic.Token)
			return err == nil && a.status == 200
		})
	}
}
