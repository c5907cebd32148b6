package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// The pause after a connection failed, doubled for each failure in a row.
	firstPause, lastPause = 10 * time.Millisecond, time.Second
	// stale is how long a connection must have been idle for its end to be no
	// failure, ns: servers close idle ones.
	stale = int64(time.Second)

	bufferBytes = 16 << 10
	// maxBodyBytes is far above 10 000 IDs, which take 220 KB.
	maxBodyBytes = 16 << 20
)

// worker asks over one connection, which it opens again when it has ended. It belongs
// to one goroutine.
type worker struct {
	run   *run
	turn  int           // of the requests
	pause time.Duration // before the next connection
	got   outcome       // of the last request or pipeline
	out   []byte        // the last pipeline

	nc       net.Conn // nil while there is none
	br       *bufio.Reader
	body     []byte // of the last answer
	deadline int64  // of nc, by the clock
	used     int64  // when the last answer came on nc, by the clock; 0 before the first
}

// closedLoop sends requests one after the other until ctx ends.
func (w *worker) closedLoop(ctx context.Context) {
	for w.ready(ctx) {
		now := w.run.now()
		w.ask(ctx, now, now)
	}
	w.hangUp()
}

// paced sends a request for each time in due. What is due when ctx has ended is not
// sent any more.
func (w *worker) paced(ctx context.Context, due <-chan int64) {
	w.ready(ctx) // before the first is due, as connecting takes time
	for at := range due {
		if w.ready(ctx) {
			w.ask(ctx, at, w.run.now())
		} else {
			w.run.omit(at, w.run.now(), 1)
		}
	}
	w.hangUp()
}

// ready sees to it that there is a connection, however long that takes; false means
// that ctx ended.
func (w *worker) ready(ctx context.Context) bool {
	for ctx.Err() == nil {
		if w.nc != nil {
			return true
		}
		pause := time.NewTimer(w.pause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
		if err := w.connect(ctx); err != nil && ctx.Err() == nil {
			now := w.run.now()
			w.run.countOutcome(outcome{errs: []error{err}}, now, now)
		}
	}
	return false
}

// errConnect: no connection could be made.
var errConnect = errors.New("no connection")

// connect opens the connection. Errors: errConnect, those of greet.
func (w *worker) connect(ctx context.Context) error {
	t := w.run.target
	ctx, cancel := context.WithTimeout(ctx, w.run.opts.Timeout)
	defer cancel()
	dial := (&net.Dialer{}).DialContext
	if t.tls != nil {
		dial = (&tls.Dialer{Config: t.tls}).DialContext
	}
	nc, err := dial(ctx, "tcp", t.address)
	if err != nil {
		w.slowDown()
		return fmt.Errorf("%w: %w", errConnect, err)
	}
	w.nc, w.deadline, w.used = nc, 0, 0
	if w.br == nil {
		w.br = bufio.NewReaderSize(nc, bufferBytes)
	}
	w.br.Reset(nc)
	if t.resp {
		if err := w.greet(); err != nil {
			w.hangUp()
			w.slowDown()
			return err
		}
	}
	return nil
}

// slowDown lengthens the pause before the next connection.
func (w *worker) slowDown() { w.pause = min(max(2*w.pause, firstPause), lastPause) }

// hangUp closes the connection, if there is one.
func (w *worker) hangUp() {
	if w.nc != nil {
		_ = w.nc.Close() // no answer is awaited on it
		w.nc = nil
	}
}

// ask makes a request that was due at a time and accounts for what came of it.
func (w *worker) ask(ctx context.Context, due, now int64) {
	w.run.countOutcome(w.request(ctx, now), due, w.used)
}

// request makes the requests whose turn it is, one over HTTP; once more on a new connection
// if the server had closed this one while it was idle. What came is valid until the next
// call. Its errors: errConnect, those of exchange and of target.judge; or of pipeline.
func (w *worker) request(ctx context.Context, now int64) outcome {
	t := w.run.target
	w.out = w.out[:0]
	for range t.pipeline {
		w.out = append(w.out, t.requests[w.turn%len(t.requests)]...)
		w.turn++
	}
	idle := w.used > 0 && now-w.used >= stale
	ends, err := w.exchange(now)
	if err != nil && idle && isClosed(err) && w.got.good == 0 && len(w.got.errs) == 0 {
		w.hangUp()
		if err = w.connect(context.WithoutCancel(ctx)); err == nil { // what was sent is seen through
			ends, err = w.exchange(w.run.now())
		}
	}
	w.used = w.run.now()
	if err != nil || ends {
		w.hangUp()
	}
	if err != nil {
		w.slowDown()
		w.got.errs = append(w.got.errs, err)
		for int(w.got.good)+len(w.got.errs) < t.pipeline {
			w.got.errs = append(w.got.errs, err)
		}
		return w.got
	}
	w.pause = 0
	return w.got
}

// exchange sends what is in out and reads what comes of it into got; ends says that the
// connection does too. An error is of the connection: it is of all requests that are
// not in got. It fails after the timeout, at most a quarter of it later: the deadline
// is moved only when it would be too early, as moving it for each request costs.
func (w *worker) exchange(now int64) (ends bool, err error) {
	w.got = outcome{ids: w.got.ids[:0], errs: w.got.errs[:0]}
	if timeout := int64(w.run.opts.Timeout); w.deadline-now < timeout {
		w.deadline = now + timeout + timeout/4
		if err := w.nc.SetDeadline(w.run.base.Add(time.Duration(w.deadline))); err != nil {
			return true, err
		}
	}
	if _, err := w.nc.Write(w.out); err != nil {
		return true, err
	}
	if w.run.target.resp {
		return false, w.readReplies()
	}
	status, ends, err := w.read()
	if err == nil && w.br.Buffered() > 0 {
		err = errors.New("malformed HTTP answer: more follows than was asked for")
	}
	if err != nil {
		return true, err
	}
	if w.got.ids, err = w.run.target.judge(status, w.body, w.got.ids); err != nil {
		w.got.errs = append(w.got.errs, err)
	} else {
		w.got.good = 1
	}
	return ends, nil
}

// read reads an answer. One with a plain head is read here and allocates nothing, so
// that the generator's core and its garbage collector do not show in the latencies;
// any other is read by net/http.
func (w *worker) read() (status int, ends bool, err error) {
	if _, err := w.br.Peek(1); err != nil {
		return 0, true, err
	}
	begin, _ := w.br.Peek(w.br.Buffered()) // so much is there
	if status, length, size := plainHead(begin); size > 0 {
		_, _ = w.br.Discard(size) // it is buffered
		w.body = slices.Grow(w.body[:0], length)[:length]
		_, err = io.ReadFull(w.br, w.body)
		return status, false, err
	}
	var resp *http.Response
	for resp == nil || resp.StatusCode < http.StatusOK { // 100 Continue and its like: the answer follows
		if resp, err = http.ReadResponse(w.br, nil); err != nil {
			return 0, true, err
		}
	}
	defer resp.Body.Close()
	w.body, err = io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes+1))
	if err == nil && len(w.body) > maxBodyBytes {
		err = fmt.Errorf("malformed HTTP answer: a body of more than %d bytes", maxBodyBytes)
	}
	return resp.StatusCode, resp.Close, err
}

// plainHead reads the head of an answer that has a Content-Length, and nothing else
// that says where the answer or the connection ends. size is that of the head, 0 if it
// is no such head or not complete.
func plainHead(b []byte) (status, length, size int) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	line, lines, _ := bytes.Cut(b[:max(end, 0)], []byte("\r\n"))
	digits, plain := bytes.CutPrefix(line, []byte("HTTP/1.1 "))
	if !plain || len(digits) < 4 || digits[3] != ' ' {
		return 0, 0, 0
	}
	if status = number(digits[:3]); status < http.StatusOK || status == http.StatusNoContent || status == http.StatusNotModified {
		return 0, 0, 0
	}
	length = -1
	for len(lines) > 0 {
		line, lines, _ = bytes.Cut(lines, []byte("\r\n"))
		if digits, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok && length < 0 {
			length = number(digits)
			continue
		}
		// Headers that matter begin with these letters; those that are as frequent do not.
		if c := line[0] | 0x20; c == 't' || c <= ' ' || c == 'c' && !bytes.HasPrefix(line, []byte("Content-Type:")) && !bytes.HasPrefix(line, []byte("Cache-Control:")) {
			return 0, 0, 0
		}
	}
	if length < 0 || length > maxBodyBytes {
		return 0, 0, 0
	}
	return status, length, end + len("\r\n\r\n")
}

// number reads one to eight digits; -1 if it is something else. (strconv would need a
// string, an allocation for each answer.)
func number(digits []byte) int {
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	if len(digits) == 0 || len(digits) > 8 {
		return -1
	}
	return n
}

// Kinds of trouble with a connection.
const (
	kindConnect   = "connect"   // no connection could be made
	kindTimeout   = "timeout"   // no answer in time
	kindClosed    = "closed"    // the connection ended before the answer did
	kindMalformed = "malformed" // no answer of HTTP/1.x, or of RESP
)

// kindOf is the name in reports of an error of a request: "connect", "503",
// "404 code -2".
func kindOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		switch {
		case r.coded && r.status == 0:
			return fmt.Sprintf("code %d", r.code)
		case r.coded:
			return fmt.Sprintf("%d code %d", r.status, r.code)
		case r.status == 0:
			return "error of RESP"
		}
		return fmt.Sprint(r.status)
	}
	switch {
	case errors.Is(err, errConnect):
		return kindConnect
	case errors.Is(err, os.ErrDeadlineExceeded):
		return kindTimeout
	case isClosed(err):
		return kindClosed
	}
	return kindMalformed
}

func isClosed(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// advise says what to do about an error of the first request.
func (l *Load) advise(err error) error {
	const unknown = -2 // the code of an app or a tag that is not provisioned
	advice := ""
	const noToken = -7
	refused, _ := errors.AsType[*refusal](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case refused != nil && l.opts.Raw != "":
		advice = ": --raw needs a path that answers 200"
	case errors.Is(err, errNotRESP), errors.Is(err, errNotShardid), refused != nil && !refused.coded && l.target.resp:
		advice = ": --url names the address that the server has in resp.addr, redis://127.0.0.1:6380 for example"
	case refused != nil && !refused.coded:
		advice = ": is this a shardid? --raw PATH measures any path of any server"
	case refused != nil && refused.code == unknown && l.opts.Mode == ModeQueue:
		advice = ": or choose another with --app"
	case refused != nil && refused.code == unknown && l.opts.Mode == ModeSegment:
		advice = ": or choose another with --tag"
	case refused != nil && refused.code == noToken && l.opts.Token == "":
		advice = ": name a file with a token by --token-file"
	case refused != nil: // its message says what to do
	case errors.Is(err, errUnreadable):
		advice = ": is this a shardid, and the right mode? --raw PATH measures any path of any server"
	case untrusted:
		advice = ": SSL_CERT_FILE can name a file with the certificates to trust"
	case l.target.resp && (plain || isClosed(err)):
		advice = ": should the URL begin with the other one of redis:// and rediss://?"
	case plain, kindOf(err) == kindMalformed, isClosed(err):
		advice = ": should the URL begin with the other one of http:// and https://, or with redis://?"
	case errors.Is(err, errConnect):
		advice = ": is the server running? `shardid serve --demo` starts one, --url says where it is"
	}
	return fmt.Errorf("the first request to %s failed: %w%s", l.opts.URL, err, advice)
}
