package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

func TestResponse(t *testing.T) {
	long := strings.Repeat("9", 3*bufferBytes)
	for name, c := range map[string]struct {
		wire   string
		status int
		body   string
		close  bool
	}{
		"length":               {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		"any case":             {"HTTP/1.1 200 OK\r\ncOnTeNt-LENGTH:5\r\n\r\nhello", 200, "hello", false},
		"empty":                {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", 503, "", false},
		"no reason":            {"HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno", 404, "no", false},
		"bare newlines":        {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok", false},
		"close":                {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
		"1.0":                  {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
		"1.0 keeps":            {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
		"until the end":        {"HTTP/1.1 200 OK\r\n\r\nall of it", 200, "all of it", true},
		"chunked":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\n\r\n", 200, "abc0123456789", false},
		"trailer":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", 200, "a", false},
		"continue":             {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
		"no content":           {"HTTP/1.1 204 No Content\r\n\r\n", 204, "", false},
		"not modified":         {"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, "", false},
		"longer than a buffer": {"HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(long)) + "\r\n\r\n" + long, 200, long, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, fragmented := range []bool{false, true} {
				got, err := newResponseReader(wire(c.wire, fragmented)).read()
				if err != nil || got.status != c.status || string(got.body) != c.body || got.close != c.close {
					t.Errorf("fragmented %t: %d %.40q, close %t, %v", fragmented, got.status, got.body, got.close, err)
				}
			}
		})
	}
}

// wire is a connection that gives s, one byte at a time when fragmented.
func wire(s string, fragmented bool) io.Reader {
	if fragmented {
		return iotest.OneByteReader(strings.NewReader(s))
	}
	return strings.NewReader(s)
}

func TestResponseRefused(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		wire string
		want error
	}{
		"nothing":             {"", io.EOF},
		"half a head":         {ok + "Content-Le", io.ErrUnexpectedEOF},
		"half a body":         {ok + "Content-Length: 5\r\n\r\nhel", io.ErrUnexpectedEOF},
		"half a long body":    {ok + "Content-Length: 50000\r\n\r\nhel", io.ErrUnexpectedEOF},
		"half a chunk":        {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel", io.ErrUnexpectedEOF},
		"no last chunk":       {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", io.ErrUnexpectedEOF},
		"another protocol":    {"SSH-2.0-OpenSSH_9.2\r\n", errMalformed},
		"HTTP/2":              {"HTTP/2.0 200 OK\r\n\r\n", errMalformed},
		"no status":           {"HTTP/1.1 abc OK\r\n\r\n", errMalformed},
		"long status":         {"HTTP/1.1 2000 OK\r\n\r\n", errMalformed},
		"low status":          {"HTTP/1.1 099 OK\r\n\r\n", errMalformed},
		"negative length":     {ok + "Content-Length: -1\r\n\r\n", errMalformed},
		"no length":           {ok + "Content-Length: \r\n\r\n", errMalformed},
		"huge length":         {ok + "Content-Length: 99999999\r\n\r\n", errMalformed},
		"two lengths":         {ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", errMalformed},
		"length and chunks":   {ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errMalformed},
		"chunks in 1.0":       {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", errMalformed},
		"another encoding":    {ok + "Transfer-Encoding: gzip\r\n\r\n", errMalformed},
		"no chunk length":     {ok + "Transfer-Encoding: chunked\r\n\r\n\r\na", errMalformed},
		"wrong chunk length":  {ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\na", errMalformed},
		"chunk is longer":     {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", errMalformed},
		"chunks without end":  {ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400000\r\n"+strings.Repeat("a", 4<<20)+"\r\n", 5), errMalformed},
		"line without end":    {ok + "X: " + strings.Repeat("a", 2*bufferBytes), errMalformed},
		"head without end":    {ok + strings.Repeat("X: y\r\n", 2*maxHeadLines), errMalformed},
		"trailer without end": {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 2*maxHeadLines), errMalformed},
		"leftovers":           {ok + "Content-Length: 1\r\n\r\nabc", errMalformed},
		"two answers":         {strings.Repeat(ok+"Content-Length: 1\r\n\r\na", 2), errMalformed},
		"body without an end": {ok + "\r\n" + strings.Repeat("a", maxBodyBytes+2*bufferBytes), errMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newResponseReader(wire(c.wire, false)).read()
			if !errors.Is(err, c.want) || got.body != nil {
				t.Errorf("%+v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestResponseReused: the buffers of one answer do not show through in the next.
func TestResponseReused(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	r := newResponseReader(in)
	for _, c := range []struct{ wire, want string }{
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "ab"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nc\r\n0\r\n\r\n", "c"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x"},
	} {
		go func() { _, _ = out.Write([]byte(c.wire)) }() // ends with the read
		if got, err := r.read(); err != nil || string(got.body) != c.want {
			t.Errorf("%q: %q, %v", c.wire, got.body, err)
		}
	}
}

// FuzzResponse: no input hangs or panics, fragments make no difference, and what is
// accepted is what net/http reads.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\n\r\nno",
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
		"HTTP/1.0 200 \nTransfer-Encoding:chunked\n\n0\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := newResponseReader(bytes.NewReader(in)).read()
		pieces, piecesErr := newResponseReader(iotest.OneByteReader(bytes.NewReader(in))).read()
		if err == nil && (piecesErr != nil || pieces.status != whole.status || !bytes.Equal(pieces.body, whole.body)) {
			t.Fatalf("whole: %+v; in pieces: %+v, %v", whole, pieces, piecesErr)
		}
		if err != nil || bytes.HasPrefix(in, []byte("HTTP/1.1 1")) || bytes.HasPrefix(in, []byte("HTTP/1.0 1")) {
			return // ReadResponse takes 1xx for the answer
		}
		std, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil)
		if err != nil {
			return // it looks at the whole head
		}
		defer std.Body.Close()
		body, err := io.ReadAll(std.Body)
		if err != nil || std.StatusCode != whole.status || !bytes.Equal(body, whole.body) {
			t.Fatalf("net/http: %d %q, %v; here: %d %q", std.StatusCode, body, err, whole.status, whole.body)
		}
	})
}
