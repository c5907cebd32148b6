package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	queue  *fakeQueue // one that works when nil

	status int
	body   string // the whole body of a 200
	code   int    // of an error
	says   string // part of an error's message
}

const alice = "/get?appId=1&gatePass=alice"

// exchanges are all answers of /get, /decode, and of what is no path.
func exchanges() []exchange {
	return append(append(append(issued(), decoded()...), badParameters()...), refused()...)
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
		{name: "text", target: alice, accept: "text/plain", status: 200, body: "16385\n"},
		{name: "text, batch", target: alice + "&count=3", accept: "text/plain", status: 200, body: "16385\n32769\n49153\n"},
		{name: "unknown parameters", target: alice + "&x=1&x=2&%zz=3&&=", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "encoded names", target: "/get?app%49d=1&gate%50ass=alice", status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
		{name: "shard 41", target: "/get?appId=255&gatePass=%E5%BC%A0%E4%B8%89", status: 200, body: `{"code":0,"id":27135,"idStr":"27135"}`},
		{name: "longest gatePass", target: "/get?appId=1&gatePass=" + strings.Repeat("%00", 1024), status: 200, body: `{"code":0,"id":16385,"idStr":"16385"}`},
	}
}

func decoded() []exchange {
	return []exchange{
		{
			name: "decode", target: "/decode?id=16385", status: 200,
			body: `{"code":0,"id":16385,"idStr":"16385","kind":"queue","index":1,"shardId":0,"appId":1}`,
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
		{alice + "&appId=1", "appId is given twice"},
		{alice + "&app%49d=2", "appId is given twice"},
		{alice + "&gatePass=bob", "gatePass is given twice"},
		{alice + "&count=1&count=2", "count is given twice"},
		{alice + "&stringify=1&stringify=0", "stringify is given twice"},
		{"/decode", "id is missing"},
		{"/decode?id=", "id is missing"},
		{"/decode?id=abc", `not "abc"`},
		{"/decode?id=%2B16385", `not "+16385"`},
		{"/decode?id=9223372036854775808", "below 2^63"},
		{"/decode?id=16383", "not a queue ID"},
		{"/decode?id=-16385", "not a queue ID"},
		{"/decode?id=0&kind=snowflake", "IDs are positive"},
		{"/decode?id=-5&kind=uid", "IDs are positive"},
		{"/decode?id=16385&kind=", "none of queue, snowflake, uid"},
		{"/decode?id=16385&kind=%22%7D", "none of queue, snowflake, uid"},
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
		{name: "segment", target: "/api/segment/get/leaf-segment-test", status: 404, code: -9, says: "does not have the segment mode"},
		{name: "snowflake", target: "/api/snowflake/get/x?count=2", status: 404, code: -9, says: "does not have the snowflake mode"},
		{name: "uid", target: "/api/uid/parse/3200169789968523265", status: 404, code: -9, says: "does not have the uid mode"},
		{name: "no path", target: "/nope", status: 404, code: -10, says: `no such path "/nope": try GET /get?appId=1&gatePass=alice`},
		{name: "trailing slash", target: "/get/?appId=1&gatePass=alice", status: 404, code: -10, says: `"/get/"`},
		{name: "other case", target: "/GET?appId=1&gatePass=alice", status: 404, code: -10, says: `"/GET"`},
		{name: "no path, POST", method: http.MethodPost, target: "/nope", status: 404, code: -10, says: `"/nope"`},
		{name: "POST", method: http.MethodPost, target: alice, status: 405, code: -10, says: "/get takes GET only: nothing was issued"},
		{name: "POST decode", method: http.MethodPost, target: "/decode?id=16385", status: 405, code: -10, says: "/decode takes GET only"},
		{name: "too long", target: alice + long, status: 414, code: -6, says: "the request target has 4123 bytes, at most 4096 are allowed"},
		{name: "too long, decode", target: "/decode?id=" + long, status: 414, code: -6, says: "at most 4096"},
		{name: "too long, no path", target: "/" + long, status: 414, code: -6, says: "at most 4096"},
	}
}

func wrap(err error) error { return fmt.Errorf("next: %w", err) }

// panicking is a queue that panics with p.
func panicking(p any) *fakeQueue {
	return &fakeQueue{next: func(context.Context) error { panic(p) }}
}
