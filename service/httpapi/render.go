package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// headers are the values of the headers that answers have, made once. They are
// shared by all answers: whoever wants another value replaces the slice.
type headers struct {
	json, text, html, yaml, prometheus, noStore, nosniff []string
}

func newHeaders() headers {
	return headers{
		json:       []string{"application/json; charset=utf-8"},
		text:       []string{"text/plain; charset=utf-8"},
		html:       []string{"text/html; charset=utf-8"},
		yaml:       []string{"application/yaml"},
		prometheus: []string{"text/plain; version=0.0.4; charset=utf-8"},
		noStore:    []string{"no-store"},
		nosniff:    []string{"nosniff"},
	}
}

// counted is how long a body net/http gives its length by itself, in bytes; a
// longer one without a length it would send in chunks.
const counted = 2048

// writeBody sends a whole answer, of which a browser makes nothing else than what
// it is said to be.
func (a *API) writeBody(c *gin.Context, status int, contentType []string, body []byte) {
	c.Writer.Header()["X-Content-Type-Options"] = a.headers.nosniff
	a.write(c, status, contentType, body)
}

// write sends a whole answer. No answer may be cached: a cache would issue an ID
// twice.
func (a *API) write(c *gin.Context, status int, contentType []string, body []byte) {
	h := c.Writer.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = a.headers.noStore
	if len(body) > counted || c.Request.Method == http.MethodHead {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Status(status)
	// A failed write means the client has gone; there is nobody to tell.
	_, _ = c.Writer.Write(body)
}

// writeJSON sends v. What cannot be encoded is a fault of ours.
func (a *API) writeJSON(c *gin.Context, v any) { a.writeJSONAs(c, http.StatusOK, v) }

// writeJSONAs is writeJSON with another status.
func (a *API) writeJSONAs(c *gin.Context, status int, v any) {
	body, err := encodeJSON(v)
	if err != nil {
		a.fail(c, err)
		return
	}
	a.writeBody(c, status, a.headers.json, body)
}

// writeJSONBody is writeJSON of what is encoded.
func (a *API) writeJSONBody(c *gin.Context, body []byte) {
	a.writeBody(c, http.StatusOK, a.headers.json, body)
}

// form is how IDs are shown.
type form int

const (
	asJSON   form = iota
	asLines       // one decimal a line
	asDigits      // one decimal and nothing else, as Leaf's clients read it
)

// appendIssued appends the IDs that were issued for p.
func appendIssued(b []byte, ids []int64, p params, f form) []byte {
	switch {
	case f == asLines:
		return appendLines(b, ids)
	case f == asDigits:
		return strconv.AppendInt(b, ids[0], 10)
	case p.batch:
		return appendIDs(b, ids, p.stringify)
	}
	return appendID(b, ids[0])
}

// appendID appends {"code":0,"id":N,"idStr":"N"}.
func appendID(b []byte, id int64) []byte {
	b = append(b, `{"code":0,"id":`...)
	from := len(b)
	b = strconv.AppendInt(b, id, 10)
	digits := b[from:]
	b = append(append(b, `,"idStr":"`...), digits...)
	return append(b, '"', '}')
}

// appendIDs appends {"code":0,"ids":[…]}, as strings when asked.
func appendIDs(b []byte, ids []int64, stringify bool) []byte {
	b = append(b, `{"code":0,"ids":[`...)
	separator := `,`
	if stringify {
		b, separator = append(b, '"'), `","`
	}
	var d decimals
	for i, id := range ids {
		if i > 0 {
			b = append(b, separator...)
		}
		b = d.append(b, id)
	}
	if stringify {
		b = append(b, '"')
	}
	return append(b, ']', '}')
}

// appendLines appends one decimal a line.
func appendLines(b []byte, ids []int64) []byte {
	var d decimals
	for _, id := range ids {
		b = append(d.append(b, id), '\n')
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

// appendJSON appends v as JSON.
func appendJSON(b []byte, v any) []byte {
	body, err := encodeJSON(v)
	if err != nil { // not for what is sent here
		return append(b, "null"...)
	}
	return append(b, body...)
}

// encodeJSON is v as JSON. Unlike json.Marshal it leaves &, < and > alone, so that
// a message with a URL can be read and copied from a terminal.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), err
}
