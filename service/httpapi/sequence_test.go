package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
)

// fakeSequence counts by space and key, or answers with err. Of the space "x" there is none.
type fakeSequence struct {
	err  error
	last map[[2]string]int64
}

func (f *fakeSequence) Ask(_ context.Context, asks []*model.SequenceAsk) {
	if f.last == nil {
		f.last = map[[2]string]int64{}
	}
	for _, ask := range asks {
		key := [2]string{ask.Space, ask.Key}
		switch {
		case f.err != nil:
			ask.Err = f.err
		case ask.Space == "x":
			ask.Err = fmt.Errorf("%w: %q", model.ErrUnknownSpace, ask.Space)
		default:
			f.last[key] += ask.Count
			ask.Last = f.last[key]
		}
	}
}

const (
	sequenceURL = "/v1/sequence/chat/ids?key=room42"
	currentURL  = "/v1/sequence/chat/current?key=room42"
)

// sequenceExchanges are all answers below /v1/sequence/.
func sequenceExchanges() []exchange {
	const post = http.MethodPost
	all := []exchange{
		{name: "one", target: sequenceURL, status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "batch", target: sequenceURL + "&count=3", status: 200, body: `{"code":0,"ids":["1","2","3"]}`},
		{name: "ranges", target: sequenceURL + "&count=10000&ranges=true", status: 200, body: `{"code":0,"ranges":[{"first":"1","count":10000,"stride":"1"}]}`},
		{name: "text was wanted", target: sequenceURL, accept: "text/plain", status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "POST", method: post, target: sequenceURL, status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "JSON", method: post, target: "/v1/sequence/chat/ids", send: `{"key":"room42","count":2,"ranges":false}`, status: 200, body: `{"code":0,"ids":["1","2"]}`},
		{name: "current", target: currentURL, status: 200, body: `{"code":0,"current":"0"}`},
		{name: "the longest key", target: "/v1/sequence/chat/ids?key=" + strings.Repeat("k", 256), status: 200, body: `{"code":0,"ids":["1"]}`},
		{name: "format", target: sequenceURL + "&format=base62", status: 400, code: -6, says: `unknown parameter \"format\"`},
		{name: "padded", target: sequenceURL + "&padded=true", status: 400, code: -6, says: `unknown parameter \"padded\"`},
		{name: "count of current", target: currentURL + "&count=1", status: 400, code: -6, says: `unknown parameter \"count\"`},
		{name: "two counts", method: post, target: sequenceURL + "&count=1", send: `{"count":2}`, status: 400, code: -6, says: "count is given twice"},
		{name: "ranges of something", target: sequenceURL + "&ranges=yes", status: 400, code: -6, says: "ranges must be true or false"},
		{name: "POST current", method: post, target: currentURL, status: 405, code: -10, says: "takes GET, HEAD, OPTIONS only: nothing was issued"},
		{name: "PUT", method: http.MethodPut, target: sequenceURL, status: 405, code: -10, says: "takes GET, HEAD, POST, OPTIONS only: nothing was issued"},
		{name: "a slash behind", target: "/v1/sequence/chat/ids/?key=room42", status: 404, code: -10, says: "no such path"},
		{name: "a further segment", target: "/v1/sequence/a%2Fb/ids?key=room42", status: 404, code: -10, says: "no such path"},
	}
	for _, count := range []string{"0", "10001", "-1", "1e3", "", "x"} {
		all = append(all, exchange{name: "count " + count, target: sequenceURL + "&count=" + count, status: 400, code: -6, says: "count must be a whole number in 1…10000"})
	}
	for _, target := range []string{sequenceURL, currentURL} {
		path, _, _ := strings.Cut(target, "?")
		add := func(x exchange) {
			x.name += " " + path
			if x.target == "" {
				x.target = target
			}
			all = append(all, x)
		}
		add(exchange{name: "no key", target: path, status: 400, code: -6, says: "key is missing: GET /v1/sequence/chat/ids?key=room42"})
		add(exchange{name: "empty key", target: path + "?key=", status: 400, code: -6, says: "a key has 1…256 bytes, not 0"})
		add(exchange{name: "long key", target: path + "?key=" + strings.Repeat("k", 257), status: 400, code: -6, says: "a key has 1…256 bytes, not 257"})
		add(exchange{name: "two keys", target: target + "&%6bey=x", status: 400, code: -6, says: "key is given twice"})
		add(exchange{name: "bad encoding", target: path + "?key=%zz", status: 400, code: -6, says: "key is not percent-encoded rightly"})
		add(exchange{name: "no such space", target: strings.Replace(target, "chat", "x", 1), status: 404, code: -2, says: `space is not provisioned: \"x\"`})
		add(exchange{name: "no space", target: strings.Replace(target, "chat", "%00", 1), status: 400, code: -6, says: "a space has 1…64 letters"})
		add(exchange{name: "too long", target: target + strings.Repeat("k", maxURL), status: 414, code: -6, says: "at most 4096"})
		add(exchange{name: "zipped", send: `{}`, header: []string{"Content-Encoding", "gzip"}, status: 415, code: -6, says: "without Content-Encoding"})
		for _, f := range []struct {
			err    error
			status int
			code   int
		}{{model.ErrNoNumber, 503, -4}, {model.ErrNotReady, 503, -1}, {model.ErrLimitReached, 409, -5}, {errors.New("secret"), 500, -11}} {
			if f.code != -5 || target == sequenceURL { // looking reaches no limit
				add(exchange{name: "fails", change: func(o *Options) { o.Sequence = &fakeSequence{err: wrap(f.err)} }, status: f.status, code: f.code})
			}
		}
		add(exchange{name: "disabled", change: func(o *Options) { o.Sequence = nil }, status: 404, code: -9, says: "set sequence.enabled to true"})
		add(exchange{name: "no Redis", status: 404, code: -9, says: "mode is disabled: sequences need Redis", change: func(o *Options) {
			o.Sequence, o.NoSequence = nil, fmt.Errorf("%w: sequences need Redis", model.ErrModeDisabled)
		}})
		add(exchange{name: "no token", change: sequencesFor, status: 401, code: -7, says: "send it in the header"})
		add(exchange{name: "its space", change: sequencesFor, token: "chats", status: 200})
		add(exchange{name: "another space's token", change: sequencesFor, token: "feeds", status: 403, code: -7, says: `numbers of the space \"chat\"`})
		add(exchange{name: "another mode's token", change: sequencesFor, token: "times", status: 403, code: -7, says: "IDs of the mode sequence"})
		add(exchange{name: "too fast", change: sequencesFor, token: "spent", status: 429, code: -12, says: "used up"})
	}
	all = append(all, exchange{name: "beyond the quota", target: sequenceURL + "&count=11", change: sequencesFor, token: "chats", status: 429, code: -12, says: "has 10 left, and 11 were asked for"})
	for _, x := range slices.Clone(all) {
		if x.method == "" && strings.HasPrefix(x.target, "/v1/sequence/chat/ids?") {
			x.name, x.method = "POST: "+x.name, post
			all = append(all, x)
		}
	}
	for i := range all {
		all[i].name = "sequences: " + all[i].name
	}
	return all
}

func sequencesFor(o *Options) {
	o.Access, o.RequireToken = guardOf("root", "chats", "may: ['sequence:ch*'], ids_per_second: 10", "feeds", "may: ['sequence:feeds']",
		"times", "may: [snowflake]", "spent", "may: ['sequence:*'], rate: 0.1"), true
	_, _ = o.Access.Client(http.Header{"Authorization": {"Bearer spent"}})
}

func TestSequences(t *testing.T) {
	for _, x := range sequenceExchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, _, _ := x.do()
			body := got.Body.String()
			if got.Code != x.status || x.body != "" && body != x.body || got.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("answered %d %s %v, want %d %s", got.Code, body, got.Header(), x.status, x.body)
			}
			if x.code != 0 {
				check.Has(t, body, fmt.Sprintf(`{"code":%d,`, x.code))
				check.Has(t, body, x.says)
			}
		})
	}
}

// Each key of each space counts on its own, whatever its bytes; looking issues nothing, and counts
// as a request of the mode.
func TestSequencesOfKeys(t *testing.T) {
	f := &fakeSequence{}
	a := newAPIOf(func(o *Options) { metered(o); o.Sequence = f })
	keys := []string{"room42", "room43", "\x00", "a\nb", "a:b", "a/b", "a%2Fb", "a b+c&d=e", "\xff\xfe", "群聊 42", `"}`}
	for round, want := range []string{"1", "2"} {
		for _, key := range keys {
			for _, space := range []string{"chat", "feed"} {
				path := "/v1/sequence/" + space
				wantAnswer(t, ask(a, http.MethodPost, path+"/ids?key="+url.QueryEscape(key)), 200, `{"code":0,"ids":["`+want+`"]}`)
				wantAnswer(t, ask(a, http.MethodGet, path+"/current?key="+url.QueryEscape(key)), 200, `{"code":0,"current":"`+want+`"}`)
			}
		}
		check.Equal(t, len(f.last), 2*len(keys), "keys in round", round)
	}
	check.Equal(t, metricOf(t, a, `shardid_request_duration_seconds_count{mode="sequence"}`), 8*len(keys), "served")
	check.Equal(t, metricOf(t, a, "shardid_refused_total"), 0, "refused")
}

// What is accepted asks for the key and the count that url.ParseQuery reads, and a query that it
// cannot read is refused.
func FuzzSequence(f *testing.F) {
	for _, x := range sequenceExchanges() {
		_, query, _ := strings.Cut(x.target, "?")
		f.Add(query)
	}
	f.Add("key=%00%0a%3a%2F%ff&count=010")
	f.Add("key=a;b&count=1;2")
	fake := &fakeSequence{}
	a := newAPIOf(func(o *Options) { o.Sequence, o.MaxURLBytes = fake, 1<<20 })
	f.Fuzz(func(t *testing.T, query string) {
		fake.last = nil
		r := httptest.NewRequest(http.MethodPost, "/v1/sequence/chat/ids", nil)
		r.URL.RawQuery = query
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code == 400 && len(fake.last) == 0 {
			return
		}
		var answer struct {
			IDs    []string
			Ranges []struct{ Count int64 }
		}
		values, err := url.ParseQuery(query)
		if bad := json.Unmarshal(w.Body.Bytes(), &answer); bad != nil || w.Code != 200 || len(fake.last) != 1 {
			t.Fatalf("%q: %d %s, %v", query, w.Code, w.Body, bad)
		}
		issued := int64(len(answer.IDs))
		for _, r := range answer.Ranges {
			issued += r.Count
		}
		for key, last := range fake.last {
			if err == nil && key[1] != values.Get("key") || len(values["key"]) > 1 || len(values["count"]) > 1 || last != issued || len(key[1]) > model.MaxSequenceKey {
				t.Fatalf("%q: %q has %d, %d answered; url.ParseQuery %v", query, key, last, issued, values)
			}
		}
	})
}
