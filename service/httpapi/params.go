package httpapi

import (
	"fmt"
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
// stands for, decoded. An encoded slash belongs to the value; false means that
// there are further segments, so no such path.
func lastSegment(c *gin.Context, name string) (string, bool) {
	value := c.Param(name)[1:] // it begins with the slash before it
	raw := c.Request.URL.RawPath
	if raw == "" { // nothing is encoded in a way that matters
		return value, !strings.Contains(value, "/")
	}
	decoded, err := url.PathUnescape(raw[strings.LastIndexByte(raw, '/')+1:])
	return value, err == nil && decoded == value
}

// quote shows a client its value, cut so that an answer stays short.
func quote(value string) string {
	const most = 64
	if len(value) > most {
		return strconv.Quote(value[:most]) + "…"
	}
	return strconv.Quote(value)
}
