package httpapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// Codes in the answers of didi's tinyid server. Every answer has status 200, because its
// clients look at nothing else: errors have one of these codes, or, where the answer is
// plain text, no text. What our own code is goes to the log and the counters.
const (
	tinyidOK       = 200
	tinyidNotYours = 5 // the token is wrong, or not for this tag
	tinyidFailed   = 6
)

// tinyidLoading is the share of a run, in percent, after which the client fetches its next.
const tinyidLoading = 20

// tinyidIDs issues IDs of a tag to clients of tinyid: as JSON, or as decimals between commas.
func (a *API) tinyidIDs(simple bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		b, _ := a.buffers.Get().(*buffer)
		defer a.buffers.Put(b)
		token, r, err := a.readTinyid(c)
		if err == nil {
			b.ids, err = a.opts.Issue(c.Request.Context(), token, r, b.ids[:0])
		}
		if err != nil {
			a.failTinyid(c, simple, err)
			return
		}
		a.answers.Add(0)
		if simple {
			b.body = appendArray(b.body[:0], b.ids, false)
			a.write(c, http.StatusOK, typeText, b.body[1:len(b.body)-1]) // without the brackets
			return
		}
		b.body = appendArray(append(b.body[:0], `{"data":`...), b.ids, false)
		b.body = appendTinyidEnd(b.body, tinyidOK, "")
		a.write(c, http.StatusOK, typeJSON, b.body)
	}
}

// tinyidRun issues a run of a tag to the tinyid client, which counts on its own from above
// currentId to maxId, and fetches its next run at loadingId.
func (a *API) tinyidRun(simple bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		token, r, err := a.readTinyid(c)
		var first, last int64
		if err == nil {
			first, last, err = a.opts.IssueRun(c.Request.Context(), token, r.Tag)
		}
		if err != nil {
			a.failTinyid(c, simple, err)
			return
		}
		a.answers.Add(0)
		current := first - 1
		loading := current + (last-current)*tinyidLoading/100
		if simple { // currentId, loadingId, maxId, delta, remainder
			a.write(c, http.StatusOK, typeText, fmt.Appendf(nil, "%d,%d,%d,1,0", current, loading, last))
			return
		}
		const data = `{"data":{"maxId":%d,"loadingId":%d,"currentId":%d,"delta":1,"remainder":0}`
		body := fmt.Appendf(nil, data, last, loading, current)
		a.write(c, http.StatusOK, typeJSON, appendTinyidEnd(body, tinyidOK, ""))
	}
}

// readTinyid reads who asks for IDs, and which. These clients send their token as a
// parameter. Errors: model.ErrInvalidArgument, ErrNoToken, *access.TooManyError.
func (a *API) readTinyid(c *gin.Context) (token *access.Token, r issuer.Request, err error) {
	query, err := readParams(c)
	if err != nil {
		return nil, r, err
	}
	given, err := readQuery(query, "bizType", "batchSize", "token")
	if err != nil {
		return nil, r, err
	}
	if a.opts.RequireToken {
		if given[2].text == "" {
			return nil, r, fmt.Errorf("%w: send it in the parameter token", model.ErrNoToken)
		}
		if token, err = a.opts.Access.Use(access.NewCredential([]byte(given[2].text))); err != nil {
			return nil, r, err
		}
		c.Set(callerKey, token.Name())
	}
	r = issuer.Request{Mode: access.Segment, Tag: given[0].text, Count: 1}
	if r.Tag == "" {
		return token, r, fmt.Errorf("%w: bizType is missing or empty", model.ErrInvalidArgument)
	}
	if text := given[1].text; text != "" {
		r.Count, err = parseRange("batchSize", text, 1, math.MaxInt32)
		r.Count = min(r.Count, model.MaxBatch) // the server of tinyid cuts it, too
	}
	return token, r, err
}

// failTinyid answers with an error as the server of tinyid does.
func (a *API) failTinyid(c *gin.Context, simple bool, err error) {
	e, message := a.explain(c, err)
	a.count(c, e)
	code := tinyidFailed
	if errors.Is(err, model.ErrNoToken) || errors.Is(err, model.ErrForbidden) {
		code, message = tinyidNotYours, "token is error"
	}
	if simple {
		a.writeBody(c, http.StatusOK, typeText, nil)
		return
	}
	a.writeBody(c, http.StatusOK, typeJSON, appendTinyidEnd([]byte(`{"data":null`), code, message))
}

// appendTinyidEnd appends what follows the data of an answer.
func appendTinyidEnd(b []byte, code int, message string) []byte {
	b = strconv.AppendInt(append(b, `,"code":`...), int64(code), 10)
	return append(appendJSON(append(b, `,"message":`...), message), '}')
}
