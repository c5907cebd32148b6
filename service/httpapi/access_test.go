package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"shardid/model"
	"shardid/scripts/fakes"
	"shardid/service/access"
)

// closedGuard is that of closed: orders may have app 1, the tags leaf…, the names ord… and the spaces ch…, times the
// modes without a key, boss is for administration, and spent may have all.
var closedGuard = sync.OnceValue(func() *access.Guard {
	g := fakes.Guard("sesame-root",
		"orders", "may: ['queue:1', 'segment:leaf*', 'lease:ord*', 'sequence:ch*']",
		"times", "may: [snowflake, uid]",
		"boss", "may: [admin]",
		"spent", "may: ['queue:*', 'segment:*', snowflake, uid, 'lease:*', 'sequence:*', admin], rate: 0.1")
	_, _ = g.Client(http.Header{"Authorization": {"Bearer sesame-spent"}}) // its rate is used up
	return g
})

// closed wants a token everywhere.
func closed(o *Options) { o.Access, o.RequireToken, o.ProtectMonitoring = closedGuard(), true, true }

// accessExchanges provoke each answer to a request with a token, with another one's, and without.
func accessExchanges() []exchange {
	const unknown = "send another token: no valid token: this one is not known"
	all := []exchange{
		{name: "another app's", target: "/get?appId=2&gatePass=alice", token: "orders", status: 403, code: -7,
			says: "use a token that may have IDs of app 2"},
		{name: "app given twice in disguise", target: "/get?app%49d=2&appId=1&gatePass=alice", token: "orders",
			status: 400, code: -6, says: "give appId once"},
		{name: "another tag's", target: "/api/segment/get/lea", token: "orders", status: 403, code: -7,
			says: `tag "lea"`},
		{name: "its tag, encoded", target: "/api/segment/get/%6Cea%66", token: "orders", status: 200, text: true,
			body: "1"},
		{name: "another name's", method: http.MethodPost, target: "/v1/leases/x", token: "orders", status: 403,
			code: -7, says: `the name "x"`},
		{name: "who asks is known", method: http.MethodPost, target: "/v1/leases/orders", token: "orders", status: 200,
			asked: "grant orders "},
		{name: "another space's", target: "/v1/sequence/x/ids?key=k", token: "orders", status: 403, code: -7,
			says: `space "x"`},
		{name: "another space's", target: "/v1/sequence/x/current?key=k", token: "orders", status: 403, code: -7,
			says: `space "x"`},
	}
	for mode, requests := range map[string][]exchange{
		"queue":     {{target: alice}, {target: queueV1}, {method: http.MethodPost, target: alice}},
		"segment":   {{target: segmentURL, text: true}, {target: segmentV1}},
		"snowflake": {{target: snowflakeURL, text: true}, {target: snowflakeV1}},
		"uid":       {{target: uidURL, text: true}, {target: uidV1}},
		"sequence":  {{target: sequenceURL}, {target: currentURL}},
		"lease": {{method: http.MethodPost, target: "/v1/leases/orders"},
			{method: http.MethodPost, target: "/v1/leases/orders/7/renew?secret=s"},
			{method: http.MethodDelete, target: "/v1/leases/orders/7?secret=s"}},
	} {
		its, other := "orders", "times"
		if mode == "snowflake" || mode == "uid" {
			its, other = other, its
		}
		for _, x := range requests {
			add := func(name, token string, status, code int, says string) {
				y := x
				y.name, y.token, y.status, y.code, y.says, y.text = name, token, status, code, says, x.text && code == 0
				all = append(all, y)
			}
			add("its mode's", its, 200, 0, "")
			add("no token", "", 401, -7, "send the header Authorization")
			add("wrong token", "order", 401, -7, unknown)
			add("the configuration's", "root", 401, -7, unknown)
			add("another mode's", other, 403, -7, "IDs of the mode "+mode)
			add("for administration", "boss", 403, -7, "IDs of the mode "+mode)
			add("too fast", "spent", 429, -12, "the rate of token spent-token is used up")
		}
	}
	pages := []string{"/cache", "/db", "/metrics", "/api/status", "/api/history", "/api/replicas", "/api/names",
		"/api/sequences"}
	for _, page := range pages {
		all = append(all,
			exchange{name: "any token", target: page, token: "orders", status: 200},
			exchange{name: "the configuration's", target: page, token: "root", status: 200},
			exchange{name: "no token", target: page, status: 401, code: -7, says: "send the header Authorization"},
			exchange{name: "wrong token", target: page, token: "Root", status: 401, code: -7, says: unknown},
			exchange{name: "too fast", target: page, token: "spent", status: 429, code: -12, says: "used up"},
		)
	}
	all = append(all,
		exchange{name: "no token and no parameters", target: "/get", status: 401, code: -7},
		exchange{name: "another mode's and no parameters", target: "/get", token: "times", status: 403, code: -7},
		exchange{name: "token in the query", target: alice + "&token=sesame-orders&access_token=sesame-orders",
			status: 401, code: -7},
	)
	for _, page := range []string{"/livez", "/readyz", "/healthz", "/openapi.yaml", "/decode?id=16385",
		"/api/uid/parse/34359738368", "/decodeSnowflakeId?snowflakeId=4194304", "/", "/docs/operations.md"} {
		all = append(all, exchange{name: "open", target: page, status: 200})
	}
	for i := range all {
		all[i].name, all[i].change = "closed, "+all[i].name, closed
	}
	// Where no token is asked for, one that is sent is not looked at.
	open := func(o *Options) { o.Access = closedGuard() }
	for _, target := range append(pages, alice, segmentURL) {
		all = append(all, exchange{name: "open", target: target, token: "wrong", change: open, status: 200,
			text: strings.HasPrefix(target, "/api/") && strings.Contains(target, "/get")})
	}
	// What a page of another site makes a browser send issues and shows nothing; the probes answer everybody.
	const says = "a page of another site asks"
	foreign := []string{"Sec-Fetch-Site", "cross-site"}
	for _, target := range []string{alice, uidV1, tinyidURL, "/api/status", "/", appTarget, "/nope"} {
		all = append(all, exchange{name: "foreign", target: target, header: foreign, status: 403, code: -7,
			says: says})
	}
	for _, target := range []string{"/livez", "/readyz", "/healthz"} {
		all = append(all, exchange{name: "foreign", target: target, header: foreign, status: 200})
	}
	for _, x := range []exchange{ // the host is example.com
		{name: "of nowhere", header: []string{"Origin", "null"}, says: says},
		{name: "of another port", header: []string{"Origin", "http://example.com:3000"}, says: says},
		{name: "of the same site that hides its host", header: []string{"Sec-Fetch-Site", "same-site"}, says: says},
		{name: "of the same site", header: []string{"Origin", "http://www.example.com", "Sec-Fetch-Site", "same-site"},
			says: says},
		{name: "by a link", header: []string{"Referer", "http://www.example.com/page"}, says: says},
		{name: "by a link of our own", header: []string{"Referer", "http://example.com/"}, status: 200},
		{name: "of an old browser", header: []string{"Origin", "http://EXAMPLE.com"}, status: 200},
		{name: "behind a proxy", header: []string{"Origin", "https://ids.example", "Sec-Fetch-Site", "same-origin"},
			status: 200},
	} {
		if x.target = alice; x.status == 0 {
			x.status, x.code = 403, -7
		}
		all = append(all, x)
	}
	// On the loopback a page of another site may have made its own name lead here.
	local := func(o *Options) { o.OwnHosts = true }
	own, _ := os.Hostname()
	for _, host := range []string{"127.0.0.1:8080", "[::1]:8080", "10.0.0.5", "LocalHost:8080", "ids.localhost", own} {
		all = append(all, exchange{name: "own host", target: alice, header: []string{"Host", host}, change: local,
			status: 200})
	}
	for _, target := range []string{alice, "/api/status", "/readyz"} {
		x := exchange{name: "another's host", target: target, header: []string{"Host", "evil.example"}, change: local,
			status: 200}
		if target != "/readyz" {
			x.status, x.code, x.says = 403, -7, "ask for 127.0.0.1 or localhost"
		}
		all = append(all, x)
	}
	return append(all, adminAccess()...)
}

// adminAccess: below /admin/ everything takes a token for administration, and who has none cannot tell what is there.
func adminAccess() (all []exchange) {
	for _, c := range []struct {
		name, token  string
		guard        *access.Guard
		status, code int // of what is there and what is not; 404 for who may administrate
		says         string
	}{
		{"no guard", "x", nil, 403, -7, "set server.admin_token, or add a token that may admin to "},
		{"no token that may", "x", fakes.Guard("", "orders", "may: []"), 403, -7, "administration over HTTP is closed"},
		{"no token", "", closedGuard(), 401, -7, "no valid token"},
		{"wrong token", "Root", closedGuard(), 401, -7, "no valid token"},
		{"for IDs", "orders", closedGuard(), 403, -7, "use a token that may admin: not allowed: token orders-token " +
			"may not"},
		{"too fast", "spent", closedGuard(), 429, -12, "used up"},
		{"the configuration's", "root", closedGuard(), 404, -10, "no such path"},
		{"the file's", "boss", closedGuard(), 404, -10, "no such path"},
	} {
		x := exchange{name: c.name, token: c.token, status: c.status, code: c.code, says: c.says}
		x.change = func(o *Options) { o.Admin, o.Access = (&fakeAdmin{}).resources(), c.guard }
		for _, target := range []string{"GET /admin/nothing", "POST /admin/", "GET /admin/../admin/apps/7/8"} {
			x.method, x.target, _ = strings.Cut(target, " ")
			all = append(all, x)
		}
		x.target = appTarget
		const allowed = "GET, HEAD, DELETE, PATCH, OPTIONS"
		if c.status != 404 {
			for _, x.method = range []string{"GET", "DELETE", "PUT"} {
				all = append(all, x)
			}
		} else {
			x.method, x.status, x.code, x.says = "PUT", 405, -10, "use "+allowed+": nothing was issued, as "
			all = append(all, x)
		}
		x.method, x.status, x.code, x.says = "OPTIONS", 204, 0, allowed
		all = append(all, x)
	}
	return all
}

// With protected monitoring an error tells callers that a store is unreachable and not where it is; who sends a token
// reads it all in the health pages.
func TestProtectedMonitoringHidesStores(t *testing.T) {
	const address = "10.9.8.7:3306"
	refused := &model.StoreError{Store: "database", Op: "allocate",
		Err: errors.New("dial tcp " + address + ": refused")}
	empty := fakes.Broken(fmt.Errorf("%w: %w", model.ErrQueueEmpty, refused))
	change := func(o *Options) {
		o.Access, o.ProtectMonitoring = closedGuard(), true
		waits := fmt.Errorf("%w: waiting for %w", model.ErrNotReady, refused)
		watched(map[string]error{"redis": errAway, "queue": waits}, allModes...)(o)
		failModes(fmt.Errorf("%w: %w", model.ErrNoLease, refused))(o)
	}
	for _, target := range []string{alice, segmentURL, snowflakeURL, uidURL, "/readyz", "/healthz"} {
		for _, token := range []string{"", "root"} {
			t.Run(fmt.Sprintf("%s, token %q", target, token), func(t *testing.T) {
				t.Parallel()
				got := exchange{target: target, token: token, fail: empty, change: change}.do()
				body, hidden := got.Body.String(), token == "" || !strings.HasSuffix(target, "z")
				shown := strings.Contains(body, address) || strings.Contains(body, "10.0.0.2:2")
				if got.Code != 503 || shown == hidden || hidden != strings.Contains(body, reasonHidden) {
					t.Error(got.Code, body)
				}
			})
		}
	}
}
