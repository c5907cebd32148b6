package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/service/access"
	"shardid/service/issuer"

	"github.com/gin-gonic/gin"
)

// params are the parameters of the ID routes.
type params struct {
	app       int // -1 when not given
	gatePass  string
	count     int  // 1 when batch is false
	batch     bool // count was given: the answer is a list
	stringify bool
	format    string // of /get: json, text, or "" when not given
	ranges    bool
	digits    model.Format // of /v1
}

// readParams returns the parameters of the query and, of a POST, those of a form.
func readParams(c *gin.Context) (string, error) {
	query := c.Request.URL.RawQuery
	kind, _, _ := strings.Cut(c.Request.Header.Get("Content-Type"), ";")
	if c.Request.Method != http.MethodPost || !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return query, nil
	}
	form, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		return "", fmt.Errorf("%w: the form cannot be read: %w", model.ErrInvalidArgument, err)
	}
	return query + "&" + string(form), nil
}

// parseGet reads the parameters of /get from a raw query. Errors:
// model.ErrInvalidArgument.
func parseGet(query string) (params, error) {
	given, err := readQuery(query, "count", "stringify", "appId", "gatePass", "format")
	if err != nil {
		return params{}, err
	}
	p, err := newParams(given)
	if app := given[2]; err == nil && app.given {
		p.app, err = parseRange("appId", app.text, 0, model.Apps-1)
	}
	if err != nil {
		return p, err
	}
	if p.app < 0 {
		return p, fmt.Errorf("%w: appId is missing: GET /get?appId=1&gatePass=alice", model.ErrInvalidArgument)
	}
	if format := given[4]; format.given {
		if p.format = format.text; p.format != "json" && p.format != "text" {
			return p, fmt.Errorf("%w: format must be json or text, not %s", model.ErrInvalidArgument, quote(format.text))
		}
	}
	p.gatePass = given[3].text
	return p, model.CheckGatePass(p.gatePass)
}

// parseV1 reads the parameters of /v1 into the request. Errors: model.ErrInvalidArgument.
func (a *API) parseV1(c *gin.Context, r *issuer.Request) (p params, err error) {
	query, err := readParams(c)
	if err != nil {
		return p, err
	}
	given, err := readQuery(query, "count", "ranges", "gatePass", "format", "padded")
	if err != nil {
		return p, err
	}
	r.Count = 1
	if given[0].given {
		if r.Count, err = parseRange("count", given[0].text, 1, model.MaxBatch); err != nil {
			return p, err
		}
	}
	if given[1].given {
		if p.ranges, err = parseBool("ranges", given[1].text); err != nil {
			return p, err
		}
	}
	if given[3].given {
		if p.digits, err = model.ParseFormat(given[3].text); err != nil {
			return p, err
		}
	}
	if given[4].given {
		padded, err := parseBool("padded", given[4].text)
		if err != nil {
			return p, err
		}
		if padded {
			p.digits = p.digits.Padded()
		}
	}
	if p.ranges && (given[3].given || given[4].given) {
		return p, fmt.Errorf("%w: ranges=true answers numbers to count with: leave format and padded out",
			model.ErrInvalidArgument)
	}
	if r.Mode == access.Queue {
		if r.App, err = parseRange("appId", c.Param("appId"), 0, model.Apps-1); err != nil {
			return p, err
		}
		r.GatePass = given[2].text
		err = model.CheckGatePass(r.GatePass)
	}
	return p, err
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

// parseBatch reads the parameters of the other ID routes from a raw query. Errors:
// model.ErrInvalidArgument.
func parseBatch(query string) (params, error) {
	given, err := readQuery(query, "count", "stringify")
	if err != nil {
		return params{}, err
	}
	return newParams(given)
}

// newParams reads count and stringify, the first two of given.
func newParams(given [maxParams]param) (p params, err error) {
	p = params{app: -1, count: 1, batch: given[0].given}
	if p.batch {
		p.count, err = parseRange("count", given[0].text, 1, model.MaxBatch)
	}
	if err == nil && given[1].given {
		p.stringify, err = parseBool("stringify", given[1].text)
	}
	return p, err
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
func readQuery(query string, known ...string) (values [maxParams]param, err error) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, raw, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "%") { // so that none is given twice in disguise
			name, _ = url.QueryUnescape(name) // one that cannot be read is an unknown one
		}
		i := slices.Index(known, name)
		if i < 0 {
			continue
		}
		if values[i].given {
			return values, errTwice(name)
		}
		values[i].given = true
		if values[i].text, err = url.QueryUnescape(raw); err != nil {
			return values, errEncoding(name, err)
		}
	}
	return values, nil
}

func errTwice(name string) error {
	return fmt.Errorf("%w: %s is given twice", model.ErrInvalidArgument, name)
}

func errEncoding(name string, err error) error {
	return fmt.Errorf("%w: %s is not percent-encoded rightly: %w", model.ErrInvalidArgument, name, err)
}

// parseRange reads a plain decimal: digits only, no sign, space or exponent.
func parseRange(name, value string, low, high int) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || int(n) < low || int(n) > high {
		return -1, fmt.Errorf("%w: %s must be a whole number in %d…%d, not %s", model.ErrInvalidArgument, name, low, high, quote(value))
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
		return 0, fmt.Errorf("%w: %s must be a whole number below 2^63, not %s", model.ErrInvalidArgument, name, quote(value))
	}
	return id, nil
}

// missingID says that there is no ID; example is a request that has one.
func missingID(name, example string) error {
	return fmt.Errorf("%w: %s is missing: GET %s", model.ErrInvalidArgument, name, example)
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

// maxShown is how much of a client's value an answer shows, in bytes.
const maxShown = 64

// quote shows a client its value.
func quote(value string) string {
	if len(value) > maxShown {
		return strconv.Quote(value[:maxShown]) + "…"
	}
	return strconv.Quote(value)
}

// onlyText says whether an Accept header takes text/plain and no JSON at all. A client
// that takes both gets JSON, whatever it prefers: those of Spring name text first and read
// an object.
func onlyText(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header["Accept"], ","))
	if !strings.Contains(accept, "text/") {
		return false
	}
	text, _ := quality(accept, "text/plain", "text/*")
	json, _ := quality(accept, "application/json", "application/*", "*/*")
	return text > 0 && json == 0
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
