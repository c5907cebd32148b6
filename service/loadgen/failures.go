package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// Kinds of trouble with a connection.
const (
	kindConnect   = "connect"   // no connection could be made
	kindTimeout   = "timeout"   // no answer in time
	kindClosed    = "closed"    // the connection ended before the answer did
	kindMalformed = "malformed" // no answer of HTTP/1.x
)

// kind groups failures. It is a value, so that counting one more allocates nothing.
type kind struct {
	what         string
	status, code int
	coded        bool
}

// String is the kind's name in reports: "connect", "503", "404 code -2".
func (k kind) String() string {
	switch {
	case k.what != "":
		return k.what
	case k.coded:
		return fmt.Sprintf("%d code %d", k.status, k.code)
	}
	return fmt.Sprint(k.status)
}

// kindOf sorts an error of a request.
func kindOf(err error) kind {
	if r, ok := errors.AsType[*refusal](err); ok {
		return kind{status: r.status, code: r.code, coded: r.coded}
	}
	switch {
	case errors.Is(err, errConnect):
		return kind{what: kindConnect}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return kind{what: kindTimeout}
	case errors.Is(err, errMalformed):
		return kind{what: kindMalformed}
	case isClosed(err):
		return kind{what: kindClosed}
	}
	return kind{what: err.Error()}
}

func isClosed(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// failures counts errors by kind and keeps the first of all.
type failures struct {
	counts map[kind]int64
	first  error
	at     int64 // when the first came
}

func (f *failures) add(k kind, err error, at int64) {
	if f.counts == nil {
		f.counts, f.first, f.at = map[kind]int64{}, err, at
	}
	f.counts[k]++
}

// merge adds those of another worker.
func (f *failures) merge(other failures) {
	if other.counts == nil {
		return
	}
	if f.counts == nil || other.at < f.at {
		f.first, f.at = other.first, other.at
	}
	if f.counts == nil {
		f.counts = map[kind]int64{}
	}
	for k, n := range other.counts {
		f.counts[k] += n
	}
}

// byName is for the report; never nil.
func (f *failures) byName() map[string]int64 {
	out := make(map[string]int64, len(f.counts))
	for k, n := range f.counts {
		out[k.String()] += n
	}
	return out
}
