package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// decoder appends the IDs of an answer to dst. It never gives IDs that it could not
// read to the end. Errors: errUnreadable, errTwoIDs, *refusal.
type decoder func(body []byte, dst []int64) ([]int64, error)

// maxDigits is how many digits the highest int64 has.
const maxDigits = 19

// decodeLines reads one decimal a line, or a single one without an end of line.
func decodeLines(body []byte, dst []int64) ([]int64, error) {
	rest := body
	for {
		id, tail, ok := cutID(rest)
		if !ok {
			return dst, fmt.Errorf("%w: %s", errUnreadable, excerpt(body))
		}
		dst = append(dst, id)
		if len(tail) == 0 || len(tail) == 1 && tail[0] == '\n' {
			return dst, nil
		}
		if tail[0] != '\n' {
			return dst, fmt.Errorf("%w: %s", errUnreadable, excerpt(body))
		}
		rest = tail[1:]
	}
}

// cutID takes a decimal off the front, without a leading 0. Negative ones are read
// too, so that they can be told of as what they are.
func cutID(b []byte) (id int64, rest []byte, ok bool) {
	digits := bytes.TrimPrefix(b, []byte{'-'})
	n, value := 0, uint64(0)
	for n < len(digits) && n <= maxDigits && digits[n]-'0' <= 9 {
		value = value*10 + uint64(digits[n]-'0')
		n++
	}
	if n == 0 || n > maxDigits || value > math.MaxInt64 || n > 1 && digits[0] == '0' {
		return 0, b, false
	}
	if len(digits) < len(b) {
		return -int64(value), digits[n:], true
	}
	return int64(value), digits[n:], true
}

// decodeJSON reads {"code":0,"id":N,"idStr":"N"} or {"code":0,"ids":[…]}: written as
// shardid writes it without looking at it twice, any other way as JSON.
func decodeJSON(body []byte, dst []int64) ([]int64, error) {
	if ids, ok := decodeSingle(body, dst); ok {
		return ids, nil
	}
	if ids, ok := decodeBatch(body, dst); ok {
		return ids, nil
	}
	return decodeAnyJSON(body, dst)
}

func decodeSingle(body []byte, dst []int64) ([]int64, bool) {
	rest, ok := bytes.CutPrefix(body, []byte(`{"code":0,"id":`))
	if !ok {
		return dst, false
	}
	id, tail, ok := cutID(rest)
	number := rest[:len(rest)-len(tail)]
	tail, comma := bytes.CutPrefix(tail, []byte(`,"idStr":"`))
	tail, same := bytes.CutPrefix(tail, number)
	if !ok || !comma || !same || string(tail) != `"}` {
		return dst, false
	}
	return append(dst, id), true
}

func decodeBatch(body []byte, dst []int64) ([]int64, bool) {
	rest, ok := bytes.CutPrefix(body, []byte(`{"code":0,"ids":[`))
	ids := dst
	for ok {
		var id int64
		if id, rest, ok = cutID(rest); !ok || len(rest) == 0 {
			break
		}
		ids = append(ids, id)
		if rest[0] != ',' {
			return ids, string(rest) == "]}"
		}
		rest = rest[1:]
	}
	return dst, false
}

// jsonAnswer is what an answer in JSON may hold.
type jsonAnswer struct {
	Code    *int          `json:"code"`
	Message string        `json:"message"`
	ID      *int64        `json:"id"`
	IDStr   *string       `json:"idStr"`
	IDs     []json.Number `json:"ids"` // numbers, or strings of digits
}

func decodeAnyJSON(body []byte, dst []int64) ([]int64, error) {
	var a jsonAnswer
	if err := json.Unmarshal(body, &a); err != nil || a.Code == nil {
		return dst, fmt.Errorf("%w: %s", errUnreadable, excerpt(body))
	}
	if *a.Code != 0 {
		return dst, &refusal{code: *a.Code, coded: true, message: a.Message}
	}
	if a.ID != nil {
		if a.IDStr != nil && *a.IDStr != strconv.FormatInt(*a.ID, 10) {
			return dst, fmt.Errorf("%w: %s", errTwoIDs, excerpt(body))
		}
		return append(dst, *a.ID), nil
	}
	ids := dst
	for _, n := range a.IDs {
		id, err := n.Int64()
		if err != nil {
			return dst, fmt.Errorf("%w: %s", errUnreadable, excerpt(body))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// excerpt shows the beginning of a body, safely for a terminal.
func excerpt(body []byte) string {
	const most = 100
	if len(body) > most {
		return strconv.Quote(string(body[:most])) + "…"
	}
	return strconv.Quote(string(body))
}
