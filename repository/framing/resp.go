package framing

import (
	"bytes"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
)

// Bounds of what Redis and Sentinel may send for one command or pipeline. Of our own calls the
// records of 256 replicas have the longest answer, 256 × 4 KiB; a page of marks has 1000 of at
// most 540 bytes, a pop 10 000 indices of 15 digits. Of the library's, CLUSTER SLOTS has some 20
// elements and 300 bytes for each range of slots with three servers: 6000 ranges are within the
// bounds, where a cluster has a few.
const (
	respBytes    = 4 << 20
	respElements = 128 << 10
	// respLine bounds a line, in bytes; the longest is the error of a script, below 2 KiB.
	respLine = 64 << 10
	// respHead is how much of a line is kept: a type and a number of 64 bits.
	respHead = 24
)

// RESP reads the answers of a Redis, in RESP2 or RESP3.
func RESP(below net.Conn) net.Conn {
	return withSocket(&Conn{Conn: below, server: "Redis", follower: &resp{}}, below)
}

// resp follows answers in RESP. An unknown type is a line: the library says what is wrong.
type resp struct {
	head            []byte // of the line that has begun
	line            int    // its length so far
	skip            int    // bytes to come of the present text and its line end
	open            int    // values to come of the present answer
	bytes, elements int    // since something was sent
}

func (r *resp) asked() { r.bytes, r.elements = 0, 0 }

// between says whether an answer has ended and no other has begun.
func (r *resp) between() bool { return r.skip == 0 && r.line == 0 && r.open == 0 }

func (r *resp) follow(p []byte) refusal {
	for len(p) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(p))
			r.skip -= n
			p = p[n:]
			continue
		}
		part := p
		end := bytes.IndexByte(p, '\n') + 1
		if end > 0 {
			part = p[:end]
		}
		p = p[len(part):]
		r.head = append(r.head, part[:min(len(part), respHead-len(r.head))]...)
		if r.line += len(part); r.line > respLine {
			return refuse("sent a line of more than %d bytes; no answer to shardid has one", respLine)
		}
		if end > 0 {
			if why := r.value(); why != "" {
				return why
			}
			r.head, r.line = r.head[:0], 0
		}
	}
	return ""
}

// value takes the line that begins a value, or is one.
func (r *resp) value() refusal {
	r.open = max(r.open, 1) - 1
	if r.bytes += r.line; r.bytes > respBytes {
		return tooMuch(r.bytes, "bytes", respBytes)
	}
	kind := r.head[0]
	if bytes.IndexByte([]byte("$!=*~>%|"), kind) < 0 {
		return ""
	}
	digits := bytes.TrimRight(r.head[1:], "\r\n")
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		return refuse("announced a length of %q, which is no number", digits)
	}
	if kind == '|' { // it precedes the value
		r.open++
	}
	switch {
	case n < 0: // the value is nil
		return ""
	case kind == '$' || kind == '!' || kind == '=':
		if n > respBytes-r.bytes {
			return tooMuch(n, "bytes", respBytes)
		}
		r.skip = n + len("\r\n")
		r.bytes += r.skip
		return ""
	}
	if n > respElements-r.elements {
		return tooMuch(n, "elements", respElements)
	}
	if kind == '%' || kind == '|' { // of pairs
		n *= 2
	}
	r.elements += n
	r.open += n
	return ""
}

// Sentinel is RESP for a client that asks Sentinels. The library reads the master's address and
// the messages of a channel in goroutines of its own, which panic when a part is missing: these
// answers are handed on only when they are whole and right.
func Sentinel(below net.Conn) net.Conn {
	return withSocket(&sentinel{Conn: &Conn{Conn: below, server: "Redis Sentinel", follower: &resp{}}}, below)
}

type sentinel struct {
	*Conn
	shape atomic.Pointer[regexp.Regexp] // of the answers to come; nil is any
	ends  resp                          // finds where they end
	begun []byte                        // of the one that has not ended
	ready []byte                        // may be handed on
}

var (
	// masterShape is ["ip", "port"], nil or an error.
	masterShape = regexp.MustCompile(`^(\*2\r\n(\$\d+\r\n[^\r\n]*\r\n){2}|[*$]-1\r\n|_\r\n|-[^\r\n]*\r\n)$`)
	// messageShape is what a connection gets after SUBSCRIBE, over RESP3 as pushes; the message of a new master is
	// "name ip port ip port".
	messageShape = regexp.MustCompile(`^([*>]3\r\n\$9\r\nsubscribe\r\n\$\d+\r\n[^\r\n]*\r\n:\d+\r\n|` +
		`[*>]3\r\n\$7\r\nmessage\r\n\$\d+\r\n(\+switch-master\r\n\$\d+\r\n([^ \r\n]* ){4}|\+replica-reconf-done\r\n\$\d+\r\n)[^\r\n]*\r\n|` +
		`[*>]2\r\n\$4\r\npong\r\n\$\d+\r\n[^\r\n]*\r\n|[-+][^\r\n]*\r\n)$`)
)

// Write notes which answers follow. The library sends a command at once, and the next one when
// it has read the answer; after SUBSCRIBE come messages.
func (s *sentinel) Write(p []byte) (int, error) {
	head := p[:min(len(p), 64)]
	switch {
	case bytes.Contains(head, []byte("\r\nsubscribe\r\n")):
		s.shape.Store(messageShape)
	case bytes.Contains(head, []byte("\r\nget-master-addr-by-name\r\n")):
		s.shape.Store(masterShape)
	case s.shape.Load() != messageShape:
		s.shape.Store(nil)
	}
	return s.Conn.Write(p)
}

func (s *sentinel) Read(p []byte) (int, error) {
	shape := s.shape.Load()
	if shape == nil {
		return s.Conn.Read(p)
	}
	piece := make([]byte, 512)
	for len(s.ready) == 0 {
		n, err := s.Conn.Read(piece)
		if err != nil {
			return 0, err
		}
		for i := range n {
			s.begun = append(s.begun, piece[i])
			_ = s.ends.follow(piece[i : i+1]) // the connection has refused what is to be refused
			if !s.ends.between() {
				continue
			}
			if !shape.Match(s.begun) {
				return 0, s.refuse(refuse("answered %.80q; a Sentinel does not", s.begun))
			}
			s.ready, s.begun = append(s.ready, s.begun...), s.begun[:0]
			s.ends.asked()
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}
