package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"shardid/model"
)

var (
	errNotRESP = errors.New("the server does not answer in RESP")
	// errNotShardid protects other servers: INCR and LPOP would change the keys of a Redis.
	errNotShardid = errors.New("the server says with INFO that it is no shardid: nothing was sent to it")
)

// useRESP makes the commands INCR key, or LPOP key count, for keys that take turns as the
// paths over HTTP do. The error is model.ErrInvalidArgument.
func (t *target) useRESP(o Options) error {
	t.resp = true
	var keys []string
	switch {
	case o.Raw != "":
		return fmt.Errorf("%w: --raw fetches a path over HTTP: give an http:// URL", model.ErrInvalidArgument)
	case o.Mode == ModeQueue:
		for i := range o.Passes {
			keys = append(keys, fmt.Sprintf("queue:%d:%s", o.appOf(i), passOf(i)))
		}
	case o.Mode == ModeSegment:
		if err := model.CheckTag(o.Tag); err != nil {
			return err
		}
		keys = []string{"segment:" + o.Tag}
	case o.Mode == ModeSnowflake, o.Mode == ModeUID:
		keys = []string{o.Mode}
	case o.Mode == ModeSequence && o.Count > 0:
		return fmt.Errorf("%w: INCRBY answers with the last number only: measure --count over HTTP", model.ErrInvalidArgument)
	case o.Mode == ModeSequence:
		if err := model.CheckSpace(o.Space); err != nil {
			return err
		}
		for i := range o.Passes {
			keys = append(keys, fmt.Sprintf("sequence:%s:bench-%d", o.Space, i))
		}
	default:
		return o.unknownMode()
	}
	for _, key := range keys {
		if o.Count == 0 {
			t.requests = append(t.requests, command("INCR", key))
		} else {
			t.requests = append(t.requests, command("LPOP", key, strconv.Itoa(o.Count)))
		}
	}
	if o.Token != "" {
		t.greeting = command("AUTH", o.Token)
	}
	t.greeting = append(t.greeting, command("INFO", "server")...)
	return nil
}

func command(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// greet says the token and asks what the server is. Errors: *refusal, errNotRESP,
// errNotShardid, those of the connection.
func (w *worker) greet() error {
	if err := w.nc.SetDeadline(w.run.base.Add(time.Duration(w.run.now()) + w.run.opts.Timeout)); err != nil {
		return err
	}
	if _, err := w.nc.Write(w.run.target.greeting); err != nil {
		return err
	}
	if w.run.opts.Token != "" {
		if line, err := w.readLine(); err != nil {
			return err
		} else if line[0] != '+' {
			return errNotRESP
		}
	}
	line, err := w.readLine()
	if err != nil {
		return err
	}
	length := number(line[1:])
	if line[0] != '$' || length < 0 || length > bufferBytes {
		return errNotRESP
	}
	info := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(w.br, info); err != nil {
		return err
	}
	if !bytes.Contains(info, []byte("server_name:shardid\r\n")) {
		return errNotShardid
	}
	return nil
}

// readReplies reads the answers to a pipeline into got. An error is of the connection, or
// of all answers that are not in got, as nothing behind it can be read.
func (w *worker) readReplies() error {
	t := w.run.target
	for range t.pipeline {
		before := len(w.got.ids)
		line, err := w.readLine()
		if refused, ok := errors.AsType[*refusal](err); ok {
			w.got.errs = append(w.got.errs, refused)
			continue
		}
		if err == nil {
			err = w.readIDs(line)
		}
		if err != nil {
			return err
		}
		if err := t.check(w.got.ids[before:]); err != nil {
			w.got.errs = append(w.got.errs, err)
		} else {
			w.got.good++
		}
	}
	if w.br.Buffered() > 0 {
		return errTooMany
	}
	return nil
}

// readIDs reads the rest of an answer that begins with line, and appends its IDs to got: an
// integer, or an array of bulk strings. IDs that came before an error are in got.
func (w *worker) readIDs(line []byte) (err error) {
	var ok bool
	if line[0] == ':' {
		if w.got.ids, ok = parseIDs(line[1:], 0, w.got.ids); !ok {
			return fmt.Errorf("%w: %s", errUnreadable, excerpt(line))
		}
		return nil
	}
	count := number(line[1:])
	if line[0] != '*' || count < 0 || count > maxBatch {
		return fmt.Errorf("%w: %s", errUnreadable, excerpt(line))
	}
	for left := count; left > 0; left-- {
		if n := w.readBulks(left); n > 0 {
			left -= n - 1
			continue
		}
		if line, err = w.readLine(); err != nil {
			return err
		}
		length := number(line[1:])
		if line[0] != '$' {
			return fmt.Errorf("%w: %s", errUnreadable, excerpt(line))
		}
		if line, err = w.readLine(); err != nil {
			return err
		}
		if w.got.ids, ok = parseIDs(line, 0, w.got.ids); !ok || len(line) != length {
			return fmt.Errorf("%w: %s", errUnreadable, excerpt(line))
		}
	}
	return nil
}

// readBulks reads up to n IDs of an array, those that have come as a whole, appends them to
// got, and says how many. It is a short cut: what it does not understand it leaves.
func (w *worker) readBulks(n int) (read int) {
	text, _ := w.br.Peek(w.br.Buffered())
	at := 0
	for ; read < n; read++ {
		rest := text[at:]
		if len(rest) < len("$1\r\n1\r\n") || rest[0] != '$' {
			break
		}
		length, head := int(rest[1]-'0'), len("$1\r\n")
		if rest[2] != '\r' {
			length, head = 10*length+int(rest[2]-'0'), len("$10\r\n")
		}
		if length < 1 || length > maxDigits || len(rest) < head+length+len("\r\n") ||
			rest[head-2] != '\r' || rest[head-1] != '\n' || rest[head+length] != '\r' || rest[head+length+1] != '\n' {
			break
		}
		ids, ok := parseIDs(rest[head:head+length], 0, w.got.ids)
		if !ok {
			break
		}
		w.got.ids = ids
		at += head + length + len("\r\n")
	}
	_, _ = w.br.Discard(at) // it is buffered
	return read
}

// readLine reads a line, which is not empty, without its end. It is valid until the next
// one. Errors: *refusal for an error of RESP, errNotRESP, those of the connection.
func (w *worker) readLine() ([]byte, error) {
	line, err := w.br.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line, ends := bytes.CutSuffix(line, []byte("\r\n"))
	if !ends || len(line) == 0 || bytes.HasPrefix(line, []byte("HTTP/")) {
		return nil, fmt.Errorf("%w: %s", errNotRESP, excerpt(line))
	}
	if line[0] != '-' {
		return line, nil
	}
	r := &refusal{message: string(line[1:])}
	_, rest, _ := bytes.Cut(line, []byte{' '})
	code, message, _ := bytes.Cut(rest, []byte{' '})
	if r.code, err = strconv.Atoi(string(code)); err == nil {
		r.coded, r.message = true, string(message)
	}
	return nil, r
}
