// Package idtext has what clients of shardid and the service itself know of IDs and texts:
// the formats in which an ID is written, and the shard that a gatePass belongs to. It needs
// the standard library only.
package idtext

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrInvalidArgument is in every error of this package: a text is malformed.
var ErrInvalidArgument = errors.New("invalid argument")

// Format is a way to write an ID as text. docs/modes.md describes them, with a program in
// Python. The zero value is Dec.
type Format uint8

// The formats. All but Base62 read both cases of letters.
const (
	Dec       Format = iota // decimal digits
	Hex                     // base 16, lower case
	Base36                  // 0-9a-z
	Base62                  // 0-9A-Za-z, in the order of ASCII
	Crockford               // Douglas Crockford's base 32: no I, L, O and U; no check symbol
	formats          = iota

	padded Format = 1 << 7
)

// notations are what the formats are made of. Width is how many digits 2^63-1 has.
var notations = [formats]struct {
	name, digits string
	width        int
}{
	Dec:       {"dec", "0123456789", 19},
	Hex:       {"hex", "0123456789abcdef", 16},
	Base36:    {"base36", "0123456789abcdefghijklmnopqrstuvwxyz", 13},
	Base62:    {"base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11},
	Crockford: {"crockford", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13},
}

// formatNames are what ParseFormat reads.
const formatNames = "dec, hex, base36, base62 or crockford"

// ParseFormat reads the name of a format. The error is ErrInvalidArgument.
func ParseFormat(name string) (Format, error) {
	for f := range notations {
		if notations[f].name == name {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("%w: format must be %s, not %.64q", ErrInvalidArgument, formatNames, name)
}

// Padded is the format with a fixed width: zeros come first, so that texts sort as their
// numbers do. Reading does not need it.
func (f Format) Padded() Format { return f | padded }

// String is the name, which ParseFormat reads.
func (f Format) String() string { return notations[f&^padded].name }

// Text is an ID, 0…2^63-1, as text.
func (f Format) Text(id int64) string {
	var b [20]byte
	return string(f.Append(b[:0], id))
}

// Append appends an ID, 0…2^63-1, as text.
func (f Format) Append(b []byte, id int64) []byte {
	if f == Dec {
		return strconv.AppendInt(b, id, 10)
	}
	n := &notations[f&^padded]
	var text [20]byte
	at, rest, base := len(text), uint64(id), uint64(len(n.digits))
	for rest > 0 || at == len(text) || f >= padded && at > len(text)-n.width {
		at--
		text[at] = n.digits[rest%base]
		rest /= base
	}
	return append(b, text[at:]...)
}

// Parse reads an ID as Append writes it, padded or not. The error is ErrInvalidArgument.
func (f Format) Parse(text string) (int64, error) {
	f &^= padded
	base, id, read := int64(len(notations[f].digits)), int64(0), false
	for i := range len(text) {
		if f == Crockford && text[i] == '-' && read && i < len(text)-1 {
			continue
		}
		v := f.digitOf(text[i])
		switch {
		case v < 0:
			return 0, fmt.Errorf("%w: write an ID in the format %s, with the digits %s, not %.64q",
				ErrInvalidArgument, f, notations[f].digits, text)
		case id > (math.MaxInt64-v)/base:
			return 0, fmt.Errorf("%w: write an ID below 2^63: %.64q, in the format %s, is not",
				ErrInvalidArgument, text, f)
		}
		id, read = id*base+v, true
	}
	if !read {
		return 0, fmt.Errorf("%w: write an ID: it is empty", ErrInvalidArgument)
	}
	return id, nil
}

// digitOf is what a character counts, in both cases of letters but for Base62; -1 for one that is no digit.
func (f Format) digitOf(c byte) int64 {
	isLower, isUpper := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z'
	switch {
	case f == Crockford && strings.IndexByte("iIlL", c) >= 0:
		return 1
	case f == Crockford && (c == 'o' || c == 'O'):
		return 0
	case f == Crockford && isLower || f != Crockford && f != Base62 && isUpper:
		c ^= 'a' - 'A'
	}
	return int64(strings.IndexByte(notations[f].digits, c))
}

// ParseID reads an ID in the format of that name; "" is dec. The error is ErrInvalidArgument.
func ParseID(text, format string) (int64, error) {
	if format == "" {
		id, err := Dec.Parse(text)
		if err != nil && strings.Trim(text, notations[Dec].digits) != "" {
			err = fmt.Errorf("%w: name the format, %s, of an ID that is not decimal: %.64q is none", ErrInvalidArgument,
				formatNames, text)
		}
		return id, err
	}
	f, err := ParseFormat(format)
	if err != nil {
		return 0, err
	}
	return f.Parse(text)
}
