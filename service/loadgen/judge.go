package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
)

// refusal is an error the server answered with.
type refusal struct {
	status  int
	code    int
	coded   bool // there was a code
	message string
}

// Error is what the server said.
func (r *refusal) Error() string {
	if r.message == "" {
		return fmt.Sprintf("the server answered %d %s", r.status, http.StatusText(r.status))
	}
	return "the server answered: " + r.message
}

// judge reads the IDs of an answer and appends them to dst. IDs that came are in it
// also with an error, as they count as issued. Errors: *refusal and the breaches.
func (t *target) judge(a response, dst []int64) ([]int64, error) {
	if a.status/100 != 2 {
		return dst, t.refused(a)
	}
	if t.decode == nil {
		return dst, nil
	}
	had := len(dst)
	dst, err := t.decode(a.body, dst)
	if _, ok := errors.AsType[*refusal](err); ok {
		return dst[:had], t.refused(a)
	}
	if err != nil {
		return dst, err
	}
	return dst, t.checkIDs(dst[had:])
}

func (t *target) checkIDs(ids []int64) error {
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
func (t *target) refused(a response) error {
	var said struct {
		Code    *int            `json:"code"`
		Message string          `json:"message"`
		ID      json.RawMessage `json:"id"`
		IDStr   json.RawMessage `json:"idStr"`
		IDs     json.RawMessage `json:"ids"`
	}
	r := &refusal{status: a.status}
	if err := json.Unmarshal(a.body, &said); err != nil {
		r.message = firstLine(a.body)
	} else {
		r.message = said.Message
	}
	if said.Code != nil {
		r.code, r.coded = *said.Code, true
	}
	if t.decode == nil {
		return r
	}
	if _, err := decodeLines(a.body, nil); err == nil || said.ID != nil || said.IDStr != nil || said.IDs != nil {
		return fmt.Errorf("%w: %d %s", errIDInError, a.status, excerpt(a.body))
	}
	return r
}

// firstLine is the beginning of a text for people, if it is one.
func firstLine(body []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte{'\n'})
	if len(line) == 0 || line[0] == '<' {
		return ""
	}
	return strings.Trim(excerpt(line), `"`)
}
