package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// get issues IDs of the queue mode.
func (a *API) get(c *gin.Context) {
	token, ok := a.admit(c, access.Queue)
	if !ok {
		return
	}
	query, err := readParams(c)
	var p params
	if err == nil {
		p, err = parseGet(query)
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	f := asJSON
	if p.format == "text" || p.format == "" && onlyText(c.Request) {
		f = asLines
	}
	r := issuer.Request{Mode: access.Queue, App: p.app, GatePass: p.gatePass, Count: p.count}
	a.issue(c, token, r, p, f)
}

// getSegment issues IDs of a tag.
func (a *API) getSegment(c *gin.Context) {
	tag, err := lastSegment(c, "key")
	if err != nil {
		a.noRoute(c)
		return
	}
	a.getLeaf(c, issuer.Request{Mode: access.Segment, Tag: tag})
}

// getSnowflake issues snowflakes. The key must be there, as Leaf has it, and is
// not used.
func (a *API) getSnowflake(c *gin.Context) {
	key, err := lastSegment(c, "key")
	if err != nil {
		a.noRoute(c)
		return
	}
	if key == "" && a.opts.Snowflake != nil {
		if _, ok := a.admit(c, access.Snowflake); ok {
			a.fail(c, fmt.Errorf("%w: the key is missing: GET /api/snowflake/get/any", model.ErrInvalidArgument))
		}
		return
	}
	a.getLeaf(c, issuer.Request{Mode: access.Snowflake})
}

// getUID issues UIDs.
func (a *API) getUID(c *gin.Context) { a.getLeaf(c, issuer.Request{Mode: access.UID}) }

// getLeaf issues IDs to clients of Leaf and Baidu: what they read is a number and nothing
// else. It is JSON too, so for clients that prefer that only the type differs, and a batch
// is an array.
func (a *API) getLeaf(c *gin.Context, r issuer.Request) {
	token, ok := a.admit(c, r.Mode)
	if !ok {
		return
	}
	query, err := readParams(c)
	var p params
	if err == nil {
		p, err = parseBatch(query)
	}
	if err != nil {
		a.fail(c, cmp.Or(a.opts.Enabled(r.Mode), err))
		return
	}
	f := asDigits
	switch prefersJSON := wantsJSON(c.Request, "text/plain"); {
	case p.batch && prefersJSON:
		f = asArray
	case p.batch:
		f = asLines
	case prefersJSON:
		f = asNumber
	}
	r.Count = p.count
	a.issue(c, token, r, p, f)
}

// getV1 issues IDs in the uniform shape, of the mode and what the path names.
func (a *API) getV1(mode access.Modes) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := issuer.Request{Mode: mode}
		if mode == access.Segment {
			var err error
			if r.Tag, err = tagOfV1(c); err != nil {
				a.noRoute(c)
				return
			}
		}
		token, ok := a.admit(c, mode)
		if !ok {
			return
		}
		p, err := a.parseV1(c, &r)
		if err != nil {
			a.fail(c, cmp.Or(a.opts.Enabled(mode), err))
			return
		}
		f := asStrings
		switch {
		case p.ranges:
			f = asRanges
		case p.digits != model.Dec:
			f = asTexts
		}
		a.issue(c, token, r, p, f)
	}
}

// tagOfV1 is the tag in /v1/segment/{tag}/ids, of which an encoded slash may be a part.
func tagOfV1(c *gin.Context) (string, error) {
	tag, found := strings.CutSuffix(strings.TrimPrefix(c.Request.URL.EscapedPath(), "/v1/segment/"), "/ids")
	if !found || strings.Contains(tag, "/") {
		return "", noSuchPath(c)
	}
	return url.PathUnescape(tag)
}

// buffer is what a request for IDs needs and gives back.
type buffer struct {
	ids  []int64
	body []byte
}

// issue answers with the IDs.
func (a *API) issue(c *gin.Context, token *access.Token, r issuer.Request, p params, f form) {
	b, _ := a.buffers.Get().(*buffer)
	defer a.buffers.Put(b)
	var err error
	b.ids, err = a.opts.Issue(c.Request.Context(), token, r, b.ids[:0])
	var texts []string
	if errors.Is(err, model.ErrPattern) && f == asStrings {
		texts, err = a.opts.IssueNumbers(c.Request.Context(), r, nil)
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	a.answers.Add(0)
	contentType := typeJSON
	if f == asLines || f == asDigits {
		contentType = typeText
	}
	if texts != nil {
		b.body = append(appendJSON(append(b.body[:0], `{"code":0,"ids":`...), texts), '}')
		a.write(c, http.StatusOK, contentType, b.body)
		return
	}
	stride := int64(1)
	if r.Mode == access.Queue {
		stride = model.IndexStride
	}
	b.body = appendIssued(b.body[:0], b.ids, p, f, stride)
	a.write(c, http.StatusOK, contentType, b.body) // digits: nothing that could be taken for a page
}

// decode takes an ID apart.
func (a *API) decode(_ context.Context, c *gin.Context) (any, error) {
	given, err := readQuery(c.Request.URL.RawQuery, "id", "kind", "format")
	if err != nil {
		return nil, err
	}
	if given[0].text == "" {
		return nil, missingID("id", "/decode?kind=queue&id=16385")
	}
	if _, err := model.ParseFormat(given[2].text); given[2].given && err != nil {
		return nil, err
	}
	id, err := model.ParseID(given[0].text, given[2].text)
	if err != nil {
		return nil, err
	}
	kind := model.KindQueue
	if given[1].given {
		kind = given[1].text
	}
	parts, err := a.opts.Decoder.Decode(kind, id)
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
	id, parts, err := a.parts(model.KindUID, "uid", value, "/api/uid/parse/34359738368")
	return struct { // Baidu's parseUID, field by field
		UID       int64  `json:"UID,string"`
		Timestamp string `json:"timestamp"`
		WorkerID  int64  `json:"workerId,string"`
		Sequence  int64  `json:"sequence,string"`
	}{id, a.local(time.Unix(parts["timestamp"], 0), time.DateTime), parts["workerId"], parts["sequence"]}, err
}

// decodeSnowflake takes a snowflake apart as Leaf does. It needs the layout only,
// so it works while the mode is disabled.
func (a *API) decodeSnowflake(_ context.Context, c *gin.Context) (any, error) {
	const name = "snowflakeId"
	given, err := readQuery(c.Request.URL.RawQuery, name)
	if err != nil {
		return nil, err
	}
	_, parts, err := a.parts(model.KindSnowflake, name, given[0].text, "/decodeSnowflakeId?snowflakeId=4194304")
	ms := parts["timestamp"]
	return struct { // Leaf's /decodeSnowflakeId, field by field
		Timestamp  string `json:"timestamp"`
		WorkerID   int64  `json:"workerId,string"`
		SequenceID int64  `json:"sequenceId,string"`
	}{
		fmt.Sprintf("%d(%s)", ms, a.local(time.UnixMilli(ms), "2006-01-02 15:04:05.000")),
		parts["workerId"], parts["sequenceId"],
	}, err
}

// parts reads the ID that is called name and returns its numbers by their names;
// example is a request that has one. Errors: model.ErrInvalidArgument.
func (a *API) parts(kind, name, value, example string) (int64, map[string]int64, error) {
	id, err := parseID(name, value, example)
	if err != nil {
		return 0, nil, err
	}
	parts, err := a.opts.Decoder.Decode(kind, id)
	numbers := make(map[string]int64, len(parts))
	for _, p := range parts {
		if n, ok := p.Value.(int64); ok {
			numbers[p.Name] = n
		}
	}
	return id, numbers, err
}

// local formats a time for answers that do not name its zone.
func (a *API) local(t time.Time, layout string) string { return t.In(a.opts.Location).Format(layout) }

// timed counts what next answers for a mode. The clock is read twice, as cheaply as
// it can be: its monotonic part only.
func (a *API) timed(mode access.Modes, next gin.HandlerFunc) gin.HandlerFunc {
	start := time.Now()
	return func(c *gin.Context) {
		began := time.Since(start)
		next(c)
		code := 0
		if len(c.Keys) > 0 {
			code = c.GetInt(codeKey)
		}
		a.opts.Observe(mode, code, time.Since(start)-began)
	}
}
