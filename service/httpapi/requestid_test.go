package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shardid/model"
)

// askAs is ask with headers: names and values.
func askAs(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	someTrace  = "0af7651916cd43dd8448eb211c80319c"
	someParent = "00-" + someTrace + "-b7ad6b7169203331-01"
)

// An ID that can be used is shown again, with every answer; another one is replaced
// where an answer needs one, and is in no answer.
func TestRequestIDs(t *testing.T) {
	long := strings.Repeat("x", maxRequestID)
	for _, c := range []struct {
		name   string
		header []string
		want   string // "" for a new one
	}{
		{"none", nil, ""},
		{"given", []string{requestIDHeader, "a-1"}, "a-1"},
		{"in other letters", []string{"x-request-ID", "a-1"}, "a-1"},
		{"longest", []string{requestIDHeader, long}, long},
		{"too long", []string{requestIDHeader, long + "x"}, ""},
		{"empty", []string{requestIDHeader, ""}, ""},
		{"space", []string{requestIDHeader, "a 1"}, ""},
		{"line end", []string{requestIDHeader, "a\r\nSet-Cookie: x"}, ""},
		{"DEL", []string{requestIDHeader, "a\x7f"}, ""},
		{"beyond ASCII", []string{requestIDHeader, "é"}, ""},
		{"two", []string{requestIDHeader, "a", requestIDHeader, "b"}, ""},
		{"trace", []string{"traceparent", someParent}, someTrace},
		{"trace of a later version", []string{"traceparent", "01-" + someTrace + "-b7ad6b7169203331-01-more"}, someTrace},
		{"both", []string{"traceparent", someParent, requestIDHeader, "a-1"}, "a-1"},
		{"no trace", []string{"traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"}, ""},
		{"trace with a line end", []string{"traceparent", "00-0af7651916cd43dd8448eb211c8031\r\n-b7ad6b7169203331-01"}, ""},
		{"short trace", []string{"traceparent", "00-abc-b7ad6b7169203331-01"}, ""},
		{"two traces", []string{"traceparent", someParent, "traceparent", someParent}, ""},
	} {
		served := askAs(newAPI(&fakeQueue{}), http.MethodGet, alice, c.header...).Header()[requestIDHeader]
		if own := c.want != "" && c.want != someTrace; !own && len(served) > 0 || own && (len(served) != 1 || served[0] != c.want) {
			t.Errorf("%s: served with %q", c.name, served)
		}
		refused := askAs(newAPI(&fakeQueue{}), http.MethodGet, "/get", c.header...).Header()[requestIDHeader]
		if len(refused) != 1 || c.want != "" && refused[0] != c.want || c.want == "" && !isNew(refused[0], c.header) {
			t.Errorf("%s: refused with %q, want %q", c.name, refused, c.want)
		}
	}
}

// isNew says whether an ID can only have been made here.
func isNew(id string, given []string) bool {
	return len(id) == 26 && isRequestID(id) && !strings.Contains(strings.Join(given, " "), id)
}

// No two requests get one ID.
func TestRequestIDsAreDistinct(t *testing.T) {
	api, seen := newAPI(&fakeQueue{}), map[string]bool{}
	for range 1000 {
		seen[ask(api, http.MethodGet, "/get").Header().Get(requestIDHeader)] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d distinct IDs of 1000", len(seen))
	}
}

// The log and the answer name the same request, whatever became of it.
func TestRequestIDsAreInTheLog(t *testing.T) {
	for name, q := range map[string]*fakeQueue{
		"refused": broken(model.ErrUnknownApp), "failed": broken(http.ErrBodyNotAllowed), "panic": panicking("boom"),
	} {
		var log strings.Builder
		got := ask(newAPIWith(q, nil, &log), http.MethodGet, alice)
		if id := got.Header().Get(requestIDHeader); id == "" || !strings.Contains(log.String(), "request_id="+id) {
			t.Errorf("%s: %q is not in %s", name, id, log.String())
		}
	}
}

// An answer of administration always names its request.
func TestAdministrationNamesItsRequest(t *testing.T) {
	api := adminAPI(guardOf("root"))
	for _, token := range []string{"root", "wrong"} {
		got := askAs(api, http.MethodPost, "/admin/guarded/1", "Authorization", "Bearer "+token)
		if !isNew(got.Header().Get(requestIDHeader), nil) {
			t.Errorf("%s: %v", token, got.Header())
		}
	}
}

// A request that has an ID costs no allocation for it either.
func TestRequestIDsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool forget")
	}
	api, w, r := hot()[0].serve()
	r.Header.Set(requestIDHeader, "a-1")
	if n := testing.AllocsPerRun(1000, func() { api.ServeHTTP(w, r) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	if w.Header().Get(requestIDHeader) != "a-1" {
		t.Error("the ID is not shown")
	}
}
