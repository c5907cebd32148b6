package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/scripts/fakes"
)

const (
	alice        = "/get?appId=1&gatePass=alice"
	segmentURL   = "/api/segment/get/leaf-segment-test"
	snowflakeURL = "/api/snowflake/get/x"
	uidURL       = "/api/uid/get"

	queueV1     = "/v1/queue/1/ids?gatePass=alice"
	segmentV1   = "/v1/segment/leaf-segment-test/ids"
	snowflakeV1 = "/v1/snowflake/ids"
	uidV1       = "/v1/uid/ids"

	one          = `{"code":0,"id":16385,"idStr":"16385"}`
	oneV1        = `{"code":0,"ids":["16385"]}`
	oneSnowflake = "1169786042799259000"
	oneUID       = "3200169789968523265"

	axiosAccept   = "application/json, text/plain, */*"
	browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	formBody      = "application/x-www-form-urlencoded"
)

// idPaths are those of the modes, in their first form and in that of /v1.
func idPaths() []string {
	return []string{alice, segmentURL, snowflakeURL, uidURL, queueV1, segmentV1, snowflakeV1, uidV1}
}

// idExchanges are all answers of the routes of IDs, but for those that other paths have, too.
func idExchanges() []exchange {
	return slices.Concat(issued(), issuedAsTexts(), issuedByBody(), badParameters(), badBodies(), failing())
}

// issued are the answers with IDs. One ID of Leaf's and Baidu's paths is its digits and nothing else.
func issued() []exchange {
	const json, javaAccept = "application/json", "text/plain, application/json, */*"
	pass := func(raw string) string { return "/get?appId=1&gatePass=" + raw }
	all := []exchange{
		{name: "one", target: alice, body: one, pass: "alice"},
		{name: "a batch of one", target: alice + "&count=1", body: `{"code":0,"ids":[16385]}`},
		{name: "a batch", target: alice + "&count=3", body: `{"code":0,"ids":[16385,32769,49153]}`},
		{name: "as strings", target: alice + "&count=2&stringify=true", body: `{"code":0,"ids":["16385","32769"]}`},
		{name: "text", target: alice, accept: "text/plain", text: true, body: "16385\n"},
		{name: "format=text", target: alice + "&format=text", accept: json, text: true, body: "16385\n"},
		{name: "format=json", target: alice + "&format=json", accept: "text/plain", body: one},
		{name: "Spring, a String", target: alice, accept: javaAccept, body: one},
		{name: "browser", target: alice, accept: browserAccept, body: one},
		{name: "Java's own client", target: alice, accept: "text/html, *; q=.2, */*; q=.2", body: one},
		{name: "unknown parameters", target: alice + "&x=1&x=2&%zz=3&&=", body: one},
		{name: "shard 41", target: "/get?appId=255&gatePass=%E5%BC%A0%E4%B8%89",
			body: `{"code":0,"id":27135,"idStr":"27135"}`},
		{name: "the longest gatePass", target: pass(strings.Repeat("%00", 1024)), body: one},
		{name: "more than net/http counts", target: alice + "&count=200", says: `{"code":0,"ids":[16385,`},

		{name: "segment", target: segmentURL, text: true, body: "1"},
		{name: "batch of one", target: segmentURL + "?count=1", text: true, body: "1\n"},
		{name: "batch", target: segmentURL + "?count=3", text: true, body: "1\n2\n3\n"},
		{name: "axios", target: segmentURL, accept: axiosAccept, body: `1`},
		{name: "JSON batch", target: segmentURL + "?count=2", accept: json, body: `[1,2]`},
		{name: "JSON strings", target: segmentURL + "?count=2&stringify=true", accept: json, body: `["1","2"]`},
		{name: "text cannot be stringified", target: segmentURL + "?count=2&stringify=1", text: true, body: "1\n2\n"},
		{name: "unknown parameters", target: segmentURL + "?appId=999&gatePass=&appId=2&x", text: true, body: "1"},
		{name: "a slash in the tag", target: "/api/segment/get/a%2Fb", text: true, body: "1"},
		{name: "of a shard key", target: "/api/segment/get/sharded?count=2&shardKey=18", text: true, body: "18\n34\n"},
		{name: "snowflake", target: snowflakeURL, text: true, body: oneSnowflake},
		{name: "the key is not used", target: "/api/snowflake/get/" + strings.Repeat("%ff", 200), text: true,
			body: oneSnowflake},
		{name: "uid", target: uidURL, text: true, body: oneUID},
		{name: "parameters that the original ignores", target: uidURL + "?Count=100&cnt=5", text: true, body: oneUID},

		{name: "one", target: queueV1, body: oneV1, pass: "alice"},
		{name: "ranges", target: queueV1 + "&count=3&ranges=true",
			body: `{"code":0,"ranges":[{"first":"16385","count":3,"stride":"16384"}]}`},
		{name: "Accept is not looked at", target: queueV1, accept: "text/plain", body: oneV1},
		{name: "base62", target: queueV1 + "&count=2&format=base62", body: `{"code":0,"ids":["4GH","8WX"]}`},
		{name: "padded", target: queueV1 + "&padded=true", body: `{"code":0,"ids":["0000000000000016385"]}`},
		{name: "a slash in the tag", target: "/v1/segment/a%2Fids/ids", body: `{"code":0,"ids":["1"]}`},
		{name: "of a shard key", target: "/v1/segment/sharded/ids?count=2&shardKey=18446744073709551615",
			body: `{"code":0,"ids":["31","47"]}`},
		{name: "of a text", target: "/v1/segment/sharded/ids?shardKey=tenant-7", body: `{"code":0,"ids":["26"]}`},
		{name: "for keys that come later", target: "/v1/segment/sharded/ids?count=3&ranges=true&sharded=true",
			body: `{"code":0,"ranges":[{"first":"16","count":3,"stride":"16"}],"shardBits":4}`},
		{name: "the same in JSON", method: "POST", target: "/v1/segment/sharded/ids",
			send: `{"count":1,"ranges":true,"sharded":true}`,
			body: `{"code":0,"ranges":[{"first":"16","count":1,"stride":"16"}],"shardBits":4}`},
		{name: "of a shard", target: "/get?appId=1&shard=26", body: `{"code":0,"id":23041,"idStr":"23041"}`},
		{name: "of a shard", target: "/v1/queue/1/ids?shard=0", body: `{"code":0,"ids":["16385"]}`},
	}
	for raw, decoded := range map[string]string{ // once
		"a+b": "a b", "a%2Bb": "a+b", "a%2526": "a%26", "a=b": "a=b", "a;b": "a;b",
	} {
		all = append(all, exchange{name: "decoded", target: pass(raw), pass: decoded, lax: raw == "a;b"})
	}
	for i := range all {
		all[i].status = http.StatusOK
	}
	return all
}

// issuedAsTexts are the IDs of a tag with a pattern, which only /v1 answers.
func issuedAsTexts() []exchange {
	const numbers = "/v1/segment/numbers/ids"
	return []exchange{
		{name: "text", target: numbers, status: 200, body: `{"code":0,"ids":["no \"1\""]}`},
		{name: "texts", target: numbers + "?count=2", status: 200,
			body: `{"code":0,"ids":["no \"1\"","no \"2\""]}`},
		{name: "no ranges of texts", target: numbers + "?ranges=true", status: 400, code: -6,
			says: "has a pattern"},
		{name: "no texts for Leaf", target: "/api/segment/get/numbers", status: 400, code: -6, says: "has a pattern"},
	}
}

// issuedByBody are those whose parameters came in a body, which POST may have, and GET too.
func issuedByBody() []exchange {
	const ids = snowflakeV1
	three := `{"code":0,"ids":["1169786042799259000","1169786042799259001","1169786042799259002"]}`
	all := []exchange{
		{target: ids, lax: true, send: `{"count":"3"}`, kind: "Application/JSON; charset=utf-8", body: three},
		{target: ids + "?count=3", kind: "application/json", body: three},
		{target: ids, send: `{"count":2,"ranges":true}`, says: `"count":2`},
		{target: "/v1/queue/1/ids?count=2", lax: true, send: `{"gatePass":13800138000}`, says: `"ids":["`,
			pass: person},
		{target: "/get", send: `{"appId":1,"gatePass":"alice","count":2,"stringify":true}`,
			body: `{"code":0,"ids":["16385","32769"]}`},
		{target: "/get?appId=1", send: "gatePass=alice&count=1",
			kind: "Application/X-WWW-Form-URLencoded; charset=utf-8", body: `{"code":0,"ids":[16385]}`},
		{target: alice, kind: "text/plain", body: one},
		{target: segmentURL, send: `{"count":2}`, text: true, body: "1\n2\n"},
	}
	for i := range all {
		x := &all[i]
		x.name, x.method, x.status = fmt.Sprintf("with %.50s", x.send), http.MethodPost, http.StatusOK
	}
	return append(all, exchange{name: "GET with a body", target: ids, send: `{"count":3}`, lax: true, status: 200,
		body: three}, exchange{name: "in chunks", method: http.MethodPost, target: ids, send: `{"count":3}`,
		kind:   "chunked",
		status: 200, body: three})
}

// badParameters are all answered 400 with code -6.
func badParameters() (all []exchange) {
	add := func(says string, targets ...string) {
		for _, target := range targets {
			all = append(all, exchange{name: says, target: target, status: 400, code: -6, says: says})
		}
	}
	for _, path := range idPaths() {
		path += "&"
		if !strings.Contains(path, "?") {
			path = strings.TrimSuffix(path, "&") + "?"
		}
		for _, raw := range []string{"", "0", "10001", "%2B1", "4294967297"} {
			value, _ := url.QueryUnescape(raw)
			add(fmt.Sprintf("count must be a whole number in 1…10000, not %q", value), path+"count="+raw)
		}
		add("give count once", path+"count=1&count=2", path+"count=1&c%6funt=1", path+"count=2&count=")
		if strings.HasPrefix(path, "/v1/") {
			add("ranges must be true or false", path+"ranges=yes")
			add(`format must be dec, hex, base36, base62 or crockford, not "Base62"`, path+"format=Base62")
			add("padded must be true or false", path+"padded=yes")
			add("leave format and padded out", path+"ranges=true&format=dec", path+"ranges=true&padded=true")
			add(`use count, ranges, format, padded`, path+"Count=100")
			add("unknown parameter", path+"count=5&rangs=true", path+"%zz=1", path+"gatepass=a")
		} else {
			add("stringify must be true or false", path+"stringify=yes", path+"stringify")
		}
	}
	for _, raw := range []string{"", "256", "%2B1", "0x1", "99999999999999999999", "%ff"} {
		value, _ := url.QueryUnescape(raw)
		add(fmt.Sprintf("appId must be a whole number in 0…255, not %q", value), "/get?appId="+raw+"&gatePass=alice")
	}
	add("appId must be a whole number in 0…255", "/v1/queue/256/ids?gatePass=alice", "/v1/queue/x/ids?gatePass=alice")
	add(`appId must be a whole number in 0…255, not ""`, "/get", "/get?gatePass="+person)
	add(strings.Repeat("9", 63)+`中"`, "/get?appId="+strings.Repeat("9", 63)+"%E4%B8%AD%E4%B8%AD&gatePass=alice")
	add("format must be json or text", alice+"&format=xml")
	for _, path := range []string{"/get?appId=1&", "/v1/queue/1/ids?"} {
		add("as gatePass: it is missing or empty", path, path+"gatePass=")
		add("1025 bytes", path+"gatePass="+strings.Repeat("a", 1025))
		add("UTF-8", path+"gatePass=%ff", path+"gatePass=%e5%bc")
		add("percent-encode gatePass: ", path+"gatePass="+person+"%zz")
		add("give gatePass once", path+"gatePass=bob&gatePass="+person)
	}
	for _, path := range []string{"/get?appId=1&", "/v1/queue/1/ids?"} {
		add("send gatePass or shard, not both", path+"gatePass=a&shard=1")
		add("shard must be a whole number in 0…63", path+"shard=64", path+"shard=", path+"shard=-1", path+"shard=01x")
	}
	for _, path := range []string{"/api/segment/get/sharded?", "/v1/segment/sharded/ids?"} {
		add("send a shard key, such as shardKey=666", path)
		add("as shardKey, such as the ID of the user: it is empty", path+"shardKey=")
		add("without blanks", path+"shardKey=7+", path+"shardKey=%20a")
		add("without a sign", path+"shardKey=-7", path+"shardKey=007")
		add("at most 2^64-1", path+"shardKey=18446744073709551616")
		add("give shardKey once", path+"shardKey=7&shardKey=8")
	}
	add("leave the shard key out", segmentV1+"?shardKey=7", segmentURL+"?shardKey=7", segmentV1+"?ranges=1&sharded=1")
	add("send a shard key", "/v1/segment/sharded/ids?ranges=true")
	add("send sharded=true in place of shardKey", "/v1/segment/sharded/ids?ranges=true&shardKey=7")
	add("with ranges=true only", "/v1/segment/sharded/ids?sharded=true")
	all = append(all, exchange{name: "of a tag", status: 200, target: "/decode?id=1690&kind=segment&shardBits=10",
		body: `{"code":0,"id":1690,"idStr":"1690","kind":"segment","number":1,"shard":666}`})
	add("give 0 to 16 shard bits", "/decode?id=16385&shardBits=4")
	add("shardBits must be a whole number in 0…16", "/decode?id=16385&kind=segment&shardBits=17")
	for _, form := range []string{"/api/segment/get/%s", "/v1/segment/%s/ids"} {
		add("give a tag: it is empty", fmt.Sprintf(form, ""))
		add("shorten the tag: it has 129 bytes", fmt.Sprintf(form, strings.Repeat("a", 129)))
		add("encode the tag in UTF-8", fmt.Sprintf(form, "%ff"))
	}

	add("write an ID: it is empty", "/decode", "/decode?id=", "/api/uid/parse/", "/decodeSnowflakeId")
	add(`name the format, dec, hex, base36, base62 or crockford, of an ID that is not decimal: "abc" is none`,
		"/decode?id=abc")
	add(`write an ID in the format dec, with the digits 0123456789, not "abc"`, "/decode?id=abc&format=dec")
	add("write an ID below 2^63: ", "/decode?id=18446744073709551616")
	add(`not "base64"`, "/decode?id=4GH&format=base64")
	add(`"+16385" is none`, "/decode?id=%2B16385")
	add("16383 is none", "/decode?id=16383")
	add("kind must be queue, segment, snowflake or uid", "/decode?id=16385&kind=", "/decode?id=16385&kind=%22%7D")
	add(`0123456789, not "+5"`, "/api/uid/parse/+5", "/decodeSnowflakeId?snowflakeId=%2B5")
	add(`digits 0123456789, not "/"`, "/api/uid/parse/%2F")
	add("below 2^63", "/decode?id=8000000000000000&format=hex", "/decode?id=9223372036854775808",
		"/api/uid/parse/9223372036854775808")
	add("give a positive ID, not 0", "/decode?id=0&kind=snowflake", "/decode?id=0&kind=uid", "/api/uid/parse/0",
		"/decodeSnowflakeId?snowflakeId=0")
	return all
}

// badBodies are refused: they may say how many IDs are wanted.
func badBodies() (all []exchange) {
	add := func(target, says string, status int, kind string, bodies ...string) {
		for _, body := range bodies {
			all = append(all, exchange{name: fmt.Sprintf("%s with %.50q", kind, body), method: http.MethodPost,
				target: target, send: body, kind: kind, status: status, code: -6, says: says})
		}
	}
	const ids, json = snowflakeV1, "application/json"
	add(ids, "count must be a whole number in 1…10000", 400, json, `{"count":0}`)
	add(ids, "count must be a string or a whole number, or for a flag true or false, not ", 400, json,
		`{"count":1e2}`, `{"count":null}`, `{"count":true}`, `{"count":[3]}`)
	add("/v1/queue/1/ids", "gatePass must be a string or a whole number", 400, json, `{"gatePass":true}`)
	add(ids, `unknown field "Count"`, 400, json, `{"Count":3}`)
	add(ids, "send one JSON object with some of count, ranges, format, padded", 400, json, `[3]`, `null`,
		`{"count":3`, `{"count":3 "ranges":1}`, "{\"count\":\"\xff\"}", `{"count":3}{"count":4}`, `{}x`, `{}}`)
	add(ids, "give count once", 400, json, `{"count":1,"count":3}`, `{"count":1,"c\u006funt":1}`)
	add(ids, "send at most 16384 bytes: the body has more", 400, json, strings.Repeat(" ", maxBody+1))
	add(ids+"?count=4", "give count once", 400, json, `{"count":3}`)
	add(ids+"?count=3", "give count once", 400, formBody, `count=3`)
	add(ids, `unknown parameter "Count"`, 400, formBody, `Count=100`)
	add(ids, "send the header Content-Type: application/json", 400, formBody, `{"count":3}`)
	add(uidURL, `use count, stringify`, 400, json, `{"cnt":3}`)
	add("/v1/queue/1/ids", "unknown field", 400, json, `{"gatePass":"`+person+`","appId":2}`)
	add(alice, "give appId once", 400, formBody, "appId=2")
	add("/get", "send at most 16384 bytes: the body has more", 400, formBody, strings.Repeat("a", maxBody+1))
	const unreadable = "send application/json or application/x-www-form-urlencoded, or the parameters in the URL: this "
	add(ids, unreadable, 415, "text/plain;charset=UTF-8", `{"count":3}`) // fetch with a string
	add(ids, unreadable, 415, "none", `{"count":3}`)
	add(alice, unreadable, 415, "multipart/form-data; boundary=x",
		"--x\r\nContent-Disposition: form-data; name=\"count\"\r\n\r\n100\r\n--x--\r\n")
	return append(all, exchange{name: "zipped", method: http.MethodPost, target: alice, send: `{}`, status: 415,
		code: -6, header: []string{"Content-Encoding", "gzip"},
		says: "send the body without Content-Encoding: this body cannot be read"})
}

// failing are the errors of the modes. Where an error wraps several, what the service lacks comes before what the
// caller did.
func failing() (all []exchange) {
	const internal = "try again: internal error, which has been logged"
	for _, c := range []struct {
		name         string
		err          error
		status, code int
		says         string
	}{
		{"starting", wrap(model.ErrNotReady), 503, -1, "next: not initialised yet"},
		{"starting, as it has no lease", fmt.Errorf("%w: %w", model.ErrNotReady, model.ErrNoLease), 503, -1,
			"no worker ID"},
		{"no app", wrap(model.ErrUnknownApp), 404, -2, "next: app is not provisioned"},
		{"no shard", wrap(model.ErrUnknownShard), 404, -3, "next: shard is not provisioned"},
		{"empty, until an operator's word", fmt.Errorf("%w: %w", model.ErrQueueEmpty, model.ErrUnconfirmed), 503, -4,
			awaits},
		{"no segment, as the row is bad", fmt.Errorf("%w: %w", model.ErrSegmentEmpty, model.ErrInvalidArgument), 503,
			-4, "no segment"},
		{"no segment, as the store is unreachable", fmt.Errorf("%w: %w", model.ErrSegmentEmpty, storeAway()), 503, -4,
			"refused"},
		{"limit", wrap(model.ErrLimitReached), 409, -5, "next: app reached its limit"},
		{"no lease, as the tag is unknown", fmt.Errorf("%w: %w", model.ErrUnknownTag, model.ErrNoLease), 503, -8,
			"no worker ID"},
		{"unknown error", errFault, 500, -11, internal},
		{"a store's timeout", wrap(context.DeadlineExceeded), 503, -1, "a store has not answered in time"},
		{"a store's failure", wrap(storeAway()), 503, -1, "database: read leaf_alloc: connection refused"},
	} {
		all = append(all,
			exchange{name: c.name, target: alice, fail: fakes.Broken(c.err), status: c.status, code: c.code,
				says: c.says})
	}
	for _, target := range idPaths() {
		x := exchange{name: "fails", target: target, fail: fakes.Broken(wrap(model.ErrNotReady)),
			change: failModes(wrap(model.ErrNotReady)), status: 503, code: -1}
		post := x
		post.method = http.MethodPost
		all = append(all, x, post)
	}
	return append(all,
		exchange{name: "text was wanted", target: alice, accept: "text/plain",
			fail: fakes.Broken(wrap(model.ErrUnknownApp)), status: 404, code: -2, says: "not provisioned"},
		exchange{name: "panic", target: alice, fail: panicking(errFault), status: 500, code: -11, says: internal})
}

// decodeExchanges take IDs apart, with the modes disabled too.
func decodeExchanges() (all []exchange) {
	const first = `{"code":0,"id":16385,"idStr":"16385","kind":"queue","index":1,"shardId":0,"appId":1}`
	for _, x := range [][2]string{
		{"/decode?id=16385", first},
		{"/decode?id=4GH&format=base62", first},
		{"/decode?kind=snowflake&id=1169786042799259000",
			`{"code":0,"id":1169786042799259000,"idStr":"1169786042799259000",` +
				`"kind":"snowflake","timestamp":1567733700834,"time":"2019-09-06T01:35:00.834Z",` +
				`"workerId":39,"sequenceId":3448}`},
		{"/decode?kind=uid&id=3200169789968523265",
			`{"code":0,"id":3200169789968523265,"idStr":"3200169789968523265",` +
				`"kind":"uid","timestamp":1556810799,"time":"2019-05-02T15:26:39Z","workerId":21,"sequence":1}`},
		{"/api/uid/parse/3200169789968523265",
			`{"UID":"3200169789968523265","timestamp":"2019-05-02 23:26:39","workerId":"21","sequence":"1"}`},
		{"/decodeSnowflakeId?snowflakeId=1169786042799259000",
			`{"timestamp":"1567733700834(2019-09-06 09:35:00.834)","workerId":"39","sequenceId":"3448"}`},
		{"/decodeSnowflakeId?snowflakeId=1&x=2",
			`{"timestamp":"1288834974657(2010-11-04 09:42:54.657)","workerId":"0","sequenceId":"1"}`},
	} {
		all = append(all, exchange{name: "one mode", target: x[0], change: disableModes, status: 200, body: x[1]})
	}
	return all
}

// nowhereExchanges reach no mode: it is disabled, there is no such path or method, or the path is too long.
func nowhereExchanges() (all []exchange) {
	for mode, targets := range map[string][]string{
		"segment": {segmentURL, segmentV1, "/api/segment/get/?count=0", "/cache", "/db"},
		"uid":     {uidURL, uidV1}, "snowflake": {snowflakeURL, snowflakeV1},
	} {
		for _, target := range targets {
			all = append(all, exchange{name: "off", target: target, accept: "text/plain", change: disableModes,
				status: 404, code: -9, says: "set " + mode + ".enabled to true, and restart: mode is disabled"})
		}
	}
	for _, target := range []string{"/nope", "/GET?appId=1&gatePass=" + person, "/get/?appId=1&gatePass=" + person,
		segmentURL + "/2", segmentURL + "/", "/cache/", "/api/segment/get/a%2Fb/c", "/api/segment/get%2Fa/b",
		uidURL + "/x?count=2", "/api/uid/parse/1/2", "/v1/segment/orders", "/v1/segment/a/b/ids"} {
		all = append(all, exchange{name: "no path", target: target, status: 404, code: -10, says: "no such path"})
	}
	all = append(all,
		exchange{name: "no path", method: http.MethodPost, target: "/nope", status: 404, code: -10,
			says: `take a path of /openapi.yaml: no such path: "/nope"`})
	methods := map[string][]string{
		"GET, HEAD, OPTIONS": append(strings.Fields("/decodeSnowflakeId /cache /db /decode?id=16385 /api/uid/parse/1 "+
			"/api/status /api/replicas /api/history /api/names /api/sequences / /console/main.js "+
			"/docs/operations.md /openapi.yaml /metrics /livez /readyz /readyz/uid /healthz"), currentURL),
		"GET, POST, OPTIONS": append(idPaths(), "/get", "/api/segment/get/", sequenceURL, tinyidURL,
			tinyidSimpleURL, tinyidRunURL, tinyidClientURL),
		"POST, OPTIONS":   {"/v1/leases/orders", "/v1/leases/orders/7/renew"},
		"DELETE, OPTIONS": {"/v1/leases/orders/7"},
	}
	for allow, targets := range methods {
		for _, target := range targets {
			path, _, _ := strings.Cut(target, "?")
			all = append(all,
				exchange{name: "OPTIONS", method: http.MethodOptions, target: target, status: 204, says: allow})
			for _, method := range []string{http.MethodPut, "get", http.MethodPost, http.MethodHead} {
				if !strings.Contains(allow, method) {
					all = append(all, exchange{name: "no such method", method: method, target: target, status: 405,
						code: -10, says: "use " + allow + ": nothing was issued, as " + path})
				}
			}
		}
	}
	for _, target := range []string{alice, uidV1 + "?x=", tinyidURL, "/decode?id=", "/"} {
		all = append(all, exchange{name: "too long", target: target + strings.Repeat("1", maxURL), status: 414,
			code: -6,
			says: fmt.Sprintf("has %d bytes, at most %d are allowed", len(target)+maxURL, maxURL)})
	}
	return all
}

// profileExchanges ask for profiles as who may and as who may not.
func profileExchanges() []exchange {
	const heap = "/admin/pprof/heap"
	all := []exchange{
		{name: "a profile", target: heap, token: adminSecret, status: 200},
		{name: "a profile of no such name", target: "/admin/pprof/x", token: adminSecret, status: 404, code: -10},
		{name: "a profile that takes too long", target: "/admin/pprof/profile?seconds=11", token: adminSecret,
			status: 400, code: -6, says: "seconds must be a whole number in 1…10"},
		{name: "a profile without a token", target: heap, status: 401, code: -7},
		{name: "a profile for a token of IDs", target: heap, token: "orders", status: 403, code: -7},
		{name: "a profile, too fast", target: heap, token: "spent", status: 429, code: -12},
	}
	for i := range all {
		all[i].admin = &fakeAdmin{}
	}
	return all
}

const (
	sequenceURL = "/v1/sequence/chat/ids?key=room42"
	currentURL  = "/v1/sequence/chat/current?key=room42"
)

// sequenceExchanges are all answers below /v1/sequence/, but for those of tokens.
func sequenceExchanges() []exchange {
	const post, ids = http.MethodPost, "/v1/sequence/chat/ids"
	all := []exchange{
		{target: sequenceURL, status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "batch", target: sequenceURL + "&count=3", status: 200, body: `{"code":0,"ids":["1","2","3"]}`},
		{name: "ranges", target: sequenceURL + "&count=10000&ranges=true", status: 200,
			body: `{"code":0,"ranges":[{"first":"1","count":10000,"stride":"1"}]}`},
		{name: "JSON", method: post, target: ids, send: `{"key":"room42","count":2,"ranges":false}`, status: 200,
			body: `{"code":0,"ids":["1","2"]}`},
		{target: currentURL, status: 200, body: `{"code":0,"current":"0"}`},
		{name: "any bytes", target: ids + "?key=%00a%2Bb%26%FF", status: 200, body: `{"code":0,"ids":["1"]}`,
			lax: true, asked: "\x00a+b&\xff"},
		{name: "the longest key", target: ids + "?key=" + strings.Repeat("k", 256), status: 200,
			body: `{"code":0,"ids":["1"]}`},
		{name: "a region", target: sequenceURL + "&count=2&ranges=true", status: 200,
			body:   `{"code":0,"ranges":[{"first":"5","count":2,"stride":"4"}]}`,
			change: func(o *Options) { o.Region = model.Region{ID: 1, Bits: 2} }},
		{target: sequenceURL + "&format=base62", status: 400, code: -6, says: `unknown parameter "format"`},
		{target: currentURL + "&count=1", status: 400, code: -6, says: `unknown parameter "count"`},
		{target: "/v1/sequence/a%2Fb/ids?key=room42", status: 404, code: -10, says: "no such path"},
		{name: "limit", target: sequenceURL, change: failSequence(model.ErrLimitReached), status: 409, code: -5},
	}
	for _, target := range []string{sequenceURL, currentURL} {
		path, _, _ := strings.Cut(target, "?")
		add := func(target string, status, code int, says string, change func(*Options)) {
			all = append(all,
				exchange{name: says, target: target, change: change, status: status, code: code, says: says})
		}
		add(path, 400, -6, "key must have 1…256 bytes, not 0", nil)
		add(path+"?key="+strings.Repeat("k", 257), 400, -6, "key must have 1…256 bytes, not 257", nil)
		add(target+"&%6bey=x", 400, -6, "give key once", nil)
		add(path+"?key=%zz", 400, -6, "percent-encode key: ", nil)
		add(strings.Replace(target, "chat", "x", 1), 404, -2, `space is not provisioned: "x"`, nil)
		add(strings.Replace(target, "chat", "%00", 1), 400, -6, "`space` must have 1…64 letters", nil)
		add(target, 503, -4, "", failSequence(model.ErrNoNumber))
		add(target, 500, -11, "", failSequence(errFault))
		add(target, 404, -9, "set sequence.enabled to true", func(o *Options) { o.Sequence = nil })
		add(target, 404, -9, "mode is disabled: sequences need Redis", func(o *Options) {
			o.Sequence, o.NoSequence = nil, fmt.Errorf("%w: sequences need Redis", model.ErrModeDisabled)
		})
	}
	return all
}

// failSequence makes sequences answer with err.
func failSequence(err error) func(*Options) {
	return func(o *Options) { o.Sequence = &fakes.Sequence{Mode: &fakes.Mode{Fail: fakes.Broken(wrap(err))}} }
}

const (
	tinyidURL       = "/tinyid/id/nextId?bizType=orders"
	tinyidSimpleURL = "/tinyid/id/nextIdSimple?bizType=orders"
	tinyidRunURL    = "/tinyid/id/nextSegmentId?bizType=orders"
	tinyidClientURL = "/tinyid/id/nextSegmentIdSimple?token=orders&bizType=orders" // as the Java client has it
)

// tinyidExchanges are all answers below /tinyid/: their code is that of our own table, where an error has status 200.
func tinyidExchanges() []exchange {
	const tag, get, post, good = "bizType=orders", http.MethodGet, http.MethodPost, "&token=sesame-orders"
	const oneID = `{"data":[1],"code":200,"message":""}`
	tenThousand := make([]string, model.MaxBatch)
	for i := range tenThousand {
		tenThousand[i] = strconv.Itoa(i + 1)
	}
	all := []exchange{
		{target: tinyidURL, body: oneID},
		{name: "batch", target: tinyidURL + "&batchSize=3", body: `{"data":[1,2,3],"code":200,"message":""}`},
		{target: tinyidSimpleURL, text: true, body: "1"},
		{name: "batch", target: tinyidSimpleURL + "&batchSize=3", text: true, body: "1,2,3"},
		{name: "more than the most", target: tinyidSimpleURL + "&batchSize=100001", text: true,
			body: strings.Join(tenThousand, ",")},
		{target: tinyidRunURL,
			body: `{"data":{"maxId":100,"loadingId":20,"currentId":0,"delta":1,"remainder":0},` +
				`"code":200,"message":""}`},
		{target: tinyidClientURL, text: true, body: "0,20,100,1,0"},
		{name: "JSON", method: post, target: "/tinyid/id/nextIdSimple", send: `{"bizType":"orders","batchSize":2}`,
			text: true, body: "1,2"},
		{name: "form", method: post, target: "/tinyid/id/nextIdSimple", send: tag + "&batchSize=2", kind: formBody,
			text: true, body: "1,2"},
		{name: "its tag", target: "/tinyid/id/nextId?bizType=leaf-x" + good, change: closed, body: oneID},
	}
	add := func(path, method, query string, change func(*Options), code int, says string) {
		all = append(all, exchange{name: says, method: method, target: "/tinyid/id/" + path + "?" + query,
			change: change, code: code, says: says, text: strings.HasSuffix(path, "Simple")})
	}
	paths := []string{"nextId", "nextSegmentId", "nextIdSimple", "nextSegmentIdSimple"}
	for _, c := range []struct {
		query  string
		change func(*Options)
		code   int
		says   string
	}{
		{"", nil, -6, "send a tag as bizType"},
		{"bizType=" + strings.Repeat("a", 129), nil, -6, "shorten the tag: it has 129 bytes"},
		{tag + "&bizType=x", nil, -6, "give bizType once"},
		{tag, failModes(wrap(model.ErrUnknownTag)), -2, "next: tag is not provisioned"},
		{tag, failModes(fmt.Errorf("%w: %w", model.ErrSegmentEmpty, storeAway())), -4, "no segment is left"},
		{tag, failModes(errFault), -11, internalError},
		{tag, disableModes, -9, "set segment.enabled to true"},
		{"bizType=leaf" + good + good, closed, -6, "give token once"},
		{tag + "&token=sesame-spent", closed, -12, "the rate of token spent-token is used up"},
		{"token=sesame-orders", closed, -6, "send a tag as bizType"},
		{tag, closed, -7, ""},
		{tag + "&token=sesame-order", closed, -7, ""},
		{tag + "&token=sesame-root", closed, -7, ""},  // of the configuration
		{tag + good, closed, -7, ""},                  // it is for leaf*
		{tag + "&token=sesame-times", closed, -7, ""}, // it is for another mode
	} {
		for _, path := range paths {
			add(path, get, c.query, c.change, c.code, c.says)
		}
	}
	for text, says := range map[string]string{"0": `not "0"`, "2147483648": "in 1…2147483647"} {
		add("nextId", get, tag+"&batchSize="+text, nil, -6, says)
		add("nextIdSimple", post, tag+"&batchSize="+text, nil, -6, says)
	}
	for i := range all {
		all[i].status = http.StatusOK
	}
	panics := func(o *Options) {
		o.Segment = fakes.Segment{Mode: &fakes.Mode{Fail: panicking(errFault)}}
	}
	for _, path := range paths {
		all = append(all, exchange{name: "panic", target: "/tinyid/id/" + path + "?" + tag, status: 500, code: -11,
			says: "internal error", change: panics})
	}
	return all
}
