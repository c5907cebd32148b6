package httpapi

import (
	"net/http"
	"testing"

	"shardid/scripts/check"
)

const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// accepted are the fields of a request whose Accept has these lines.
func accepted(lines ...string) *http.Request {
	return &http.Request{Header: http.Header{"Accept": lines}}
}

func TestOnlyText(t *testing.T) {
	for want, accepts := range map[bool][]string{
		true: {"text/plain", "text/*", "Text/Plain; charset=utf-8", "text/plain;q=0.1, text/html",
			"application/json;q=0, text/plain;q=0.001", "text/plain, application/xml"},
		false: {
			"", "*/*", "application/json", "text/html", "text/plainer", // */* is curl
			"application/json, text/plain, */*", browserAccept, // axios, browsers
			"text/plain, application/json, */*", "text/plain, */*", // Spring for a String, and its like
			"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", // Java's HttpURLConnection
			"text/plain;q=0", "text/plain;q=0, text/*", // refused; the more specific range counts
			"text/plain, application/*;q=0.1", "text/plain;q=0.9, application/json;q=0.1",
			"text/plain;q=x", "text/plain;q=NaN", "text/plain;q=", "text/plain;q=Inf, */*", // no quality
			"text/plain;q=2, */*;q=0.1", "text/plain;q=-1, application/json;q=0", "text/plain;q=1e999, *",
		},
	} {
		for _, accept := range accepts {
			check.Equal(t, onlyText(accepted(accept)), want, "onlyText", accept)
		}
	}
	// Several header lines are one list; none at all means JSON.
	if !onlyText(accepted("text/html", "text/plain")) || onlyText(accepted()) {
		t.Error("several lines, or none, are misread")
	}
}

func TestWantsJSON(t *testing.T) {
	for want, accepts := range map[bool]map[string][]string{ // by the text that is there
		true: {
			"text/plain": {
				"application/json", "Application/*", "application/json, text/plain, */*", // axios
				"text/plain;q=0.9, application/json", "text/html, application/json", // HTML is not the text there is
			},
			"text/html": {"application/json, */*", "*/*;q=0.8, application/json;q=0.9"},
		},
		false: {
			"text/plain": {
				"", "*/*", "text/plain", "text/plain, application/json, */*", // the last is Spring's, for a String
				"*/*, application/json;q=0.9", "application/json;q=0", "application/jsonp, application/xml",
			},
			"text/html": {"text/html, application/json", browserAccept, "text/*, application/json"},
		},
	} {
		for text, accepts := range accepts {
			for _, accept := range accepts {
				check.Equal(t, wantsJSON(accepted(accept), text), want, "wantsJSON", accept, text)
			}
		}
	}
}
