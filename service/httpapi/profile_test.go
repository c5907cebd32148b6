package httpapi

import (
	"net/http"
	"testing"

	"shardid/scripts/check"
)

// profileExchanges ask for profiles as who may and as who may not.
func profileExchanges() []exchange {
	const heap = "/admin/pprof/heap"
	all := []exchange{
		{name: "a profile", target: heap, token: adminSecret, status: 200},
		{name: "a profile of no such name", target: "/admin/pprof/x", token: adminSecret, status: 404, code: -10},
		{name: "a profile that takes too long", target: "/admin/pprof/profile?seconds=11", token: adminSecret, status: 400,
			code: -6, says: "seconds is not 1…10"},
		{name: "a profile without a token", target: heap, status: 401, code: -7},
		{name: "a profile for a token of IDs", target: heap, token: "orders", status: 403, code: -7},
		{name: "a profile, too fast", target: heap, token: "slow", status: 429, code: -12, change: spentAdmin},
	}
	for i := range all {
		if all[i].change == nil {
			all[i].change = administrated(&fakeAdmin{})
		}
	}
	return all
}

func TestProfiles(t *testing.T) {
	for _, x := range profileExchanges() {
		t.Run(x.name, func(t *testing.T) {
			got, _, _ := x.do()
			check.Equal(t, got.Code, x.status)
			if x.status == http.StatusOK && (got.Body.Len() == 0 || got.Header().Get("Cache-Control") != "no-store") {
				t.Errorf("%d bytes, %v", got.Body.Len(), got.Header())
			}
		})
	}
}
