//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"os/user"
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

// TestE2EAdminChange: a change over HTTP counts at once on the replica that made it,
// and on the other with its next reload; what could repeat an ID is refused.
func TestE2EAdminChange(t *testing.T) {
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
	if !strings.Contains(a.body, `"step":77,`) || !strings.Contains(a.body, `"effective":"here now, on every replica by `) {
		t.Errorf("%s", a.body)
	}
	if got := stepOf(here); got != 77 {
		t.Errorf("here the step is %d", got)
	}
	eventually(t, 10*time.Second, "the other replica has the step too", func() bool { return stepOf(there) == 77 })
	for body, code := range map[string]int{
		fmt.Sprintf(`{"maxLimitId":%d}`, issued):                            -13,
		fmt.Sprintf(`{"maxLimitId":%d,"limitPolicy":"wrap"}`, int64(1)<<40): -6,
		`{"maxRate":100001}`: -6,
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
	eventually(t, 10*time.Second, "the other replica has no app either", func() bool { return there.get(aliceGet).Code == -2 })
	wantAudit(t, here)
}

// wantAudit: each request for a change left one line, without the token.
func wantAudit(t *testing.T, d *daemon) {
	t.Helper()
	for _, c := range []struct {
		words []string
		lines int
	}{
		{[]string{`"action":"app.create"`, `"outcome":"done"`, `"who":"admin"`, `"target":"app 1"`, `"remote":"127.0.0.1:`}, 1},
		{[]string{`"action":"app.create"`, `"outcome":"refused"`}, 1},
		{[]string{`"action":"app.change"`, `"outcome":"done"`, `"before":{"name":"test","description":"","step":10,`, `"after":{"name":"test","description":"","step":77,`}, 1},
		{[]string{`"action":"app.change"`, `"outcome":"refused"`}, 3},
		{[]string{`"action":"app.delete"`, `"outcome":"refused"`}, 1},
		{[]string{`"action":"app.delete"`, `"outcome":"done"`}, 1},
	} {
		if got := d.Lines(append(c.words, `"msg":"audit"`)...); len(got) != c.lines {
			t.Errorf("%d audit lines with %q, want %d: %q", len(got), c.words, c.lines, d.Lines(`"msg":"audit"`))
		}
	}
	if strings.Contains(d.Output(), adminToken) {
		t.Error("the token is in the log")
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

// TestE2EAdminCommands: the command line does the same on both kinds of database, says what it did,
// and leaves the same line.
func TestE2EAdminCommands(t *testing.T) {
	story(t)
	for name, s := range map[string]settings{"sqlite": {}, "mariadb": onMariaDB(testserver.SharedMariaDB(t).NewDatabase(t))} {
		t.Run(name, func(t *testing.T) { adminCommands(t, t.TempDir(), s) })
	}
}

func adminCommands(t *testing.T, dir string, s settings) {
	for _, c := range []struct {
		args    string
		exit    int
		says    string // part of stdout, or of stderr when it failed
		outcome string // of the audit line; "" for none
	}{
		{"migrate", 0, "schema is at version", ""},
		{"migrate", 0, "schema is at version", ""},
		{"apps", 0, "shardid provision", ""},
		{"apps --json", 0, "[]", ""},
		{"confirm --app 9 --name x", 1, "not provisioned", "refused"},
		{"provision --app 5 --name 订单 --description orders --step 5000 --max-limit-id 4294967295", 0, "app 5 (订单) has its 64 shards", "done"},
		{"apps", 0, "\n5    订单    64      5000  0              4294967295    reject  orders\n", ""},
		{"apps --json", 0, `"maxLimitId":4294967295`, ""},
		{"confirm --app 5 --name 订单", 0, "app 5", "done"},
		{"provision --app 7 --name orders", 0, "app 7 (orders) has its 64 shards", "done"},
		{"provision --app 7 --name orders", 1, "app 7 already has 64 of 64 shards", "refused"},
		{"provision --app 7 --name orders --if-missing", 0, "app 7 (orders) is there, nothing was changed", ""},
		{"provision --app 7 --name others --if-missing", 1, `name "orders"`, "refused"},
		{"apps set --app 7", 2, "nothing is to be changed", ""},
		{"apps set --app 7 --step 0", 2, "step 0", "refused"},
		{"apps set --app 7 --max-rate 100001", 2, "is above queue.max_list_rate, which is 100000", "refused"},
		{"apps set --app 8 --step 5", 1, "app is not provisioned", "refused"},
		{"apps set --app 256 --step 5", 2, "0…255", ""},
		{"apps set --app 7 --min-index 4000 --description d", 0, "running replicas follow", "done"},
		{"apps set --app 7 --max-limit-id 16391", 1, "may have been issued", "refused"},
		{"apps set --app 7 --max-limit-id 99999999999 --limit-policy wrap", 2, `confirm it with the app's name`, "refused"},
		{"apps set --app 7 --max-limit-id 99999999999 --limit-policy wrap --confirm orders", 0, "wrap", "done"},
		{"apps delete --app 7 --confirm Orders", 2, `which is "orders"`, "refused"},
		{"apps delete --app 7", 2, "confirm", ""},
		{"apps delete --app 7 --confirm orders", 0, "it goes on above index 4000", "done"},
		{"apps delete --app 7 --confirm orders", 1, "app is not provisioned", "refused"},
		{"provision --app 7 --name again --max-limit-id 16391", 1, "may have been issued", "refused"},
		{"provision --app 7 --name again", 0, "up to index 4000", "done"},
		{"tags", 0, "shardid tags add", ""},
		{"tags --json", 0, "[]", ""},
		{"tags add --tag orders --step 500 --max-id 50001 --description paid", 0, "50001", "done"},
		{"tags add --tag 订单", 0, "订单", "done"},
		{"tags add --tag orders", 1, `"orders": tag is already provisioned`, "refused"},
		{"tags add --tag orders --step 0", 2, "step", "refused"},
		{"tags add --tag other --step 0", 2, "step", "refused"},
		{"tags add --tag other --step many", 2, "step", ""},
		{"tags add --tag other --max-id 0", 2, "max_id", "refused"},
		{"tags add --tag=", 2, "tag", "refused"},
		{"tags add --tag " + strings.Repeat("x", 129), 2, "128", "refused"},
		{"tags add", 2, `required flag(s) "tag"`, ""},
		{"tags add --tag other extra", 2, "extra", ""},
		{"tags extra", 2, "extra", ""},
		{"tags", 0, "orders  50001    500   ", ""},
		{"tags --json", 0, `{"tag":"orders","maxId":50001,"maxIdStr":"50001","step":500,"description":"paid"`, ""},
		{"tags add --tag a/b --max-id 9", 0, "tag a/b starts at 9", "done"},
		{"tags set --tag a/b --max-id 8", 1, "only rises", "refused"},
		{"tags set --tag a/b --step 5 --max-id 80", 0, "tag a/b is changed", "done"},
		{"tags set --tag a/b --max-rate 1000001", 2, "is above segment.max_rate, which is 1000000", "refused"},
		{"tags set --tag a/b --max-rate 9 --set segment.max_rate=9", 0, "tag a/b is changed", "done"},
		{"tags set --tag a/b", 2, "nothing is to be changed", ""},
		{"tags delete --tag a/b --confirm a", 2, "confirm", "refused"},
		{"tags delete --tag a/b --confirm a/b", 0, "it goes on at 80", "done"},
		{"tags add --tag a/b", 0, "tag a/b starts at 80", "done"},
		{"workers", 0, "no address has had a worker ID yet", ""},
		{"workers --json", 0, "[]", ""},
		{"workers free --id 5 --confirm 10.0.0.7:80", 2, "no address has worker ID 5", "refused"},
		{"workers free --id 5 --confirm 10.0.0.7:80 --set snowflake.worker.mode=zk --set zookeeper.addrs=127.0.0.1:1", 2, "this command is for mode mysql", ""},
		{"workers --set snowflake.worker.mode=ordinal", 2, "nothing lists them", ""},
		{"workers --set snowflake.worker.mode=local --set snowflake.worker.local_map=10.0.0.7:80=3", 0, "3          10.0.0.7:80  -", ""},
	} {
		o := shardidIn(t, dir, s, strings.Fields(c.args)...)
		wantOneLine(t, o)
		if o.exit != c.exit || !strings.Contains(o.stdout+o.stderr, c.says) || o.exit != 0 && o.stdout != "" {
			t.Errorf("%s: %+v", c.args, o)
		}
		wantAuditOf(t, o, c.outcome)
	}
	o := shardidIn(t, dir, s, "tags", "set", "--tag", "a/b", "--step", "6", "--set", "log.level=warn")
	if o.exit != 0 || o.audit != nil {
		t.Errorf("%+v", o)
	}
}

func wantAuditOf(t *testing.T, o outcome, want string) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if want == "" && len(o.audit) == 0 {
		return
	}
	if len(o.audit) != 1 || !strings.Contains(o.audit[0], `"outcome":"`+want+`"`) || !strings.Contains(o.audit[0], `"who":"cli:`+me.Username+`"`) {
		t.Errorf("audit %q, want one that is %s", o.audit, want)
	}
}

// TestE2EWorkers: an operator frees the worker ID of an instance that is gone, not
// before its bounds have passed, and the next one gets it.
func TestE2EWorkers(t *testing.T) {
	check.Deep(t)
	story(t)
	dsn := migrated(t)
	s := onMariaDB(dsn).With(settings{"SNOWFLAKE_ADVERTISE": "10.0.0.7:80"})
	d := serve(t, s)
	eventually(t, startLimit, "a snowflake", func() bool { return d.get("/api/snowflake/get/x").status == 200 })
	d.Kill()
	free := []string{"workers", "free", "--id", "1", "--confirm", "10.0.0.7:80"}
	o := shardid(t, s, free...)
	if o.exit != 1 || !strings.Contains(o.stderr, "may be in use by 10.0.0.7:80 until") {
		t.Errorf("%+v", o)
	}
	if out := must(t, s, "workers"); !strings.Contains(out, "10.0.0.7:80  leased") {
		t.Errorf("%s", out)
	}
	const hour = 3_600_000
	query(t, dsn, fmt.Sprintf("UPDATE leaf_workerid_alloc SET reserved_until = reserved_until - 2 * %d, expires_at = expires_at - 2 * %[1]d, claimed_at = 0", hour),
		fmt.Sprintf("UPDATE shardid_worker_claim SET until_ms = until_ms - 2 * %d", hour))
	if out := must(t, s, "workers"); !strings.Contains(out, "10.0.0.7:80  expired") {
		t.Errorf("%s", out)
	}
	bound := number(t, dsn, "SELECT GREATEST(expires_at, reserved_until) FROM leaf_workerid_alloc")
	must(t, s, free...)
	if out := must(t, s, "workers", "--json"); !strings.Contains(out, `"workerId":1,"address":"","state":"free"`) {
		t.Errorf("%s", out)
	}
	if kept := number(t, dsn, "SELECT LEAST(expires_at, reserved_until) FROM leaf_workerid_alloc"); kept != bound {
		t.Errorf("the bound fell from %d to %d", bound, kept)
	}
	next := serve(t, s.With(settings{"SNOWFLAKE_ADVERTISE": "10.0.0.8:80"}))
	eventually(t, startLimit, "a snowflake", func() bool { return next.get("/api/snowflake/get/x").status == 200 })
	if out := must(t, s, "workers"); !strings.Contains(out, "1          10.0.0.8:80  leased") {
		t.Errorf("%s", out)
	}
}
