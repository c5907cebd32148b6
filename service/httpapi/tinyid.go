package httpapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"shardid/client/hold"
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
		q, err := a.readTinyid(c)
		if q.form = asTinyid; simple {
			q.form = asCommas
		}
		if err == nil {
			err = a.issue(c, q)
		}
		if err != nil {
			a.failTinyid(c, simple, err)
		}
	}
}

// tinyidRun issues a run of a tag to the tinyid client, which counts on its own from above
// currentId to maxId, and fetches its next run at loadingId.
func (a *API) tinyidRun(simple bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		q, err := a.readTinyid(c)
		var run hold.Run
		if err == nil {
			run, err = a.opts.IssueRun(c.Request.Context(), q.token, q.Request)
		}
		if err != nil {
			a.failTinyid(c, simple, err)
			return
		}
		current, last := run.First-run.Stride, run.First+(run.Count-1)*run.Stride
		loading := current + (last-current)*tinyidLoading/100
		remainder := run.First % run.Stride
		if simple { // currentId, loadingId, maxId, delta, remainder
			body := fmt.Appendf(nil, "%d,%d,%d,%d,%d", current, loading, last, run.Stride, remainder)
			_ = a.write(c, http.StatusOK, typeText, body) // fails when the client has gone
			return
		}
		const data = `{"data":{"maxId":%d,"loadingId":%d,"currentId":%d,"delta":%d,"remainder":%d}`
		body := fmt.Appendf(nil, data, last, loading, current, run.Stride, remainder)
		_ = a.write(c, http.StatusOK, typeJSON, appendTinyidEnd(body, tinyidOK, "")) // likewise
	}
}

// readTinyid reads who asks for IDs, and which. These clients send their token as a
// parameter. Errors: model.ErrInvalidArgument, ErrNoToken, *access.TooManyError.
func (a *API) readTinyid(c *gin.Context) (q idRequest, err error) {
	known := []string{"bizType", "batchSize", "token", "shardKey"}
	query, err := readParams(c, known)
	if err != nil {
		return q, err
	}
	given, err := scanQuery(query, false, known...)
	if err != nil {
		return q, err
	}
	if a.opts.RequireToken {
		if given[2].text == "" {
			return q, fmt.Errorf("send a token in the parameter token: %w", model.ErrNoToken)
		}
		if q.token, err = a.opts.Access.Use(access.NewCredential([]byte(given[2].text))); err != nil {
			return q, err
		}
		c.Set(callerKey, q.token.Name())
	}
	q.Request = issuer.Request{Mode: model.ModeSegment, Tag: given[0].text, Count: 1}
	if q.Tag == "" {
		return q, fmt.Errorf("%w: send a tag as bizType: it is missing or empty", model.ErrInvalidArgument)
	}
	if text := given[1].text; text != "" {
		q.Count, err = model.ParseRange("batchSize must be", text, 1, math.MaxInt32)
		q.Count = min(q.Count, model.MaxBatch) // the server of tinyid cuts it, too
	}
	if err == nil {
		q.ShardKey, err = readShardKey(given[3])
	}
	return q, err
}

// failTinyid answers with an error as the server of tinyid does.
func (a *API) failTinyid(c *gin.Context, simple bool, err error) {
	row, message := a.explain(c, err)
	a.noteCode(c, row.Code)
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
