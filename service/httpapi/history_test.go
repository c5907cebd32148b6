package httpapi

import (
	"math"
	"net/http"
	"testing"

	"shardid/service/monitor"
)

// fakeHistory has one sample of an app that existed, and knows which was asked for.
type fakeHistory struct{}

func (fakeHistory) History() monitor.Chart {
	return chart(map[string][]monitor.Value{
		"queue.issued": {0.12345, 2}, "queue.p99Ms": {monitor.Value(math.NaN()), 1e6},
	})
}

func (fakeHistory) AppHistory(app uint8) monitor.Chart {
	return chart(map[string][]monitor.Value{"app.issued": {monitor.Value(app), monitor.Value(math.Inf(1))}})
}

func chart(series map[string][]monitor.Value) monitor.Chart {
	return monitor.Chart{PeriodSeconds: 5, Times: []int64{1795192496, 1795192501}, Series: series}
}

func withHistory(o *Options) { o.History = fakeHistory{} }

func TestHistory(t *testing.T) {
	const head = `{"periodSeconds":5,"times":[1795192496,1795192501],"series":`
	api := newAPIOf(withHistory)
	for target, want := range map[string]string{
		"/api/history":              head + `{"queue.issued":[0.123,2],"queue.p99Ms":[null,1000000]}}`,
		"/api/history?x=1&ap%70=7":  head + `{"app.issued":[7,null]}}`,
		"/api/history?app=0":        head + `{"app.issued":[0,null]}}`,
		"/api/history?app=255&y":    head + `{"app.issued":[255,null]}}`,
		"/api/history?application=": head + `{"queue.issued":[0.123,2],"queue.p99Ms":[null,1000000]}}`,
	} {
		wantAnswer(t, ask(api, http.MethodGet, target), 200, want)
	}
	wantAnswer(t, ask(newAPI(&fakeQueue{}), http.MethodGet, "/api/history"), 200, `{"periodSeconds":5,"times":[],"series":{}}`)
}

// badHistory are parameters that no reader may take in two ways.
func badHistory() []exchange {
	var all []exchange
	for _, query := range []string{"app=256", "app=-1", "app=", "app=x", "app=1&app=1", "app=%zz", "app=1&%61pp=2", "app=+1"} {
		all = append(all, exchange{name: "history, " + query, target: "/api/history?" + query, status: 400})
	}
	return all
}

func TestHistoryRefusesBadParameters(t *testing.T) {
	for _, x := range badHistory() {
		if got := ask(newAPIOf(withHistory), http.MethodGet, x.target); got.Code != 400 {
			t.Errorf("%s: %d %s", x.target, got.Code, got.Body)
		}
	}
}
