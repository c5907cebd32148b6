package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"testing"
)

func TestWantsText(t *testing.T) {
	for _, c := range []struct {
		accept string
		want   bool
	}{
		{"text/plain", true},
		{"text/*", true},
		{"Text/Plain; charset=utf-8", true},
		{"text/plain, application/json", true},
		{"text/plain, */*", true},
		{"text/plain;q=0.1, text/html", true},
		{"application/json;q=0.5, text/plain", true},
		{"application/json;q=0, text/plain;q=0.001", true},
		{"*/*;q=0.8, text/plain;q=0.9", true},
		{"text/plain;Q=1, application/json;Q=0.9", true},

		{"", false},
		{"*/*", false}, // curl
		{"application/json", false},
		{"application/json, text/plain, */*", false},                               // axios
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false}, // browsers
		{"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", false},            // Java's HttpURLConnection
		{"text/html", false},                                                             // not text/plain
		{"text/plainer", false},                                                          //
		{"text/plain;q=0", false},                                                        // refused
		{"text/plain;q=0, text/*", false},                                                // the more specific range counts
		{"text/*, text/plain;q=0.1, application/json;q=0.5", false},                      //
		{"text/plain;q=0.5, application/json;q=0.6", false},                              //
		{"text/plain;q=0.5, application/*;q=0.5;x=1, application/json;q=0.6", false},     //
		{"application/json;q=0.5, text/plain;q=0.5", false},                              // the first of equals
		{"text/plain;q=x", false}, {"text/plain;q=NaN", false}, {"text/plain;q=", false}, // no quality
		{"text/plain;q=Inf, */*", false}, {"text/plain;q=2, */*;q=0.1", false}, //
		{"text/plain;q=-1, application/json;q=0", false}, {"text/plain;q=1e999, *", false}, //
	} {
		if got := wantsText(&http.Request{Header: http.Header{"Accept": {c.accept}}}); got != c.want {
			t.Errorf("wantsText(%q) = %v", c.accept, got)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	for _, c := range []struct {
		accept, text string
		want         bool
	}{
		{"application/json", "text/plain", true},
		{"Application/*", "text/plain", true},
		{"application/json, text/plain, */*", "text/plain", true}, // axios
		{"application/json, */*", "text/html", true},
		{"text/plain;q=0.9, application/json", "text/plain", true},
		{"text/html, application/json", "text/plain", true}, // not the text there is
		{"*/*;q=0.8, application/json;q=0.9", "text/html", true},

		{"", "text/plain", false},
		{"*/*", "text/plain", false}, // curl
		{"text/plain", "text/plain", false},
		{"text/plain, application/json, */*", "text/plain", false}, // Spring's RestTemplate, for a String
		{"text/html, application/json", "text/html", false},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html", false}, // browsers
		{"text/*, application/json", "text/html", false},
		{"*/*, application/json;q=0.9", "text/plain", false},
		{"application/json;q=0", "text/plain", false},
		{"application/jsonp, application/xml", "text/plain", false},
	} {
		if got := wantsJSON(&http.Request{Header: http.Header{"Accept": {c.accept}}}, c.text); got != c.want {
			t.Errorf("wantsJSON(%q, %s) = %v", c.accept, c.text, got)
		}
	}
}

// Several header lines are one list; none at all means JSON.
func TestWantsTextOfSeveralLines(t *testing.T) {
	for want, lines := range map[bool][]string{true: {"text/html", "text/plain"}, false: nil} {
		if got := wantsText(&http.Request{Header: http.Header{"Accept": lines}}); got != want {
			t.Errorf("wantsText(%q) = %v", lines, got)
		}
	}
}

func TestDecimals(t *testing.T) {
	var d decimals
	for _, id := range []int64{1, 9, 10, tail - 1, tail, tail + 1, 2*tail - 1, 2 * tail, 16385, 10 * tail, 1 << 53, math.MaxInt64 - 1, math.MaxInt64, 1} {
		if got, want := string(d.append(nil, id)), strconv.FormatInt(id, 10); got != want {
			t.Errorf("%s for %s", got, want)
		}
	}
}

// All halves of eight digits.
func TestEightDigits(t *testing.T) {
	for n := range int64(10_000) {
		for _, id := range []int64{tail + n, tail + n*10_000, tail + n*10_001} {
			var d decimals
			if got, want := string(d.append(nil, id)), strconv.FormatInt(id, 10); got != want {
				t.Fatalf("%s for %s", got, want)
			}
		}
	}
}

// Two IDs one after the other, as the second reuses what the first left.
func FuzzDecimals(f *testing.F) {
	f.Add(int64(16385), int64(32769))
	f.Add(int64(1169786042799259000), int64(1169786042799259001))
	f.Add(int64(tail-1), int64(tail))
	f.Fuzz(func(t *testing.T, first, second int64) {
		var d decimals
		for _, id := range []int64{first, second, first} {
			if got, want := string(d.append([]byte("x"), id)), "x"+strconv.FormatInt(id, 10); got != want {
				t.Fatalf("%s for %s after %d", got, want, first)
			}
		}
	})
}
