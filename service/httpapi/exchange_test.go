package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shardid/client/idtext"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/issuer"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/prometheus/client_golang/prometheus"
)

// exchange is a request and what must come of it. TestExchanges sends each to an API of its own and holds the answer to
// it, to the rules that all answers share, and to openapi.yaml.
type exchange struct {
	name   string
	method string // GET when empty
	target string
	accept string
	token  string                      // sent as the bearer token sesame-…, unless empty
	send   string                      // the body
	kind   string                      // its type: JSON when empty, and in chunks when "chunked"; no header when "none"
	header []string                    // further headers: names and values
	fail   func(context.Context) error // of the queue
	change func(*Options)              // of an API whose modes work; may be nil
	admin  *fakeAdmin                  // its administration; nil for none
	lax    bool                        // it is served, though the document does not allow the request

	status int
	body   string // the whole body of what is served, unless empty
	text   bool   // that is text/plain
	code   int    // of an error
	says   string // part of the body, or of an error's message
	asked  string // what the fake store of administration or leases, or the mode as key, was asked for
	pass   string // the gatePass whose shard the queue mode was asked for
}

// person is a gatePass that no log may have.
const person = "13800138000"

// served is what came of an exchange.
type served struct {
	*httptest.ResponseRecorder
	opts  Options
	modes *fakeModes
	log   *strings.Builder
}

// do runs the exchange against an API of its own.
func (x exchange) do() served {
	s := served{log: &strings.Builder{}}
	s.opts, s.modes = testOptions(x.fail, s.log)
	s.opts.LogRequests = true
	metered(&s.opts)
	if x.change != nil {
		x.change(&s.opts)
	}
	if x.admin != nil {
		x.admin.administrate(&s.opts)
	}
	s.ResponseRecorder = x.ask(New(s.opts))
	return s
}

// ask sends the request with its token.
func (x exchange) ask(h http.Handler) *httptest.ResponseRecorder {
	r := x.request()
	r.Header["Accept"] = []string{x.accept}
	if x.token != "" {
		r.Header.Set("Authorization", "Bearer sesame-"+x.token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// request is the exchange's, without its Accept and its token.
func (x exchange) request() *http.Request {
	r := httptest.NewRequest(x.verb(), x.target, nil)
	if x.send != "" {
		r = httptest.NewRequest(x.verb(), x.target, strings.NewReader(x.send))
		r.Header.Set("Content-Type", cmp.Or(x.kind, "application/json"))
	}
	switch x.kind {
	case "none":
		r.Header.Del("Content-Type")
	case "chunked":
		r.ContentLength = -1
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(x.header); i += 2 {
		r.Header.Add(x.header[i], x.header[i+1])
	}
	r.Host = cmp.Or(r.Header.Get("Host"), r.Host)
	return r
}

func (x exchange) verb() string { return cmp.Or(x.method, http.MethodGet) }

// ask sends one request without a body.
func ask(h http.Handler, method, target string, accept ...string) *httptest.ResponseRecorder {
	return exchange{method: method, target: target, accept: strings.Join(accept, ",")}.ask(h)
}

// askAs is ask with headers: names and values.
func askAs(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	return exchange{method: method, target: target, header: header}.ask(h)
}

// allExchanges are those of all paths.
func allExchanges() []exchange {
	return slices.Concat(idExchanges(), sequenceExchanges(), tinyidExchanges(), leaseExchanges(), decodeExchanges(),
		nowhereExchanges(), accessExchanges(), adminExchanges(), profileExchanges(), pageExchanges(),
		healthExchanges(), consoleExchanges())
}

// TestExchanges sends all exchanges, and checks that they show each row of the error table and each answer of the
// document.
func TestExchanges(t *testing.T) {
	doc, missing := loadDocument(t), map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				missing[method+" "+path+" "+status] = true
			}
		}
	}
	for _, e := range issuer.Table() {
		missing[fmt.Sprint("code ", e.Code, ", status ", e.Status)] = true
	}
	var mu sync.Mutex
	met := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		delete(missing, what)
	}
	t.Run("of", func(t *testing.T) {
		for _, x := range allExchanges() {
			t.Run(x.verb()+" "+clipped(x.target)+": "+x.name, func(t *testing.T) {
				t.Parallel()
				got := x.do()
				checkAnswer(t, x, got)
				checkSideEffects(t, x, got)
				checkHead(t, x)
				met(fmt.Sprint("code ", x.code, ", status ", x.status))
				if route, params := routeOf(doc, x); route != nil && x.status != http.StatusNoContent {
					met(fmt.Sprint(route.Method, " ", route.Path, " ", checkDocumented(t, x, got, route, params)))
				}
			})
		}
	})
	for what := range missing {
		t.Errorf("no exchange shows %s", what)
	}
}

func clipped(text string) string { return text[:min(len(text), 60)] }

// checkAnswer wants the status, the body and the headers. Of an error the body is {"code":N,"message":"…"} in the form
// in which it can be read, or what clients of tinyid read, and the headers are those of its status and no others.
func checkAnswer(t *testing.T, x exchange, got served) {
	t.Helper()
	body := got.Body.String()
	if got.Code != x.status || x.body != "" && body != x.body {
		t.Fatalf("answered %d %.400s\nwant     %d %.400s", got.Code, body, x.status, x.body)
	}
	if x.status == http.StatusNoContent {
		check.Equal(t, got.Header().Get("Allow"), x.says, "Allow")
		return
	}
	h, want := got.Header(), map[string]string{"Content-Type": typeJSON[0], "Cache-Control": "no-store"}
	if x.code != 0 || !ofIDs(x.target) || strings.HasPrefix(x.target, "/v1/leases/") {
		want["X-Content-Type-Options"] = "nosniff"
	}
	switch {
	case x.text:
		want["Content-Type"] = typeText[0]
	case x.code == 0 && x.body == "" && h.Get("Content-Type") != typeJSON[0]:
		check.Equal(t, body != "" && h.Get("Cache-Control") != "", true, "a page, whose own test looks at it", h)
		return
	}
	if x.code != 0 {
		checkError(t, x, body)
		want[requestIDHeader] = h.Get(requestIDHeader) // each has one
	} else {
		check.Has(t, body, x.says)
	}
	if n := len(body); n > counted || x.method == http.MethodHead {
		want["Content-Length"] = strconv.Itoa(n)
	}
	switch {
	case x.status == http.StatusUnauthorized:
		want["Www-Authenticate"] = "Bearer"
	case x.status == http.StatusTooManyRequests && x.token == "quota": // of a second
		want["Retry-After"] = "1"
	case x.status == http.StatusTooManyRequests: // of one request in ten seconds
		want["Retry-After"] = "10"
	case x.status == http.StatusServiceUnavailable && x.code != 0 && x.says != awaits:
		want["Retry-After"] = "1"
	case x.status == http.StatusMethodNotAllowed:
		want["Allow"] = h.Get("Allow")
		check.Has(t, body, "use "+h.Get("Allow")+": nothing was issued, as ")
	}
	if strings.HasPrefix(x.target, "/admin/") {
		want[requestIDHeader] = cmp.Or(h.Get(requestIDHeader), "one") // what is changed can be found in the log
	}
	for name := range h {
		if v := h.Values(name); want[name] == "" || len(v) != 1 || v[0] != want[name] {
			t.Errorf("%s: %q, want %q", name, v, want[name])
		}
	}
	check.Equal(t, len(h), len(want), "headers", h, want)
}

// awaits is in the message of what nobody is to try again.
const awaits = "awaits an operator's confirmation"

// checkError wants the body of an error, without the text of a fault.
func checkError(t *testing.T, x exchange, body string) {
	t.Helper()
	check.Lacks(t, body, errFault.Error())
	var parsed struct{ Message string }
	switch err := json.Unmarshal([]byte(body), &parsed); {
	case x.status == http.StatusOK && x.text:
		check.Equal(t, body, "", "the text of an error of tinyid")
		return
	case err != nil:
		t.Fatalf("%v: %s", err, body)
	}
	message := string(appendJSON(nil, parsed.Message))
	want := fmt.Sprintf(`{"code":%d,"message":%s}`, x.code, message)
	switch {
	case x.status == http.StatusOK && x.code == -7:
		want = `{"data":null,"code":5,"message":"token is error"}`
	case x.status == http.StatusOK:
		want = `{"data":null,"code":6,"message":` + message + `}`
	}
	check.Equal(t, body, want)
	check.Has(t, parsed.Message, x.says)
}

// checkSideEffects wants that no store or mode was asked, or issued, by what was refused, that a request for IDs was
// counted, and that the log has the code of an error, but no token and no gatePass.
func checkSideEffects(t *testing.T, x exchange, got served) {
	t.Helper()
	leases, _ := got.opts.Leases.(*fakeLeases)
	sequence, _ := got.opts.Sequence.(*fakes.Sequence)
	asked, fails := got.modes.queue.Counts().Asked, x.fail != nil
	if x.admin != nil {
		asked, fails = asked+strings.Join(x.admin.calls, "; "), fails || x.admin.err != nil
	}
	if leases != nil {
		asked, fails = asked+leases.asked, fails || leases.err != nil
	}
	if sequence != nil && strings.HasPrefix(x.target, "/v1/sequence/") {
		asked, fails = asked+sequence.Counts().Asked, fails || sequence.Fail != nil || x.code == -2
	}
	if x.asked != "" {
		check.Equal(t, asked, x.asked, "asked")
	}
	if x.pass != "" {
		check.Equal(t, asked, fmt.Sprint(idtext.ShardOf(x.pass)), "asked")
	}
	_, issued := got.modes.counts()
	refused := x.code != 0 || x.status >= 400
	if refused && (!fails && asked != "" || issued > 0 || sequence != nil && len(sequence.Last) > 0) {
		t.Errorf("the refused request asked %q, and %d IDs were issued", asked, issued)
	}
	if ofIDs(x.target) && (x.status == http.StatusOK || x.status == http.StatusBadRequest) {
		values := check.Metrics(t, got.opts.Registry.(*prometheus.Registry))
		check.Equal(t, values["shardid_request_duration_seconds_count"], 1, "requests that were counted")
		check.Equal(t, values["shardid_refused_total"] == 1, x.code != 0, "refusals that were counted")
	}
	log := got.log.String()
	for _, hidden := range []string{person, "sesame-"} {
		check.Lacks(t, log, hidden, "the log")
	}
	if x.code != 0 {
		check.Has(t, log, fmt.Sprintf("status=%d code=%d ", x.status, x.code), "the log")
		check.Has(t, log, "request_id="+got.Header().Get(requestIDHeader), "the log")
	}
}

// checkHead wants that HEAD is answered as GET, but by what issues IDs: that does not take it.
func checkHead(t *testing.T, x exchange) {
	t.Helper()
	if x.verb() != http.MethodGet {
		return
	}
	x.method = http.MethodHead
	head := x.do()
	switch length := head.Header().Get("Content-Length"); {
	case ofIDs(x.target) && !strings.Contains(x.target, "/current") || head.Code == http.StatusMethodNotAllowed:
		calls, _ := head.modes.counts()
		check.Equal(t, calls, 0, "calls by HEAD")
	case head.Code != x.status:
		t.Errorf("HEAD: %d, want %d", head.Code, x.status)
	case strings.HasPrefix(x.target, "/admin/pprof/"), x.target == "/metrics": // whose length nobody knows before
	case length == "" || head.Body.Len() > 0 && length != strconv.Itoa(head.Body.Len()):
		t.Errorf("HEAD: %v, and %d bytes", head.Header(), head.Body.Len())
	}
}

// ofIDs says whether a target is of IDs.
func ofIDs(target string) bool {
	return strings.HasPrefix(target, "/get") || strings.Contains(target, "/get/") || target == uidURL ||
		strings.HasPrefix(target,
			uidURL+"?") || strings.HasPrefix(target, "/v1/") || strings.HasPrefix(target, "/tinyid/")
}

// loadDocument reads openapi.yaml as a client gets it and validates it, the examples included.
func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	got := ask(newAPI(), http.MethodGet, "/openapi.yaml")
	check.Equal(t, got.Header().Get("Content-Type"), "application/yaml")
	doc, err := openapi3.NewLoader().LoadFromData(got.Body.Bytes())
	check.Must(t, err)
	check.Must(t, doc.Validate(context.Background(), openapi3.EnableExamplesValidation()))
	for name := range doc.Components.Parameters { // generators make a type of each
		check.Equal(t, doc.Components.Schemas[name] == nil, true, "a parameter and no schema is called", name)
	}
	return doc
}

// routeOf finds the operation of a request and the parameters of its path; nil for a path that the document does not
// have. A method that the path does not have there is documented with GET, or the only one there is.
func routeOf(doc *openapi3.T, x exchange) (*routers.Route, map[string]string) {
	target, _, _ := strings.Cut(x.target, "?")
	parts := strings.Split(target, "/")
	for path, item := range doc.Paths.Map() {
		params, documented := map[string]string{}, strings.Split(path, "/")
		if !slices.EqualFunc(documented, parts, func(name, part string) bool {
			if strings.HasPrefix(name, "{") {
				params[strings.Trim(name, "{}")], _ = url.PathUnescape(part)
				return true
			}
			return name == part
		}) {
			continue
		}
		op := cmp.Or(item.GetOperation(x.verb()), item.Get)
		for _, other := range item.Operations() {
			op = cmp.Or(op, other)
		}
		route := &routers.Route{Spec: doc, Path: path, PathItem: item, Operation: op}
		for method, is := range item.Operations() {
			if is == op {
				route.Method = method
			}
		}
		return route, params
	}
	return nil, nil
}

// checkDocumented validates the answer, and the request too where it was served, and gives the status as the document
// has it.
func checkDocumented(t *testing.T, x exchange, got served, route *routers.Route, params map[string]string) string {
	t.Helper()
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, SkipSettingDefaults: true,
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	in := &openapi3filter.RequestValidationInput{Request: x.request(), Route: route, PathParams: params,
		Options: options}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.Code, Header: got.Header(), Options: options}
	if err := openapi3filter.ValidateResponse(t.Context(), out.SetBodyBytes(got.Body.Bytes())); err != nil {
		t.Errorf("the answer is not as documented: %v", err)
	}
	served := x.code == 0 && x.status < 300 && !x.lax && x.verb() == route.Method
	if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil && served {
		t.Errorf("served, though the document forbids the request: %v", err)
	}
	status := strconv.Itoa(got.Code)
	if route.Operation.Responses.Value(status) == nil {
		return "default"
	}
	return status
}

// The document lists the routes and codes that exist and no others, and every field of an object has a type: generators
// make no server of one without.
func TestDocumentListsRoutesCodesAndTypes(t *testing.T) {
	doc := loadDocument(t)
	var documented, routes []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	star := regexp.MustCompile(`[:*](\w+)`)
	for _, r := range newAPIOf((&fakeAdmin{}).administrate).engine.Routes() {
		// Info.description has these: those of Leaf's paths, HEAD wherever GET is, and POST where IDs are.
		if r.Path != "/" && strings.HasSuffix(r.Path, "/") || r.Method == http.MethodHead ||
			r.Method == http.MethodPost && ofIDs(r.Path) && !strings.HasPrefix(r.Path, "/v1/leases/") {
			continue
		}
		path := strings.Replace(r.Path, "/v1/segment/*tag", "/v1/segment/*tag/ids", 1) // gin's star is the last
		routes = append(routes, r.Method+" "+star.ReplaceAllString(path, "{$1}"))
	}
	slices.Sort(documented)
	slices.Sort(routes)
	check.Equal(t, strings.Join(documented, "\n"), strings.Join(routes, "\n"))
	codes, inTable := map[int]bool{}, map[int]bool{}
	for _, code := range doc.Components.Schemas["Error"].Value.Properties["code"].Value.Enum {
		codes[int(code.(float64))] = true
	}
	for _, e := range issuer.Table() {
		inTable[e.Code] = true
	}
	check.Equal(t, maps.Equal(codes, inTable), true, "codes", codes, inTable)
	for name, object := range doc.Components.Schemas {
		for field, schema := range object.Value.Properties {
			if schema.Value.Type == nil {
				t.Errorf("%s.%s has no type", name, field)
			}
		}
	}
}

// TestReferences keeps what docs and openapi.yaml have of the error table.
func TestReferences(t *testing.T) {
	table := "| code | HTTP | means | do |\n|---|---|---|---|\n"
	for _, e := range issuer.Table() {
		later := ""
		if e.Retry {
			later = " + `Retry-After`"
		}
		table += fmt.Sprintf("| %d | %d%s | %s | %s |\n", e.Code, e.Status, later, e.Means, e.Do)
	}
	check.MadePart(t, "../../docs/api.md", "errors", table)
	check.MadePart(t, "openapi.yaml", "errors", table)
}
