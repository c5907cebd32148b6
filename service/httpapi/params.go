package httpapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"shardid/client/idtext"
	"shardid/model"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// readParams returns the parameters of the query and of the body, as one query. A form is one
// already; a JSON object has nothing but known parameters. What cannot be read is refused: it
// may say how many IDs are wanted. Errors: model.ErrInvalidArgument, issuer.ErrBody.
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
		return "", fmt.Errorf("send the body without Content-Encoding: %w", issuer.ErrBody)
	case kind == "application/x-www-form-urlencoded":
		return query + "&" + string(body), nil
	case kind == "application/json":
		fields, err := parseObject(body, known)
		if err != nil {
			return "", err
		}
		form, err := formOf(fields)
		return query + "&" + form, err
	}
	return "", fmt.Errorf("send application/json or application/x-www-form-urlencoded, or the parameters in the URL: "+
		"%w: it is %.64q", issuer.ErrBody, kind)
}

// protocol is how requests for IDs are read.
type protocol struct {
	known []string // parameters, at most maxParams
	exact bool     // others are refused
	// read reads those that were given, in the order of known. Errors: model.ErrInvalidArgument.
	read func(c *gin.Context, q idRequest, given [maxParams]param) (idRequest, error)
}

// parse reads the parameters of a request for IDs. Errors: model.ErrInvalidArgument, issuer.ErrBody.
func (p *protocol) parse(c *gin.Context, q idRequest) (idRequest, error) {
	query, err := readParams(c, p.known)
	if err != nil {
		return q, err
	}
	given, err := scanQuery(query, p.exact, p.known...)
	if err != nil {
		return q, err
	}
	return p.read(c, q, given)
}

// The protocols of the ID routes, but for that of tinyid.
var (
	ofGet       = protocol{[]string{"count", "stringify", "appId", "format", "gatePass", "shard"}, false, readGet}
	ofLeaf      = protocol{ofGet.known[:2], false, readLeaf}
	ofLeafTag   = protocol{[]string{"count", "stringify", "shardKey"}, false, readLeaf}
	ofV1Queue   = protocol{[]string{"count", "ranges", "format", "padded", "gatePass", "shard"}, true, readV1}
	ofV1Segment = protocol{[]string{"count", "ranges", "format", "padded", "shardKey", "sharded"}, true, readV1}
	ofV1        = protocol{ofV1Queue.known[:4], true, readV1}
)

// The protocols of sequences: numbers of a key, and how far the key has come.
var (
	ofSequence = protocol{[]string{"count", "ranges", "key"}, true, readSequence}
	ofCurrent  = protocol{[]string{"key"}, true, readCurrent}
)

// readGet reads the parameters of /get.
func readGet(c *gin.Context, q idRequest, given [maxParams]param) (idRequest, error) {
	q, err := readBatch(q, given)
	if err == nil {
		q.App, err = model.ParseRange("appId must be", given[2].text, 0, model.Apps-1)
	}
	switch format := given[3]; {
	case err != nil:
		return q, err
	case format.given && format.text != "json" && format.text != "text":
		return q, fmt.Errorf("%w: format must be json or text, not %.64q", model.ErrInvalidArgument, format.text)
	case format.text == "text", !format.given && onlyText(c.Request):
		q.form = asLines
	}
	q.Shard, err = readShard(given[4], given[5])
	return q, err
}

// readShard reads which shard of an app is asked for: that of a gatePass, or the one that is named.
func readShard(gatePass, shard param) (uint8, error) {
	switch {
	case !shard.given:
		return idtext.CheckedShardOf(gatePass.text)
	case gatePass.given:
		return 0, fmt.Errorf("%w: send gatePass or shard, not both", model.ErrInvalidArgument)
	}
	n, err := model.ParseRange("shard must be", shard.text, 0, model.Shards-1)
	return uint8(max(n, 0)), err
}

// readShardKey reads a shard key, which Leaf's and tinyid's paths take, too.
func readShardKey(key param) (model.ShardKey, error) {
	if !key.given {
		return model.ShardKey{}, nil
	}
	return model.ReadShardKey(key.text)
}

// readLeaf reads the parameters of clients of Leaf and Baidu: what they read is a number and
// nothing else. It is JSON too, so for clients that prefer that only the type differs, and a
// batch is an array.
func readLeaf(c *gin.Context, q idRequest, given [maxParams]param) (idRequest, error) {
	q, err := readBatch(q, given)
	if err == nil {
		q.ShardKey, err = readShardKey(given[2])
	}
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

// readBatch reads count and stringify, the first two of given.
func readBatch(q idRequest, given [maxParams]param) (_ idRequest, err error) {
	q.batch = given[0].given
	if q.Count, err = parseCount(given[0]); err == nil {
		q.stringify, err = parseFlag("stringify", given[1])
	}
	return q, err
}

// readV1 reads the parameters of /v1.
func readV1(c *gin.Context, q idRequest, given [maxParams]param) (_ idRequest, err error) {
	format, padding := given[2], given[3]
	count, countErr := parseCount(given[0])
	ranges, rangesErr := parseFlag("ranges", given[1])
	padded, paddedErr := parseFlag("padded", padding)
	if format.given {
		q.digits, err = idtext.ParseFormat(format.text)
	}
	if err = cmp.Or(countErr, rangesErr, err, paddedErr); err != nil {
		return q, err
	}
	if padded {
		q.digits = q.digits.Padded()
	}
	switch q.Count, q.form = count, asStrings; {
	case ranges && (format.given || padding.given):
		return q, fmt.Errorf("%w: leave format and padded out: ranges=true answers numbers to count with",
			model.ErrInvalidArgument)
	case ranges:
		q.form = asRanges
	case q.digits != idtext.Dec:
		q.form = asTexts
	}
	q.Texts = q.form == asStrings
	if q.Mode == model.ModeQueue {
		if q.App, err = model.ParseRange("appId must be", c.Param("appId"), 0, model.Apps-1); err != nil {
			return q, err
		}
		q.Shard, err = readShard(given[4], given[5])
	}
	if q.Mode == model.ModeSegment {
		q, err = readSharded(q, given[4], given[5])
	}
	return q, err
}

// readSharded reads the shard key of /v1/segment; with ranges the caller adds the bits of its keys himself.
func readSharded(q idRequest, key, sharded param) (_ idRequest, err error) {
	if q.ShardKey, err = readShardKey(key); err == nil {
		q.ShardKey.Later, err = parseFlag("sharded", sharded)
	}
	switch ranges := q.form == asRanges; {
	case err != nil:
	case key.given && ranges:
		err = fmt.Errorf("%w: send sharded=true in place of shardKey with ranges=true, and add the low bits of each "+
			"key to the numbers", model.ErrInvalidArgument)
	case q.ShardKey.Later && !ranges:
		err = fmt.Errorf("%w: send sharded=true with ranges=true only, and else shardKey", model.ErrInvalidArgument)
	}
	return q, err
}

// readSequence reads the parameters of /v1/sequence/{space}/ids.
func readSequence(c *gin.Context, q idRequest, given [maxParams]param) (idRequest, error) {
	q.Space, q.Key = c.Param("space"), given[2].text
	given[2] = param{} // where other modes have their format
	return readV1(c, q, given)
}

// readCurrent reads the parameters of /v1/sequence/{space}/current, which issues nothing.
func readCurrent(c *gin.Context, q idRequest, given [maxParams]param) (idRequest, error) {
	q.Space, q.Key = c.Param("space"), given[0].text
	q.Count, q.form = 0, asCurrent
	return q, nil
}

// parseCount reads how many IDs are wanted, 1 where that is not given.
func parseCount(p param) (int, error) {
	if !p.given {
		return 1, nil
	}
	return model.ParseRange("count must be", p.text, 1, model.MaxBatch)
}

// parseFlag reads a flag, false where it is not given.
func parseFlag(name string, p param) (bool, error) {
	switch {
	case !p.given, p.text == "false", p.text == "0":
		return false, nil
	case p.text == "true", p.text == "1":
		return true, nil
	}
	return false, fmt.Errorf("%w: %s must be true or false, not %.64q", model.ErrInvalidArgument, name, p.text)
}

// maxParams is the most parameters that a route knows.
const maxParams = 6

// param is a decoded parameter.
type param struct {
	text  string
	given bool
}

// scanQuery reads the known parameters, at most maxParams, from a raw query without building a
// map. Others are ignored, or refused with exact; one given twice is refused, because two readers could take
// different values. Errors: model.ErrInvalidArgument.
func scanQuery(query string, exact bool, known ...string) (values [maxParams]param, err error) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, raw, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "%") { // so that none is given twice in disguise
			name, _ = url.QueryUnescape(name) // one that cannot be read is an unknown one
		}
		i := slices.Index(known, name)
		switch {
		case i < 0 && exact && strings.HasPrefix(name, "{"):
			return values, fmt.Errorf("%w: send the header Content-Type: application/json: the body was read as a form",
				model.ErrInvalidArgument)
		case i < 0 && exact && pair != "":
			return values, fmt.Errorf("%w: use %s: unknown parameter %.64q", model.ErrInvalidArgument,
				strings.Join(known, ", "), name)
		case i < 0:
			continue
		case values[i].given:
			return values, fmt.Errorf("%w: give %s once: it is there twice", model.ErrInvalidArgument, name)
		}
		values[i].given = true
		if values[i].text, err = url.QueryUnescape(raw); err != nil {
			return values, fmt.Errorf("%w: percent-encode %s: %w", model.ErrInvalidArgument, name, err)
		}
	}
	return values, nil
}

// lastSegment is the value of a path that ends in one: what the star of its route stands for, decoded. An encoded
// slash belongs to the value. The error is issuer.ErrNoPath: there are further segments, so no such path.
func lastSegment(c *gin.Context, name string) (string, error) {
	raw := c.Request.URL.EscapedPath()
	value, err := url.PathUnescape(raw[strings.LastIndexByte(raw, '/')+1:])
	if err != nil || value != c.Param(name)[1:] { // the parameter begins with a slash
		return "", noSuchPath(c)
	}
	return value, nil
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
