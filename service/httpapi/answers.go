package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// Values of the headers that answers have, made once. They are shared by all answers: to
// change one, replace the slice.
var (
	typeJSON = []string{"application/json; charset=utf-8"}
	typeText = []string{"text/plain; charset=utf-8"}
	typeHTML = []string{"text/html; charset=utf-8"}
	noStore  = []string{"no-store"}
	nosniff  = []string{"nosniff"}
)

// counted is how long a body net/http gives its length by itself, in bytes; a
// longer one without a length it would send in chunks.
const counted = 2048

// writeBody sends a whole answer, of which a browser makes nothing else than what
// it is said to be.
func (a *API) writeBody(c *gin.Context, status int, contentType []string, body []byte) {
	c.Writer.Header()["X-Content-Type-Options"] = nosniff
	_ = a.write(c, status, contentType, body) // fails when the client has gone
}

// write sends a whole answer. No answer may be cached: a cache would issue an ID
// twice. An error means that the client has gone, or does not read.
func (a *API) write(c *gin.Context, status int, contentType []string, body []byte) error {
	h := c.Writer.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = noStore
	if len(body) > counted || c.Request.Method == http.MethodHead {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Status(status)
	_, err := c.Writer.Write(body)
	return err
}

// route answers a request with what becomes a JSON object, or an error of the error table. The router has checked the
// method, and the group's guard who asks; it reads the parameters and the body. ctx is bounded by readTimeout for GET
// and HEAD, which read a store at most.
type route func(ctx context.Context, c *gin.Context) (any, error)

// serveJSON makes the handler of a route, which answers with that status.
func (a *API) serveJSON(status int, answers route) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx := c.Request.Context()
		if reads(c) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, a.reading)
			defer cancel()
		}
		answer, err := answers(ctx, c)
		var body []byte
		if err == nil {
			body, err = encodeJSON(answer) // what cannot be encoded is a fault of ours
		}
		if err != nil {
			a.fail(c, err)
			return
		}
		a.writeBody(c, status, typeJSON, body)
	}
}

// form is how IDs are shown.
type form int

const (
	asJSON    form = iota // an object, as /get has it
	asStrings             // an object, as /v1 has it
	asTexts               // the same, in another format than decimal digits
	asRanges              // the same, of ranges
	asNumber              // one number
	asArray               // an array of numbers
	asTinyid              // an object, as clients of tinyid read it
	asCurrent             // an object with one number, that was issued before

	// Text.
	asDigits // one decimal and nothing else, as Leaf's clients read it
	asLines  // one decimal a line
	asCommas // decimals between commas, as clients of tinyid read them
)

// appendIssued appends the IDs, or texts, that were issued.
func appendIssued(b []byte, ids []int64, texts []string, q idRequest) []byte {
	switch q.form {
	case asLines:
		return append(appendJoined(b, ids, "\n"), '\n')
	case asCommas:
		return appendJoined(b, ids, ",")
	case asDigits, asNumber:
		return strconv.AppendInt(b, ids[0], 10)
	case asArray:
		return appendArray(b, ids, q.stringify)
	case asTinyid:
		return appendTinyidEnd(appendArray(append(b, `{"data":`...), ids, false), tinyidOK, "")
	case asRanges:
		return appendRanges(b, ids, q.stride, q.shardBits)
	case asCurrent:
		return append(strconv.AppendInt(append(b, `{"code":0,"current":"`...), ids[0], 10), `"}`...)
	}
	switch {
	case q.form == asJSON && !q.batch:
		return appendID(b, ids[0])
	case texts != nil:
		return append(appendJSON(append(b, `{"code":0,"ids":`...), texts), '}')
	case q.form == asTexts:
		b = append(b, `{"code":0,"ids":[`...)
		for i, id := range ids {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(q.digits.Append(append(b, '"'), id), '"')
		}
		return append(b, "]}"...)
	}
	return append(appendArray(append(b, `{"code":0,"ids":`...), ids, q.form == asStrings || q.stringify), '}')
}

// appendRanges appends {"code":0,"ranges":[{"first":"N","count":N,"stride":"N"},…]}, with "shardBits":N where there are
// some.
func appendRanges(b []byte, ids []int64, stride int64, shardBits uint) []byte {
	b = append(b, `{"code":0,"ranges":[`...)
	for from := 0; from < len(ids); {
		to := from + 1
		for to < len(ids) && ids[to]-ids[to-1] == stride {
			to++
		}
		if from > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"first":"`...), ids[from], 10)
		b = strconv.AppendInt(append(b, `","count":`...), int64(to-from), 10)
		b = strconv.AppendInt(append(b, `,"stride":"`...), stride, 10)
		b = append(b, `"}`...)
		from = to
	}
	if b = append(b, ']'); shardBits > 0 {
		b = strconv.AppendUint(append(b, `,"shardBits":`...), uint64(shardBits), 10)
	}
	return append(b, '}')
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

// appendArray appends […], of strings when asked.
func appendArray(b []byte, ids []int64, stringify bool) []byte {
	if stringify {
		return append(appendJoined(append(b, '[', '"'), ids, `","`), '"', ']')
	}
	return append(appendJoined(append(b, '['), ids, ","), ']')
}

// appendJoined appends decimals with a separator between them.
func appendJoined(b []byte, ids []int64, separator string) []byte {
	var d model.Decimals
	for i, id := range ids {
		if i > 0 {
			b = append(b, separator...)
		}
		b = d.Append(b, id)
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
