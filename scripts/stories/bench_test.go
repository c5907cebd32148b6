//go:build unix

package stories_test

import (
	"strings"
	"testing"
)

// TestBenchDefaults: on the server's machine its configuration says where it is; the report is for
// people, and no ID came twice.
func TestBenchDefaults(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo")
	d.ready()
	s := settings{"SERVER_ADDR": strings.TrimPrefix(d.url, "http://")}
	out := must(t, s, "bench", "--duration", "200ms")
	for _, part := range []string{
		"queue       " + d.url, "latency     p50 ", "p99.9 ", "errors      0", "duplicates  0 among ",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
}
