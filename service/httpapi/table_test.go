package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardid/model"
)

// exchange is a request and what must be answered. The tests of the handlers and
// the one of openapi.yaml go through the same table.
type exchange struct {
	name   string
	method string // GET when empty
	target string
	accept string
	token  string         // sent as a bearer token, unless empty
	send   string         // the body, JSON
	header []string       // further headers: names and values
	queue  *fakeQueue     // one that works when nil
	change func(*Options) // of an API whose modes work; may be nil

	status int
	body   string // the whole body of a 200
	text   bool   // that is text/plain
	code   int    // of an error
	says   string // part of an error's message
}

const alice = "/get?appId=1&gatePass=alice"

const (
	segmentURL   = "/api/segment/get/leaf-segment-test"
	snowflakeURL = "/api/snowflake/get/x"
	uidURL       = "/api/uid/get"
)

// exchanges are all answers of the ID routes, of what takes IDs apart, and of what
// is no path.
func exchanges() []exchange {
	all := slices.Concat(issued(), issuedByModes(), issuedByV1(), decoded(), badParameters(), refused(), refusedByModes(), bodies())
	return slices.Concat(all, byV1(all), byPOST(slices.Concat(all, byV1(all))))
}

// bodies are requests for IDs with a body that is read, and with one that is not.
func bodies() (all []exchange) {
	for target, body := range map[string]string{
		"/get": `{"code":0,"ids":[16385]}`, segmentURL: "1\n", snowflakeURL: "1169786042799259000\n", uidURL: "3200169789968523265\n",
		"/v1/queue/1/ids": `{"code":0,"ids":["16385"]}`, "/v1/segment/orders/ids": `{"code":0,"ids":["1"]}`,
		"/v1/snowflake/ids": `{"code":0,"ids":["1169786042799259000"]}`, "/v1/uid/ids": `{"code":0,"ids":["3200169789968523265"]}`,
	} {
		send := map[string]string{"/get": `{"appId":1,"gatePass":"alice","count":1}`, "/v1/queue/1/ids": `{"gatePass":"alice","count":1}`}[target]
		all = append(all,
			exchange{name: "JSON: " + target, method: http.MethodPost, target: target, send: cmp.Or(send, `{"count":1}`), status: 200, body: body, text: !strings.HasPrefix(body, "{")},
			exchange{name: "zipped: " + target, method: http.MethodPost, target: target, send: `{}`, header: []string{"Content-Encoding", "gzip"}, status: 415, code: -6, says: "this body cannot be read: send it without Content-Encoding"})
	}
	return all
}

// byPOST are the requests for IDs, sent as POST.
func byPOST(all []exchange) (twins []exchange) {
	for _, x := range all {
		if _, ids := v1Target(x.target); x.method == "" && x.code != -10 && (ids || strings.HasPrefix(x.target, "/v1/")) {
			x.name, x.method = "POST: "+x.name, http.MethodPost
			twins = append(twins, x)
		}
	}
	return twins
}

// byV1 are the requests for IDs that are refused, and those whose answer is not looked at,
// by the paths of /v1.
func byV1(all []exchange) (twins []exchange) {
	for _, x := range all {
		target, ids := v1Target(x.target)
		other := x.code == -10 || strings.Contains(x.says, "stringify") || strings.Contains(x.says, "key is missing") || strings.Contains(x.says, "format") || x.method != ""
		if ids && !other && x.body == "" {
			x.name, x.target, x.says = "v1: "+x.name, target, strings.TrimPrefix(x.says, "the request target has 4123 bytes, ")
			twins = append(twins, x)
		}
	}
	return twins
}

// v1Target is where /v1 has the IDs of a path of Leaf or UidGenerator, or of /get with a
// plain appId; false for any other path.
func v1Target(target string) (string, bool) {
	path, query, _ := strings.Cut(target, "?")
	tag, segment := strings.CutPrefix(path, "/api/segment/get/")
	app, rest, _ := strings.Cut(strings.TrimPrefix(query, "appId="), "&")
	_, err := strconv.ParseUint(app, 10, 8)
	switch {
	case path == "/get" && err == nil && !strings.Contains(rest, "app"):
		return "/v1/queue/" + app + "/ids?" + rest, true
	case segment && !strings.Contains(tag, "/"):
		return "/v1/segment/" + tag + "/ids?" + query, true
	case path == snowflakeURL:
		return "/v1/snowflake/ids?" + query, true
	case path == uidURL:
		return "/v1/uid/ids?" + query, true
	}
	return "", false
}

// issuedByV1 are the answers of /v1: one shape, whatever the count.
func issuedByV1() []exchange {
	const queue, segment = "/v1/queue/1/ids?gatePass=alice", "/v1/segment/leaf-segment-test/ids"
	return []exchange{
		{name: "v1 queue", target: queue, status: 200, body: `{"code":0,"ids":["16385"]}`},
		{name: "v1 queue, batch", target: queue + "&count=3", status: 200, body: `{"code":0,"ids":["16385","32769","49153"]}`},
		{name: "v1 queue, ranges", target: queue + "&count=3&ranges=true", status: 200, body: `{"code":0,"ranges":[{"first":"16385","count":3,"stride":"16384"}]}`},
		{name: "v1 queue, Accept is not looked at", target: queue, accept: "text/plain", status: 200, body: `{"code":0,"ids":["16385"]}`},
		{name: "v1 segment", target: segment, accept: "application/json", status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "v1 segment, ranges", target: segment + "?count=2&ranges=1", status: 200, body: `{"code":0,"ranges":[{"first":"1","count":2,"stride":"1"}]}`},
		{name: "v1 segment, a slash in the tag", target: "/v1/segment/a%2Fids/ids", status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "v1 snowflake", target: "/v1/snowflake/ids?ranges=false", status: 200, body: `{"code":0,"ids":["1169786042799259000"]}`},
		{name: "v1 uid", target: "/v1/uid/ids?count=2", status: 200, body: `{"code":0,"ids":["3200169789968523265","3200169789968523266"]}`},
		{name: "v1 queue, base62", target: queue + "&count=2&format=base62", status: 200, body: `{"code":0,"ids":["4GH","8WX"]}`},
		{name: "v1 queue, dec", target: queue + "&format=dec&padded=false", status: 200, body: `{"code":0,"ids":["16385"]}`},
		{name: "v1 queue, padded", target: queue + "&padded=true", status: 200, body: `{"code":0,"ids":["0000000000000016385"]}`},
		{name: "v1 segment, hex", target: segment + "?count=11&format=hex", status: 200, body: `{"code":0,"ids":["1","2","3","4","5","6","7","8","9","a","b"]}`},
		{name: "v1 snowflake, crockford", target: "/v1/snowflake/ids?format=crockford&padded=1", status: 200, body: `{"code":0,"ids":["10EZA6N444ZBR"]}`},
		{name: "v1 uid, base36", target: "/v1/uid/ids?format=base36", status: 200, body: `{"code":0,"ids":["oba5ii0zthc1"]}`},
		{name: "v1 format", target: segment + "?format=Base62", status: 400, code: -6, says: `format must be dec, hex, base36, base62 or crockford, not "Base62"`},
		{name: "v1 format, empty", target: segment + "?format=", status: 400, code: -6, says: `not ""`},
		{name: "v1 format, twice", target: segment + "?format=hex&format=dec", status: 400, code: -6, says: "format is given twice"},
		{name: "v1 padded", target: segment + "?padded=yes", status: 400, code: -6, says: "padded must be true or false"},
		{name: "v1 format of ranges", target: segment + "?ranges=true&format=dec", status: 400, code: -6, says: "leave format and padded out"},
		{name: "v1 padded ranges", target: segment + "?ranges=true&padded=true", status: 400, code: -6, says: "leave format and padded out"},
		{name: "v1 ranges", target: "/v1/uid/ids?ranges=yes", status: 400, code: -6, says: "ranges must be true or false"},
		{name: "v1 app", target: "/v1/queue/256/ids?gatePass=alice", status: 400, code: -6, says: "appId must be a whole number in 0…255"},
		{name: "v1 segment, no end", target: "/v1/segment/orders", status: 404, code: -10, says: "no such path"},
		{name: "v1 segment, further segment", target: "/v1/segment/a/b/ids", status: 404, code: -10, says: "no such path"},
		{name: "v1 queue, PUT", method: http.MethodPut, target: queue, status: 405, code: -10, says: "takes GET and POST only"},
		{name: "v1 segment, PUT", method: http.MethodPut, target: segment, status: 405, code: -10, says: "takes GET and POST only"},
		{name: "v1 snowflake, PUT", method: http.MethodPut, target: "/v1/snowflake/ids", status: 405, code: -10, says: "takes GET and POST only"},
		{name: "v1 uid, PUT", method: http.MethodPut, target: "/v1/uid/ids", status: 405, code: -10, says: "takes GET and POST only"},
	}
}

func issued() []exchange {
	return []exchange{
		{name: "one", target: alice, status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "a batch of one", target: alice + "&count=1", status: 200, body: `{"code":0,"ids":[16385]}`},
		{name: "a batch", target: alice + "&count=3", status: 200, body: `{"code":0,"ids":[16385,32769,49153]}`},
		{name: "as strings", target: alice + "&count=2&stringify=true", status: 200, body: `{"code":0,"ids":["16385","32769"]}`},
		{name: "as strings, 1", target: alice + "&count=2&stringify=1", status: 200, body: `{"code":0,"ids":["16385","32769"]}`},
		{name: "not as strings", target: alice + "&count=2&stringify=false", status: 200, body: `{"code":0,"ids":[16385,32769]}`},
		{name: "stringify without count", target: alice + "&stringify=true", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "text", target: alice, accept: "text/plain", status: 200, text: true, body: "16385\n"},
		{name: "text, batch", target: alice + "&count=3", accept: "text/plain", status: 200, text: true, body: "16385\n32769\n49153\n"},
		{name: "format=text", target: alice + "&format=text", accept: "application/json", status: 200, text: true, body: "16385\n"},
		{name: "format=json", target: alice + "&format=json", accept: "text/plain", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "Spring, a String", target: alice, accept: "text/plain, application/json, */*", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "unknown parameters", target: alice + "&x=1&x=2&%zz=3&&=", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "encoded names", target: "/get?app%49d=1&gate%50ass=alice", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "shard 41", target: "/get?appId=255&gatePass=%E5%BC%A0%E4%B8%89", status: 200, body: `{"code":0,"id":27135,"idStr":"27135"}`},
		{name: "longest gatePass", target: "/get?appId=1&gatePass=" + strings.Repeat("%00", 1024), status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
	}
}

// issuedByModes are those of Leaf's and Baidu's paths: one ID is its digits and
// nothing else.
func issuedByModes() []exchange {
	const json, axios, browser = "application/json", "application/json, text/plain, */*", browserAccept
	return []exchange{
		{name: "segment", target: segmentURL, status: 200, text: true, body: "1"},
		{name: "segment, batch of one", target: segmentURL + "?count=1", status: 200, text: true, body: "1\n"},
		{name: "segment, batch", target: segmentURL + "?count=3", status: 200, text: true, body: "1\n2\n3\n"},
		{name: "segment, text", target: segmentURL, accept: "text/plain", status: 200, text: true, body: "1"},
		{name: "segment, browser", target: segmentURL, accept: browser, status: 200, text: true, body: "1"},
		{name: "segment, Java", target: segmentURL, accept: "text/plain, application/json, */*", status: 200, text: true, body: "1"},
		{name: "segment, JSON", target: segmentURL, accept: json, status: 200, body: `1`},
		{name: "segment, axios", target: segmentURL, accept: axios, status: 200, body: `1`},
		{name: "segment, JSON batch", target: segmentURL + "?count=2", accept: json, status: 200, body: `[1,2]`},
		{name: "segment, JSON strings", target: segmentURL + "?count=2&stringify=true", accept: json, status: 200, body: `["1","2"]`},
		{name: "segment, text cannot be stringified", target: segmentURL + "?count=2&stringify=1", status: 200, text: true, body: "1\n2\n"},
		{name: "segment, unknown parameters", target: segmentURL + "?appId=999&gatePass=&appId=2&x", status: 200, text: true, body: "1"},
		{name: "segment, longest tag", target: "/api/segment/get/" + strings.Repeat("%00", 128), status: 200, text: true, body: "1"},
		{name: "snowflake", target: snowflakeURL, status: 200, text: true, body: "1169786042799259000"},
		{name: "snowflake, batch", target: snowflakeURL + "?count=2", status: 200, text: true, body: "1169786042799259000\n1169786042799259001\n"},
		{name: "snowflake, JSON", target: snowflakeURL, accept: json, status: 200, body: `1169786042799259000`},
		{name: "snowflake, the key is not used", target: "/api/snowflake/get/" + strings.Repeat("%ff", 200), status: 200, text: true, body: "1169786042799259000"},
		{name: "uid", target: uidURL, status: 200, text: true, body: "3200169789968523265"},
		{name: "uid, batch", target: uidURL + "?c%6funt=2", status: 200, text: true, body: "3200169789968523265\n3200169789968523266\n"},
		{name: "uid, JSON strings", target: uidURL + "?count=1&stringify=1", accept: json, status: 200, body: `["3200169789968523265"]`},
	}
}

func decoded() []exchange {
	return []exchange{
		{
			name: "decode", target: "/decode?id=16385", status: 200,
			body: `{"code":0,"id":16385,"idStr":"16385","kind":"queue","index":1,"shardId":0,"appId":1}`,
		},
		{
			name: "decode base62", target: "/decode?id=4GH&format=base62", status: 200,
			body: `{"code":0,"id":16385,"idStr":"16385","kind":"queue","index":1,"shardId":0,"appId":1}`,
		},
		{
			name: "decode what somebody typed", target: "/decode?id=0g-ol&format=crockford", status: 200,
			body: `{"code":0,"id":16385,"idStr":"16385","kind":"queue","index":1,"shardId":0,"appId":1}`,
		},
		{
			name: "decode what only hex can be", target: "/decode?id=7fffffffffffffff", status: 200,
			body: `{"code":0,"id":9223372036854775807,"idStr":"9223372036854775807","kind":"queue","index":562949953421311,"shardId":63,"appId":255}`,
		},
		{
			name: "decode the last ID", target: "/decode?kind=queue&id=9223372036854775807", status: 200,
			body: `{"code":0,"id":9223372036854775807,"idStr":"9223372036854775807","kind":"queue","index":562949953421311,"shardId":63,"appId":255}`,
		},
		{
			name: "decode a snowflake", target: "/decode?kind=snowflake&id=1169786042799259000", status: 200,
			body: `{"code":0,"id":1169786042799259000,"idStr":"1169786042799259000","kind":"snowflake","timestamp":1567733700834,"time":"2019-09-06T01:35:00.834Z","workerId":39,"sequenceId":3448}`,
		},
		{
			name: "parse a UID", target: "/api/uid/parse/3200169789968523265", status: 200,
			body: `{"UID":"3200169789968523265","timestamp":"2019-05-02 23:26:39","workerId":"21","sequence":"1"}`,
		},
		{
			name: "parse a UID, disabled", target: "/api/uid/parse/9223372036854775807", change: disableModes, status: 200,
			body: `{"UID":"9223372036854775807","timestamp":"2024-11-20 21:24:15","workerId":"4194303","sequence":"8191"}`,
		},
		{
			name: "decode a snowflake as Leaf", target: "/decodeSnowflakeId?snowflakeId=1169786042799259000", status: 200,
			body: `{"timestamp":"1567733700834(2019-09-06 09:35:00.834)","workerId":"39","sequenceId":"3448"}`,
		},
		{
			name: "decode a snowflake as Leaf, disabled", target: "/decodeSnowflakeId?snowflakeId=1&x=2", change: disableModes, status: 200,
			body: `{"timestamp":"1288834974657(2010-11-04 09:42:54.657)","workerId":"0","sequenceId":"1"}`,
		},
		{
			name: "decode a UID", target: "/decode?kind=uid&id=3200169789968523265", status: 200,
			body: `{"code":0,"id":3200169789968523265,"idStr":"3200169789968523265","kind":"uid","timestamp":1556810799,"time":"2019-05-02T15:26:39Z","workerId":21,"sequence":1}`,
		},
	}
}

// badParameters are all answered 400 with code -6, and no ID is taken.
func badParameters() []exchange {
	var all []exchange
	for _, c := range []struct{ target, says string }{
		{"/get", "appId is missing"},
		{"/get?gatePass=alice", "appId is missing"},
		{"/get?appId=&gatePass=alice", "appId must be a whole number in 0…255"},
		{"/get?appId=256&gatePass=alice", `not "256"`},
		{"/get?appId=-1&gatePass=alice", `not "-1"`},
		{"/get?appId=%2B1&gatePass=alice", `not "+1"`},
		{"/get?appId=1.0&gatePass=alice", `not "1.0"`},
		{"/get?appId=1e1&gatePass=alice", `not "1e1"`},
		{"/get?appId=0x1&gatePass=alice", `not "0x1"`},
		{"/get?appId=99999999999999999999&gatePass=alice", "appId must be"},
		{"/get?appId=" + strings.Repeat("9", 100) + "&gatePass=alice", strings.Repeat("9", 64) + `"…`},
		{"/get?appId=%ff&gatePass=alice", `not "\xff"`},
		{"/get?appId=%zz&gatePass=alice", "appId is not percent-encoded rightly"},
		{"/get?appId=1", "gatePass is missing or empty"},
		{"/get?appId=1&gatePass=", "gatePass is missing or empty"},
		{"/get?appId=1&gatePass=" + strings.Repeat("a", 1025), "1025 bytes"},
		{"/get?appId=1&gatePass=%ff", "UTF-8"},
		{"/get?appId=1&gatePass=%e5%bc", "UTF-8"},
		{"/get?appId=1&gatePass=%", "gatePass is not percent-encoded rightly"},
		{alice + "&count=0", "count must be a whole number in 1…10000"},
		{alice + "&count=10001", `not "10001"`},
		{alice + "&count=-1", `not "-1"`},
		{alice + "&count=", `not ""`},
		{alice + "&count=4294967297", "count must be"},
		{alice + "&stringify=yes", "stringify must be true or false"},
		{alice + "&stringify", "stringify must be true or false"},
		{alice + "&format=xml", "format must be json or text"},
		{alice + "&appId=1", "appId is given twice"},
		{alice + "&app%49d=2", "appId is given twice"},
		{alice + "&gatePass=bob", "gatePass is given twice"},
		{alice + "&count=1&count=2", "count is given twice"},
		{alice + "&stringify=1&stringify=0", "stringify is given twice"},
		{"/decode", "id is missing"},
		{"/decode?id=", "id is missing"},
		{"/decode?id=abc", `"abc" can be hex or base36 or base62: name its format`},
		{"/decode?id=a_b", `not "a_b"`},
		{"/decode?id=0000000000004001", "can be dec or hex"},
		{"/decode?id=abc&format=dec", `"abc" is no ID in the format dec`},
		{"/decode?id=8000000000000000&format=hex", "below 2^63"},
		{"/decode?id=4GH&format=", "format must be"},
		{"/decode?id=4GH&format=base64", `not "base64"`},
		{"/decode?id=16385&id=16385", "id is given twice"},
		{"/decode?id=16385&%69d=1", "id is given twice"},
		{"/decode?id=16385&kind=queue&kind=uid", "kind is given twice"},
		{"/decode?id=%", "id is not percent-encoded rightly"},
		{"/decode?id=%2B16385", `not "+16385"`},
		{"/decode?id=9223372036854775808", "below 2^63"},
		{"/decode?id=16383", "not a queue ID"},
		{"/decode?id=-16385", "not a queue ID"},
		{"/decode?id=0&kind=snowflake", "IDs are positive"},
		{"/decode?id=-5&kind=uid", "IDs are positive"},
		{"/decode?id=16385&kind=", "none of queue, snowflake, uid"},
		{"/decode?id=16385&kind=%22%7D", "none of queue, snowflake, uid"},
		{"/api/segment/get/", "the tag is empty"},
		{"/api/segment/get/?count=2", "the tag is empty"},
		{"/api/segment/get/" + strings.Repeat("a", 129), "the tag has 129 bytes"},
		{"/api/segment/get/%ff", "the tag is not valid UTF-8"},
		{segmentURL + "?count=0", "count must be a whole number in 1…10000"},
		{segmentURL + "?count=", `not ""`},
		{segmentURL + "?count=10001", `not "10001"`},
		{segmentURL + "?count=%2B1", `not "+1"`},
		{segmentURL + "?count=%zz", "count is not percent-encoded rightly"},
		{segmentURL + "?count=1&count=1", "count is given twice"},
		{segmentURL + "?count=1&c%6funt=2", "count is given twice"},
		{segmentURL + "?stringify=yes", "stringify must be true or false"},
		{"/api/snowflake/get/", "the key is missing: GET /api/snowflake/get/any"},
		{snowflakeURL + "?count=-1", `not "-1"`},
		{snowflakeURL + "?count=2&count=3", "count is given twice"},
		{uidURL + "?count=1.0", `not "1.0"`},
		{uidURL + "?count=1e1", `not "1e1"`},
		{uidURL + "?count=4294967297", "count must be"},
		{uidURL + "?count=2&count=", "count is given twice"},
		{"/api/uid/parse/", "uid is missing: GET /api/uid/parse/34359738368"},
		{"/api/uid/parse/0", "IDs are positive"},
		{"/api/uid/parse/-5", "IDs are positive"},
		{"/api/uid/parse/+5", `not "+5"`},
		{"/api/uid/parse/abc", `not "abc"`},
		{"/api/uid/parse/9223372036854775808", "below 2^63"},
		{"/api/uid/parse/%2F", `not "/"`},
		{"/decodeSnowflakeId", "snowflakeId is missing"},
		{"/decodeSnowflakeId?snowflakeId=", "snowflakeId is missing"},
		{"/decodeSnowflakeId?snowflakeId=0", "IDs are positive"},
		{"/decodeSnowflakeId?snowflakeId=x", `snowflakeId must be a whole number below 2^63, not "x"`},
		{"/decodeSnowflakeId?snowflakeId=-1", "IDs are positive"},
		{"/decodeSnowflakeId?snowflakeId=1&snowflakeId=1", "snowflakeId is given twice"},
	} {
		all = append(all, exchange{name: "400 " + c.says, target: c.target, status: 400, code: -6, says: c.says})
	}
	return all
}

// refused are the other errors: of the service, of the path, of the method.
func refused() []exchange {
	const internal = "internal error: it has been logged"
	long := strings.Repeat("a", maxURL)
	return []exchange{
		{name: "not initialised", target: alice, queue: broken(wrap(model.ErrNotReady)), status: 503, code: -1, says: "next: not initialised yet"},
		{name: "no app", target: alice, queue: broken(wrap(model.ErrUnknownApp)), status: 404, code: -2, says: "next: app is not provisioned"},
		{name: "no shard", target: alice, queue: broken(wrap(model.ErrUnknownShard)), status: 404, code: -3, says: "next: shard is not provisioned"},
		{name: "empty", target: alice, queue: broken(wrap(model.ErrQueueEmpty)), status: 503, code: -4, says: "next: queue is empty"},
		{name: "limit", target: alice, queue: broken(wrap(model.ErrLimitReached)), status: 409, code: -5, says: "next: app reached its limit"},
		{name: "bad argument", target: alice, queue: broken(wrap(model.ErrInvalidArgument)), status: 400, code: -6, says: "next: invalid argument"},
		{name: "text was wanted", target: alice, accept: "text/plain", queue: broken(wrap(model.ErrUnknownApp)), status: 404, code: -2, says: "not provisioned"},
		{name: "unknown error", target: alice, queue: broken(errors.New("secret")), status: 500, code: -11, says: internal},
		{name: "a store's timeout", target: alice, queue: broken(wrap(context.DeadlineExceeded)), status: 500, code: -11, says: internal},
		{name: "panic", target: alice, queue: panicking("secret"), status: 500, code: -11, says: internal},
		{name: "no path", target: "/nope", status: 404, code: -10, says: `no such path "/nope": /openapi.yaml lists the paths`},
		{name: "trailing slash", target: "/get/?appId=1&gatePass=alice", status: 404, code: -10, says: `"/get/": did you mean /get?`},
		{name: "other case", target: "/GET?appId=1&gatePass=alice", status: 404, code: -10, says: `"/GET"`},
		{name: "no path, POST", method: http.MethodPost, target: "/nope", status: 404, code: -10, says: `"/nope"`},
		{name: "PUT", method: http.MethodPut, target: alice, status: 405, code: -10, says: "/get takes GET and POST only: nothing was issued"},
		{name: "POST decode", method: http.MethodPost, target: "/decode?id=16385", status: 405, code: -10, says: "/decode takes GET only"},
		{name: "too long", target: alice + long, status: 414, code: -6, says: "the request target has 4123 bytes, at most 4096 are allowed"},
		{name: "too long, decode", target: "/decode?id=" + long, status: 414, code: -6, says: "at most 4096"},
		{name: "too long, no path", target: "/" + long, status: 414, code: -6, says: "at most 4096"},
	}
}

// refusedByModes are the errors of the other modes. Where an error wraps several,
// what the service lacks comes before what the caller did.
func refusedByModes() []exchange {
	var all []exchange
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   int
		says   string
	}{
		{"starting", wrap(model.ErrNotReady), 503, -1, "next: not initialised yet"},
		{"starting, as it has no lease", fmt.Errorf("%w: %w", model.ErrNotReady, model.ErrNoLease), 503, -1, "no worker ID"},
		{"no tag", wrap(model.ErrUnknownTag), 404, -2, "next: tag is not provisioned"},
		{"no segment", wrap(model.ErrSegmentEmpty), 503, -4, "next: no segment is left"},
		{"no segment, as the row is bad", fmt.Errorf("%w: %w", model.ErrSegmentEmpty, model.ErrInvalidArgument), 503, -4, "no segment"},
		{"no segment, as the store is away", fmt.Errorf("%w: %w", model.ErrSegmentEmpty, storeAway()), 503, -4, "refused"},
		{"clock back", wrap(model.ErrClockBack), 503, -8, "next: the clock went back"},
		{"time exhausted", wrap(model.ErrTimeExhausted), 503, -8, "next: the time does not fit"},
		{"no lease", wrap(model.ErrNoLease), 503, -8, "next: no worker ID is held"},
		{"no lease, as the tag is unknown", fmt.Errorf("%w: %w", model.ErrUnknownTag, model.ErrNoLease), 503, -8, "no worker ID"},
		{"too early", wrap(model.ErrTooEarly), 503, -8, "next: this time may have been used"},
		{"saturated", wrap(model.ErrSaturated), 503, -8, "next: every ID of each millisecond is taken"},
		{"ring empty", wrap(model.ErrRingEmpty), 503, -8, "next: the ring is empty"},
		{"unknown error", errors.New("secret"), 500, -11, "internal error: it has been logged"},
	} {
		for mode, target := range map[string]string{"segment": segmentURL, "snowflake": snowflakeURL, "uid": uidURL + "?count=2"} {
			all = append(all, exchange{name: mode + ": " + c.name, target: target, change: failModes(c.err), status: c.status, code: c.code, says: c.says})
		}
	}
	limit := exchange{name: "segment: limit", target: segmentURL, change: failModes(wrap(model.ErrLimitReached)), status: 409, code: -5, says: "reached its limit"}
	return append(append(all, limit), noMode()...)
}

// noMode are requests that reach no mode: it is disabled, or there is no such path
// or method.
func noMode() []exchange {
	const tail = "to true and restart to use it"
	return []exchange{
		{name: "segment off", target: segmentURL, change: disableModes, status: 404, code: -9, says: "mode is disabled: set segment.enabled " + tail},
		{name: "segment off, no key", target: "/api/segment/get/?count=0", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{name: "snowflake off", target: snowflakeURL, change: disableModes, status: 404, code: -9, says: "set snowflake.enabled " + tail},
		{name: "uid off", target: uidURL, accept: "text/plain", change: disableModes, status: 404, code: -9, says: "set uid.enabled " + tail},
		{name: "cache off", target: "/cache", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{name: "db off", target: "/db", accept: "text/html", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{name: "segment, further segment", target: segmentURL + "/2", status: 404, code: -10, says: "/leaf-segment-test/2"},
		{name: "segment, two slashes after it", target: segmentURL + "//", status: 404, code: -10, says: "/leaf-segment-test//"},
		{name: "segment, further segment beside an encoded slash", target: "/api/segment/get/a%2Fb/c", status: 404, code: -10, says: "a/b/c"},
		{name: "segment, its own slash encoded", target: "/api/segment/get%2Fa/b", status: 404, code: -10, says: "a/b"},
		{name: "segment, no slash", target: "/api/segment/get", status: 404, code: -10, says: "no such path"},
		{name: "segment, other path", target: "/api/segment/take/x", status: 404, code: -10, says: "no such path"},
		{name: "snowflake, further segment", target: snowflakeURL + "/y", status: 404, code: -10, says: "/x/y"},
		{name: "uid, trailing slash", target: uidURL + "/", status: 404, code: -10, says: "/api/uid/get/"},
		{name: "uid, further segment", target: uidURL + "/x?count=2", status: 404, code: -10, says: "/api/uid/get/x"},
		{name: "parse, further segment", target: "/api/uid/parse/1/2", status: 404, code: -10, says: "/1/2"},
		{name: "segment, PUT", method: http.MethodPut, target: segmentURL, status: 405, code: -10, says: "takes GET and HEAD and POST only: nothing was issued"},
		{name: "snowflake, PUT", method: http.MethodPut, target: snowflakeURL, status: 405, code: -10, says: "takes GET and HEAD and POST only"},
		{name: "uid, DELETE", method: http.MethodDelete, target: uidURL, status: 405, code: -10, says: "takes GET and POST only"},
		{name: "parse, POST", method: http.MethodPost, target: "/api/uid/parse/1", status: 405, code: -10, says: "takes GET only"},
		{name: "decodeSnowflakeId, POST", method: http.MethodPost, target: "/decodeSnowflakeId", status: 405, code: -10, says: "takes GET and HEAD only"},
		{name: "cache, POST", method: http.MethodPost, target: "/cache", status: 405, code: -10, says: "/cache takes GET and HEAD only"},
		{name: "db, POST", method: http.MethodPost, target: "/db", status: 405, code: -10, says: "/db takes GET and HEAD only"},
		{name: "status, POST", method: http.MethodPost, target: "/api/status", status: 405, code: -10, says: "/api/status takes GET only"},
		{name: "too long, segment", target: "/api/segment/get/" + strings.Repeat("a", maxURL), status: 414, code: -6, says: "at most 4096"},
		{name: "too long, snowflake", target: snowflakeURL + "?" + strings.Repeat("a", maxURL), status: 414, code: -6, says: "at most 4096"},
		{name: "too long, uid", target: uidURL + "?" + strings.Repeat("a", maxURL), status: 414, code: -6, says: "at most 4096"},
		{name: "too long, parse", target: "/api/uid/parse/" + strings.Repeat("1", maxURL), status: 414, code: -6, says: "at most 4096"},
		{name: "too long, decodeSnowflakeId", target: "/decodeSnowflakeId?snowflakeId=" + strings.Repeat("1", maxURL), status: 414, code: -6, says: "at most 4096"},
	}
}

// storeAway is what a store says that cannot be reached.
func storeAway() error {
	return &model.StoreError{Store: "database", Op: "read leaf_alloc", Advice: "start it", Err: errors.New("connection refused")}
}

func wrap(err error) error { return fmt.Errorf("next: %w", err) }

// panicking is a queue that panics with p.
func panicking(p any) *fakeQueue {
	return &fakeQueue{next: func(context.Context) error { panic(p) }}
}

// do runs the exchange against an API of its own and also returns what served it.
func (x exchange) do() (*httptest.ResponseRecorder, *fakeQueue, *fakeModes) {
	q := x.queue
	if q == nil {
		q = &fakeQueue{}
	}
	opts, modes := testOptions(q, nil, io.Discard)
	if x.change != nil {
		x.change(&opts)
	}
	return x.ask(New(opts)), q, modes
}

// ask sends the request with its token.
func (x exchange) ask(h http.Handler) *httptest.ResponseRecorder {
	r := x.request()
	r.Header["Accept"] = []string{x.accept}
	if x.token != "" {
		r.Header.Set("Authorization", "Bearer "+x.token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// request is the exchange's, without its Accept and its token.
func (x exchange) request() *http.Request {
	r := httptest.NewRequest(x.verb(), x.target, nil)
	if x.send != "" {
		r = httptest.NewRequest(x.verb(), x.target, strings.NewReader(x.send))
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(x.header); i += 2 {
		r.Header.Add(x.header[i], x.header[i+1])
	}
	return r
}

func (x exchange) verb() string {
	if x.method == "" {
		return http.MethodGet
	}
	return x.method
}

func TestAnswers(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, q, modes := x.do()
			checkHeaders(t, x, got.Header(), got.Body.Len())
			if x.status == http.StatusOK {
				wantAnswer(t, got, x.status, x.body)
				return
			}
			checkError(t, x, got)
			if q.index != 0 || q.calls != 0 && x.queue == nil {
				t.Errorf("%d calls took %d IDs", q.calls, q.index)
			}
			if modes.calls() != 0 || modes.issued() != 0 {
				t.Errorf("%d calls took %d IDs of the modes", modes.calls(), modes.issued())
			}
		})
	}
}

// checkError wants {"code":N,"message":"…"}, byte for byte, with the message in
// the form in which it can be read.
func checkError(t *testing.T, x exchange, got *httptest.ResponseRecorder) {
	t.Helper()
	var parsed struct{ Message string }
	if err := json.Unmarshal(got.Body.Bytes(), &parsed); err != nil {
		t.Fatalf("%v: %s", err, got.Body)
	}
	wantAnswer(t, got, x.status, fmt.Sprintf(`{"code":%d,"message":%s}`, x.code, appendJSON(nil, parsed.Message)))
	if !strings.Contains(parsed.Message, x.says) || strings.Contains(got.Body.String(), "secret") {
		t.Errorf("message %q, want %q in it", parsed.Message, x.says)
	}
}

// checkHeaders wants no-store on every answer, nosniff on each but IDs, Retry-After
// on each 503 and Allow on each 405, and only there. The length of a short body is
// for net/http to say, unless it does not see the body.
func checkHeaders(t *testing.T, x exchange, h http.Header, length int) {
	t.Helper()
	want := map[string]string{
		"Content-Type":           "application/json; charset=utf-8",
		"Cache-Control":          "no-store",
		"X-Content-Type-Options": "nosniff",
	}
	if x.method == http.MethodHead {
		want["Content-Length"] = strconv.Itoa(length)
	}
	switch x.status {
	case http.StatusOK:
		if issues := strings.Contains(x.target, "/get") || strings.HasPrefix(x.target, "/v1/"); issues {
			delete(want, "X-Content-Type-Options")
		}
		if x.text {
			want["Content-Type"] = "text/plain; charset=utf-8"
		}
	case http.StatusServiceUnavailable:
		want["Retry-After"] = "1"
	case http.StatusMethodNotAllowed:
		want["Allow"] = http.MethodGet
		if issues := strings.Contains(x.target, "/get") || strings.HasPrefix(x.target, "/v1/"); issues {
			want["Allow"] = "GET, POST"
		}
		switch path := strings.SplitN(x.target, "?", 2)[0]; {
		case strings.HasPrefix(path, "/api/segment/") || strings.HasPrefix(path, "/api/snowflake/"):
			want["Allow"] = "GET, HEAD, POST"
		case slices.Contains([]string{"/cache", "/db", "/decodeSnowflakeId"}, path):
			want["Allow"] = "GET, HEAD"
		}
	}
	if x.status != http.StatusOK {
		want[requestIDHeader] = h.Get(requestIDHeader) // each has one of its own
	}
	if len(h) != len(want) {
		t.Errorf("headers %v, want %v", h, want)
	}
	for name, value := range want {
		if got := h.Values(name); len(got) != 1 || got[0] != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// The table of the contract, as it is written there.
func TestErrorTableIsTheContracts(t *testing.T) {
	got := map[string]bool{}
	for _, x := range exchanges() {
		got[fmt.Sprint(x.code, " ", x.status)] = true
	}
	for _, want := range []string{"0 200", "-1 503", "-2 404", "-3 404", "-4 503", "-5 409", "-6 400", "-6 414", "-6 415", "-8 503", "-9 404", "-10 404", "-10 405", "-11 500"} {
		if !got[want] {
			t.Errorf("no exchange shows %q", want)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("beyond the contract: %v", got)
	}
}

// A batch of any size arrives whole and with its length, above all around the
// 2048 bytes from which on net/http would send chunks.
func TestBatchSizes(t *testing.T) {
	server := httptest.NewServer(newAPI(&fakeQueue{}))
	defer server.Close()
	for _, target := range []string{alice + "&count=", segmentURL + "?count=", snowflakeURL + "?count=", uidURL + "?count="} {
		for accept, separator := range map[string]string{"application/json": ",", "text/plain": "\n"} {
			for _, count := range append(around(100, 300), 1, 10_000) {
				got := fetch(t, http.MethodGet, server.URL+target+strconv.Itoa(count), accept)
				n := strings.Count(got.body, separator)
				if got.body[0] == '[' { // no separator before the first
					n++
				}
				if got.ContentLength != int64(len(got.body)) || n != count {
					t.Errorf("%s%d as %s: Content-Length %d of %d bytes, %d separators", target, count, accept, got.ContentLength, len(got.body), n)
				}
			}
		}
	}
}

func around(low, high int) []int {
	var all []int
	for n := low; n <= high; n++ {
		all = append(all, n)
	}
	return all
}
