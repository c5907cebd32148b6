package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

const (
	tinyidURL       = "/tinyid/id/nextId?bizType=orders"
	tinyidSimpleURL = "/tinyid/id/nextIdSimple?bizType=orders"
	tinyidRunURL    = "/tinyid/id/nextSegmentId?bizType=orders"
	tinyidClientURL = "/tinyid/id/nextSegmentIdSimple?token=orders&bizType=orders" // as the Java client has it
)

// tinyidExchanges are all answers below /tinyid/: code is that of our own table, the body of
// an error on the JSON paths is what says has.
func tinyidExchanges() []exchange {
	const tag = "bizType=orders"
	all := []exchange{
		{name: "one", target: tinyidURL, status: 200, body: `{"data":[1],"code":200,"message":""}`},
		{name: "one, a size that is empty", target: tinyidURL + "&batchSize=", status: 200, body: `{"data":[1],"code":200,"message":""}`},
		{name: "batch", target: tinyidURL + "&batchSize=3", status: 200, body: `{"data":[1,2,3],"code":200,"message":""}`},
		{name: "simple", target: tinyidSimpleURL, status: 200, text: true, body: "1"},
		{name: "simple, batch", target: tinyidSimpleURL + "&batchSize=3", status: 200, text: true, body: "1,2,3"},
		{name: "simple, Accept is not looked at", target: tinyidSimpleURL, accept: "application/json", status: 200, text: true, body: "1"},
		{name: "more than the most", target: tinyidSimpleURL + "&batchSize=100001", status: 200, text: true, body: firstIDs(10_000)},
		{name: "run", target: tinyidRunURL, status: 200, body: `{"data":{"maxId":100,"loadingId":20,"currentId":0,"delta":1,"remainder":0},"code":200,"message":""}`},
		{name: "run, simple", target: tinyidClientURL, status: 200, text: true, body: "0,20,100,1,0"},
		{name: "a tag beyond ASCII", target: "/tinyid/id/nextId?bizType=%E8%AE%A2%E5%8D%95", status: 200, body: `{"data":[1],"code":200,"message":""}`},
	}
	for _, c := range []struct {
		name, query string
		change      func(*Options)
		code        int
		says        string
	}{
		{"no tag", "", nil, -6, "bizType is missing or empty"},
		{"an empty tag", "bizType=", nil, -6, "bizType is missing or empty"},
		{"a long tag", "bizType=" + strings.Repeat("a", 129), nil, -6, "the tag has 129 bytes"},
		{"a tag that is not text", "bizType=%ff", nil, -6, "the tag is not valid UTF-8"},
		{"two tags", tag + "&bizType=x", nil, -6, "bizType is given twice"},
		{"bad encoding", "bizType=%zz", nil, -6, "bizType is not percent-encoded rightly"},
		{"unknown tag", tag, failModes(wrap(model.ErrUnknownTag)), -2, "next: tag is not provisioned"},
		{"starting", tag, failModes(wrap(model.ErrNotReady)), -1, "next: not initialised yet"},
		{"no segment", tag, failModes(fmt.Errorf("%w: %w", model.ErrSegmentEmpty, storeAway())), -4, "no segment is left"},
		{"limit", tag, failModes(wrap(model.ErrLimitReached)), -5, "reached its limit"},
		{"unknown error", tag, failModes(errors.New("secret")), -11, internalError},
		{"disabled", tag, disableModes, -9, "set segment.enabled to true"},
		{"no token", tag, closed, -7, ""},
		{"an empty token", tag + "&token=", closed, -7, ""},
		{"a wrong token", tag + "&token=order", closed, -7, ""},
		{"the configuration's token", tag + "&token=root", closed, -7, ""},
		{"a token of another tag", tag + "&token=orders", closed, -7, ""}, // it is for leaf*
		{"a token of another mode", tag + "&token=times", closed, -7, ""},
		{"a token of administration", tag + "&token=boss", closed, -7, ""},
		{"a token given twice", "bizType=leaf&token=orders&token=orders", closed, -6, "token is given twice"},
		{"too fast", tag + "&token=spent", closed, -12, "the rate of token spent-token is used up"},
		{"a good token, no tag", "token=orders", closed, -6, "bizType is missing"},
	} {
		for _, path := range []string{"nextId", "nextSegmentId", "nextIdSimple", "nextSegmentIdSimple"} {
			all = append(all, tinyidError(path, c.name, c.query, c.change, c.code, c.says))
		}
	}
	for text, says := range map[string]string{"0": `not "0"`, "-1": `not "-1"`, "abc": `not "abc"`, "2147483648": "in 1…2147483647", "%2B1": `not "+1"`, "1&batchSize=2": "given twice"} {
		all = append(all, tinyidError("nextId", "size "+text, tag+"&batchSize="+text, nil, -6, says),
			tinyidError("nextIdSimple", "size "+text, tag+"&batchSize="+text, nil, -6, says))
	}
	good := "&token=orders"
	all = append(all,
		exchange{name: "its tag", target: "/tinyid/id/nextId?bizType=leaf-x" + good, change: closed, status: 200, body: `{"data":[1],"code":200,"message":""}`},
		exchange{name: "its tag, run", target: "/tinyid/id/nextSegmentIdSimple?bizType=leaf-x" + good, change: closed, status: 200, text: true, body: "0,20,100,1,0"},
	)
	for _, x := range slices.Clone(all) {
		x.name, x.method = "POST: "+x.name, http.MethodPost
		all = append(all, x)
	}
	for _, target := range []string{tinyidURL, tinyidSimpleURL, tinyidRunURL, tinyidClientURL} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			all = append(all,
				exchange{name: method + ", panic", method: method, target: target, status: 500, code: -11,
					says: "internal error", change: func(o *Options) {
						o.Segment = &fakeSegment{fakeGenerator: fakeGenerator{next: panicking("secret").next}}
					}},
				exchange{name: method + ", too long", method: method, target: target + strings.Repeat("a", maxURL),
					status: 414, code: -6, says: "at most 4096"})
		}
		all = append(all,
			exchange{name: "PUT", method: http.MethodPut, target: target, status: 405, code: -10,
				says: "takes GET, HEAD, POST, OPTIONS only: nothing was issued"})
	}
	for i := range all {
		all[i].name = "tinyid: " + all[i].name
	}
	return all
}

// tinyidError is a request that is refused with status 200.
func tinyidError(path, name, query string, change func(*Options), code int, says string) exchange {
	x := exchange{name: path + ", " + name, target: "/tinyid/id/" + path + "?" + query, change: change, status: 200, code: code, says: says}
	x.text = strings.HasSuffix(path, "Simple")
	return x
}

func firstIDs(n int) string {
	ids := []string{}
	for id := 1; id <= n; id++ {
		ids = append(ids, fmt.Sprint(id))
	}
	return strings.Join(ids, ",")
}

// Whatever is answered, the log, the counters of the mode and those of the table know our
// own code of it.
func TestTinyid(t *testing.T) {
	for _, x := range tinyidExchanges() {
		t.Run(x.name, func(t *testing.T) {
			api, log := logging(&fakeQueue{}, func(o *Options) {
				metered(o)
				o.AccessLog = AccessErrors
				if x.change != nil {
					x.change(o)
				}
			})
			got := x.ask(api)
			body, h := got.Body.String(), got.Header()
			want := x.body
			switch {
			case x.code == 0 || x.status != 200 || x.text:
			case x.code == -7:
				want = `{"data":null,"code":5,"message":"token is error"}`
			default:
				start, end := `{"data":null,"code":6,"message":`, `}`
				if want = body; !strings.HasPrefix(body, start) || !strings.HasSuffix(body, end) || !strings.Contains(body, strings.ReplaceAll(x.says, `"`, `\"`)) {
					want = start + "…" + x.says + "…" + end
				}
			}
			if got.Code != x.status || x.status == 200 && body != want || x.status != 200 && !strings.Contains(body, x.says) {
				t.Errorf("answered %d %s\nwant %d %s", got.Code, clip(got.Body.Bytes()), x.status, want)
			}
			check.Lacks(t, body, "secret", "the text of a fault")
			contentType := typeJSON[0]
			if x.text && x.status == 200 {
				contentType = typeText[0]
			}
			if h.Get("Content-Type") != contentType || h.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", h)
			}
			code := fmt.Sprintf(`{code="%d"}`, x.code)
			check.Equal(t, metricOf(t, api, "shardid_http_answers_total"+code), 1, "answers with the code")
			if x.status == 200 {
				refused, ok := 0, metricOf(t, api, `shardid_request_duration_seconds_count{outcome="ok"}`)
				if x.code != 0 {
					refused = 1
				}
				check.Equal(t, ok, 1-refused, "requests that got IDs")
				check.Equal(t, metricOf(t, api, "shardid_refused_total"+code), refused, "requests with the code")
			}
			line := fmt.Sprintf("status=%d code=%d", x.status, x.code)
			if strings.Contains(log.String(), "msg=request ") != (x.code != 0) || x.code != 0 && !strings.Contains(log.String(), line) {
				t.Errorf("log: %s, want %s", log, line)
			}
			for _, token := range []string{"order", "orders", "spent", "root"} {
				if strings.Contains(log.String(), "token="+token+" ") || strings.Contains(log.String(), "token="+token+"&") {
					t.Errorf("the log has the token: %s", log)
				}
			}
		})
	}
}

// The token's name is in the log, and a token is good for one request of its rate.
func TestTinyidTokens(t *testing.T) {
	api, log := logging(&fakeQueue{}, func(o *Options) {
		o.AccessLog, o.RequireToken = AccessAll, true
		o.Access = guardOf("", "sesame", "may: ['segment:orders'], rate: 2")
	})
	for i, want := range []string{"1", "1,21,101,1,0", ""} {
		target := []string{"/tinyid/id/nextIdSimple", "/tinyid/id/nextSegmentIdSimple", "/tinyid/id/nextIdSimple"}[i]
		wantAnswer(t, ask(api, http.MethodPost, target+"?token=sesame&bizType=orders"), 200, want)
	}
	if n := strings.Count(log.String(), "token=sesame-token"); n != 2 || !strings.Contains(log.String(), "code=-12") {
		t.Errorf("%d lines name the token: %s", n, log)
	}
}
