package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/scripts/fakes"
)

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
