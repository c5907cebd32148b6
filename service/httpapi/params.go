package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shardid/model"

	"github.com/gin-gonic/gin"
)

// params are the parameters of the ID routes.
type params struct {
	app       int // -1 when not given
	gatePass  string
	count     int  // 1 when batch is false
	batch     bool // count was given: the answer is a list
	stringify bool
}

// paramSet is a set of parameters.
type paramSet uint8

const (
	paramApp paramSet = 1 << iota
	paramGatePass
	paramCount
	paramStringify
)

// The parameters that a route knows.
const (
	batchParams = paramCount | paramStringify
	getParams   = paramApp | paramGatePass | batchParams
)

// parseGet reads the parameters of /get from a raw query. Errors:
// model.ErrInvalidArgument.
func parseGet(query string) (params, error) {
	p, err := parseQuery(query, getParams)
	if err != nil {
		return p, err
	}
	if p.app < 0 {
		return p, fmt.Errorf("%w: appId is missing: GET /get?appId=1&gatePass=alice", model.ErrInvalidArgument)
	}
	return p, model.CheckGatePass(p.gatePass)
}

// parseQuery reads the known parameters from a raw query without building a map.
// Others are ignored; one given twice is refused, because two readers could take
// different values. Errors: model.ErrInvalidArgument.
func parseQuery(query string, known paramSet) (params, error) {
	p := params{app: -1, count: 1}
	var seen paramSet
	for query != "" {
		var name, raw string
		name, raw, query = cutParam(query)
		param := paramNamed(name) & known
		if param == 0 {
			continue
		}
		if seen&param != 0 {
			return p, errTwice(name)
		}
		seen |= param
		if err := p.set(param, name, raw); err != nil {
			return p, err
		}
	}
	return p, nil
}

func errTwice(name string) error {
	return fmt.Errorf("%w: %s is given twice", model.ErrInvalidArgument, name)
}

func errEncoding(name string, err error) error {
	return fmt.Errorf("%w: %s is not percent-encoded rightly: %w", model.ErrInvalidArgument, name, err)
}

// readQuery is parseQuery for routes that are not asked often: the values of the known
// parameters that are given, by name.
func readQuery(query string, known ...string) (map[string]string, error) {
	values := map[string]string{}
	for query != "" {
		var name, raw string
		name, raw, query = cutParam(query)
		if !slices.Contains(known, name) {
			continue
		}
		if _, twice := values[name]; twice {
			return nil, errTwice(name)
		}
		value, err := url.QueryUnescape(raw)
		if err != nil {
			return nil, errEncoding(name, err)
		}
		values[name] = value
	}
	return values, nil
}

// cutParam takes the first parameter off a query: its name decoded, so that none
// is given twice in disguise, its value not.
func cutParam(query string) (name, raw, rest string) {
	pair, rest, _ := strings.Cut(query, "&")
	name, raw, _ = strings.Cut(pair, "=")
	if strings.Contains(name, "%") {
		name, _ = url.QueryUnescape(name) // one that cannot be read is an unknown one
	}
	return name, raw, rest
}

// paramNamed is 0 for a name that no route knows.
func paramNamed(name string) paramSet {
	switch name {
	case "appId":
		return paramApp
	case "gatePass":
		return paramGatePass
	case "count":
		return paramCount
	case "stringify":
		return paramStringify
	}
	return 0
}

func (p *params) set(param paramSet, name, raw string) error {
	value, err := url.QueryUnescape(raw)
	if err != nil {
		return errEncoding(name, err)
	}
	switch param {
	case paramApp:
		p.app, err = parseRange(name, value, 0, model.Apps-1)
	case paramGatePass:
		p.gatePass = value
	case paramCount:
		p.batch = true
		p.count, err = parseRange(name, value, 1, model.MaxBatch)
	case paramStringify:
		p.stringify, err = parseBool(name, value)
	}
	return err
}

// parseRange reads a plain decimal: digits only, no sign, space or exponent.
func parseRange(name, value string, low, high int) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || int(n) < low || int(n) > high {
		return -1, fmt.Errorf("%w: %s must be a whole number in %d…%d, not %s", model.ErrInvalidArgument, name, low, high, quote(value))
	}
	return int(n), nil
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

// parseID reads an ID that is called name; example is a request that has one. The
// error is model.ErrInvalidArgument.
func parseID(name, value, example string) (int64, error) {
	if value == "" {
		return 0, fmt.Errorf("%w: %s is missing: GET %s", model.ErrInvalidArgument, name, example)
	}
	id, err := strconv.ParseInt(value, 10, 64)
	if err != nil || value[0] == '+' {
		return 0, fmt.Errorf("%w: %s must be a whole number below 2^63, not %s", model.ErrInvalidArgument, name, quote(value))
	}
	return id, nil
}

// lastSegment is the value of a path that ends in one: what the star of its route
// stands for, decoded. An encoded slash belongs to the value. The error is errNoRoute:
// there are further segments, so no such path.
func lastSegment(c *gin.Context, name string) (string, error) {
	value := c.Param(name)[1:] // it begins with the slash before it
	raw := c.Request.URL.RawPath
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

// quote shows a client its value, cut so that an answer stays short.
func quote(value string) string {
	const most = 64
	if len(value) > most {
		return strconv.Quote(value[:most]) + "…"
	}
	return strconv.Quote(value)
}

// wantsText says whether an Accept header prefers text/plain to JSON. No header
// means JSON, and so does one that does not name text.
func wantsText(r *http.Request) bool {
	return prefers(r, [2]string{"text/plain", "text/*"}, [3]string{"application/json", "application/*", "*/*"})
}

// wantsJSON says whether an Accept header prefers JSON to another type of text,
// for the answers that are that text by default: no header means the text, and so
// does one that does not name JSON.
func wantsJSON(r *http.Request, text string) bool {
	return prefers(r, [2]string{"application/json", "application/*"}, [3]string{text, "text/*", "*/*"})
}

// prefers says whether an Accept header names a wanted range and prefers it to the
// others: the one with the higher quality wins, of equals the first.
func prefers(r *http.Request, wanted [2]string, others [3]string) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	if !strings.Contains(accept, wanted[0]) && !strings.Contains(accept, wanted[1]) {
		return false
	}
	want, wantAt := quality(accept, wanted[:]...)
	other, otherAt := quality(accept, others[:]...)
	return want > 0 && (want > other || want == other && wantAt < otherAt)
}

// quality is how much an Accept header wants a media type, and the place of the
// range that says so: of the given ranges, most specific first, the first that
// occurs. It is 0 when none does. A quality that is no number in 0…1 counts as 0.
func quality(accept string, ranges ...string) (q float64, place int) {
	best, at := len(ranges), 0
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, _ := strings.Cut(part, ";") // "text/plain;q=0.5"
		if i := slices.Index(ranges, strings.TrimSpace(kind)); i >= 0 && i < best {
			best, q, place = i, 1, at
			for p := range strings.SplitSeq(params, ";") {
				if text, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
					var err error
					if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) { // NaN too
						q = 0
					}
				}
			}
		}
		at++
	}
	return q, place
}
