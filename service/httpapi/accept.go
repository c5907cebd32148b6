package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// wantsText says whether an Accept header prefers text/plain to JSON. No header
// means JSON, and so does one that does not name text.
func wantsText(r *http.Request) bool {
	return prefers(r, [2]string{"text/plain", "text/*"}, [3]string{"application/json", "application/*", "*/*"})
}

// wantsJSON says whether an Accept header prefers JSON to another type of text,
// for the answers that are that text by default: no header means the text, and so
// does one that does not name JSON.
func wantsJSON(r *http.Request, text string) bool {
	return prefers(r, [2]string{"application/json", "application/*"}, [3]string{text, "text/*", "*/*"})
}

// prefers says whether an Accept header names a wanted range and prefers it to the
// others: the one with the higher quality wins, of equals the first.
func prefers(r *http.Request, wanted [2]string, others [3]string) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	if !strings.Contains(accept, wanted[0]) && !strings.Contains(accept, wanted[1]) {
		return false
	}
	want, wantAt := quality(accept, wanted[:]...)
	other, otherAt := quality(accept, others[:]...)
	return want > 0 && (want > other || want == other && wantAt < otherAt)
}

// quality is how much an Accept header wants a media type, and the place of the
// range that says so: of the given ranges, most specific first, the first that
// occurs. It is 0 when none does.
func quality(accept string, ranges ...string) (q float64, place int) {
	best, at := len(ranges), 0
	for part := range strings.SplitSeq(accept, ",") {
		kind, v := mediaRange(part)
		if i := slices.Index(ranges, kind); i >= 0 && i < best {
			best, q, place = i, v, at
		}
		at++
	}
	return q, place
}

// mediaRange splits "text/plain;q=0.5".
func mediaRange(s string) (kind string, q float64) {
	kind, params, _ := strings.Cut(s, ";")
	q = 1
	for p := range strings.SplitSeq(params, ";") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
			q = parseQuality(v)
		}
	}
	return strings.TrimSpace(kind), q
}

// parseQuality reads a quality; one that is none, or not in 0…1, counts as 0.
func parseQuality(s string) float64 {
	q, err := strconv.ParseFloat(s, 64)
	if err != nil || !(q >= 0 && q <= 1) { // the negation holds for NaN
		return 0
	}
	return q
}
