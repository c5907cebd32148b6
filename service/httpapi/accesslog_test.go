package httpapi

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// accessLines are the lines that requests have.
func accessLines(mode string, targets ...string) (lines []string) {
	var log strings.Builder
	opts, _ := testOptions(&fakeQueue{}, nil, &log)
	opts.AccessLog = mode
	api := New(opts)
	for _, target := range targets {
		askAs(api, http.MethodGet, target, "traceparent", someParent)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "msg=request ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestAccessLog(t *testing.T) {
	good, bad := slices.Repeat([]string{alice}, 250), slices.Repeat([]string{"/get?appId=1&gatePass="}, 3)
	for mode, want := range map[string]int{"": 0, AccessOff: 0, AccessErrors: 3, AccessSampled: 3 + 3, AccessAll: 253} {
		if got := accessLines(mode, append(bad, good...)...); len(got) != want {
			t.Errorf("%q: %d lines, want %d", mode, len(got), want)
		}
	}
}

// A line has what is needed to find a request, and nothing of what it asked for.
func TestAccessLine(t *testing.T) {
	line := strings.Join(accessLines(AccessAll, "/get?appId=1&gatePass=alice"), "")
	for _, want := range []string{"level=INFO", "method=GET", "path=/get", "status=200", "code=0", "ms=", "bytes=37", "trace_id=" + someTrace} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	line += strings.Join(accessLines(AccessErrors, "/get?appId=300&gatePass=alice"), "")
	if !strings.Contains(line, "status=400 code=-6") || !strings.Contains(line, "request_id="+someTrace) || strings.Contains(line, "alice") {
		t.Error(line)
	}
	if long := accessLines(AccessAll, "/"+strings.Repeat("x", 3000)); len(long) != 1 || len(long[0]) > 2*maxLogged+300 {
		t.Errorf("%d bytes", len(long[0]))
	}
}

// A line names the token and never shows it.
func TestAccessLineNamesTheToken(t *testing.T) {
	var log strings.Builder
	opts, _ := testOptions(&fakeQueue{}, nil, &log)
	opts.AccessLog, opts.RequireToken, opts.Access = AccessAll, true, guardOf("", "sesame", "role: get, apps: '*'")
	if got := (exchange{target: alice, token: "sesame"}).ask(New(opts)); got.Code != http.StatusOK {
		t.Fatal(got.Body)
	}
	if line := log.String(); !strings.Contains(line, "token=sesame-token") || strings.Contains(strings.ReplaceAll(line, "sesame-token", ""), "sesame") {
		t.Error(line)
	}
}

// A caller that is refused again and again does not fill the disk, and what has no
// line is counted in the next.
func TestAccessLogIsBounded(t *testing.T) {
	const asked = 5 * errorLines
	var log strings.Builder
	opts, _ := testOptions(&fakeQueue{}, nil, &log)
	opts.AccessLog = AccessErrors
	api := New(opts)
	for range asked {
		ask(api, http.MethodGet, "/get")
	}
	time.Sleep(2 * time.Second / errorLines) // the next has a line for sure
	ask(api, http.MethodGet, "/get")
	lines, told := strings.Count(log.String(), "msg=request "), 0
	for _, m := range regexp.MustCompile(`more_since_the_last_line=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		told += n
	}
	if lines < errorLines || lines > asked/2 || lines+told != asked+1 {
		t.Errorf("%d lines tell of %d more, %d requests", lines, told, asked+1)
	}
}
