package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"shardid/model"
	"shardid/scripts/fakes"
)

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
