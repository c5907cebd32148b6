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

// maxBody is the longest body that is read, in bytes: as much as a query may have.
const maxBody = 16 << 10

// readBody reads the whole body. Errors: model.ErrInvalidArgument.
func readBody(c *gin.Context) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, fmt.Errorf("%w: send at most %d bytes: the body has more", model.ErrInvalidArgument, maxBody)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the body cannot be read: %w", model.ErrInvalidArgument, err)
	}
	return body, nil
}

// readObject reads the body, a JSON object of fields that are known. Errors: model.ErrInvalidArgument.
func readObject(c *gin.Context, known ...string) (map[string]any, error) {
	body, err := readBody(c)
	if err != nil {
		return nil, err
	}
	return parseObject(body, known)
}

// parseObject reads a JSON object. The fields that it may have are known by their exact names, and each is given once;
// whoever uses a value looks at its type. Errors: model.ErrInvalidArgument.
func parseObject(body []byte, known []string) (map[string]any, error) {
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	names := strings.Join(known, ", ")
	if begin, _ := in.Token(); begin != json.Delim('{') || !json.Valid(body) || !utf8.Valid(body) {
		return nil, fmt.Errorf("%w: send one JSON object with some of %s, in UTF-8: the body is none",
			model.ErrInvalidArgument, names)
	}
	fields := map[string]any{}
	for in.More() {
		token, _ := in.Token() // no error comes of JSON that is valid
		name := token.(string)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: use %s: unknown field %.64q", model.ErrInvalidArgument, names, name)
		}
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("%w: give %s once: it is there twice", model.ErrInvalidArgument, name)
		}
		var value any
		_ = in.Decode(&value)
		fields[name] = value
	}
	return fields, nil
}

// formOf is a JSON object as a form. A value is a string or a whole number, and that of a flag may be true or false.
// Errors: model.ErrInvalidArgument.
func formOf(fields map[string]any) (string, error) {
	form := url.Values{}
	for name, value := range fields {
		text, ok := fmt.Sprint(value), false
		switch value.(type) {
		case string:
			ok = true
		case json.Number:
			ok = strings.Trim(text, "0123456789") == ""
		case bool:
			ok = slices.Contains([]string{"stringify", "ranges", "padded", "sharded"}, name)
		}
		if !ok {
			return "", fmt.Errorf("%w: %s must be a string or a whole number, or for a flag true or false, not %s",
				model.ErrInvalidArgument, name, shown(value))
		}
		form.Set(name, text)
	}
	return form.Encode(), nil
}

// shown shows a client a value of its JSON.
func shown(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%.64q", v)
	case nil:
		return "null"
	}
	return fmt.Sprintf("%.64s", fmt.Sprint(value))
}
