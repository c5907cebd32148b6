package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// wantsText says whether an Accept header prefers text/plain to JSON. The one
// with the higher quality wins, of equals the first; no header means JSON, and
// so does one that does not name text.
func wantsText(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	if !strings.Contains(accept, "text/plain") && !strings.Contains(accept, "text/*") {
		return false
	}
	text, textAt := quality(accept, "text/plain", "text/*")
	json, jsonAt := quality(accept, "application/json", "application/*", "*/*")
	return text > 0 && (text > json || text == json && textAt < jsonAt)
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
