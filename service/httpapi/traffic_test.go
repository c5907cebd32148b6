package httpapi

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"time"

	"shardid/model"
)

// Each mode counts its own requests, by outcome and code, also those that a handler
// refuses before it asks the service.
func TestTraffic(t *testing.T) {
	api := newAPI(&fakeQueue{})
	for _, target := range []string{alice, alice + "&count=7", "/get?appId=1", segmentURL, uidURL, "/decode?id=x", "/get/more"} {
		ask(api, http.MethodGet, target)
	}
	all := api.Traffic()
	for mode, want := range map[string][3]int64{ModeQueue: {2, 1, 0}, ModeSegment: {1, 0, 0}, ModeSnowflake: {0, 0, 0}, ModeUID: {1, 0, 0}} {
		got := all[mode]
		if n := [3]int64{got.OK.Count(), got.Refused.Count(), got.Failed.Count()}; n != want {
			t.Errorf("%s: %v, want %v", mode, n, want)
		}
		var codes int64
		for code, n := range got.Codes {
			if n > 0 && code != -6 {
				t.Errorf("%s: code %d counted", mode, code)
			}
			codes += n
		}
		if codes != want[1] || got.Codes[0] != 0 {
			t.Errorf("%s: codes %v", mode, got.Codes)
		}
	}
}

// The outcome is the service's or the caller's by the status, and every code of the
// error table is counted under itself.
func TestTrafficByCode(t *testing.T) {
	for _, e := range apiErrors() {
		api := newAPIOf(failModes(e.err))
		ask(api, http.MethodGet, snowflakeURL)
		got := api.Traffic()[ModeSnowflake]
		refused, failed := int64(1), int64(0)
		if e.status >= 500 {
			refused, failed = 0, 1
		}
		want := map[int]int64{}
		for i := 1; i <= -lastCode; i++ {
			want[-i] = 0
		}
		want[e.code] = 1
		if got.OK.Count() != 0 || got.Refused.Count() != refused || got.Failed.Count() != failed || !maps.Equal(got.Codes, want) {
			t.Errorf("%v: %+v", e.err, got)
		}
	}
}

// The time of a request is that of the service too.
func TestTrafficTimes(t *testing.T) {
	q := &fakeQueue{next: func(context.Context) error { time.Sleep(30 * time.Millisecond); return model.ErrQueueEmpty }}
	api := newAPI(q)
	ask(api, http.MethodGet, alice)
	if got := api.Traffic()[ModeQueue].Failed; got.Sum < 30*time.Millisecond || got.Sum > 20*time.Second {
		t.Errorf("took %v", got.Sum)
	}
}
