package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// sink is a ResponseWriter that costs nothing.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(b []byte) (int, error) { return len(b), nil }
func (s sink) WriteHeader(int)             {}

// instant is a queue that always has what is asked for.
type instant struct{ fakeQueue }

func (q *instant) Next(_ context.Context, _ int, _ string, count int, dst []int64) ([]int64, error) {
	for i := range count {
		dst = append(dst, int64(i+1)<<14)
	}
	return dst, nil
}

func BenchmarkGet(b *testing.B) {
	for _, c := range []struct{ name, target, accept string }{
		{"one", alice, ""},
		{"one, browser", alice, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		{"one, text", alice, "text/plain"},
		{"one, encoded", "/get?appId=1&gatePass=%E5%BC%A0%E4%B8%89", ""},
		{"batch of 100", alice + "&count=100", ""},
		{"refused", "/get?appId=300&gatePass=alice", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			api := newAPI(&instant{})
			r := httptest.NewRequest(http.MethodGet, c.target, nil)
			r.Header.Set("Accept", c.accept)
			w := sink{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				api.ServeHTTP(w, r)
			}
		})
	}
}

func BenchmarkParseGet(b *testing.B) {
	for name, query := range map[string]string{
		"plain":   "appId=1&gatePass=alice&count=100&stringify=true",
		"encoded": "appId=1&gatePass=%E5%BC%A0%E4%B8%89",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parseGet(query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendIDs(b *testing.B) {
	ids := make([]int64, 1000)
	for i := range ids {
		ids[i] = int64(i+1) << 40
	}
	for name, stringify := range map[string]bool{"numbers": false, "strings": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var body []byte
			for b.Loop() {
				body = appendIDs(body[:0], ids, stringify)
			}
		})
	}
}
