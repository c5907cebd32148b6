//go:build unix

package e2e_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// refusal is a request that must not issue anything.
type refusal struct {
	name         string
	method       string // GET when empty
	target       string
	header       []string
	status, code int
	says         string // part of the message
}

func refusals() []refusal {
	long := strings.Repeat("x", 1025)
	const pass = "/get?gatePass=alice"
	return []refusal{
		{name: "no gatePass", target: "/get?appId=1", status: 400, code: -6, says: "gatePass"},
		{name: "empty gatePass", target: "/get?appId=1&gatePass=", status: 400, code: -6, says: "gatePass"},
		{name: "long gatePass", target: "/get?appId=1&gatePass=" + long, status: 400, code: -6, says: "at most 1024"},
		{name: "gatePass not UTF-8", target: "/get?appId=1&gatePass=%ff%fe", status: 400, code: -6, says: "UTF-8"},
		{name: "gatePass half encoded", target: "/get?appId=1&gatePass=50%", status: 400, code: -6, says: "gatePass"},
		{name: "no appId", target: pass, status: 400, code: -6, says: "appId is missing"},
		{name: "appId empty", target: pass + "&appId=", status: 400, code: -6, says: "0…255"},
		{name: "appId -1", target: pass + "&appId=-1", status: 400, code: -6, says: "0…255"},
		{name: "appId 256", target: pass + "&appId=256", status: 400, code: -6, says: "0…255"},
		{name: "appId 1e3", target: pass + "&appId=1e3", status: 400, code: -6, says: "0…255"},
		{name: "appId 2^63", target: pass + "&appId=9223372036854775808", status: 400, code: -6, says: "0…255"},
		{name: "appId 2^32+1", target: pass + "&appId=4294967297", status: 400, code: -6, says: "0…255"},
		{name: "count 0", target: aliceGet + "&count=0", status: 400, code: -6, says: "1…10000"},
		{name: "count 10001", target: aliceGet + "&count=10001", status: 400, code: -6, says: "1…10000"},
		{name: "count -1", target: aliceGet + "&count=-1", status: 400, code: -6, says: "1…10000"},
		{name: "stringify maybe", target: aliceGet + "&count=2&stringify=maybe", status: 400, code: -6, says: "true or false"},
		{name: "appId twice", target: aliceGet + "&appId=1", status: 400, code: -6, says: "twice"},
		{name: "gatePass twice", target: aliceGet + "&gatePass=bob", status: 400, code: -6, says: "twice"},
		{name: "PUT", method: http.MethodPut, target: aliceGet, status: 405, code: -10, says: "GET"},
		{name: "DELETE", method: http.MethodDelete, target: aliceGet, status: 405, code: -10, says: "GET"},
		{name: "HEAD", method: http.MethodHead, target: aliceGet, status: 405},
		{name: "unknown path", target: "/got?appId=1&gatePass=alice", status: 404, code: -10, says: "/get"},
		{name: "slash too many", target: "/get/?appId=1&gatePass=alice", status: 404, code: -10, says: "/get"},
		{name: "unknown app", target: "/get?appId=2&gatePass=alice", status: 404, code: -2, says: "shardid provision"},
		{name: "missing shard", target: helloGet, status: 404, code: -3, says: "id_alloc"},
		{name: "long URL", target: aliceGet + "&x=" + strings.Repeat("y", 9000), status: 414, code: -6, says: "at most 8192"},
		{name: "text/plain", target: "/get?appId=1", header: []string{"Accept", "text/plain"}, status: 400, code: -6, says: "gatePass"},
		{name: "unknown tag", target: "/api/segment/get/tag", status: 404, code: -2, says: "shardid tags add"},
		{name: "disabled mode", target: "/api/uid/get", status: 404, code: -9, says: "uid.enabled"},
	}
}

// TestE2EErrorTable: every refusal has its status, code and advice, and issues
// nothing: the next ID is the one after the last.
func TestE2EErrorTable(t *testing.T) {
	story(t)
	dsn := migrated(t)
	must(t, onMariaDB(dsn), "provision", "--app", "1", "--name", "test")
	query(t, dsn, "DELETE FROM id_alloc WHERE app_id = 1 AND shard_id = 18") // hello's
	d := serve(t, onMariaDB(dsn).With(settings{"UID_ENABLED": "false"}))
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	last := d.want(aliceGet, 200, 0).ID
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			checkRefusal(t, d, r)
			if id := d.want(aliceGet, 200, 0).ID; id != last+1<<14 {
				t.Errorf("next ID is %d, want %d: something was issued", id, last+1<<14)
			}
			last += 1 << 14
		})
	}
}

func checkRefusal(t *testing.T, d *daemon, r refusal) {
	t.Helper()
	method := r.method
	if method == "" {
		method = http.MethodGet
	}
	a, err := d.do(method, r.target, r.header...)
	if err != nil {
		t.Fatal(err)
	}
	if a.status != r.status || a.Code != r.code || !strings.Contains(a.Message, r.says) {
		t.Errorf("%d %q, want %d, code %d and %q", a.status, a.body, r.status, r.code, r.says)
	}
	if method != http.MethodHead && !regexp.MustCompile(`^\{"code":-\d+,"message":"[^\n]+"\}\n?$`).MatchString(a.body) {
		t.Errorf("shape: %q", a.body)
	}
	checkHeader(t, a)
	if method != http.MethodGet {
		wantNoID(t, a.body)
	}
}

func checkHeader(t *testing.T, a answer) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "Retry-After": "",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if allow := a.header.Get("Allow"); a.status == 405 != (allow == "GET" || allow == "GET, POST") {
		t.Errorf("status %d with Allow %q", a.status, allow)
	}
}

// wantNoID finds no number in the body that is large enough to be an ID.
func wantNoID(t *testing.T, body string) {
	t.Helper()
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(body, -1) {
		if n, err := strconv.ParseInt(digits, 10, 64); err != nil || n >= 1<<14 {
			t.Errorf("%s could be an ID: %s", digits, body)
		}
	}
}

// TestE2ELongHeader: net/http itself refuses a head above the bound.
func TestE2ELongHeader(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	eventually(t, startLimit, "ready", func() bool { return d.get("/readyz").status == 200 })
	a, err := d.do(http.MethodGet, aliceGet, "X-Long", strings.Repeat("z", 40_000))
	if err != nil || a.status != 431 {
		t.Errorf("%d %q, %v", a.status, a.body, err)
	}
	wantNoID(t, a.body)
	if id := d.want(aliceGet, 200, 0).ID; id != 16385 {
		t.Errorf("next ID is %d: something was issued", id)
	}
}
