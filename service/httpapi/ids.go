package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/latency"

	"github.com/gin-gonic/gin"
)

// get issues IDs of the queue mode.
func (a *API) get(c *gin.Context) {
	token, ok := a.admit(c, access.Queue)
	if !ok {
		return
	}
	p, err := parseGet(c.Request.URL.RawQuery)
	if err == nil {
		err = token.App(p.app)
	}
	if err != nil {
		a.fail(c, err)
		return
	}
	f := asJSON
	if wantsText(c.Request) {
		f = asLines
	}
	a.issue(c, p, f, func(dst []int64) ([]int64, error) {
		return a.opts.Queue.Next(c.Request.Context(), p.app, p.gatePass, p.count, dst)
	})
}

// getSegment issues IDs of a tag.
func (a *API) getSegment(c *gin.Context) {
	tag, err := lastSegment(c, "key")
	if err != nil {
		a.noRoute(c)
		return
	}
	token, ok := a.admit(c, access.Segment)
	if !ok {
		return
	}
	if a.opts.Segment == nil {
		a.fail(c, errDisabled(ModeSegment))
		return
	}
	if err := cmp.Or(model.CheckTag(tag), token.Tag(tag)); err != nil {
		a.fail(c, err)
		return
	}
	a.getBatch(c, func(count int, dst []int64) ([]int64, error) {
		return a.opts.Segment.Next(c.Request.Context(), tag, count, dst)
	})
}

// getSnowflake issues snowflakes. The key must be there, as Leaf has it, and is
// not used.
func (a *API) getSnowflake(c *gin.Context) {
	key, err := lastSegment(c, "key")
	if err != nil {
		a.noRoute(c)
		return
	}
	if _, ok := a.admit(c, access.Snowflake); !ok {
		return
	}
	switch {
	case a.opts.Snowflake == nil:
		a.fail(c, errDisabled(ModeSnowflake))
	case key == "":
		a.fail(c, fmt.Errorf("%w: the key is missing: GET /api/snowflake/get/any", model.ErrInvalidArgument))
	default:
		a.getBatch(c, func(count int, dst []int64) ([]int64, error) {
			return a.opts.Snowflake.Next(c.Request.Context(), count, dst)
		})
	}
}

// getUID issues UIDs.
func (a *API) getUID(c *gin.Context) {
	if _, ok := a.admit(c, access.UID); !ok {
		return
	}
	if a.opts.UID == nil {
		a.fail(c, errDisabled(ModeUID))
		return
	}
	a.getBatch(c, func(count int, dst []int64) ([]int64, error) {
		return a.opts.UID.Next(c.Request.Context(), count, dst)
	})
}

// getBatch issues IDs to clients of Leaf and Baidu: what they read is text.
func (a *API) getBatch(c *gin.Context, next func(count int, dst []int64) ([]int64, error)) {
	p, err := parseBatch(c.Request.URL.RawQuery)
	if err != nil {
		a.fail(c, err)
		return
	}
	f := asDigits
	switch {
	case wantsJSON(c.Request, "text/plain"):
		f = asJSON
	case p.batch:
		f = asLines
	}
	a.issue(c, p, f, func(dst []int64) ([]int64, error) { return next(p.count, dst) })
}

// buffer is what a request for IDs needs and gives back.
type buffer struct {
	ids  []int64
	body []byte
}

// issue answers with the IDs that take appends to dst.
func (a *API) issue(c *gin.Context, p params, f form, take func(dst []int64) ([]int64, error)) {
	b, _ := a.buffers.Get().(*buffer)
	defer a.buffers.Put(b)
	var err error
	b.ids, err = take(b.ids[:0])
	if err != nil {
		a.fail(c, err)
		return
	}
	a.answers[0].Add(1)
	contentType := typeText
	if f == asJSON {
		contentType = typeJSON
	}
	b.body = appendIssued(b.body[:0], b.ids, p, f)
	a.write(c, http.StatusOK, contentType, b.body) // digits: nothing that could be taken for a page
}

// errDisabled is of a mode that is switched off.
func errDisabled(mode string) error {
	return fmt.Errorf("%w: set %s.enabled to true and restart to use it", model.ErrModeDisabled, mode)
}

// decode takes an ID apart.
func (a *API) decode(_ context.Context, c *gin.Context) (any, error) {
	given, err := readQuery(c.Request.URL.RawQuery, "id", "kind")
	if err != nil {
		return nil, err
	}
	id, err := parseID("id", given[0].text, "/decode?kind=queue&id=16385")
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

// Traffic is what the ID route of one mode has answered since the start, but for what a
// panic ended. Its times are from when the request was routed until its answer was
// written.
type Traffic struct {
	OK      latency.Reading // requests that got their IDs
	Refused latency.Reading // those that were answered 4xx: the caller's to change
	Failed  latency.Reading // those that were answered 5xx: ours
	Codes   map[int]int64   // requests by the code of their error
}

// traffic counts for one mode. Safe for concurrent use.
type traffic struct {
	ok, refused, failed latency.Histogram
	codes               [1 - lastCode]atomic.Int64 // by the code's magnitude
}

// timed counts what next answers for a mode. The clock is read twice, as cheaply as
// it can be: its monotonic part only.
func (a *API) timed(mode string, next gin.HandlerFunc) gin.HandlerFunc {
	t, start := a.traffic[mode], time.Now()
	return func(c *gin.Context) {
		began := time.Since(start)
		next(c)
		took := time.Since(start) - began
		switch status := c.Writer.Status(); {
		case status < http.StatusBadRequest:
			t.ok.Observe(took)
			return
		case status < http.StatusInternalServerError:
			t.refused.Observe(took)
		default:
			t.failed.Observe(took)
		}
		t.codes[-c.GetInt(codeKey)].Add(1)
	}
}

// Traffic returns what each of the four modes has answered, by name.
func (a *API) Traffic() map[string]Traffic {
	all := make(map[string]Traffic, len(a.traffic))
	for mode, t := range a.traffic {
		one := Traffic{OK: t.ok.Read(), Refused: t.refused.Read(), Failed: t.failed.Read(), Codes: map[int]int64{}}
		for i := 1; i < len(t.codes); i++ {
			one.Codes[-i] = t.codes[i].Load()
		}
		all[mode] = one
	}
	return all
}
