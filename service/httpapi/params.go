package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/access"

	"github.com/gin-gonic/gin"
)

// readParams returns the parameters of the query and of the body, as one query. A form is one
// already; a JSON object has nothing but known parameters. What cannot be read is refused: it
// may say how many IDs are wanted. Errors: model.ErrInvalidArgument, errBodyType.
func readParams(c *gin.Context, known []string) (string, error) {
	query := c.Request.URL.RawQuery
	if c.Request.ContentLength == 0 {
		return query, nil
	}
	body, err := readBody(c)
	if err != nil || len(body) == 0 {
		return query, err
	}
	head := c.Request.Header
	kind, _, _ := strings.Cut(strings.ToLower(head.Get("Content-Type")), ";")
	switch kind = strings.TrimSpace(kind); {
	case head.Get("Content-Encoding") != "":
		return "", fmt.Errorf("%w: send it without Content-Encoding", errBodyType.err)
	case kind == "application/x-www-form-urlencoded":
		return query + "&" + string(body), nil
	case kind == "application/json":
		form, err := parseObject(body, known).form()
		return query + "&" + form, err
	}
	return "", fmt.Errorf("%w: send application/json or application/x-www-form-urlencoded, not %s, "+
		"or the parameters in the URL", errBodyType.err, quote(kind))
}

// protocol is how requests for IDs are read.
type protocol struct {
	known []string // parameters, at most maxParams
	exact bool     // others are refused
	// read reads those that were given, in the order of known. Errors: model.ErrInvalidArgument.
	read func(c *gin.Context, q asked, given [maxParams]param) (asked, error)
}

// The protocols of the ID routes, but for that of tinyid.
var (
	ofGet           = protocol{[]string{"count", "stringify", "appId", "gatePass", "format"}, false, readGet}
	ofLeaf          = protocol{ofGet.known[:2], false, readLeaf}
	ofLeafSnowflake = protocol{ofLeaf.known, false, readLeafSnowflake}
	ofV1Queue       = protocol{[]string{"count", "ranges", "format", "padded", "gatePass"}, true, readV1}
	ofV1            = protocol{ofV1Queue.known[:4], true, readV1}
)

// The protocols of sequences: numbers of a key, and how far the key has come.
var (
	ofSequence = protocol{[]string{"count", "ranges", "key"}, true, readSequence}
	ofCurrent  = protocol{[]string{"key"}, true, readCurrent}
)

// readGet reads the parameters of /get.
func readGet(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	q, err := readBatch(q, given)
	app, format := given[2], given[4]
	if err == nil && app.given {
		q.App, err = parseRange("appId", app.text, 0, model.Apps-1)
	}
	switch {
	case err != nil:
		return q, err
	case !app.given:
		return q, fmt.Errorf("%w: appId is missing: GET /get?appId=1&gatePass=alice", model.ErrInvalidArgument)
	case format.given && format.text != "json" && format.text != "text":
		return q, fmt.Errorf("%w: format must be json or text, not %s", model.ErrInvalidArgument, quote(format.text))
	case format.text == "text", !format.given && onlyText(c.Request):
		q.form = asLines
	}
	q.GatePass = given[3].text
	return q, model.CheckGatePass(q.GatePass)
}

// readLeaf reads the parameters of clients of Leaf and Baidu: what they read is a number and
// nothing else. It is JSON too, so for clients that prefer that only the type differs, and a
// batch is an array.
func readLeaf(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	q, err := readBatch(q, given)
	q.form = asDigits
	switch prefersJSON := wantsJSON(c.Request); {
	case q.batch && prefersJSON:
		q.form = asArray
	case q.batch:
		q.form = asLines
	case prefersJSON:
		q.form = asNumber
	}
	return q, err
}

// readLeafSnowflake is readLeaf where the path must have a key, which is not used.
func readLeafSnowflake(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	if q.Tag == "" {
		return q, fmt.Errorf("%w: the key is missing: GET /api/snowflake/get/any", model.ErrInvalidArgument)
	}
	q.Tag = ""
	return readLeaf(c, q, given)
}

// readBatch reads count and stringify, the first two of given.
func readBatch(q asked, given [maxParams]param) (_ asked, err error) {
	if q.batch = given[0].given; q.batch {
		q.Count, err = parseRange("count", given[0].text, 1, model.MaxBatch)
	}
	if err == nil && given[1].given {
		q.stringify, err = parseBool("stringify", given[1].text)
	}
	return q, err
}

// readV1 reads the parameters of /v1.
func readV1(c *gin.Context, q asked, given [maxParams]param) (_ asked, err error) {
	count, ranges, format, padded := given[0], given[1], given[2], given[3]
	q.form = asStrings
	if count.given {
		q.Count, err = parseRange("count", count.text, 1, model.MaxBatch)
	}
	if err == nil && ranges.given {
		var yes bool
		if yes, err = parseBool("ranges", ranges.text); yes {
			q.form = asRanges
		}
	}
	if err == nil && format.given {
		q.digits, err = model.ParseFormat(format.text)
	}
	if err == nil && padded.given {
		var yes bool
		if yes, err = parseBool("padded", padded.text); yes {
			q.digits = q.digits.Padded()
		}
	}
	switch {
	case err != nil:
		return q, err
	case q.form == asRanges && (format.given || padded.given):
		return q, fmt.Errorf("%w: ranges=true answers numbers to count with: leave format and padded out",
			model.ErrInvalidArgument)
	case q.form == asStrings && q.digits != model.Dec:
		q.form = asTexts
	}
	q.Texts = q.form == asStrings
	if q.Mode == access.Queue {
		if q.App, err = parseRange("appId", c.Param("appId"), 0, model.Apps-1); err != nil {
			return q, err
		}
		q.GatePass = given[4].text
		err = model.CheckGatePass(q.GatePass)
	}
	return q, err
}

// readSequence reads the parameters of /v1/sequence/{space}/ids.
func readSequence(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	key := given[2]
	given[2] = param{} // where other modes have their format
	q, err := readV1(c, q, given)
	if err != nil {
		return q, err
	}
	return q.ofKey(c, key)
}

// readCurrent reads the parameters of /v1/sequence/{space}/current, which issues nothing.
func readCurrent(c *gin.Context, q asked, given [maxParams]param) (asked, error) {
	q.Count, q.form = 0, asCurrent
	return q.ofKey(c, given[0])
}

// ofKey says whose numbers are asked for. A key is any bytes.
func (q asked) ofKey(c *gin.Context, key param) (asked, error) {
	q.Space, q.Key = c.Param("space"), key.text
	if !key.given {
		return q, fmt.Errorf("%w: key is missing: GET /v1/sequence/chat/ids?key=room42", model.ErrInvalidArgument)
	}
	return q, nil
}

func parseBool(name, value string) (bool, error) {
	switch value {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%w: %s must be true or false, not %s", model.ErrInvalidArgument, name, quote(value))
}

// maxParams is the most parameters that a route knows.
const maxParams = 5

// param is a decoded parameter.
type param struct {
	text  string
	given bool
}

// readQuery reads the known parameters, at most maxParams, from a raw query without building a
// map. Others are ignored; one given twice is refused, because two readers could take
// different values. Errors: model.ErrInvalidArgument.
func readQuery(query string, known ...string) ([maxParams]param, error) {
	return scanQuery(query, false, known)
}

// scanQuery is readQuery that can refuse others.
func scanQuery(query string, exact bool, known []string) (values [maxParams]param, err error) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, raw, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "%") { // so that none is given twice in disguise
			name, _ = url.QueryUnescape(name) // one that cannot be read is an unknown one
		}
		i := slices.Index(known, name)
		switch {
		case i < 0 && exact && pair != "":
			return values, fmt.Errorf("%w: unknown parameter %s: there are %s", model.ErrInvalidArgument, quote(name),
				strings.Join(known, ", "))
		case i < 0:
			continue
		case values[i].given:
			return values, fmt.Errorf("%w: %s is given twice", model.ErrInvalidArgument, name)
		}
		values[i].given = true
		if values[i].text, err = url.QueryUnescape(raw); err != nil {
			return values, fmt.Errorf("%w: %s is not percent-encoded rightly: %w", model.ErrInvalidArgument, name, err)
		}
	}
	return values, nil
}

// parseRange reads a plain decimal: digits only, no sign, space or exponent.
func parseRange(name, value string, low, high int) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || int(n) < low || int(n) > high {
		return -1, fmt.Errorf("%w: %s must be a whole number in %d…%d, not %s", model.ErrInvalidArgument, name, low,
			high, quote(value))
	}
	return int(n), nil
}

// parseID reads an ID that is called name; example is a request that has one. The
// error is model.ErrInvalidArgument.
func parseID(name, value, example string) (int64, error) {
	if value == "" {
		return 0, missingID(name, example)
	}
	id, err := strconv.ParseInt(value, 10, 64)
	if err != nil || value[0] == '+' {
		return 0, fmt.Errorf("%w: %s must be a whole number below 2^63, not %s", model.ErrInvalidArgument, name,
			quote(value))
	}
	return id, nil
}

// missingID says that there is no ID; example is a request that has one.
func missingID(name, example string) error {
	return fmt.Errorf("%w: %s is missing: GET %s", model.ErrInvalidArgument, name, example)
}

// lastSegment is the value of a path that ends in one: what the star of its route
// stands for, decoded. An encoded slash belongs to the value, one after it does not, as
// Spring has it. The error is errNoRoute: there are further segments, so no such path.
func lastSegment(c *gin.Context, name string) (string, error) {
	value := c.Param(name)[1:] // it begins with the slash before it
	raw := c.Request.URL.RawPath
	if len(value) > 1 && strings.HasSuffix(cmp.Or(raw, value), "/") {
		value, raw = strings.TrimSuffix(value, "/"), strings.TrimSuffix(raw, "/")
	}
	if raw == "" { // nothing is encoded in a way that matters
		if strings.Contains(value, "/") {
			return "", noSuchPath(c)
		}
		return value, nil
	}
	decoded, err := url.PathUnescape(raw[strings.LastIndexByte(raw, '/')+1:])
	if err != nil || decoded != value {
		return "", noSuchPath(c)
	}
	return value, nil
}

// maxShown is how much of a client's value an answer shows, in bytes.
const maxShown = 64

// quote shows a client its value.
func quote(value string) string {
	if len(value) > maxShown {
		return strconv.Quote(value[:maxShown]) + "…"
	}
	return strconv.Quote(value)
}

// onlyText says whether an Accept header takes text and nothing that JSON could be. A client that takes both gets
// JSON, whatever it prefers: those of Spring name text first and read an object.
func onlyText(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	return (strings.Contains(accept, "text/plain") || strings.Contains(accept, "text/*")) &&
		!strings.Contains(accept, "json") && !strings.Contains(accept, "application/*") &&
		!strings.Contains(accept, "*/*")
}

// wantsJSON says whether an Accept header names JSON first, for the answers that are text by default.
func wantsJSON(r *http.Request) bool {
	accept := strings.ToLower(strings.TrimSpace(r.Header.Get("Accept")))
	return strings.HasPrefix(accept, "application/json") || strings.HasPrefix(accept, "application/*")
}
