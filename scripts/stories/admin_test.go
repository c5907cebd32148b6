//go:build unix

// What operators change: apps, and the database that a deployment has.

package stories_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

const adminToken = "an-administrators-token"

// administer sends a request with a body and the administrator's token.
func (d *daemon) administer(method, target, body string) answer {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+target, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	a, err := d.send(req)
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, target, err)
	}
	return a
}

// wantAdmin is administer with a status that must come.
func (d *daemon) wantAdmin(status int, method, target, body string) answer {
	d.t.Helper()
	a := d.administer(method, target, body)
	if a.status != status {
		d.t.Fatalf("%s %s %s: %d %s, want %d", method, target, body, a.status, a.body, status)
	}
	return a
}

// TestAdminChange: a change over HTTP counts at once on the replica that made it,
// and on the other with its next reload; what could repeat an ID is refused.
func TestAdminChange(t *testing.T) {
	story(t)
	s := onMariaDB(migrated(t)).With(onRedis(testserver.Redis(t).Addr)).With(settings{"SERVER_ADMIN_TOKEN": adminToken})
	here, there := serve(t, s), serve(t, s.With(settings{"QUEUE_RELOAD_CRON": "* * * * * *"}))
	for _, d := range []*daemon{here, there} {
		d.ready()
	}
	here.wantAdmin(201, "POST", "/admin/apps", `{"id":1,"name":"test","step":10}`)
	for _, d := range []*daemon{here, there} {
		d.want(aliceGet, 200, 0)
	}
	issued := here.want(aliceGet, 200, 0).ID
	a := here.wantAdmin(200, "PATCH", "/admin/apps/1", `{"step":77,"minIndex":500}`)
	for _, want := range []string{`"step":77,`, `"effective":"here now, on every replica by `} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the answer to the change has no %s: %s", want, a.body)
		}
	}
	if got := stepOf(here); got != 77 {
		t.Errorf("here the step is %d", got)
	}
	eventually(t, 10*time.Second, "the other replica has the step too", func() bool { return stepOf(there) == 77 })
	for body, code := range map[string]int{
		fmt.Sprintf(`{"maxLimitId":%d}`, issued):                            -13,
		fmt.Sprintf(`{"maxLimitId":%d,"limitPolicy":"wrap"}`, int64(1)<<40): -6,
	} {
		if a := here.administer("PATCH", "/admin/apps/1", body); a.Code != code {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	here.wantAdmin(409, "POST", "/admin/apps", `{"id":1,"name":"again"}`)
	if a := here.administer("DELETE", "/admin/apps/1?confirm=Test", ""); a.status != 400 {
		t.Errorf("%d %s", a.status, a.body)
	}
	here.want(aliceGet, 200, 0)
	here.wantAdmin(200, "DELETE", "/admin/apps/1?confirm=test", "")
	here.want(aliceGet, 404, -2)
	eventually(t, 10*time.Second, "the other replica has no app", func() bool { return there.get(aliceGet).Code == -2 })
	told := here.Lines(`"msg":"audit"`, `"action":"app.change"`, `"who":"admin"`, `"outcome":"done"`)
	if len(told) != 1 {
		t.Errorf("%d audit lines of one change: %q", len(told), told)
	}
}

// stepOf is the step of app 1 as a replica has it.
func stepOf(d *daemon) int64 {
	status := fromJSON[struct {
		Queue struct{ Apps []struct{ AppID, Step int64 } }
	}](d.t, d.get("/api/status"))
	for _, app := range status.Queue.Apps {
		if app.AppID == 1 {
			return app.Step
		}
	}
	return 0
}

// granted is the answer to a request for a lease.
type granted struct {
	Lease struct {
		WorkerID                    int64
		Secret, Epoch, After, Until string
		WorkerBits, SeqBits         uint
	}
}

// lease gets a lease of a name.
func (d *daemon) lease(name, instance string) granted {
	d.t.Helper()
	a, err := d.do("POST", "/v1/leases/"+name+"?instance="+instance)
	if err != nil || a.status != 200 {
		d.t.Fatalf("lease %s: %d %s, %v", name, a.status, a.body, err)
	}
	return fromJSON[granted](d.t, a)
}

// TestReplacedDatabase: a database is lost without a backup, and Redis knows how far its lists had come. A new
// database is refused until it has the ID that the error names, and then no ID comes twice.
func TestReplacedDatabase(t *testing.T) {
	check.Deep(t)
	story(t)
	lost, found := migrated(t), migrated(t)
	server, books := testserver.Redis(t), &ledger{}
	env := func(dsn string) settings {
		return onMariaDB(dsn).With(onRedis(server.Addr)).With(direct())
	}
	must(t, env(lost), "provision", "--app", "1", "--name", "test")
	d := serve(t, env(lost))
	take(d, books, 3000)
	d.Kill()

	must(t, env(found), "provision", "--app", "1", "--name", "test")
	d = serve(t, env(found))
	id := valueOf[string](t, lost, "SELECT deployment FROM shardid_deployment")
	eventually(t, startLimit, "the new database is refused", func() bool {
		return strings.Contains(d.get(aliceGet).Message, "deployment "+id)
	})
	query(t, found, "UPDATE shardid_deployment SET deployment = '"+id+"', witness = '', scramble_secret = 'unknown'")
	d.Kill()
	take(serve(t, env(found)), books, 3000)
	books.Settle(t)
}

// What operators get wrong, and how they are told: by the log, by doctor, and by what callers are answered.

// password is what no output may hold.
const password = "hunter2-streng-geheim"

// mistake is a configuration that cannot work.
type mistake struct {
	settings func(t *testing.T) settings
	mentions string // what the log line holds
	advice   string // and what it says to do
}

func mistakes() map[string]mistake {
	onThisRedis := func(addr func(t *testing.T) string) func(t *testing.T) settings {
		return func(t *testing.T) settings { return provisioned(t).With(onRedis(addr(t))) }
	}
	onThisDatabase := func(dsn func(t *testing.T) string) func(t *testing.T) settings {
		return func(t *testing.T) settings { return onMariaDB(dsn(t)).With(onRedis(testserver.Redis(t).Addr)) }
	}
	locked := func(t *testing.T) string {
		r := testserver.Redis(t)
		if err := r.Client().ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
		return r.Addr
	}
	replica := func(t *testing.T) string { return testserver.RedisReplica(t, testserver.Redis(t)).Addr }
	sentinel := func(t *testing.T) string { return testserver.Sentinel(t).Addrs[0] }
	empty := func(t *testing.T) string { return testserver.SharedMariaDB(t).NewDatabase(t) }
	nowhere := func(t *testing.T) string { return testserver.SharedMariaDB(t).DSN("nowhere") }
	secret := func(t *testing.T) string { return strings.Replace(empty(t), "root@", "root:"+password+"@", 1) }
	wrong := func(t *testing.T) settings {
		return provisioned(t).With(as("", password+"-wrong", onRedis(locked(t))))
	}
	return map[string]mistake{
		"wrong redis password":    {wrong, "WRONGPASS", "redis.url"},
		"no redis password":       {onThisRedis(locked), "NOAUTH", "redis.url"},
		"wrong database password": {onThisDatabase(secret), "Access denied", "database.dsn"},
		"unknown database":        {onThisDatabase(nowhere), "Unknown database", "create the database"},
		"no migrate":              {onThisDatabase(empty), "id_alloc", "shardid migrate"},
		"a replica for a master":  {onThisRedis(replica), "READONLY", "master"},
		"a sentinel for a master": {onThisRedis(sentinel), "redis", "master_name"},
	}
}

func provisioned(t *testing.T) settings {
	t.Helper()
	s := onMariaDB(migrated(t))
	must(t, s, "provision", "--app", "1", "--name", "test")
	return s
}

// TestMistakes: each is said in one clear line and not in a flood, callers get an answer, and no password is told to
// anybody.
func TestMistakes(t *testing.T) {
	story(t)
	for name, m := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := serve(t, m.settings(t).With(settings{"SERVER_REQUEST_TIMEOUT": "300ms"}))
			said := pester(d)
			told := func() int { return len(d.Lines(m.mentions, m.advice)) }
			eventually(t, startLimit, "the mistake is told", func() bool { return told() > 0 })
			said += pester(d)
			if n := told(); n > 3 {
				t.Errorf("told %d times, want 3 at most:\n%s", n, d.Output())
			}
			if n := len(d.Lines(`"level":"ERROR"`)) + len(d.Lines(`"level":"WARN"`)); n > 5 {
				t.Errorf("%d lines of errors, want 5 at most:\n%s", n, d.Output())
			}
			if strings.Contains(said+d.Output(), password) {
				t.Errorf("the password is told:\n%s\n%s", said, d.Output())
			}
		})
	}
}

// pester asks for IDs and for the health again and again and gives the answers.
func pester(d *daemon) string {
	d.t.Helper()
	var said strings.Builder
	for range 30 {
		for _, target := range []string{aliceGet, helloGet, "/readyz/queue", "/healthz"} {
			a := d.get(target)
			if a.status != http.StatusServiceUnavailable {
				d.t.Fatalf("%s: %d %s, want 503", target, a.status, a.body)
			}
			fmt.Fprintln(&said, a.body)
		}
	}
	return said.String()
}

// TestErrorTable: what the database lacks is refused with advice, and nothing is issued: the next
// ID is the one after the last. What the requests alone can do wrong is told by the tests of httpapi.
func TestErrorTable(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	query(t, dsn, "DELETE FROM id_alloc WHERE app_id = 1 AND shard_id = 18") // hello's
	d := serve(t, onMariaDB(dsn).With(settings{"UID_ENABLED": "false"}))
	d.ready()
	last := d.want(aliceGet, 200, 0).ID
	for target, want := range map[string]struct {
		code int
		says string
	}{
		"/get?appId=2&gatePass=alice": {-2, "shardid provision"},
		helloGet:                      {-3, "id_alloc"},
		segmentGet + "tag":            {-2, "shardid tags add"},
		"/api/uid/get":                {-9, "uid.enabled"},
	} {
		if a := d.want(target, 404, want.code); !strings.Contains(a.Message, want.says) {
			t.Errorf("%s: %s, want %q", target, a.body, want.says)
		}
		if last += 1 << 14; d.want(aliceGet, 200, 0).ID != last {
			t.Errorf("%s: the next ID is not %d: something was issued", target, last)
		}
	}
}

// TestDoctor: doctor shows each setting with its verdict. What is unsafe, and what cannot be asked, is in its one
// line on stderr, without passwords; that one store is unreachable hides nothing of the other.
func TestDoctor(t *testing.T) {
	story(t)
	good := func(t *testing.T) settings { return provisioned(t).With(onRedis(testserver.Redis(t).Addr)) }
	unsafe := func(t *testing.T) settings { // they lose commits in a power cut, and evict lists
		s := onMariaDB(testserver.MariaDB(t, "--innodb-flush-log-at-trx-commit=2").NewDatabase(t))
		must(t, s, "migrate")
		must(t, s, "provision", "--app", "1", "--name", "test")
		return s.With(onRedis(testserver.Redis(t, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru").Addr))
	}
	without := func(away settings) func(*testing.T) settings {
		return func(t *testing.T) settings { return good(t).With(away) }
	}
	silent := func(t *testing.T) settings {
		paused := testserver.Redis(t)
		paused.Pause()
		return good(t).With(onRedis(paused.Addr))
	}
	noRedis := []string{"redis  reachable  no  yes  unknown", "database  read_only  OFF"}
	for name, c := range map[string]struct {
		on    func(t *testing.T) settings
		exit  int
		shows []string // rows: columns parted by two blanks, without the node
		says  []string // on stderr
	}{
		"good": {good, 0, []string{
			"STORE  SETTING  VALUE  WANTED  VERDICT",
			"database  sync_binlog  log_bin is off  1 with log_bin  ok",
			"redis  role  master  master  ok",
		}, nil},
		"the database is unreachable": {
			without(onMariaDB("root:" + password + "@tcp(127.0.0.1:1)/nowhere")), 1,
			[]string{"database  reachable  no  yes  unknown", "redis  role  master"},
			[]string{"start it, or correct database.dsn"},
		},
		"Redis is unreachable": {without(onRedis("127.0.0.1:1")), 1, noRedis,
			[]string{"start Redis, or correct redis."}},
		"Redis is silent": {silent, 1, noRedis, []string{"no answer in time"}},
		"unsafe": {unsafe, 1, []string{
			"database  innodb_flush_log_at_trx_commit  2  1  unsafe",
			"redis  maxmemory-policy  allkeys-lru  noeviction  unsafe",
		}, []string{
			"innodb_flush_log_at_trx_commit is 2, it should be 1",
			"maxmemory-policy is allkeys-lru, it should be noeviction",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := shardid(t, c.on(t), "doctor")
			wantOneLine(t, o)
			if o.exit != c.exit || strings.Contains(o.stdout+o.stderr, password) {
				t.Errorf("got %+v, want exit %d and no password", o, c.exit)
			}
			for _, text := range c.says {
				if !strings.Contains(o.stderr, text) {
					t.Errorf("%q is not in %s", text, o.stderr)
				}
			}
			for _, shown := range c.shows {
				row := strings.ReplaceAll(regexp.QuoteMeta(shown), "  ", `  +(?:\S+  +)?`)
				if !regexp.MustCompile(`(?m)^` + row + `  +\S`).MatchString(o.stdout) {
					t.Errorf("no row %q in\n%s", shown, o.stdout)
				}
			}
		})
	}
}
