package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	all := slices.Concat(issued(), issuedByModes(), issuedByV1(), decoded(), badParameters(), refused(),
		nowhere(), bodies())
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
			if _, rest, long := strings.Cut(x.says, " bytes, "); long { // which are others here
				x.says = rest
			}
			x.name, x.target = "v1: "+x.name, target
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

func decoded() (all []exchange) {
	const (
		first     = `{"code":0,"id":16385,"idStr":"16385","kind":"queue","index":1,"shardId":0,"appId":1}`
		last      = `{"code":0,"id":9223372036854775807,"idStr":"9223372036854775807","kind":"queue","index":562949953421311,"shardId":63,"appId":255}`
		snowflake = `{"code":0,"id":1169786042799259000,"idStr":"1169786042799259000","kind":"snowflake","timestamp":1567733700834,"time":"2019-09-06T01:35:00.834Z","workerId":39,"sequenceId":3448}`
		uid       = `{"code":0,"id":3200169789968523265,"idStr":"3200169789968523265","kind":"uid","timestamp":1556810799,"time":"2019-05-02T15:26:39Z","workerId":21,"sequence":1}`
		parsed    = `{"UID":"3200169789968523265","timestamp":"2019-05-02 23:26:39","workerId":"21","sequence":"1"}`
		lastUID   = `{"UID":"9223372036854775807","timestamp":"2024-11-20 21:24:15","workerId":"4194303","sequence":"8191"}`
		asLeaf    = `{"timestamp":"1567733700834(2019-09-06 09:35:00.834)","workerId":"39","sequenceId":"3448"}`
		firstLeaf = `{"timestamp":"1288834974657(2010-11-04 09:42:54.657)","workerId":"0","sequenceId":"1"}`
	)
	for _, x := range [][2]string{
		{"/decode?id=16385", first},
		{"/decode?id=4GH&format=base62", first},
		{"/decode?id=0g-ol&format=crockford", first}, // as somebody typed it
		{"/decode?id=7fffffffffffffff", last},        // can only be hex
		{"/decode?kind=queue&id=9223372036854775807", last},
		{"/decode?kind=snowflake&id=1169786042799259000", snowflake},
		{"/decode?kind=uid&id=3200169789968523265", uid},
		{"/api/uid/parse/3200169789968523265", parsed},
		{"/api/uid/parse/9223372036854775807", lastUID},
		{"/decodeSnowflakeId?snowflakeId=1169786042799259000", asLeaf},
		{"/decodeSnowflakeId?snowflakeId=1&x=2", firstLeaf},
	} {
		for mode, change := range map[string]func(*Options){"": nil, " without the mode": disableModes} {
			all = append(all, exchange{name: "decode " + x[0] + mode, target: x[0], change: change,
				status: 200, body: x[1]})
		}
	}
	return all
}

// badParameters are all answered 400 with code -6, and no ID is taken.
func badParameters() (all []exchange) {
	add := func(says string, targets ...string) {
		for _, target := range targets {
			all = append(all, exchange{name: "400 " + says, target: target, status: 400, code: -6, says: says})
		}
	}
	for _, path := range []string{alice + "&", segmentURL + "?", snowflakeURL + "?", uidURL + "?"} {
		for _, raw := range []string{"", "0", "10001", "-1", "%2B1", "1.0", "1e1", "4294967297"} {
			value, _ := url.QueryUnescape(raw)
			add(fmt.Sprintf("count must be a whole number in 1…10000, not %q", value), path+"count="+raw)
		}
		add("count is not percent-encoded rightly", path+"count=%zz")
		add("count is given twice", path+"count=1&count=2", path+"count=1&c%6funt=1", path+"count=2&count=")
		add("stringify must be true or false", path+"stringify=yes", path+"stringify")
		add("stringify is given twice", path+"stringify=1&stringify=0")
	}
	for _, raw := range []string{"", "256", "-1", "%2B1", "1.0", "1e1", "0x1", "99999999999999999999", "%ff"} {
		value, _ := url.QueryUnescape(raw)
		add(fmt.Sprintf("appId must be a whole number in 0…255, not %q", value), "/get?appId="+raw+"&gatePass=alice")
	}
	add("appId is missing", "/get", "/get?gatePass=alice")
	add(strings.Repeat("9", 64)+`"…`, "/get?appId="+strings.Repeat("9", 100)+"&gatePass=alice")
	add("appId is not percent-encoded rightly", "/get?appId=%zz&gatePass=alice")
	add("gatePass is missing or empty", "/get?appId=1", "/get?appId=1&gatePass=")
	add("1025 bytes", "/get?appId=1&gatePass="+strings.Repeat("a", 1025))
	add("UTF-8", "/get?appId=1&gatePass=%ff", "/get?appId=1&gatePass=%e5%bc")
	add("gatePass is not percent-encoded rightly", "/get?appId=1&gatePass=%")
	add("format must be json or text", alice+"&format=xml")
	add("appId is given twice", alice+"&appId=1", alice+"&app%49d=2")
	add("gatePass is given twice", alice+"&gatePass=bob")
	add("the tag is empty", "/api/segment/get/", "/api/segment/get/?count=2")
	add("the tag has 129 bytes", "/api/segment/get/"+strings.Repeat("a", 129))
	add("the tag is not valid UTF-8", "/api/segment/get/%ff")
	add("the key is missing: GET /api/snowflake/get/any", "/api/snowflake/get/")

	add("id is missing", "/decode", "/decode?id=")
	add(`"abc" can be hex or base36 or base62: name its format`, "/decode?id=abc")
	add(`not "a_b"`, "/decode?id=a_b")
	add("can be dec or hex", "/decode?id=0000000000004001")
	add(`"abc" is no ID in the format dec`, "/decode?id=abc&format=dec")
	add("format must be", "/decode?id=4GH&format=")
	add(`not "base64"`, "/decode?id=4GH&format=base64")
	add("id is given twice", "/decode?id=16385&id=16385", "/decode?id=16385&%69d=1")
	add("kind is given twice", "/decode?id=16385&kind=queue&kind=uid")
	add("id is not percent-encoded rightly", "/decode?id=%")
	add(`not "+16385"`, "/decode?id=%2B16385")
	add("not a queue ID", "/decode?id=16383", "/decode?id=-16385")
	add("none of queue, snowflake, uid", "/decode?id=16385&kind=", "/decode?id=16385&kind=%22%7D")
	add("uid is missing: GET /api/uid/parse/34359738368", "/api/uid/parse/")
	add(`not "+5"`, "/api/uid/parse/+5")
	add(`not "abc"`, "/api/uid/parse/abc")
	add(`not "/"`, "/api/uid/parse/%2F")
	add("snowflakeId is missing", "/decodeSnowflakeId", "/decodeSnowflakeId?snowflakeId=")
	add(`snowflakeId must be a whole number below 2^63, not "x"`, "/decodeSnowflakeId?snowflakeId=x")
	add("snowflakeId is given twice", "/decodeSnowflakeId?snowflakeId=1&snowflakeId=1")
	add("below 2^63", "/decode?id=8000000000000000&format=hex", "/decode?id=9223372036854775808",
		"/api/uid/parse/9223372036854775808")
	add("IDs are positive", "/decode?id=0&kind=snowflake", "/decode?id=-5&kind=uid", "/api/uid/parse/0",
		"/api/uid/parse/-5", "/decodeSnowflakeId?snowflakeId=0", "/decodeSnowflakeId?snowflakeId=-1")
	return all
}

// refused are the errors of the modes. Where an error wraps several, what the service lacks
// comes before what the caller did.
func refused() (all []exchange) {
	const internal = "internal error: it has been logged"
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   int
		says   string
	}{
		{"starting", wrap(model.ErrNotReady), 503, -1, "next: not initialised yet"},
		{"starting, as it has no lease", fmt.Errorf("%w: %w", model.ErrNotReady, model.ErrNoLease), 503, -1, "no worker ID"},
		{"no app", wrap(model.ErrUnknownApp), 404, -2, "next: app is not provisioned"},
		{"no tag", wrap(model.ErrUnknownTag), 404, -2, "next: tag is not provisioned"},
		{"no shard", wrap(model.ErrUnknownShard), 404, -3, "next: shard is not provisioned"},
		{"empty", wrap(model.ErrQueueEmpty), 503, -4, "next: queue is empty"},
		{"empty, until an operator's word", fmt.Errorf("%w: %w", model.ErrQueueEmpty, model.ErrUnconfirmed), 503, -4, awaits},
		{"no segment", wrap(model.ErrSegmentEmpty), 503, -4, "next: no segment is left"},
		{"no segment, as the row is bad", fmt.Errorf("%w: %w", model.ErrSegmentEmpty, model.ErrInvalidArgument), 503, -4, "no segment"},
		{"no segment, as the store is away", fmt.Errorf("%w: %w", model.ErrSegmentEmpty, storeAway()), 503, -4, "refused"},
		{"limit", wrap(model.ErrLimitReached), 409, -5, "next: app reached its limit"},
		{"bad argument", wrap(model.ErrInvalidArgument), 400, -6, "next: invalid argument"},
		{"clock back", wrap(model.ErrClockBack), 503, -8, "next: the clock went back"},
		{"time exhausted", wrap(model.ErrTimeExhausted), 503, -8, "next: the time does not fit"},
		{"no lease", wrap(model.ErrNoLease), 503, -8, "next: no worker ID is held"},
		{"no lease, as the tag is unknown", fmt.Errorf("%w: %w", model.ErrUnknownTag, model.ErrNoLease), 503, -8, "no worker ID"},
		{"too early", wrap(model.ErrTooEarly), 503, -8, "next: this time may have been used"},
		{"saturated", wrap(model.ErrSaturated), 503, -8, "next: every ID of each millisecond is taken"},
		{"ring empty", wrap(model.ErrRingEmpty), 503, -8, "next: the ring is empty"},
		{"unknown error", errors.New("secret"), 500, -11, internal},
		{"a store's timeout", wrap(context.DeadlineExceeded), 500, -11, internal},
	} {
		for mode, target := range map[string]string{
			"queue": alice, "segment": segmentURL, "snowflake": snowflakeURL, "uid": uidURL + "?count=2",
		} {
			if c.code == -5 && (mode == "snowflake" || mode == "uid") {
				continue // which have no limit
			}
			all = append(all, exchange{name: mode + ": " + c.name, target: target, queue: broken(c.err),
				change: failModes(c.err), status: c.status, code: c.code, says: c.says})
		}
	}
	return append(all,
		exchange{name: "text was wanted", target: alice, accept: "text/plain", queue: broken(wrap(model.ErrUnknownApp)),
			status: 404, code: -2, says: "not provisioned"},
		exchange{name: "panic", target: alice, queue: panicking("secret"), status: 500, code: -11, says: internal})
}

// nowhere are requests that reach no mode: it is disabled, there is no such path or method, or
// the path is too long.
func nowhere() []exchange {
	const tail = "to true and restart to use it"
	all := []exchange{
		{name: "segment off", target: segmentURL, change: disableModes, status: 404, code: -9, says: "mode is disabled: set segment.enabled " + tail},
		{name: "segment off, no key", target: "/api/segment/get/?count=0", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{name: "snowflake off", target: snowflakeURL, change: disableModes, status: 404, code: -9, says: "set snowflake.enabled " + tail},
		{name: "uid off", target: uidURL, accept: "text/plain", change: disableModes, status: 404, code: -9, says: "set uid.enabled " + tail},
		{name: "cache off", target: "/cache", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{name: "db off", target: "/db", accept: "text/html", change: disableModes, status: 404, code: -9, says: "segment.enabled"},
		{name: "no path, POST", method: http.MethodPost, target: "/nope", status: 404, code: -10, says: `"/nope"`},
		{name: "DELETE", method: http.MethodDelete, target: uidURL, status: 405, code: -10, says: "takes GET, HEAD, POST, OPTIONS only"},
	}
	for target, says := range map[string]string{
		"/nope": `no such path "/nope": /openapi.yaml lists the paths`, "/GET?appId=1&gatePass=alice": `"/GET"`,
		"/get/?appId=1&gatePass=alice": `"/get/"`,
		segmentURL + "/2":              "/leaf-segment-test/2", segmentURL + "//": "/leaf-segment-test//",
		"/api/segment/get/a%2Fb/c": "a/b/c", "/api/segment/get%2Fa/b": "a/b", // further segment, its own slash encoded
		"/api/segment/get": "no such path", "/api/segment/take/x": "no such path", snowflakeURL + "/y": "/x/y",
		uidURL + "/": "/api/uid/get/", uidURL + "/x?count=2": "/api/uid/get/x", "/api/uid/parse/1/2": "/1/2",
		"/v1/segment/orders": "no such path", "/v1/segment/a/b/ids": "no such path",
	} {
		all = append(all, exchange{name: "no path " + target, target: target, status: 404, code: -10, says: says})
	}
	for verbs, targets := range map[string][]string{
		"GET, HEAD, POST, OPTIONS": {alice, uidURL, "/v1/queue/1/ids?gatePass=alice", "/v1/segment/leaf-segment-test/ids",
			"/v1/snowflake/ids", "/v1/uid/ids", segmentURL, snowflakeURL},
		"GET, HEAD, OPTIONS": {"/decodeSnowflakeId", "/cache", "/db", "/decode?id=16385", "/api/uid/parse/1", "/api/status"},
	} {
		method := http.MethodPut
		if !strings.Contains(verbs, "POST") {
			method = http.MethodPost
		}
		for _, target := range targets {
			path, _, _ := strings.Cut(target, "?")
			all = append(all, exchange{name: method + " " + path, method: method, target: target,
				status: 405, code: -10, says: path + " takes " + verbs + " only: nothing was issued"})
		}
	}
	for _, target := range []string{
		alice, "/decode?id=", "/", "/api/segment/get/", snowflakeURL + "?", uidURL + "?", "/api/uid/parse/",
		"/decodeSnowflakeId?snowflakeId=",
	} {
		all = append(all, exchange{name: "too long " + target, target: target + strings.Repeat("1", maxURL),
			status: 414, code: -6, says: fmt.Sprintf("the request target has %d bytes, at most 4096 are allowed", len(target)+maxURL)})
	}
	return all
}
