package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// decode takes an ID apart.
func (a *API) decode(c *gin.Context) {
	given, err := readQuery(c.Request.URL.RawQuery, "id", "kind")
	if err != nil {
		a.fail(c, err)
		return
	}
	id, err := parseID("id", given["id"], "/decode?kind=queue&id=16385")
	if err != nil {
		a.fail(c, err)
		return
	}
	kind, ok := given["kind"]
	if !ok {
		kind = model.KindQueue
	}
	parts, err := a.opts.Decoder.Decode(kind, id)
	if err != nil {
		a.fail(c, err)
		return
	}
	body := appendID(nil, id)
	body = append(body[:len(body)-1], `,"kind":"`+kind+`"`...)
	for _, p := range parts {
		body = append(body, `,"`+p.Name+`":`...)
		switch v := p.Value.(type) {
		case int64:
			body = strconv.AppendInt(body, v, 10)
		case string:
			body = appendJSON(body, v)
		}
	}
	a.writeBody(c, http.StatusOK, a.headers.json, append(body, '}'))
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
	_, parts, err := a.parts(model.KindSnowflake, name, given[name], "/decodeSnowflakeId?snowflakeId=4194304")
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
