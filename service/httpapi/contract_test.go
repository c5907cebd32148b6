package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// loadDocument reads openapi.yaml as a client gets it and validates it, the
// examples included.
func loadDocument(t *testing.T) *openapi3.T {
	t.Helper()
	got := ask(newAPI(&fakeQueue{}), http.MethodGet, "/openapi.yaml")
	if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "application/yaml" {
		t.Fatalf("GET /openapi.yaml: %d %v", got.Code, got.Header())
	}
	doc, err := openapi3.NewLoader().LoadFromData(got.Body.Bytes())
	check.Must(t, err)
	check.Must(t, doc.Validate(context.Background(), openapi3.EnableExamplesValidation()))
	return doc
}

// The document lists the routes that exist and no others.
func TestDocumentListsTheRoutes(t *testing.T) {
	var documented, served []string
	for path, item := range loadDocument(t).Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	star := regexp.MustCompile(`[:*](\w+)`)
	for _, r := range newAPIOf(administrated(&fakeAdmin{})).engine.Routes() {
		// Info.description has these: those of Leaf's paths, and HEAD wherever GET is.
		if r.Path != "/" && strings.HasSuffix(r.Path, "/") || r.Method == http.MethodHead {
			continue
		}
		path := strings.Replace(r.Path, "/v1/segment/*tag", "/v1/segment/*tag/ids", 1) // gin's star is the last
		served = append(served, r.Method+" "+star.ReplaceAllString(path, "{$1}"))
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %q\nserved     %q", documented, served)
	}
}

// The codes of the document are those of the error table.
func TestDocumentListsTheCodes(t *testing.T) {
	documented, served := map[int]bool{}, map[int]bool{}
	for _, code := range loadDocument(t).Components.Schemas["Error"].Value.Properties["code"].Value.Enum {
		documented[int(code.(float64))] = true
	}
	for _, e := range append(apiErrors(), errGaveUp) {
		served[e.code] = true
	}
	if !maps.Equal(documented, served) {
		t.Errorf("documented %v, served %v", documented, served)
	}
}

// Every field of an object has a type: generators make no server of one without.
func TestFieldsHaveTypes(t *testing.T) {
	for name, object := range loadDocument(t).Components.Schemas {
		for field, schema := range object.Value.Properties {
			if schema.Value.Type == nil {
				t.Errorf("%s.%s has no type", name, field)
			}
		}
	}
}

// allExchanges are those of all paths.
func allExchanges() []exchange {
	return slices.Concat(exchanges(), healthExchanges(), pageExchanges(), consoleExchanges(), accessExchanges(), adminExchanges(), profileExchanges(), tinyidExchanges(),
		leaseExchanges(), namePageExchanges(), spacePageExchanges(), sequenceExchanges())
}

// Every answer is one that the document allows, and every status that the
// document names is among the answers.
func TestAnswersMatchTheDocument(t *testing.T) {
	doc := loadDocument(t)
	missing := documentedStatuses(doc)
	for _, x := range allExchanges() {
		route, _ := routeOf(doc, x)
		if route == nil {
			continue // no such path: nothing to hold it to
		}
		t.Run(x.name, func(t *testing.T) {
			got, _, _ := x.do()
			if got.Code != x.status {
				t.Fatalf("answered %d, want %d", got.Code, x.status)
			}
			checkExchange(t, doc, x, got)
			status := fmt.Sprint(got.Code)
			if route.Operation.Responses.Value(status) == nil {
				status = "default"
			}
			delete(missing, fmt.Sprint(route.Method, " ", route.Path, " ", status))
		})
	}
	for status := range missing {
		t.Errorf("documented, but no request is answered so: %s", status)
	}
}

func documentedStatuses(doc *openapi3.T) map[string]bool {
	all := map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				all[method+" "+path+" "+status] = true
			}
		}
	}
	return all
}

// routeOf finds the operation of a request and the parameters of its path. A
// method that the path does not have is documented with GET, or the only one there is, by
// its 405.
func routeOf(doc *openapi3.T, x exchange) (*routers.Route, map[string]string) {
	path, _, _ := strings.Cut(x.target, "?")
	path, params := documentedPath(doc, path)
	item := doc.Paths.Value(path)
	if item == nil {
		return nil, nil
	}
	route := &routers.Route{Spec: doc, Path: path, PathItem: item, Method: x.verb(), Operation: item.GetOperation(x.verb())}
	if route.Operation == nil {
		route.Method, route.Operation = http.MethodGet, item.Get
	}
	for method, op := range item.Operations() {
		if route.Operation == nil {
			route.Method, route.Operation = method, op
		}
	}
	return route, params
}

// documentedPath turns a path into the documented one that it is of, whose parameters, if
// it has some, are what stands in their places.
func documentedPath(doc *openapi3.T, path string) (string, map[string]string) {
	for documented := range doc.Paths.Map() {
		var names []string
		pattern := regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(documented, func(name string) string {
			names = append(names, strings.Trim(name, "{}"))
			return "(.*)"
		})
		found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(path)
		if found == nil || len(names) == 0 || strings.HasPrefix(path, "/v1/leases/") && strings.Count(path, "/") != strings.Count(documented, "/") {
			continue
		}
		params := map[string]string{}
		for i, name := range names {
			params[name], _ = url.PathUnescape(found[i+1])
		}
		return documented, params
	}
	return path, nil
}

// checkExchange validates the answer, and the request too where it was served.
func checkExchange(t *testing.T, doc *openapi3.T, x exchange, got *httptest.ResponseRecorder) {
	t.Helper()
	route, params := routeOf(doc, x)
	options := &openapi3filter.Options{IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	in := &openapi3filter.RequestValidationInput{Request: x.request(), Route: route, PathParams: params, Options: options}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: got.Code, Header: got.Header(), Options: options}
	if err := openapi3filter.ValidateResponse(t.Context(), out.SetBodyBytes(got.Body.Bytes())); err != nil {
		t.Errorf("the answer is not as documented: %v", err)
	}
	err := openapi3filter.ValidateRequest(t.Context(), in)
	served := x.code == 0 && (x.status == http.StatusOK || x.status == http.StatusCreated) // tinyid's errors are 200
	if served && err != nil {
		t.Errorf("served, though the document forbids the request: %v", err)
	}
}

// What the document forbids is refused, so that a generated client cannot send
// less than a hand-made one; and what it cannot express is a known list.
func TestDocumentRefusesBadParameters(t *testing.T) {
	doc := loadDocument(t)
	// The schema counts characters, the service bytes; kin-openapi takes the
	// first of two values, and signs, exponents and bad encodings as they come.
	beyond := map[string]bool{
		"UTF-8": true, "twice": true, "bytes": true, "percent-encoded": true, "not \"+": true, "e1": true, ".0": true, "queue ID": true,
		// What a text counts depends on its format.
		"below 2^63": true, "can be": true, "is no ID": true,
	}
	for _, x := range badParameters() {
		route, params := routeOf(doc, x)
		in := &openapi3filter.RequestValidationInput{Request: httptest.NewRequest(http.MethodGet, x.target, nil), Route: route, PathParams: params,
			Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
		if openapi3filter.ValidateRequest(t.Context(), in) == nil && !containsAny(x.says, beyond) {
			t.Errorf("the document allows %s", x.target)
		}
	}
}

func containsAny(s string, parts map[string]bool) bool {
	for part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// healthExchanges provoke each status of the endpoints that take no parameters.
func healthExchanges() []exchange {
	late := func(o *Options) { o.Modes[1].Ready = func() error { return wrap(model.ErrNotReady) } }
	away := func() *fakeQueue { return &fakeQueue{ready: wrap(model.ErrNotReady)} }
	return []exchange{
		{name: "document", target: "/openapi.yaml", status: 200},
		{name: "document, POST", method: http.MethodPost, target: "/openapi.yaml", status: 405},
		{name: "live, POST", method: http.MethodPost, target: "/livez", status: 405},
		{name: "ready, POST", method: http.MethodPost, target: "/readyz", status: 405},
		{name: "healthy, POST", method: http.MethodPost, target: "/healthz", status: 405},
		{name: "metrics", target: "/metrics", status: 200},
		{name: "live", target: "/livez", status: 200},
		{name: "ready", target: "/readyz", status: 200},
		{name: "not ready", target: "/readyz", queue: away(), status: 503},
		{name: "a mode not ready", target: "/readyz", change: late, status: 503},
		{name: "a mode not healthy", target: "/healthz", change: late, status: 503},
		{name: "one mode ready", target: "/readyz/segment", status: 200},
		{name: "that mode not ready", target: "/readyz/segment", change: late, status: 503},
		{name: "that mode disabled", target: "/readyz/segment", change: disableModes, status: 404},
		{name: "healthy", target: "/healthz", status: 200},
		{name: "not healthy", target: "/healthz", queue: away(), status: 503},
	}
}

// pageExchanges provoke each status of the pages and of the status.
func pageExchanges() []exchange {
	broken := func(err error) func(*Options) {
		return func(o *Options) { o.Tags = func(context.Context) ([]model.Tag, error) { return nil, err } }
	}
	return []exchange{
		{name: "cache", target: "/cache", status: 200},
		{name: "cache, JSON", target: "/cache", accept: "application/json", status: 200},
		{name: "db", target: "/db", status: 200},
		{name: "db, JSON", target: "/db", accept: "application/json", status: 200},
		{name: "db away", target: "/db", change: broken(storeAway()), status: 503},
		{name: "db broken", target: "/db", change: broken(errors.New("secret")), status: 500},
		{name: "cache, the first", target: "/cache?limit=1", accept: "application/json", status: 200},
		{name: "cache, too many", target: "/cache?limit=5001", status: 400, code: -6},
		{name: "db, the second", target: "/db?limit=1&after=a", accept: "application/json", status: 200},
		{name: "db, none", target: "/db?limit=0", status: 400, code: -6},
		{name: "status", target: "/api/status", status: 200},
		{name: "status, the first tag", target: "/api/status?limit=1", change: func(o *Options) { o.Status = fullStatus }, status: 200},
		{name: "status, too many", target: "/api/status?limit=1e3", status: 400, code: -6},
		{name: "status, full", target: "/api/status", change: func(o *Options) { o.Status = fullStatus }, status: 200},
		{name: "status, disabled", target: "/api/status", change: disableModes, status: 200},
		{name: "history", target: "/api/history", change: withHistory, status: 200},
		{name: "history, app", target: "/api/history?app=7", change: withHistory, status: 200},
		{name: "history, empty", target: "/api/history", status: 200},
		{name: "history, no app", target: "/api/history?app=256", change: withHistory, status: 400},
		{name: "history, two apps", target: "/api/history?app=1&%61pp=2", change: withHistory, status: 400},
		{name: "replicas", target: "/api/replicas", change: withReplicas, status: 200},
		{name: "replicas, none", target: "/api/replicas", status: 200},
		{name: "replicas, POST", method: http.MethodPost, target: "/api/replicas", status: 405},
		{name: "history, POST", method: http.MethodPost, target: "/api/history", status: 405},
	}
}
