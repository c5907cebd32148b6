package resp

import (
	"errors"
	"fmt"
	"io"
)

const (
	// maxCommand is the longest command, in bytes: a gatePass has 1,024 at most and a
	// token 512, and everything else is short. It is also how many bytes of a pipeline
	// are read at once, and what an idle connection holds.
	maxCommand = 4096
	// maxArgs is the most arguments of a command, its name included.
	maxArgs = 64
)

// protocolError is about bytes that are no command: nothing after them can be read, so
// the connection is closed. The text is for the client.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const errInline = protocolError("send commands as arrays of bulk strings, and HTTP requests to server.addr")

var errTooLong = protocolError(fmt.Sprintf("send fewer arguments, or shorter ones: a command may have %d bytes and "+
	"%d arguments", maxCommand, maxArgs))

// errIncomplete: the rest of a command has not come yet.
var errIncomplete = errors.New("incomplete command")

// refusalOfHTTP is what an HTTP client, too, shows of a protocolError that follows.
const refusalOfHTTP = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"

// reader reads commands from a connection. It allocates nothing.
type reader struct {
	from       io.Reader
	beforeRead func() error // called when what has come is used up, but for the beginning of a command
	buf        [maxCommand]byte
	start, end int // of what has come and was not used
	args       [maxArgs][]byte
}

// next is the next command, its name first. It is valid until the next call. Errors:
// protocolError, or that of the connection.
func (r *reader) next() ([][]byte, error) {
	for {
		args, used, err := parse(r.buf[r.start:r.end], r.args[:0])
		switch {
		case err == nil && len(args) == 0:
			r.start += used
			continue
		case err == nil:
			r.start += used
			return args, nil
		case !errors.Is(err, errIncomplete):
			return nil, err
		}
		r.end = copy(r.buf[:], r.buf[r.start:r.end])
		r.start = 0
		if r.end == len(r.buf) {
			return nil, errTooLong
		}
		if err := r.beforeRead(); err != nil {
			return nil, err
		}
		n, err := r.from.Read(r.buf[r.end:])
		r.end += n
		if n == 0 && err != nil {
			return nil, err
		}
	}
}

// parse reads one command and says how many bytes it has. The arguments are parts of b. An array of
// no words is no command. A line is none, so that no page can have a browser ask for an ID. Errors: errIncomplete,
// protocolError.
func parse(b []byte, args [][]byte) (command [][]byte, used int, err error) {
	if len(b) == 0 {
		return nil, 0, errIncomplete
	}
	if b[0] != '*' {
		return nil, 0, errInline
	}
	count, at, err := parseLength(b, 1)
	if err != nil {
		return nil, 0, err
	}
	if count > maxArgs {
		return nil, 0, errTooLong
	}
	for range count {
		if at == len(b) {
			return nil, 0, errIncomplete
		}
		if b[at] != '$' {
			return nil, 0, errInline
		}
		size, from, err := parseLength(b, at+1)
		if err != nil {
			return nil, 0, err
		}
		to := from + size
		if to+2 > maxCommand {
			return nil, 0, errTooLong
		}
		if to+2 > len(b) {
			return nil, 0, errIncomplete
		}
		if b[to] != '\r' || b[to+1] != '\n' {
			return nil, 0, protocolError("write lengths in bytes: a bulk string does not end where its length says")
		}
		args = append(args, b[from:to:to])
		at = to + 2
	}
	return args, at, nil
}

// parseLength reads a number and the end of its line, and says where the next line begins.
func parseLength(b []byte, at int) (n, next int, err error) {
	const digits = 5 // more than any length that is allowed
	for i := at; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\r' && i > at && i+1 == len(b):
			return 0, 0, errIncomplete
		case c == '\r' && i > at && b[i+1] == '\n':
			return n, i + 2, nil
		case c < '0' || c > '9':
			return 0, 0, protocolError("write lengths in digits: one is not a number")
		case i == at+digits:
			return 0, 0, errTooLong
		default:
			n = 10*n + int(c-'0')
		}
	}
	return 0, 0, errIncomplete
}
