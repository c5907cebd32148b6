//go:build unix

package e2e_test

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"shardid/scripts/check"
)

// granted is the answer to a request for a lease.
type granted struct {
	Lease struct {
		WorkerID                    int64
		Secret, Epoch, After, Until string
		WorkerBits, SeqBits         uint
	}
}

// TestE2ENames: an operator adds, changes and deletes names of worker IDs over HTTP and by
// commands. What callers hold is not deleted, and nothing lets an ID come twice.
func TestE2ENames(t *testing.T) {
	check.Deep(t)
	story(t)
	for name, s := range map[string]settings{"sqlite": {}, "mariadb": onMariaDB(migrated(t))} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d := serveIn(t, dir, s.With(settings{"SERVER_ADMIN_TOKEN": adminToken}))
			d.ready()
			eventually(t, startLimit, "a snowflake", func() bool { return d.get(snowflakeGet).status == 200 })
			d.addNames(dir, s)
			first, second := d.lease("orders", "pod-1"), d.lease("orders", "")
			d.listNames(dir, s)
			d.keepNames(dir, s)
			for _, l := range []granted{first, second} {
				target := fmt.Sprintf("/v1/leases/orders/%d?secret=%s&lastUsed=%s", l.Lease.WorkerID, l.Lease.Secret, l.Lease.Until)
				if a, err := d.do("DELETE", target); err != nil || a.status != 200 {
					t.Fatalf("%s: %d %s, %v", target, a.status, a.body, err)
				}
			}
			d.deleteNames(dir, s, first)
		})
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

// commands runs each, in the folder of the replica.
func (d *daemon) commands(dir string, s settings, all ...try) {
	d.t.Helper()
	for _, c := range all {
		c.in(d.t, dir, s)
	}
}

func (d *daemon) addNames(dir string, s settings) {
	d.wantAdmin(201, "POST", "/admin/names", `{"name":"orders","hold":"30s"}`)
	for body, want := range map[string]string{
		`{"name":"orders","hold":"30s"}`:                    "name is already provisioned",
		`{"name":"orders","workerBits":4}`:                  "name is already provisioned",
		`{"name":"shardid"}`:                                "belong to the replicas",
		`{"name":"late","epoch":9999999999999}`:             "must be in the past",
		`{"name":"wide","workerBits":20,"seqBits":20}`:      "24 together at most",
		`{"name":"old","epoch":"0","workerBits":12}`:        "choose a later epoch",
		`{"name":"a/b"}`:                                    "letters, digits, dots, hyphens and underscores",
		`{"name":"x","hold":"2h"}`:                          "hold must be a duration in 5s…1h",
		`{"name":"x","epoch":"2010-11-04T01:42:54.657Z"}`:   "epoch must be a time in Unix milliseconds",
		`{"name":"x","worker_bits":10}`:                     "unknown field",
		`{"name":"` + strings.Repeat("x", 65) + `"}`:        "1…64",
		`{"name":"x","workerBits":10,"seqBits":12,"seq":1}`: "unknown field",
	} {
		if a := d.administer("POST", "/admin/names", body); a.status != 400 && a.status != 409 || !strings.Contains(a.Message, want) {
			d.t.Errorf("%s: %d %s, want %q", body, a.status, a.body, want)
		}
	}
	d.commands(dir, s, []try{
		{"names add --name carts --epoch 1767225600000 --worker-bits 4 --seq-bits 6 --hold 5m", 0, `^name carts has the worker IDs 0…15, for IDs until \d{4,}-\d\d-\d\d: curl -X POST http\S+/v1/leases/carts\n$`, ""},
		{"names add --name carts", 1, `^$`, "name is already provisioned"},
		{"names add --if-missing --name carts --epoch 1767225600000 --worker-bits 4 --seq-bits 6", 0, `^name carts is there, nothing was changed\n$`, ""},
		{"names add --if-missing --name carts", 1, `^$`, "worker_bits=4"},
		{"names add --name shardid", 1, `^$`, "choose another name"},
		{"names add --name x --worker-bits 0", 2, `^$`, "0 worker bits"},
		{"names add --name x --worker-bits -1", 2, `^$`, "worker-bits"},
		{"names add --name x --hold 1s", 2, `^$`, "hold 1s must be in"},
		{"names add --name x --hold 60", 2, `^$`, "hold"},
		{"names add --name x y", 2, `^$`, `"y"`},
		{"names add", 2, `^$`, `required flag(s) "name"`},
	}...)
}

// listNames: two worker IDs of orders are leased.
func (d *daemon) listNames(dir string, s settings) {
	if a := d.wantAdmin(200, "GET", "/admin/names", ""); !strings.HasPrefix(a.body, `{"code":0,"names":[{"name":"carts","epoch":"1767225600000","workerBits":4,"seqBits":6,"hold":"300s","leased":0,"workers":16},`+
		`{"name":"orders","epoch":"1288834974657","workerBits":10,"seqBits":12,"hold":"30s","leased":2,"workers":1024}]}`) {
		d.t.Errorf("%s", a.body)
	}
	one := d.wantAdmin(200, "GET", "/admin/names/orders", "").body
	if !regexp.MustCompile(`"holders":\[(\{"workerId":[01],"instance":"(pod-1)?","leased":true,"after":"\d+","until":"\d{13}","granted":"2\S+Z"\},?){2}\]\}$`).MatchString(one) || strings.Contains(one, "secret") {
		d.t.Errorf("%s", one)
	}
	if a := d.administer("GET", "/admin/names/none", ""); a.status != 404 || a.Code != -2 {
		d.t.Errorf("%d %s", a.status, a.body)
	}
	holders := `0 +pod-1 +leased +2\S+Z +2\S+Z +2\S+Z +a holder +orders\n1 +leased +2\S+Z +2\S+Z +2\S+Z +a holder +orders\n$`
	d.commands(dir, s, []try{
		{"names", 0, `^NAME .*\nshardid +1288834974657 +10 +12 +- +1 of 1024 +the replicas.*\ncarts +1767225600000 +4 +6 +300s +0 of 16 +callers\norders +1288834974657 +10 +12 +30s +2 of 1024 +callers\n$`, ""},
		{"names list --json", 0, `^\[\{"name":"shardid",.*"leased":\d,"own":true\},.*,\{"name":"orders",.*"hold":"30s","leased":2,"own":false\}\]\n$`, ""},
		{"names --set snowflake.worker.mode=ordinal", 0, `\nshardid .* - of 1024 `, ""},
		{"names --set snowflake.worker.mode=zk --set zookeeper.addrs=127.0.0.1:1", 1, `\nshardid .* - of 1024 (.*\n)*orders .* 2 of 1024 `, "correct zookeeper.addrs"},
		{"names --set snowflake.worker_bits=8", 0, `\nshardid +1288834974657 +10 +12 +- +1 of 1024 `, ""}, // as it is recorded
		{"workers", 0, `(?s)NAME\n.*\n\nWORKER ID .* NAME\n` + holders, ""},
		{"workers --name orders", 0, `^WORKER ID .* NAME\n` + holders, ""},
		{"workers --name orders --set snowflake.worker.mode=ordinal --json", 0, `^\[\{"workerId":0,"address":"pod-1","state":"leased","foreign":false,"reportedAt":"2\S+Z","reservedUntil":"2\S+Z","keptUntil":"2\S+Z","name":"orders"\},`, ""},
		{"workers --name carts", 0, `^no worker ID of the name carts has been leased yet\n$`, ""},
		{"workers --name none", 1, `^$`, "see `shardid names`"},
		{"names --json=false extra", 2, `^$`, "extra"},
	}...)
}

// keepNames: a hold changes, a layout never does, and a name in use stays.
func (d *daemon) keepNames(dir string, s settings) {
	a := d.wantAdmin(200, "PATCH", "/admin/names/orders", `{"hold":"60s"}`)
	if !regexp.MustCompile(`"hold":"60s","leased":2,"workers":1024,"effective":"for leases that are granted or renewed from 2\S+Z on"\}$`).MatchString(a.body) {
		d.t.Errorf("%s", a.body)
	}
	for target, body := range map[string]string{"PATCH /admin/names/orders": `{"workerBits":4}`, "DELETE /admin/names/orders": "", "DELETE /admin/names/orders?confirm=Orders": "", "PATCH /admin/names/none": `{"hold":"9s"}`} {
		method, path, _ := strings.Cut(target, " ")
		want := 400
		if strings.HasSuffix(path, "none") {
			want = 404
		}
		d.wantAdmin(want, method, path, body)
	}
	if a := d.wantAdmin(409, "DELETE", "/admin/names/orders?confirm=orders", ""); a.Code != -13 || !strings.Contains(a.Message, "are leased until 2") {
		d.t.Errorf("%s", a.body)
	}
	d.commands(dir, s, []try{
		{"names set --name orders --hold 10s", 0, `orders .* 10s +2 of 1024 .*\nname orders is changed, for leases that are granted or renewed from now on\n$`, ""},
		{"names set --name orders --hold 4s", 2, `^$`, "hold 4s must be in"},
		{"names set --name orders", 2, `^$`, `required flag(s) "hold"`},
		{"names set --name none --hold 10s", 1, `^$`, "shardid names add --name none"},
		{"names delete --name orders --confirm orders", 1, `^$`, "are leased until 2"},
		{"names delete --name orders --confirm carts", 2, `^$`, `confirm the deletion with the name, which is "orders"`},
		{"names delete --name orders", 2, `^$`, `required flag(s) "confirm"`},
	}...)
}

// deleteNames: a name that nobody holds is deleted. It comes back with its layout alone, and above
// the lease that was.
func (d *daemon) deleteNames(dir string, s settings, was granted) {
	d.commands(dir, s, try{"names delete --name orders --confirm orders", 0, `^name orders is deleted; `, ""})
	for _, target := range []string{"/v1/leases/orders", fmt.Sprintf("/v1/leases/orders/%d/renew?secret=%s", was.Lease.WorkerID, was.Lease.Secret)} {
		if a, err := d.do("POST", target); err != nil || a.status != 404 || a.Code != -2 {
			d.t.Errorf("%s: %d %s, %v", target, a.status, a.body, err)
		}
	}
	a := d.wantAdmin(409, "POST", "/admin/names", `{"name":"orders","workerBits":4}`)
	if !strings.Contains(a.Message, "worker_bits=10") {
		d.t.Errorf("%s", a.body)
	}
	d.wantAdmin(201, "POST", "/admin/names", `{"name":"orders","hold":"5s"}`)
	next := d.lease("orders", "pod-1").Lease
	if next.WorkerID != was.Lease.WorkerID || len(next.After) != len(was.Lease.Until) || next.After < was.Lease.Until {
		d.t.Errorf("after %+v came %+v", was.Lease, next)
	}
	d.wantAdmin(200, "DELETE", "/admin/names/carts?confirm=carts", "")
	for action, lines := range map[string]int{"create": 11, "change": 2, "delete": 3} {
		if got := d.Lines(`"msg":"audit"`, `"action":"name.`+action+`"`); len(got) != lines {
			d.t.Errorf("%d audit lines of name.%s, want %d: %q", len(got), action, lines, got)
		}
	}
}

// TestE2EDemoName: serve --demo has a name that callers can lease worker IDs of, and adds none to
// a database that has one.
func TestE2EDemoName(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	d := serveIn(t, dir, nil, "--demo")
	d.ready()
	if l := d.lease("demo", "").Lease; l.Epoch != "1288834974657" || l.WorkerBits != 10 || l.SeqBits != 12 || len(d.Lines("added the demo name of worker IDs")) != 1 {
		t.Errorf("%+v\n%s", l, d.Output())
	}
	d.stops(syscall.SIGTERM, startLimit)
	again := serveIn(t, dir, nil, "--demo")
	again.ready()
	if len(again.Lines("demo name")) != 0 {
		t.Error(again.Output())
	}
	own := serve(t, settings{"SNOWFLAKE_NAME": "demo"}, "--demo")
	own.ready()
	if a, err := own.do("POST", "/v1/leases/demo"); err != nil || a.status != 404 {
		t.Errorf("the replicas' own: %d %s, %v", a.status, a.body, err)
	}
}
