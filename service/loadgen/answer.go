package loadgen

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// breach is what must never be in an answer. One fails the run, unlike a refusal.
type breach string

// Error names the breach; it is also its kind in reports.
func (b breach) Error() string { return string(b) }

const (
	errUnreadable breach = "an answer without an error and without IDs"
	errTwoIDs     breach = "id and idStr of an answer differ"
	errWrongCount breach = "not as many IDs as were asked for"
	errBelowOne   breach = "an ID below 1"
	errIDInError  breach = "an error that carries an ID"
	errTooMany    breach = "more answers than requests"
)

// refusal is an error the server answered with.
type refusal struct {
	status  int // 0 over RESP
	code    int
	coded   bool // there was a code
	message string
}

// Error is what the server said.
func (r *refusal) Error() string {
	if r.message == "" && r.status != 0 {
		return fmt.Sprintf("the server answered %d %s", r.status, http.StatusText(r.status))
	}
	return "the server answered: " + r.message
}

// mayPass says whether a later request may be answered.
func (r *refusal) mayPass() bool {
	const notReady, empty, noLease = -1, -4, -8
	return r.status == http.StatusServiceUnavailable ||
		r.status == 0 && (r.code == notReady || r.code == empty || r.code == noLease)
}

// judge reads the IDs of an answer and appends them to dst. IDs that came are in it
// also with an error, as they count as issued. Errors: *refusal and the breaches.
func (t *target) judge(status int, body []byte, dst []int64) ([]int64, error) {
	if status/100 != 2 {
		return dst, t.refused(status, body)
	}
	if t.decode == nil {
		return dst, nil
	}
	ids, err := t.decode(body, dst)
	if errors.Is(err, errRefused) {
		return dst, t.refused(status, body)
	}
	if err != nil {
		return dst, err
	}
	return ids, t.check(ids[len(dst):])
}

// check looks at the IDs of one answer. Errors: errBelowOne, errWrongCount.
func (t *target) check(ids []int64) error {
	for _, id := range ids {
		if id < 1 {
			return fmt.Errorf("%w: %d", errBelowOne, id)
		}
	}
	if len(ids) != t.count {
		return fmt.Errorf("%w: %d instead of %d", errWrongCount, len(ids), t.count)
	}
	return nil
}

// refused is the error of an answer that has one. Errors: *refusal, errIDInError.
func (t *target) refused(status int, body []byte) error {
	r := &refusal{status: status}
	var said jsonAnswer
	if err := json.Unmarshal(body, &said); err != nil {
		// The first line of a text for people, if it is one.
		line, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte{'\n'})
		if len(line) > 0 && line[0] != '<' {
			r.message = strings.Trim(excerpt(line), `"`)
		}
	} else {
		r.message = said.Message
	}
	if said.Code != nil {
		r.code, r.coded = *said.Code, true
	}
	if t.decode == nil {
		return r
	}
	if _, err := decodeLines(body, nil); err == nil || said.ID != nil || said.IDStr != nil || said.IDs != nil {
		return fmt.Errorf("%w: %d %s", errIDInError, status, excerpt(body))
	}
	return r
}

// decoder appends the IDs of an answer to dst. It never gives IDs that it could not
// read to the end. Errors: errUnreadable, errTwoIDs, errRefused.
type decoder func(body []byte, dst []int64) ([]int64, error)

// errRefused: the answer has a code other than 0.
var errRefused = errors.New("refused")

// decodeLines reads one decimal a line, or a single one without an end of line.
func decodeLines(body []byte, dst []int64) ([]int64, error) {
	if ids, ok := parseIDs(bytes.TrimSuffix(body, []byte{'\n'}), '\n', dst); ok {
		return ids, nil
	}
	return dst, fmt.Errorf("%w: %s", errUnreadable, excerpt(body))
}

// maxDigits are those of the highest int64.
const maxDigits = 19

// parseIDs reads decimals, without a leading 0, with a separator between them.
// Negative ones are read too, so that they can be reported as what they are.
func parseIDs(text []byte, separator byte, dst []int64) ([]int64, bool) {
	ids := dst
	for {
		digits := bytes.TrimPrefix(text, []byte{'-'})
		n, value := 0, uint64(0)
		for n+8 <= min(len(digits), maxDigits) {
			eight, ok := parseEight(digits[n:])
			if !ok {
				break
			}
			value, n = value*100_000_000+eight, n+8
		}
		for n < len(digits) && n <= maxDigits && digits[n]-'0' <= 9 {
			value = value*10 + uint64(digits[n]-'0')
			n++
		}
		if n == 0 || n > maxDigits || value > math.MaxInt64 || n > 1 && digits[0] == '0' {
			return dst, false
		}
		id := int64(value)
		if len(digits) < len(text) {
			id = -id
		}
		ids = append(ids, id)
		if n == len(digits) {
			return ids, true
		}
		if digits[n] != separator {
			return dst, false
		}
		text = digits[n+1:]
	}
}

// parseEight reads the first eight bytes of text if they all are digits. Each step joins all
// neighbours at once: digits, pairs, and fours, of which the first is in the lowest byte.
func parseEight(text []byte) (uint64, bool) {
	n := binary.LittleEndian.Uint64(text) ^ 0x3030_3030_3030_3030
	if (n|(n+0x7676_7676_7676_7676))&0x8080_8080_8080_8080 != 0 { // a byte above 9
		return 0, false
	}
	n = (n*10 + n>>8) & 0x00ff_00ff_00ff_00ff
	n = (n*100 + n>>16) & 0x0000_ffff_0000_ffff
	n = (n*10_000 + n>>32) & 0xffff_ffff
	return n, true
}

// decodeJSON reads {"code":0,"id":N,"idStr":"N"} or {"code":0,"ids":[…]}: written as
// shardid writes it by the short cuts, any other way as JSON.
func decodeJSON(body []byte, dst []int64) ([]int64, error) {
	if ids, ok := decodeQuickly(body, dst); ok {
		return ids, nil
	}
	unreadable := fmt.Errorf("%w: %s", errUnreadable, excerpt(body))
	var a jsonAnswer
	var numbers []json.Number // or strings of digits
	switch err := json.Unmarshal(body, &a); {
	case err != nil || a.Code == nil:
		return dst, unreadable
	case *a.Code != 0:
		return dst, errRefused
	case a.ID != nil && a.IDStr != nil && string(a.IDStr) != `"`+string(a.ID)+`"`:
		return dst, fmt.Errorf("%w: %s", errTwoIDs, excerpt(body))
	case a.ID != nil:
		numbers = []json.Number{json.Number(a.ID)}
	case a.IDs != nil && json.Unmarshal(a.IDs, &numbers) != nil:
		return dst, unreadable
	}
	ids := dst
	for _, n := range numbers {
		id, err := n.Int64()
		if err != nil {
			return dst, unreadable
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// jsonAnswer is what an answer in JSON may hold.
type jsonAnswer struct {
	Code    *int            `json:"code"`
	Message string          `json:"message"`
	ID      json.RawMessage `json:"id"`
	IDStr   json.RawMessage `json:"idStr"`
	IDs     json.RawMessage `json:"ids"`
}

// decodeQuickly reads what shardid writes, byte for byte.
func decodeQuickly(body []byte, dst []int64) ([]int64, bool) {
	if list, ok := bytes.CutPrefix(body, []byte(`{"code":0,"ids":[`)); ok {
		list, ok = bytes.CutSuffix(list, []byte("]}"))
		if !ok {
			return dst, false
		}
		if n := len(list); n > 2 && list[0] == '"' && list[n-1] == '"' { // one, or JSON reads them
			return parseIDs(list[1:n-1], 0, dst)
		}
		return parseIDs(list, ',', dst)
	}
	rest, begins := bytes.CutPrefix(body, []byte(`{"code":0,"id":`))
	number, again, goesOn := bytes.Cut(rest, []byte(`,"idStr":"`))
	again, ends := bytes.CutSuffix(again, []byte(`"}`))
	if !begins || !goesOn || !ends || !bytes.Equal(number, again) {
		return dst, false
	}
	return parseIDs(number, 0, dst)
}

// excerpt shows the beginning of a body, safely for a terminal.
func excerpt(body []byte) string {
	const most = 100
	if len(body) > most {
		return strconv.Quote(string(body[:most])) + "…"
	}
	return strconv.Quote(string(body))
}
