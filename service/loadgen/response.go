package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Bounds of an answer; a server that exceeds them is not the one that was meant.
const (
	// bufferBytes holds a whole answer of some 500 IDs. A longer line of the head
	// is refused.
	bufferBytes  = 16 << 10
	maxHeadLines = 256
	// maxBodyBytes is far above 10 000 IDs, which take 220 KB.
	maxBodyBytes = 16 << 20
)

// errMalformed: what came is no answer of HTTP/1.x.
var errMalformed = errors.New("malformed HTTP answer")

// response is the answer to one request. Its body is valid until the next one is
// read.
type response struct {
	status int
	body   []byte
	close  bool // the connection ends with it
}

// responseReader reads answers off a connection, without allocating once its buffers
// are long enough.
type responseReader struct {
	br   *bufio.Reader
	long []byte // for bodies that are not in br in one piece
}

func newResponseReader(r io.Reader) *responseReader {
	return &responseReader{br: bufio.NewReaderSize(r, bufferBytes)}
}

// read reads one answer. Errors: errMalformed, io.EOF when the connection ended
// before its first byte, io.ErrUnexpectedEOF later, those of the connection.
func (r *responseReader) read() (response, error) {
	for {
		h, err := r.head()
		if err != nil {
			return response{}, err
		}
		if h.status < http.StatusOK { // 100 Continue and its like: the answer follows
			continue
		}
		body, err := r.body(h)
		if err == nil && r.br.Buffered() > 0 {
			err = fmt.Errorf("%w: more follows than was asked for", errMalformed)
		}
		if err != nil {
			return response{}, inside(err)
		}
		return response{status: h.status, body: body, close: h.close}, nil
	}
}

// inside turns the end of the connection into an error that says it came too early.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head is what matters of an answer's head.
type head struct {
	status  int
	length  int // of the body; -1 when it is not said
	chunked bool
	close   bool
	old     bool // HTTP/1.0
}

func (r *responseReader) head() (head, error) {
	if _, err := r.br.Peek(1); err != nil {
		return head{}, err
	}
	line, err := r.line()
	if err != nil {
		return head{}, err
	}
	h, err := parseStatusLine(line)
	for n := 0; err == nil; n++ {
		line, err = r.line()
		switch {
		case err != nil:
		case len(line) == 0:
			return h.complete()
		case n == maxHeadLines:
			err = fmt.Errorf("%w: its head has more than %d lines", errMalformed, maxHeadLines)
		default:
			err = h.field(line)
		}
	}
	return head{}, err
}

// complete refuses a head that readers could take to say two things about where the
// answer ends. One that says nothing means the end of the connection.
func (h head) complete() (head, error) {
	if h.chunked && (h.length >= 0 || h.old) {
		return h, fmt.Errorf("%w: Transfer-Encoding with Content-Length or with HTTP/1.0", errMalformed)
	}
	if h.bodiless() {
		h.chunked, h.length = false, 0
	}
	h.close = h.close || !h.chunked && h.length < 0
	return h, nil
}

// bodiless answers have no body, whatever their head says.
func (h head) bodiless() bool {
	return h.status == http.StatusNoContent || h.status == http.StatusNotModified
}

// line reads a line and drops its end.
func (r *responseReader) line() ([]byte, error) {
	line, err := r.br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%w: a line of more than %d bytes", errMalformed, bufferBytes)
	}
	if err != nil {
		return nil, inside(err)
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'}), nil
}

// parseStatusLine reads "HTTP/1.1 200 OK".
func parseStatusLine(line []byte) (head, error) {
	const version = "HTTP/1."
	if len(line) < len("HTTP/1.1 200") || string(line[:len(version)]) != version || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return head{}, fmt.Errorf("%w: it begins with %.40q", errMalformed, line)
	}
	status, ok := parseNumber(line[9:12], 10)
	if minor := line[7]; !ok || status < http.StatusContinue || minor != '0' && minor != '1' {
		return head{}, fmt.Errorf("%w: it begins with %.40q", errMalformed, line)
	}
	old := line[7] == '0'
	return head{status: status, length: -1, close: old, old: old}, nil
}

// field reads a line of the head. Most are looked at no further than their first
// letter.
func (h *head) field(line []byte) error {
	switch line[0] | 0x20 { // lower case
	case 'c':
		if v, ok := value(line, "content-length:"); ok {
			return h.setLength(v)
		}
		if v, ok := value(line, "connection:"); ok {
			h.close = bytes.EqualFold(v, []byte("close")) || h.close && !bytes.EqualFold(v, []byte("keep-alive"))
		}
	case 't':
		if v, ok := value(line, "transfer-encoding:"); ok {
			h.chunked = true
			if !bytes.EqualFold(v, []byte("chunked")) {
				return fmt.Errorf("%w: transfer encoding %.40q, which nobody asked for", errMalformed, v)
			}
		}
	}
	return nil
}

func (h *head) setLength(v []byte) error {
	n, ok := parseNumber(v, 10)
	if !ok || n > maxBodyBytes || h.length >= 0 && h.length != n {
		return fmt.Errorf("%w: Content-Length %.40q", errMalformed, v)
	}
	h.length = n
	return nil
}

// value is that of a header line whose name, lower case and with its colon, is
// given.
func value(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}

// parseNumber reads one to eight digits of a base, 10 or 16. (strconv would need a
// string, an allocation for each answer.)
func parseNumber(b []byte, base int) (n int, ok bool) {
	for _, c := range b {
		d := digit(c)
		if d >= base {
			return 0, false
		}
		n = n*base + d
	}
	return n, len(b) > 0 && len(b) <= 8
}

// digit is the value of a hexadecimal digit, or 16.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 16
}
