//go:build unix

// What operators change: apps, and the database that a deployment has.

package stories_test

import (
	"fmt"
	"net/http"
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

// TestConfirmReplacesALostDatabase: a database is lost without a backup, and Redis knows how far
// its lists had come. A new database takes its place by the ID that the error names, and by
// no other; but not with scrambled apps, of which the lost one had the secret.
func TestConfirmReplacesALostDatabase(t *testing.T) {
	check.Deep(t)
	story(t)
	lost, found := migrated(t), migrated(t)
	server, books := testserver.Redis(t), &ledger{}
	env := func(dsn string) settings {
		return onMariaDB(dsn).With(onRedis(server.Addr)).With(direct())
	}
	refused := func(s settings, want string, args ...string) {
		t.Helper()
		if o := shardid(t, s, args...); o.exit == 0 || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: %+v, want %q", args, o, want)
		}
	}
	must(t, env(lost), "provision", "--app", "1", "--name", "test")
	d := serve(t, env(lost))
	take(d, books, 3000)
	d.Kill()

	must(t, env(found), "provision", "--app", "1", "--name", "test")
	d = serve(t, env(found))
	id := deploymentOf(t, lost)
	eventually(t, startLimit, "the new database is refused", func() bool {
		return strings.Contains(d.get(aliceGet).Message, "deployment "+id)
	})
	own := deploymentOf(t, found)
	for _, wrong := range []string{"lost", id + "0", own + "0"} {
		refused(env(found), "nothing in Redis belongs to deployment",
			"confirm", "--deployment", wrong, "--confirm", own)
		refused(env(found), " keys of "+id, "confirm", "--deployment", wrong)
	}
	refused(onMariaDB(found), "nothing in Redis belongs to deployment", "confirm", "--deployment", id, "--confirm", own)
	for _, present := range [][]string{nil, {"--confirm", id}, {"--confirm", ""}} {
		refused(env(found), "--confirm "+own, append([]string{"confirm", "--deployment", id}, present...)...)
	}

	scrambling := migrated(t)
	must(t, env(scrambling), "provision", "--app", "8", "--name", "invoices", "--scramble")
	refused(env(scrambling), "app 8 is scrambled with the secret of this database",
		"confirm", "--deployment", id, "--confirm", deploymentOf(t, scrambling))

	must(t, env(found), "confirm", "--deployment", id, "--confirm", own)
	d.Kill()
	take(serve(t, env(found)), books, 3000)
	books.Settle(t)
	refused(env(found), "whose secret of scrambled apps it does not have",
		"provision", "--app", "8", "--name", "invoices", "--scramble")
	secret := word(t, lost, "SELECT scramble_secret FROM shardid_deployment")
	query(t, found, "UPDATE shardid_deployment SET scramble_secret = '"+secret+"'")
	must(t, env(found), "provision", "--app", "8", "--name", "invoices", "--scramble")
}

// deploymentOf is the ID of a database, as errors name it.
func deploymentOf(t *testing.T, dsn string) string {
	t.Helper()
	return word(t, dsn, "SELECT deployment FROM shardid_deployment")
}
