package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/service/admin"
)

const (
	namesTarget = "/admin/names"
	nameTarget  = "/admin/names/orders"
	newNameBody = `{"name":"orders"}`
	holdBody    = `{"hold":"90s"}`
	nameFields  = `"name":"orders","epoch":"1288834974657","workerBits":10,"seqBits":12,"hold":"5.5s","leased":`
	nameJSON    = nameFields + `2,"workers":1024`
	newNameJSON = `{"code":0,` + nameFields + `0,"workers":1024`
	holdersJSON = `,"holders":[` +
		`{"workerId":7,"instance":"pod-1","leased":true,"after":"1763654400000","until":"9223372036854775807","granted":"2025-11-20T16:00:00Z","renewed":"2025-11-20T16:00:20.5Z"},` +
		`{"workerId":0,"instance":"","leased":false,"after":"0","until":"1763654400000","granted":"2025-11-20T16:00:00Z"}]`
)

// ordersName is a name, of which two worker IDs are leased.
var ordersName = model.Name{Name: "orders", EpochMs: admin.DefaultEpochMs, WorkerBits: 10, SeqBits: 12, Hold: 5500 * time.Millisecond}

func (f *fakeAdmin) Names(context.Context) ([]model.NameUse, error) {
	return []model.NameUse{{Name: ordersName, Leased: 2, Known: 3}}, f.err
}

func (f *fakeAdmin) Name(_ context.Context, name string) (model.NameUse, error) {
	f.note("show %q", name)
	return model.NameUse{Name: ordersName, Leased: 2, Known: 3}, f.err
}

func (f *fakeAdmin) Holders(_ context.Context, name string, limit int) ([]model.NameHolder, error) {
	f.note("%d holders of %q", limit, name)
	const at = 1763654400000
	return []model.NameHolder{
		{WorkerID: 7, Instance: "pod-1", Leased: true, After: at, Until: 1<<63 - 1, Granted: at, Renewed: at + 20_500},
		{Until: at, Granted: at},
	}, f.err
}

func (f *fakeAdmin) CreateName(_ context.Context, name model.Name) (model.Name, error) {
	f.note("create %q, %s, for %v", name.Name, name.Layout(), name.Hold)
	return ordersName, f.err
}

func (f *fakeAdmin) ChangeName(
	_ context.Context, name string, hold time.Duration,
) (before model.Name, after model.NameUse, err error) {
	f.note("change %q to %v", name, hold)
	return ordersName, model.NameUse{Name: ordersName, Leased: 2, Known: 3}, f.err
}

func (f *fakeAdmin) DeleteName(_ context.Context, name string) (model.Name, error) {
	f.note("delete %q", name)
	return ordersName, f.err
}

func nameOperations() []operation {
	return []operation{
		{"GET", namesTarget, "", 200, `{"code":0,"names":[{` + nameJSON + `}]}`},
		{"POST", namesTarget, newNameBody, 201, newNameJSON + `,"effective":"now, on every replica"}`},
		{"GET", nameTarget, "", 200, `{"code":0,` + nameJSON + holdersJSON + "}"},
		{"PATCH", nameTarget, holdBody, 200, `{"code":0,` + nameJSON + `,"effective":"for leases that are granted or renewed from now on"}`},
		{"DELETE", nameTarget + "?confirm=orders", "", 200, newNameJSON + `,"effective":"now, on every replica"}`},
	}
}

// badRequests adds administrators' requests that are refused with 400 to all.
func badRequests(all *[]exchange) func(method, target, says string, bodies ...string) {
	return func(method, target, says string, bodies ...string) {
		for _, body := range bodies {
			*all = append(*all, exchange{name: "400 " + says, method: method, target: target, send: body,
				token: adminSecret, change: administrated(&fakeAdmin{}), status: 400, code: -6, says: says})
		}
	}
}

// badNameRequests never reach the store.
func badNameRequests() (all []exchange) {
	add := badRequests(&all)
	add("POST", namesTarget, "name is missing", `{"hold":"60s"}`)
	add("POST", namesTarget, "must be a JSON object with some of name, epoch, workerBits, seqBits, hold", "", "[]")
	add("POST", namesTarget, "name must be a string, not 7", `{"name":7}`)
	for field, says := range map[string]string{
		`"name":"x"`: "name is given twice", `"workerbits":10`: "unknown field", `"step":5`: "unknown field",
		`"workerBits":0`: "workerBits must be a whole number in 1…22, not 0", `"workerBits":23`: "workerBits must be", `"workerBits":"10"`: "workerBits must be",
		`"seqBits":-1`: "seqBits must be a whole number in 1…22, not -1", `"seqBits":23`: "seqBits must be", `"seqBits":1.5`: "seqBits must be",
		`"hold":60`: "hold must be a duration in 5s…1h such as 60s, not 60", `"hold":"60"`: "hold must be", `"hold":"4999ms"`: "hold must be",
		`"hold":"3601s"`: "hold must be", `"hold":"6000.5ms"`: "hold must be", `"hold":null`: "hold must be", `"hold":""`: "hold must be",
	} {
		add("POST", namesTarget, says, `{"name":"orders",`+field+`}`)
	}
	for _, epoch := range []string{"-1", "1.5", "1e3", `"-1"`, `"+1"`, `"1e3"`, `"2010-11-04"`, `""`, "null", "true", "9223372036854775808", `"9223372036854775808"`} {
		add("POST", namesTarget, "epoch must be a time in Unix milliseconds, such as 1288834974657, not ", `{"name":"orders","epoch":`+epoch+`}`)
	}
	add("PATCH", nameTarget, "hold is missing", `{}`)
	add("PATCH", nameTarget, "unknown field", `{"workerBits":10}`)
	add("PATCH", nameTarget, "hold must be", `{"hold":"2h"}`)
	for _, name := range []string{"a%20b", "%E8%AE%A2", "..%2F", "a%2Fb"} {
		add("GET", namesTarget+"/"+name, "a name has 1…64 letters, digits, dots, hyphens and underscores", "")
	}
	add("DELETE", nameTarget, "confirm is missing, nothing was done: DELETE /admin/names/orders?confirm=NAME", "")
	return all
}

// namePageExchanges provoke each status of the pages about names.
func namePageExchanges() []exchange {
	broken := func(err error) func(*Options) { return func(o *Options) { o.Names = (&fakeAdmin{err: err}).Names } }
	return []exchange{
		{name: "names", target: "/api/names", status: 200},
		{name: "names, those that follow", target: "/api/names?after=orders&limit=1&search=ORD", status: 200},
		{name: "names, too many", target: "/api/names?limit=5001", status: 400, code: -6},
		{name: "names, POST", method: http.MethodPost, target: "/api/names", status: 405},
		{name: "names, away", target: "/api/names", change: broken(storeAway()), status: 503, code: -1},
		{name: "names, broken", target: "/api/names", change: broken(errors.New("secret")), status: 500, code: -11},
		{name: "holders", target: "/api/names/orders", status: 200},
		{name: "holders, of none", target: "/api/names/order", status: 404, code: -2},
		{name: "holders, POST", method: http.MethodPost, target: "/api/names/orders", status: 405},
		{name: "holders, away", target: "/api/names/orders", change: func(o *Options) {
			o.Holders = func(context.Context, string, int) ([]model.NameHolder, error) { return nil, storeAway() }
		}, status: 503, code: -1},
		{name: "holders, broken", target: "/api/names/orders", change: broken(errors.New("secret")), status: 500, code: -11},
	}
}

// Names are in the order of their bytes, in windows; with its holders a name is as administrators
// get it.
func TestNamePages(t *testing.T) {
	api := newAPIOf(func(o *Options) {
		o.Names = func(context.Context) (all []model.NameUse, _ error) {
			for _, name := range []string{"orders", "a", "Z"} {
				use := model.NameUse{Name: ordersName, Leased: 2}
				use.Name.Name = name
				all = append(all, use)
			}
			return all, nil
		}
	})
	page := func(total string, names ...string) string {
		for i, name := range names {
			names[i] = "{" + strings.Replace(nameJSON, "orders", name, 1) + "}"
		}
		return `{"code":0,"names":[` + strings.Join(names, ",") + "]" + total + "}"
	}
	for target, want := range map[string]string{
		"/api/names":                 page("", "Z", "a", "orders"),
		"/api/names?limit=2":         page(`,"total":3,"next":"a"`, "Z", "a"),
		"/api/names?limit=2&after=a": page(`,"total":3`, "orders"),
		"/api/names?search=R":        page("", "orders"),
		"/api/names?search=x":        page(""),
		"/api/names/orders":          `{"code":0,` + nameJSON + holdersJSON + "}",
	} {
		wantAnswer(t, ask(api, http.MethodGet, target), 200, want)
	}
}
