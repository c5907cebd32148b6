package httpapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/queue"
)

// getParams are the parameters of /get.
type getParams struct {
	app       int
	gatePass  string
	count     int  // 1 when batch is false
	batch     bool // count was given: the answer is a list
	stringify bool
}

// parseGet reads the parameters of /get from a raw query without building a map.
// Parameters it does not know are ignored; one given twice is refused, because
// two readers could take different values. Errors: model.ErrInvalidArgument.
func parseGet(query string) (getParams, error) {
	p := getParams{app: -1, count: 1}
	var seen [4]bool
	for query != "" {
		var name, raw string
		name, raw, query = cutParam(query)
		i := paramIndex(name)
		if i < 0 {
			continue
		}
		if seen[i] {
			return p, fmt.Errorf("%w: %s is given twice", model.ErrInvalidArgument, name)
		}
		seen[i] = true
		if err := p.set(name, raw); err != nil {
			return p, err
		}
	}
	if p.app < 0 {
		return p, fmt.Errorf("%w: appId is missing: GET /get?appId=1&gatePass=alice", model.ErrInvalidArgument)
	}
	return p, model.CheckGatePass(p.gatePass)
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

func paramIndex(name string) int {
	switch name {
	case "appId":
		return 0
	case "gatePass":
		return 1
	case "count":
		return 2
	case "stringify":
		return 3
	}
	return -1
}

func (p *getParams) set(name, raw string) error {
	value, err := url.QueryUnescape(raw)
	if err != nil {
		return fmt.Errorf("%w: %s is not percent-encoded rightly: %w", model.ErrInvalidArgument, name, err)
	}
	switch name {
	case "appId":
		p.app, err = parseRange(name, value, 0, model.Apps-1)
	case "gatePass":
		p.gatePass = value
	case "count":
		p.batch = true
		p.count, err = parseRange(name, value, 1, queue.MaxBatch)
	case "stringify":
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

// parseID reads an ID; the error is model.ErrInvalidArgument.
func parseID(value string) (int64, error) {
	if value == "" {
		return 0, fmt.Errorf("%w: id is missing: GET /decode?kind=queue&id=16385", model.ErrInvalidArgument)
	}
	id, err := strconv.ParseInt(value, 10, 64)
	if err != nil || value[0] == '+' {
		return 0, fmt.Errorf("%w: id must be a whole number below 2^63, not %s", model.ErrInvalidArgument, quote(value))
	}
	return id, nil
}

// quote shows a client its value, cut so that an answer stays short.
func quote(value string) string {
	const most = 64
	if len(value) > most {
		return strconv.Quote(value[:most]) + "…"
	}
	return strconv.Quote(value)
}
