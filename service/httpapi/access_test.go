package httpapi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// guardOf knows the token of the configuration, root, and those of a file whose
// entries are a token and what it may do each.
func guardOf(root string, entries ...string) *access.Guard {
	dir, err := os.MkdirTemp("", "tokens")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	var text strings.Builder
	if len(entries) == 0 {
		text.WriteString("[]")
	}
	for i := 0; i < len(entries); i += 2 {
		fmt.Fprintf(&text, "- {name: %s-token, sha256: '%x', %s}\n", entries[i], sha256.Sum256([]byte(entries[i])), entries[i+1])
	}
	file := filepath.Join(dir, "tokens.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		panic(err)
	}
	now := time.Now()
	g, err := access.NewGuard(access.Options{AdminToken: root, File: file, Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	return g
}

// closed wants a token everywhere: orders may have app 1 and the tag of the other
// tests, times the modes without a key, boss is for administration, and the rate of
// spent is used up.
func closed(o *Options) {
	g := guardOf("root",
		"orders", "may: ['queue:1', 'segment:leaf*']",
		"times", "may: [snowflake, uid]",
		"boss", "may: [admin]",
		"spent", "may: ['queue:*', 'segment:*', snowflake, uid], rate: 0.1")
	_, _ = g.Client(http.Header{"Authorization": {"Bearer spent"}})
	o.Access, o.RequireToken, o.ProtectMonitoring = g, true, true
}

// monitored are the pages that show the state of the service.
func monitored() []string {
	return []string{"/cache", "/db", "/metrics", "/api/status", "/api/history", "/api/replicas", "/api/names", "/api/names/orders", "/api/sequences"}
}

// accessExchanges provoke each answer to a request with a token, with another one's,
// and without.
func accessExchanges() []exchange {
	all := []exchange{
		{name: "queue, its app", target: alice, token: "orders", status: 200},
		{name: "queue, another app", target: "/get?appId=2&gatePass=alice", token: "orders", status: 403, code: -7, says: "token orders-token may not have IDs of app 2"},
		{name: "queue, app given twice", target: alice + "&appId=2", token: "orders", status: 400, code: -6, says: "appId is given twice"},
		{name: "queue, app given twice in disguise", target: "/get?app%49d=2&appId=1&gatePass=alice", token: "orders", status: 400, code: -6, says: "appId is given twice"},
		{name: "segment, its tag", target: segmentURL, token: "orders", status: 200},
		{name: "segment, another tag", target: "/api/segment/get/lea", token: "orders", status: 403, code: -7, says: `tag \"lea\"`},
		{name: "segment, another tag, encoded", target: "/api/segment/get/%6Cea%66", token: "orders", status: 200},
		{name: "snowflake, its mode", target: snowflakeURL, token: "times", status: 200},
		{name: "uid, its mode", target: uidURL, token: "times", status: 200},
	}
	for mode, target := range map[string]string{"queue": alice, "segment": segmentURL, "snowflake": snowflakeURL, "uid": uidURL} {
		other := "times"
		if target == snowflakeURL || target == uidURL {
			other = "orders"
		}
		all = append(all,
			exchange{name: mode + ", no token", target: target, status: 401, code: -7, says: "send it in the header Authorization"},
			exchange{name: mode + ", no token and no parameters", target: strings.TrimSuffix(target, "?appId=1&gatePass=alice"), status: 401, code: -7},
			exchange{name: mode + ", wrong token", target: target, token: "order", status: 401, code: -7, says: "this token is not known"},
			exchange{name: mode + ", of the configuration", target: target, token: "root", status: 401, code: -7, says: "this token is not known"},
			exchange{name: mode + ", token in the query", target: target + "?token=orders&access_token=orders&Authorization=Bearer+orders", status: 401, code: -7},
			exchange{name: mode + ", another mode's", target: target, token: other, status: 403, code: -7, says: "IDs of the mode " + mode},
			exchange{name: mode + ", for administration", target: target, token: "boss", status: 403, code: -7, says: "IDs of the mode " + mode},
			exchange{name: mode + ", too fast", target: target, token: "spent", status: 429, code: -12, says: "the rate of token spent-token is used up"},
		)
	}
	for _, page := range monitored() {
		all = append(all,
			exchange{name: page + ", token of IDs", target: page, token: "orders", status: 200},
			exchange{name: page + ", token of administration", target: page, token: "boss", status: 200},
			exchange{name: page + ", token of the configuration", target: page, token: "root", status: 200},
			exchange{name: page + ", no token", target: page, status: 401, code: -7, says: "send it in the header"},
			exchange{name: page + ", wrong token", target: page, token: "Root", status: 401, code: -7, says: "this token is not known"},
			exchange{name: page + ", too fast", target: page, token: "spent", status: 429, code: -12, says: "used up"},
		)
	}
	for _, page := range []string{"/livez", "/readyz", "/healthz", "/openapi.yaml", "/decode?id=16385", "/api/uid/parse/34359738368", "/decodeSnowflakeId?snowflakeId=4194304"} {
		all = append(all, exchange{name: page + ", open", target: page, status: 200})
	}
	all = slices.Concat(all, byV1(all))
	all = slices.Concat(all, byPOST(all))
	for i := range all {
		all[i].name, all[i].change = "closed: "+all[i].name, closed
	}
	return all
}

func TestAccess(t *testing.T) {
	for _, x := range accessExchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, q, modes := x.do()
			if body := got.Body.String(); got.Code != x.status || !strings.Contains(body, x.says) ||
				x.code != 0 && !strings.HasPrefix(body, fmt.Sprintf(`{"code":%d,`, x.code)) {
				t.Fatalf("answered %d %s, want %d and %q", got.Code, clip(got.Body.Bytes()), x.status, x.says)
			}
			if x.code != 0 && q.calls+modes.calls() != 0 {
				t.Error("something was issued")
			}
			if h := got.Header(); (h.Get("WWW-Authenticate") == "Bearer") != (x.status == 401) || (h.Get("Retry-After") == "10") != (x.status == 429) {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// Where no token is asked for, one that is sent is not looked at.
func TestTokensAreNotLookedAtWhereNoneIsNeeded(t *testing.T) {
	open := func(o *Options) {
		closed(o)
		o.RequireToken, o.ProtectMonitoring = false, false
	}
	for _, target := range append(monitored(), alice, segmentURL, snowflakeURL, uidURL) {
		for _, token := range []string{"", "wrong", "times", "spent"} {
			if got, _, _ := (exchange{target: target, token: token, change: open}).do(); got.Code != 200 {
				t.Errorf("%s with %q: %d %s", target, token, got.Code, clip(got.Body.Bytes()))
			}
		}
	}
}

// adminAPI is an API with one route of administration, which answers with the name
// of the token.
func adminAPI(g *access.Guard) *API {
	a := newAPIOf(func(o *Options) { o.Access = g })
	a.engine.Group(adminPath, a.requireAdmin).POST("/guarded/:id", func(c *gin.Context) { c.String(http.StatusCreated, caller(c)) })
	return a
}

// Below /admin/ everything takes a token for administration, and who has none cannot
// tell what is there.
func TestAdministrationTakesAToken(t *testing.T) {
	for _, c := range []struct {
		name, token string
		guard       *access.Guard
		status      int // for a route that exists
		says        string
		unknown     int // for one that does not
	}{
		{"no guard", "x", nil, 403, "administration over HTTP is closed", 403},
		{"no token configured", "x", guardOf("", "orders", "may: []"), 403, "administration over HTTP is closed", 403},
		{"none", "", guardOf("root"), 401, "no valid token", 401},
		{"wrong", "Root", guardOf("root"), 401, "no valid token", 401},
		{"of the configuration", "root", guardOf("root"), 201, "admin", 404},
		{"of the file", "boss", guardOf("", "boss", "may: [admin]"), 201, "boss-token", 404},
		{"for IDs", "orders", guardOf("root", "orders", "may: ['queue:*']"), 403, "token orders-token may not administrate", 403},
		{"too fast", "boss", spentBoss(), 429, "used up", 429},
	} {
		for target, want := range map[string]int{"POST /admin/guarded/7": c.status, "POST /admin/nothing": c.unknown, "GET /admin/": c.unknown, "GET /admin/../admin/guarded/7": c.unknown} {
			method, path, _ := strings.Cut(target, " ")
			got := exchange{method: method, target: path, token: c.token}.ask(adminAPI(c.guard))
			if got.Code != want || want == c.status && !strings.Contains(got.Body.String(), c.says) {
				t.Errorf("%s, %s: %d %s, want %d", c.name, target, got.Code, got.Body, want)
			}
		}
		for method, known := range map[string]int{"PUT": 405, "OPTIONS": 204} {
			want, allow := c.unknown, ""
			if c.unknown == 404 {
				want, allow = known, "POST, OPTIONS"
			}
			got := exchange{method: method, target: "/admin/guarded/7", token: c.token}.ask(adminAPI(c.guard))
			if got.Code != want || got.Header().Get("Allow") != allow {
				t.Errorf("%s, %s: %d %v %s", c.name, method, got.Code, got.Header(), got.Body)
			}
		}
	}
}

func spentBoss() *access.Guard {
	g := guardOf("", "boss", "may: [admin], rate: 0.1")
	_, _ = g.Client(http.Header{"Authorization": {"Bearer boss"}})
	return g
}

// who is known to what comes after the guard, and a token never is.
func TestWhoIsKnown(t *testing.T) {
	var log strings.Builder
	opts, _ := testOptions(&fakeQueue{}, nil, &log)
	closed(&opts)
	a := New(opts)
	for _, x := range accessExchanges() {
		x.ask(a)
	}
	for _, token := range []string{"root", "Root", "orders", "boss", "spent"} {
		for line := range strings.Lines(log.String()) {
			if slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \"=:\\", r) }), token) {
				t.Errorf("the log has the token %s: %s", token, line)
			}
		}
	}
}

// With protected monitoring an error tells callers that a store is away and not where it
// is; who sends a token reads it all in the health pages.
func TestProtectedMonitoringHidesStores(t *testing.T) {
	const address = "10.9.8.7:3306"
	away := &model.StoreError{Store: "database", Op: "allocate", Advice: "start it", Err: errors.New("dial tcp " + address + ": refused")}
	for _, protected := range []bool{true, false} {
		q := broken(fmt.Errorf("%w: %w", model.ErrQueueEmpty, away))
		q.ready = fmt.Errorf("%w: waiting for %w", model.ErrNotReady, away)
		change := func(o *Options) {
			o.Access, o.ProtectMonitoring = guardOf("root"), protected
			o.Conditions = fakeConditions{"redis"}.Conditions
			failModes(fmt.Errorf("%w: %w", model.ErrNoLease, away))(o)
		}
		for _, target := range []string{alice, segmentURL, snowflakeURL, uidURL, "/readyz", "/healthz"} {
			health := strings.HasSuffix(target, "z")
			for token, hidden := range map[string]bool{"": protected, "root": protected && !health} {
				got, _, _ := exchange{target: target, token: token, queue: q, change: change}.do()
				body := got.Body.String()
				shown := strings.Contains(body, address) || strings.Contains(body, "10.0.0.2:2")
				if got.Code != 503 || shown == hidden || hidden != strings.Contains(body, reasonHidden) {
					t.Errorf("%s, protected %t, token %q: %d %s", target, protected, token, got.Code, body)
				}
			}
		}
	}
}

// A quota counts the IDs of every path: a batch that is larger than what is left is refused
// whole.
func TestQuotaOfIDs(t *testing.T) {
	const quota = "may: ['queue:*', 'segment:*', snowflake, uid], ids_per_second: 100"
	ask := func(a *API, target string) (status int, body, after string) {
		got := exchange{target: target, token: "quota"}.ask(a)
		return got.Code, got.Body.String(), got.Header().Get("Retry-After")
	}
	q, pattern := &fakeQueue{}, false
	api := func() *API {
		return newAPIOf(func(o *Options) {
			o.Access, o.RequireToken, o.Queue = guardOf("", "quota", quota), true, q
			o.Segment = &fakeSegment{pattern: pattern, fakeGenerator: fakeGenerator{first: 1}}
			o.UID = &fakeGenerator{first: 1}
		})
	}
	a := api()
	for _, step := range []struct {
		target string
		status int
	}{
		{"/get?appId=1&gatePass=a&count=40", 200},
		{"/v1/queue/1/ids?gatePass=a&count=61", 429},
		{"/v1/snowflake/ids?count=20", 200},
		{"/get?appId=256&gatePass=a", 400},
		{"/api/segment/get/x?count=30", 200},
		{"/v1/uid/ids?count=11", 429},
		{"/v1/uid/ids?count=10&ranges=true", 200},
		{"/get?appId=1&gatePass=a", 429},
		{"/v1/uid/ids?count=101", 429},
	} {
		status, body, after := ask(a, step.target)
		check.Equal(t, status, step.status, step.target, body)
		seconds, _ := strconv.Atoi(after)
		if status == 429 && (!strings.Contains(body, `{"code":-12,`) || !strings.Contains(body, "ids_per_second: 100 of token quota-token has ") ||
			seconds < 1 || seconds > 2) {
			t.Errorf("%s: Retry-After %s, %s", step.target, after, body)
		}
	}
	for _, pattern = range []bool{false, true} { // business numbers count once
		a = api()
		for _, want := range []int{200, 429} {
			if status, body, _ := ask(a, "/v1/segment/x/ids?count=100"); status != want {
				t.Errorf("pattern %v: %d %s, want %d", pattern, status, body, want)
			}
		}
	}
	// A run of 100 is given while one ID is left, and counts whole.
	pattern = false
	a = api()
	const run = "/tinyid/id/nextSegmentId?bizType=x&token=quota"
	for _, step := range []struct{ target, says string }{
		{"/v1/uid/ids?count=99", `{"code":0,`}, {run, `"maxId":100`}, {run, "ids_per_second"}, {"/v1/uid/ids", "has 0 left"},
	} {
		if _, body, _ := ask(a, step.target); !strings.Contains(body, step.says) {
			t.Errorf("%s: %s, want %s", step.target, body, step.says)
		}
	}
}

// No line of the log has the gatePass, which may name a person, or what came as a token,
// wherever they stand: served, refused or failed, at the level debug too.
func TestLogKeepsSecretsAndPersons(t *testing.T) {
	const person, secret = "13800138000", "sesame-0123456789"
	for _, q := range []*fakeQueue{{}, broken(model.ErrQueueEmpty), broken(errors.New("broken"))} {
		var log strings.Builder
		opts, _ := testOptions(q, nil, &log)
		opts.AccessLog, opts.Admin = AccessAll, (&fakeAdmin{}).resources()
		opts.Access = guardOf("root", "orders", "may: ['queue:1', 'segment:leaf*']")
		for _, require := range []bool{false, true} {
			opts.RequireToken = require
			api := New(opts)
			for _, target := range []string{
				"/get?appId=1&gatePass=" + person, "/get?appId=1&gatePass=" + person + "&gatePass=" + person, "/get?gatePass=" + person,
				"/get?appId=300&gatePass=" + person, "/get?appId=1&gatePass=" + person + "%zz", "/get?appId=1&gatePass=" + strings.Repeat(person, 100),
				"/v1/queue/1/ids?gatePass=" + person, "/tinyid/id/nextId?bizType=leaf&token=" + secret, "/admin/apps?token=" + secret,
				"/get?appId=1&token=" + secret + "&gatePass=" + person, "/api/segment/get/leaf?token=" + secret, "/nothing?gatePass=" + person,
			} {
				exchange{target: target, token: secret}.ask(api)
				exchange{target: target, token: "orders"}.ask(api)
				r := httptest.NewRequest(http.MethodPost, "/get", strings.NewReader(target[strings.Index(target, "?")+1:]))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Referer", "https://example/?"+person)
				r.Header.Set("Cookie", secret)
				api.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
		if n := strings.Count(log.String(), "msg=request "); n < 50 {
			t.Errorf("%d requests are in the log", n)
		}
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, person) || strings.Contains(line, secret) {
				t.Error(line)
			}
		}
	}
}
