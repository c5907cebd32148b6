//go:build unix

package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
)

// fortress is a server that wants tokens, and one of app 1 for it.
func fortress(t *testing.T) (d *daemon, token string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "tokens.yaml")
	token = newToken(t, file, "orders", "get", "--apps", "1", "--tags", "leaf-segment-test")
	newToken(t, file, "others", "get", "--apps", "2", "--tags", "other")
	d = serveIn(t, dir, settings{
		"SERVER_TOKENS_FILE": file, "SERVER_REQUIRE_TOKEN": "true", "SERVER_PROTECT_MONITORING": "true", "SERVER_ADMIN_TOKEN": "open-sesame-open-sesame",
		"SERVER_READ_HEADER_TIMEOUT": "1s", "QUEUE_TIMEOUT": "100ms", "SEGMENT_TIMEOUT": "100ms", "SNOWFLAKE_TIMEOUT": "100ms", "UID_TIMEOUT": "100ms",
	}, "--demo")
	d.ready()
	return d, token
}

// raw sends bytes over a connection of its own and gives all answers.
func (d *daemon) raw(request string) (answers string) {
	d.t.Helper()
	conn := dial(d.t, d.url, request)
	defer conn.Close()
	all, _ := io.ReadAll(conn) // a reset is an answer too
	return string(all)
}

// attack is a request as bytes; it must have this status, and no ID. Who may do what is told by the
// tests of httpapi.
type attack struct {
	name, request string
	status        int
}

func attacks(token string) []attack {
	const end = "Host: localhost\r\nConnection: close\r\n\r\n"
	mine := "Authorization: Bearer " + token + "\r\n"
	admin := "Authorization: Bearer open-sesame-open-sesame\r\n"
	get := func(target, header string) string { return "GET " + target + " HTTP/1.1\r\n" + header + end }
	post := func(target, header, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n%s%s", target, header, len(body), end, body)
	}
	all := []attack{
		{"token in a cookie", get(aliceGet, "Cookie: token="+token+"; Authorization=Bearer "+token+"\r\n"), 401},
		{"token in another header", get(aliceGet, "X-Authorization: Bearer "+token+"\r\nProxy-Authorization: Bearer "+token+"\r\n"), 401},
		{"token as user", get("http://"+token+"@localhost"+aliceGet, ""), 401},
		{"two tokens", get(aliceGet, mine+mine), 401},
		{"two tokens, one wrong", get(aliceGet, "Authorization: Bearer x\r\n"+mine), 401},
		{"two in one header", get(aliceGet, "Authorization: Bearer x, Bearer "+token+"\r\n"), 401},
		{"token over two lines", get(aliceGet, "Authorization: Bearer\r\n "+token+"x\r\n"), 401},
		{"another's tag, encoded", get("/api/segment/get/%6fther", mine), 403},
		{"a page of another site reads", get("/decode?id=16385", mine+"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), 403},
		{"a name that leads here, in the target", get("http://evil.example"+aliceGet, mine), 403},
		{"any address of the machine", "GET " + aliceGet + " HTTP/1.1\r\n" + mine + "Host: 0.0.0.0\r\nConnection: close\r\n\r\n", 403},
		{"two IDs to decode", get("/decode?id=16385&id=1", mine), 400},
		{"two IDs to decode, one encoded", get("/decode?id=16385&%69d=1", mine), 400},
		{"two kinds to decode", get("/decode?id=16385&kind=queue&kind=uid", mine), 400},
		{"two snowflakes to decode", get("/decodeSnowflakeId?snowflakeId=4194304&snowflakeId=1", mine), 400},
		{"two apps of the charts", get("/api/history?app=1&app=2", mine), 400},
		{"two counts", get("/api/segment/get/leaf-segment-test?count=1&count=2", mine), 400},
		{"a line end in an app's name", post("/admin/apps", admin, `{"id":9,"name":"a\nb"}`), 400},
		{"an escape in a tag", post("/admin/tags", admin, `{"tag":"a\u001b[31m"}`), 400},
		{"an app by semicolon", get("/get?appId=1;appId=2&gatePass=alice", mine), 400},
		{"line ends in a value", get("/get?appId=1&gatePass=a&count=1%0d%0aX-Evil:%201", mine), 400},
		{"line ends in a tag", get("/api/segment/get/a%0d%0aX-Evil:%201", mine), 403},
		{"line ends in a path", get("/admin/%0d%0aX-Evil:%201", ""), 401},
		{"a line end in a head", get(aliceGet, "X-A: a\rX-Evil: 1\r\n"), 400},
		{"a NUL in a head", get(aliceGet, "X-A: a\x00\r\n"), 400},
		{"a space before the colon", get(aliceGet, "Authorization : Bearer "+token+"\r\n"), 400},
		{"two lengths", "GET " + aliceGet + " HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + end, 400},
		{"length and chunks", "POST " + aliceGet + " HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n", 401}, // the chunks count
		{"no host", "GET " + aliceGet + " HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
		{"two hosts", get(aliceGet, "Host: y\r\n"), 400},
		{"large head", get(aliceGet, "X-A: "+strings.Repeat("a", 40_000)+"\r\n"), 431},
		{"many heads", get(aliceGet, strings.Repeat("X-A: a\r\n", 5_000)), 431},
		{"long URL", get(aliceGet+"&x="+strings.Repeat("a", 9000), mine), 414},
		{"another method by a header", get("/admin/apps", "X-HTTP-Method-Override: POST\r\nX-Method-Override: DELETE\r\n"), 401},
		{"GET by a header", "PUT " + aliceGet + " HTTP/1.1\r\n" + mine + "X-HTTP-Method-Override: GET\r\n" + end, 405},
		{"an unknown method", "BREW " + aliceGet + " HTTP/1.1\r\n" + mine + end, 405},
		{"another path by a header", get("/livez2", "X-Original-URL: /admin/apps\r\nX-Rewrite-URL: /admin/apps\r\n"+mine), 404},
		{"an address by a header", get("/admin/apps", "X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n"), 401},
	}
	for _, path := range []string{"/admin/apps", "/admin/apps/1", "/admin/tags", "/admin/log", "/admin/", "/admin/nothing", "/admin/./apps", "/admin/../admin/apps", "/admin//apps", "/%61dmin/apps", "/admin%2Fapps", "/admin/apps/", "/admin/%2e%2e/get"} {
		all = append(all,
			attack{"no token: " + path, get(path, ""), 401},
			attack{"token of IDs: " + path, post(path, mine, "{}"), 403},
		)
	}
	for _, path := range []string{"//admin/apps", "/ADMIN/apps", "/Admin/apps", "/x/../admin/apps", "/%2e%2e/admin/apps", "/get/../admin/apps", "/admin", "/admin;/apps"} {
		all = append(all, attack{"no such path: " + path, get(path, admin), 404})
	}
	return append(all, attack{"no token: /metrics", get("/metrics", ""), 401})
}

// TestE2EIntruder: none of this gets an ID or a look at the state, breaks the server,
// or adds a header of its own.
func TestE2EIntruder(t *testing.T) {
	check.Deep(t)
	story(t)
	d, token := fortress(t)
	last := d.as(token, aliceGet, 200, 0).ID
	for _, a := range attacks(token) {
		began := time.Now()
		got := d.raw(a.request)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: answered after %v", a.name, took)
		}
		if !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", a.status)) {
			t.Errorf("%s: %.300q, want %d", a.name, got, a.status)
		}
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if strings.Contains(head, "\nX-Evil") || strings.Contains(body, token) || strings.Contains(body, "HTTP/1.1") {
			t.Errorf("%s: %q", a.name, got)
		}
		if a.status != 431 && a.status != 404 {
			wantNoID(t, regexp.MustCompile(`\d+ bytes`).ReplaceAllString(body, ""))
		}
	}
	if id := d.as(token, aliceGet, 200, 0).ID; id != last+1<<14 {
		t.Errorf("the next ID is %d, want %d: something was issued", id, last+1<<14)
	}
	if lines := d.Lines(`"level":"ERROR"`); len(lines) > 0 {
		t.Errorf("the server failed: %s", lines[0])
	}
}

// wantNoID finds no number in the body that is large enough to be an ID.
func wantNoID(t *testing.T, body string) {
	t.Helper()
	for _, digits := range regexp.MustCompile(`\d+`).FindAllString(body, -1) {
		if n, err := strconv.ParseInt(digits, 10, 64); err != nil || n >= 1<<14 {
			t.Errorf("%s could be an ID: %s", digits, body)
		}
	}
}

// What a client sends slowly, or never ends, is cut; what it sends too much of is not
// read.
func TestE2ESlowAndLarge(t *testing.T) {
	check.Deep(t)
	story(t)
	d, token := fortress(t)
	const large = 64 << 20
	var wg sync.WaitGroup
	for name, begin := range map[string]string{
		"a head that never ends":   "GET " + aliceGet + " HTTP/1.1\r\nHost: localhost\r\nX-A: ",
		"half a line":              "GET /get?appId=1",
		"nothing":                  "",
		"a body that never comes":  "POST /admin/apps HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open-sesame-open-sesame\r\nContent-Length: 1000\r\n\r\n",
		"a body of GET, slowly":    "GET " + aliceGet + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
		"chunks that never end":    "POST /admin/apps HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer open-sesame-open-sesame\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a body without its token": "POST /admin/apps HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
	} {
		wg.Go(func() {
			if took := d.drip(begin); took > 25*time.Second {
				t.Errorf("%s: kept for %v", name, took)
			}
		})
	}
	wg.Wait()
	before := d.Memory("VmRSS")
	for name, head := range map[string]string{
		"administration": "POST /admin/apps HTTP/1.1\r\nAuthorization: Bearer open-sesame-open-sesame\r\n",
		"no token":       "POST /admin/apps HTTP/1.1\r\n",
		"IDs":            "GET " + aliceGet + " HTTP/1.1\r\nAuthorization: Bearer " + token + "\r\n",
	} {
		got, sent := d.pour(fmt.Sprintf("%sHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", head, large), large)
		if sent > 16<<20 || strings.HasPrefix(got, "HTTP/1.1 2") || strings.HasPrefix(got, "HTTP/1.1 5") {
			t.Errorf("%s: %d bytes were taken, %.100q", name, sent, got)
		}
	}
	if grown := d.Memory("VmRSS") - before; grown > 16<<20 {
		t.Errorf("grew by %d bytes", grown)
	}
	d.as(token, aliceGet, 200, 0)
}

// drip sends a byte now and then until the server closes.
func (d *daemon) drip(begin string) time.Duration {
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.t.Error(err)
		return 0
	}
	defer conn.Close()
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	defer func() { <-ended }()
	defer conn.Close()
	_, _ = io.WriteString(conn, begin)
	for time.Since(began) < 40*time.Second {
		select {
		case <-ended:
			return time.Since(began)
		case <-time.After(200 * time.Millisecond):
			if begin != "" {
				_, _ = io.WriteString(conn, "1")
			}
		}
	}
	return time.Since(began)
}

// pour sends a large body and gives the answer and how much was taken.
func (d *daemon) pour(head string, size int) (got string, sent int) {
	d.t.Helper()
	conn := dial(d.t, d.url, head)
	defer conn.Close()
	for chunk := []byte(strings.Repeat(" ", 64<<10)); sent < size; {
		n, err := conn.Write(chunk)
		sent += n
		if err != nil {
			break
		}
	}
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return line, sent
}
