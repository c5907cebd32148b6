package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"shardid/client/idtext"
	"shardid/model"

	"github.com/gin-gonic/gin"
)

// What is accepted is in range, and url.ParseQuery reads the same from it: a
// proxy that looks at appId sees the app that an ID is issued for.
func FuzzParseGet(f *testing.F) {
	for _, x := range idExchanges() {
		_, query, _ := strings.Cut(x.target, "?")
		f.Add(query)
	}
	for _, query := range []string{
		"appId=1&gatePass=a;b", "appId=1;gatePass=a&gatePass=b", "app+Id=1&gatePass=a", "%61ppId=1&appId=2&gatePass=a",
		"appId=007&gatePass=a&count=010000", "appId=1&gatePass=%F0%9F%98%80", "appId=1&gatePass=a&count=1_0",
		"appId=%31&gatePass=+",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, unreadable := url.ParseQuery(query)
		request := &gin.Context{Request: &http.Request{URL: &url.URL{RawQuery: query}}}
		p, err := ofGet.parse(request, idRequest{})
		if err != nil {
			if !errors.Is(err, model.ErrInvalidArgument) {
				t.Fatalf("%q: %v", query, err)
			}
			return
		}
		inRange := p.App >= 0 && p.App < model.Apps && p.Count >= 1 && p.Count <= model.MaxBatch &&
			(p.batch || p.Count == 1)
		pass := values.Get("gatePass")
		if !inRange || p.Shard >= model.Shards || unreadable == nil && !values.Has("shard") &&
			(pass == "" || len(pass) > idtext.MaxGatePassBytes || !utf8.ValidString(pass)) {
			t.Fatalf("%q accepted as %+v", query, p)
		}
		if unreadable == nil {
			sameAs(t, p, values)
		}
	})
}

func sameAs(t *testing.T, p idRequest, values url.Values) {
	t.Helper()
	want := idRequest{form: p.form, batch: len(values["count"]) > 0}
	want.Shard, want.Count = idtext.ShardOf(values.Get("gatePass")), 1
	if values.Has("shard") {
		n, _ := strconv.ParseUint(values.Get("shard"), 10, 8)
		want.Shard = uint8(n)
	}
	want.App, _ = strconv.Atoi(values.Get("appId"))
	if want.batch {
		want.Count, _ = strconv.Atoi(values.Get("count"))
	}
	want.stringify, _ = strconv.ParseBool(values.Get("stringify"))
	if format := values.Get("format"); p != want ||
		len(values["appId"]) > 0 && (format == "text") != (p.form == asLines) {
		t.Fatalf("read %+v, url.ParseQuery %+v", p, want)
	}
}
