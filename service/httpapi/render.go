package httpapi

import (
	"bytes"
	"encoding/json"
	"strconv"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// headers are the values of the headers that answers have, made once. They are
// shared by all answers: whoever wants another value replaces the slice.
type headers struct{ json, text, yaml, noStore, nosniff []string }

func newHeaders() headers {
	return headers{
		json:    []string{"application/json; charset=utf-8"},
		text:    []string{"text/plain; charset=utf-8"},
		yaml:    []string{"application/yaml"},
		noStore: []string{"no-store"},
		nosniff: []string{"nosniff"},
	}
}

// writeBody sends a whole answer. No answer may be cached: a cache would issue
// an ID twice.
func (a *API) writeBody(c *gin.Context, status int, contentType []string, body []byte) {
	h := c.Writer.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = a.headers.noStore
	h["X-Content-Type-Options"] = a.headers.nosniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.Status(status)
	// A failed write means the client has gone; there is nobody to tell.
	_, _ = c.Writer.Write(body)
}

// appendID appends {"code":0,"id":N,"idStr":"N"}.
func appendID(b []byte, id int64) []byte {
	b = strconv.AppendInt(append(b, `{"code":0,"id":`...), id, 10)
	b = strconv.AppendInt(append(b, `,"idStr":"`...), id, 10)
	return append(b, '"', '}')
}

// appendIDs appends {"code":0,"ids":[…]}, as strings when asked.
func appendIDs(b []byte, ids []int64, stringify bool) []byte {
	b = append(b, `{"code":0,"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		if stringify {
			b = append(strconv.AppendInt(append(b, '"'), id, 10), '"')
		} else {
			b = strconv.AppendInt(b, id, 10)
		}
	}
	return append(b, ']', '}')
}

// appendLines appends one decimal a line.
func appendLines(b []byte, ids []int64) []byte {
	for _, id := range ids {
		b = append(strconv.AppendInt(b, id, 10), '\n')
	}
	return b
}

// appendParts appends the parts of an ID as JSON fields.
func appendParts(b []byte, parts []model.Part) []byte {
	for _, p := range parts {
		b = append(append(append(b, `,"`...), p.Name...), `":`...)
		switch v := p.Value.(type) {
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case string:
			b = appendJSON(b, v)
		}
	}
	return b
}

// appendJSON appends v as JSON. Unlike json.Marshal it leaves &, < and > alone,
// so that a message with a URL can be read and copied from a terminal.
func appendJSON(b []byte, v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // not for what is sent here
		return append(b, "null"...)
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})...)
}
