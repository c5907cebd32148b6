package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// idRequest is what a request asks for, and how the IDs are to be shown.
type idRequest struct {
	issuer.Request
	token     *access.Token // nil where none is required
	batch     bool          // count was given: the answer is a list
	stringify bool
	digits    idtext.Format // of /v1
	stride    int64         // of ranges
	shardBits uint          // of ranges
	form      form
}

// ids issues IDs of a mode as p has it, and counts what it answers. key is what the path says of them beside what p
// reads, nil for nothing; its error means that there is no such path.
func (a *API) ids(mode model.Mode, p *protocol, key func(*gin.Context) (string, error)) gin.HandlerFunc {
	return a.timed(mode, func(c *gin.Context) {
		q := idRequest{Request: issuer.Request{Mode: mode, Count: 1}}
		var err error
		if key != nil {
			if q.Tag, err = key(c); err != nil {
				a.noRoute(c)
				return
			}
		}
		var ok bool
		if q.token, ok = a.admit(c, mode); !ok {
			return
		}
		if q, err = p.parse(c, q); err != nil {
			err = cmp.Or(a.opts.Enabled(mode), err)
		} else {
			err = a.issue(c, q)
		}
		if err != nil {
			a.fail(c, err)
		}
	})
}

// leafKey is the key at the end of Leaf's paths.
func leafKey(c *gin.Context) (string, error) { return lastSegment(c, "key") }

// v1Tag is the tag in /v1/segment/{tag}/ids, of which an encoded slash may be a part.
func v1Tag(c *gin.Context) (string, error) {
	raw, found := strings.CutSuffix(strings.TrimPrefix(c.Request.URL.EscapedPath(), "/v1/segment/"), "/ids")
	if !found || strings.Contains(raw, "/") {
		return "", issuer.ErrNoPath
	}
	return url.PathUnescape(raw)
}

// bytesPerID is what most answers have for an ID: its digits, quotes and a comma.
const bytesPerID = 22

// buffer is what a request for IDs needs and gives back.
type buffer struct {
	ids  []int64
	body []byte
}

// issue answers with the IDs, or with texts of a tag with a pattern if those will do. A large batch
// has its turn until the client has read the answer, but for what a buffer of its connection holds.
// A buffer whose answer a client did not take is not used again, because HTTP/2 may still be sending
// it. After an error nothing was written.
func (a *API) issue(c *gin.Context, q idRequest) error {
	done, err := a.opts.Turn(c.Request.Context(), q.Request)
	if err != nil {
		return err
	}
	defer done()
	b, _ := a.buffers.Get().(*buffer)
	if q.Count > cap(b.ids) {
		b.ids, b.body = make([]int64, 0, q.Count), make([]byte, 0, q.Count*bytesPerID)
	}
	var texts []string
	b.ids, texts, err = a.opts.Issue(c.Request.Context(), q.token, q.Request, b.ids[:0])
	if err != nil {
		a.buffers.Put(b)
		return err
	}
	switch q.stride = 1; q.Mode {
	case model.ModeQueue:
		q.stride = model.IndexStride
	case model.ModeSegment:
		if q.form == asRanges {
			q.shardBits, _ = a.opts.Segment.ShardBits(c.Request.Context(), q.Tag) // it is known since they were issued
		}
		q.stride = a.opts.Region.Stride() << q.shardBits
	case model.ModeSequence:
		q.stride = a.opts.Region.Stride()
	}
	b.body = appendIssued(b.body[:0], b.ids, texts, q)
	contentType := typeJSON
	if q.form >= asDigits {
		contentType = typeText // nothing that could be taken for a page
	}
	if a.write(c, http.StatusOK, contentType, b.body) == nil {
		a.buffers.Put(b)
	}
	return nil
}

// decode takes an ID apart.
func (a *API) decode(_ context.Context, c *gin.Context) (any, error) {
	given, err := scanQuery(c.Request.URL.RawQuery, false, "id", "kind", "format", "shardBits")
	if err != nil {
		return nil, err
	}
	id, err := idtext.ParseID(given[0].text, given[2].text)
	if err != nil {
		return nil, err
	}
	kind := model.KindQueue
	if given[1].given {
		kind = given[1].text
	}
	bits := 0
	if given[3].given {
		if bits, err = model.ParseRange("shardBits must be", given[3].text, 0, idtext.MaxShardBits); err != nil {
			return nil, err
		}
	}
	parts, err := a.opts.Decoder.Decode(kind, id, bits)
	if err != nil {
		return nil, err
	}
	body := appendID(nil, id)
	body = append(body[:len(body)-1], `,"kind":"`+kind+`"`...)
	for _, p := range parts {
		body = appendJSON(append(body, `,"`+p.Name+`":`...), p.Value)
	}
	return json.RawMessage(append(body, '}')), nil
}

// parseUID takes a UID apart as Baidu's UidGenerator does. It needs the layout
// only, so it works while the mode is disabled.
func (a *API) parseUID(_ context.Context, c *gin.Context) (any, error) {
	value, err := lastSegment(c, "uid")
	if err != nil {
		return nil, err
	}
	id, parts, err := a.parts(model.KindUID, value)
	return struct { // Baidu's parseUID, field by field
		UID       int64  `json:"UID,string"`
		Timestamp string `json:"timestamp"`
		WorkerID  int64  `json:"workerId,string"`
		Sequence  int64  `json:"sequence,string"`
	}{id, local(time.Unix(parts["timestamp"], 0), time.DateTime), parts["workerId"], parts["sequence"]}, err
}

// decodeSnowflake takes a snowflake apart as Leaf does. It needs the layout only,
// so it works while the mode is disabled.
func (a *API) decodeSnowflake(_ context.Context, c *gin.Context) (any, error) {
	given, err := scanQuery(c.Request.URL.RawQuery, false, "snowflakeId")
	if err != nil {
		return nil, err
	}
	_, parts, err := a.parts(model.KindSnowflake, given[0].text)
	ms := parts["timestamp"]
	return struct { // Leaf's /decodeSnowflakeId, field by field
		Timestamp  string `json:"timestamp"`
		WorkerID   int64  `json:"workerId,string"`
		SequenceID int64  `json:"sequenceId,string"`
	}{
		fmt.Sprintf("%d(%s)", ms, local(time.UnixMilli(ms), "2006-01-02 15:04:05.000")),
		parts["workerId"], parts["sequenceId"],
	}, err
}

// parts reads a decimal ID of a kind and returns its numbers by their names. Errors: model.ErrInvalidArgument.
func (a *API) parts(kind, value string) (int64, map[string]int64, error) {
	id, err := idtext.ParseID(value, "dec")
	if err != nil {
		return 0, nil, err
	}
	parts, err := a.opts.Decoder.Decode(kind, id, 0)
	numbers := make(map[string]int64, len(parts))
	for _, p := range parts {
		if n, ok := p.Value.(int64); ok {
			numbers[p.Name] = n
		}
	}
	return id, numbers, err
}

// local formats a time for answers that do not name its zone.
func local(t time.Time, layout string) string { return t.In(time.Local).Format(layout) }

// timed counts what next answers for a mode. The clock is read twice, as cheaply as
// it can be: its monotonic part only.
func (a *API) timed(mode model.Mode, next gin.HandlerFunc) gin.HandlerFunc {
	start := time.Now()
	return func(c *gin.Context) {
		began := time.Since(start)
		next(c)
		code := 0
		if len(c.Keys) > 0 {
			code = c.GetInt(codeKey)
		}
		if code == rowGaveUp.Code && c.Request.Context().Err() != nil {
			return // who has gone did not wait in vain
		}
		a.opts.Traffic.Observe(mode, code, time.Since(start)-began)
	}
}
