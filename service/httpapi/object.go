package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// maxBody is the longest body that is read, in bytes.
const maxBody = 64 << 10

// object is a flat JSON object that a client sent. What is asked of it that it cannot
// give is kept in err, the first such thing; everything else is then nil.
type object struct {
	values map[string]any // a string, json.Number, bool or nil each
	err    error          // wraps model.ErrInvalidArgument and names the field
}

// readObject reads the body. The fields that may be there are known by their exact
// names; one given twice is refused, because two readers could take different values.
func readObject(c *gin.Context, known ...string) *object {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return refusedObject("the body has more than %d bytes", maxBody)
	case err != nil:
		return refusedObject("the body cannot be read: %w", err)
	case !utf8.Valid(body):
		return refusedObject("the body is not UTF-8")
	}
	return parseObject(body, known)
}

func refusedObject(format string, args ...any) *object {
	return &object{err: fmt.Errorf("%w: %w", model.ErrInvalidArgument, fmt.Errorf(format, args...))}
}

func parseObject(body []byte, known []string) *object {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	if first, err := in.Token(); err != nil || first != json.Delim('{') {
		return refusedObject("the body must be a JSON object with some of %s", strings.Join(known, ", "))
	}
	o := &object{values: map[string]any{}}
	for in.More() {
		if err := o.readField(in, known); err != nil {
			return refusedObject("%w", err)
		}
	}
	if _, err := in.Token(); err != nil { // its end
		return refusedObject("the body is not JSON: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return refusedObject("something follows the JSON object")
	}
	return o
}

func (o *object) readField(in *json.Decoder, known []string) error {
	token, err := in.Token()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	name, _ := token.(string)
	if !slices.Contains(known, name) {
		return fmt.Errorf("unknown field %s: there are %s", quote(name), strings.Join(known, ", "))
	}
	if _, twice := o.values[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	value, err := in.Token()
	if err != nil {
		return fmt.Errorf("%s: the body is not JSON: %w", name, err)
	}
	if _, nested := value.(json.Delim); nested {
		return fmt.Errorf("%s must not be a list or an object", name)
	}
	o.values[name] = value
	return nil
}

// text is a string; nil when it is not given.
func (o *object) text(name string) *string {
	value, given := o.values[name]
	if !given || o.err != nil {
		return nil
	}
	s, ok := value.(string)
	if !ok {
		o.refuse("%s must be a string, not %s", name, shown(value))
		return nil
	}
	return &s
}

// number is a whole number in low…high; nil when it is not given.
func (o *object) number(name string, low, high int64) *int64 {
	value, given := o.values[name]
	if !given || o.err != nil {
		return nil
	}
	digits, _ := value.(json.Number)
	n, err := strconv.ParseInt(digits.String(), 10, 64)
	if err != nil || n < low || n > high {
		o.refuse("%s must be a whole number in %d…%d, not %s", name, low, high, shown(value))
		return nil
	}
	return &n
}

// need refuses an object without these fields.
func (o *object) need(names ...string) {
	for _, name := range names {
		if _, given := o.values[name]; !given {
			o.refuse("%s is missing", name)
		}
	}
}

func (o *object) refuse(format string, args ...any) {
	if o.err == nil {
		o.err = refusedObject(format, args...).err
	}
}

// shown is a value of the client's, cut so that an answer stays short.
func shown(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case nil:
		return "null"
	}
	const most = 64
	s := fmt.Sprint(value)
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
