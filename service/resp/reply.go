package resp

import (
	"strconv"

	"shardid/client/idtext"
	"shardid/model"
)

// The functions of this file append a reply to what is sent. RESP2 and RESP3 share all
// of them but appendBig and appendMap.

func appendSimple(out []byte, text string) []byte {
	out = append(out, '+')
	out = append(out, text...)
	return append(out, '\r', '\n')
}

// appendError takes a text whose first word tells clients the kind of the error. It may
// come from a store: a line break in it would be the end of the reply.
func appendError(out []byte, text string) []byte {
	out = append(out, '-')
	for i := range len(text) {
		if c := text[i]; c == '\r' || c == '\n' {
			out = append(out, ' ')
		} else {
			out = append(out, c)
		}
	}
	return append(out, '\r', '\n')
}

func appendInteger(out []byte, n int64) []byte { return appendHead(out, ':', n) }

// appendBig writes a big number, which only RESP3 has.
func appendBig(out []byte, n int64) []byte { return appendHead(out, '(', n) }

func appendBulk[T ~string | ~[]byte](out []byte, text T) []byte {
	out = appendHead(out, '$', int64(len(text)))
	out = append(out, text...)
	return append(out, '\r', '\n')
}

// appendIDs appends IDs as bulk strings.
func appendIDs(out []byte, ids []int64, format idtext.Format) []byte {
	var text [32]byte // with room for what Decimals writes behind the digits
	var d model.Decimals
	for _, id := range ids {
		digits := text[:0]
		if format == idtext.Dec {
			digits = d.Append(digits, id)
		} else {
			digits = format.Append(digits, id)
		}
		out = appendBulk(out, digits)
	}
	return out
}

func appendArray(out []byte, length int) []byte { return appendHead(out, '*', int64(length)) }

// appendMap begins a map of so many pairs: RESP2 has none and shows a list.
func appendMap(out []byte, resp3 bool, pairs int) []byte {
	if resp3 {
		return appendHead(out, '%', int64(pairs))
	}
	return appendArray(out, 2*pairs)
}

// appendHead writes a number behind what it is: a length, or a value.
func appendHead(out []byte, kind byte, n int64) []byte {
	out = strconv.AppendInt(append(out, kind), n, 10)
	return append(out, '\r', '\n')
}
