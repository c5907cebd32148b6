package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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

// readBody reads the whole body. Errors: model.ErrInvalidArgument.
func readBody(c *gin.Context) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, fmt.Errorf("%w: the body has more than %d bytes", model.ErrInvalidArgument, maxBody)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the body cannot be read: %w", model.ErrInvalidArgument, err)
	}
	return body, nil
}

// readObject reads the body. The fields that may be there are known by their exact names.
func readObject(c *gin.Context, known ...string) *object {
	body, err := readBody(c)
	if err != nil {
		return &object{err: err}
	}
	return parseObject(body, known)
}

// parseObject is readObject of a body that was read.
func parseObject(body []byte, known []string) *object {
	o := &object{}
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	fields := strings.Join(known, ", ")
	if err := in.Decode(&o.values); err != nil || o.values == nil || !utf8.Valid(body) {
		o.refuse("the body must be a JSON object with some of %s, in UTF-8", fields)
	} else if _, err := in.Token(); !errors.Is(err, io.EOF) {
		o.refuse("something follows the JSON object")
	}
	for name, value := range o.values {
		switch value.(type) {
		case map[string]any, []any:
			o.refuse("%s must not be a list or an object", name)
		}
		if !slices.Contains(known, name) {
			o.refuse("unknown field %s: there are %s", quote(name), fields)
		}
	}
	return o
}

// refuse keeps the first error.
func (o *object) refuse(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%w: %w", model.ErrInvalidArgument, fmt.Errorf(format, args...))
	}
}

// field is a value that read takes; nil when it is not given.
func field[T any](o *object, name, want string, read func(value any) (T, bool)) *T {
	given, found := o.values[name]
	if !found || o.err != nil {
		return nil
	}
	v, ok := read(given)
	if !ok {
		o.refuse("%s must be %s, not %s", name, want, shown(given))
		return nil
	}
	return &v
}

func as[T any](v any) (t T, ok bool) {
	t, ok = v.(T)
	return t, ok
}

// form is the object as a form.
func (o *object) form() (string, error) {
	form := url.Values{}
	for name, value := range o.values {
		text := fmt.Sprint(value)
		if _, isNumber := value.(json.Number); value == nil || isNumber && strings.Trim(text, "0123456789") != "" {
			o.refuse("%s must be a string, a whole number, true or false, not %s", name, shown(value))
		}
		form.Set(name, text)
	}
	return form.Encode(), o.err
}

// need refuses an object without these fields.
func (o *object) need(names ...string) {
	for _, name := range names {
		if _, given := o.values[name]; !given {
			o.refuse("%s is missing", name)
		}
	}
}

// shown shows a client a value of its JSON.
func shown(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case nil:
		return "null"
	}
	return cut(fmt.Sprint(value), maxShown)
}
