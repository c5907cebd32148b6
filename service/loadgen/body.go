package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// body reads what follows a head.
func (r *responseReader) body(h head) ([]byte, error) {
	switch {
	case h.chunked:
		return r.chunks()
	case h.length < 0:
		return r.untilEnd()
	case h.length <= r.br.Size():
		return r.peek(h.length)
	}
	r.long = r.long[:0]
	err := r.more(h.length)
	return r.long, err
}

// peek gives the next n bytes where they lie, and counts them as read.
func (r *responseReader) peek(n int) ([]byte, error) {
	b, err := r.br.Peek(n)
	if err != nil {
		return nil, err
	}
	_, err = r.br.Discard(n)
	return b, err
}

// more appends n bytes to long.
func (r *responseReader) more(n int) error {
	have := len(r.long)
	if have+n > maxBodyBytes {
		return fmt.Errorf("%w: a body of more than %d bytes", errMalformed, maxBodyBytes)
	}
	r.long = slices.Grow(r.long, n)[:have+n]
	_, err := io.ReadFull(r.br, r.long[have:])
	return err
}

func (r *responseReader) chunks() ([]byte, error) {
	r.long = r.long[:0]
	for {
		n, err := r.chunkSize()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return r.long, r.trailer()
		}
		if err := r.more(n); err != nil {
			return nil, err
		}
		if err := r.chunkEnd(); err != nil {
			return nil, err
		}
	}
}

// chunkSize reads the line before a chunk: hexadecimal digits, and extensions that
// nobody needs.
func (r *responseReader) chunkSize() (int, error) {
	line, err := r.line()
	if err != nil {
		return 0, err
	}
	digits, _, _ := bytes.Cut(line, []byte{';'})
	n, ok := parseNumber(bytes.TrimRight(digits, " \t"), 16)
	if !ok {
		return 0, fmt.Errorf("%w: a chunk's length is %.40q", errMalformed, digits)
	}
	return n, nil
}

// chunkEnd reads the end of the line after a chunk.
func (r *responseReader) chunkEnd() error {
	rest, err := r.line()
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%w: a chunk is longer than it says", errMalformed)
	}
	return err
}

// trailer skips what follows the last chunk.
func (r *responseReader) trailer() error {
	for range maxHeadLines {
		if line, err := r.line(); err != nil || len(line) == 0 {
			return err
		}
	}
	return fmt.Errorf("%w: its trailer has more than %d lines", errMalformed, maxHeadLines)
}

// untilEnd reads a body that ends with the connection.
func (r *responseReader) untilEnd() ([]byte, error) {
	r.long = r.long[:0]
	for {
		r.long = slices.Grow(r.long, bufferBytes)
		n, err := r.br.Read(r.long[len(r.long):cap(r.long)])
		r.long = r.long[:len(r.long)+n]
		switch {
		case errors.Is(err, io.EOF):
			return r.long, nil
		case err != nil:
			return nil, err
		case len(r.long) > maxBodyBytes:
			return nil, fmt.Errorf("%w: a body of more than %d bytes", errMalformed, maxBodyBytes)
		}
	}
}
