package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/admin"
)

// fakeAdmin has one app and one tag, notes what it is asked, or answers with err.
type fakeAdmin struct {
	err   error
	calls []string
	by    admin.Actor
}

func (f *fakeAdmin) note(by admin.Actor, format string, args ...any) {
	f.by, f.calls = by, append(f.calls, fmt.Sprintf(format, args...))
}

var (
	orders = model.AppSummary{
		App: model.App{ID: 7, Name: "订单/&", Description: "d", Step: 1000, Limit: model.Limit{MaxID: 1<<63 - 1, Policy: model.LimitReject}}, Shards: 64, MixedLimits: true, HighestIndex: 5000, TotalIndices: 5000,
	}
	ordersTag = model.Tag{Name: "a/b", MaxID: 1<<63 - 1, Step: 2000, UpdatedAt: time.Date(2026, 11, 20, 16, 0, 0, 0, time.FixedZone("", 3600))}
	effect    = admin.Effect{Here: true, Everywhere: time.Date(2026, 11, 20, 16, 2, 35, 0, time.UTC)}
)

const (
	ordersJSON  = `"appId":7,"id":7,"name":"订单/&","description":"d","shards":64,"step":1000,"maxLimitId":9223372036854775807,"maxLimitIdStr":"9223372036854775807","mixedLimits":true,"limitPolicy":"reject","scramble":false,"highestIndex":5000,"totalIndices":5000`
	tagJSON     = `"tag":"a/b","maxId":9223372036854775807,"maxIdStr":"9223372036854775807","step":2000,"description":"","updatedAt":"2026-11-20T15:00:00Z"`
	effectJSON  = `,"effective":"here now, on every replica by 2026-11-20T16:02:35Z"}`
	appTarget   = "/admin/apps/7"
	tagTarget   = "/admin/tags/a%2Fb"
	newAppBody  = `{"id":7,"name":"x"}`
	newTagBody  = `{"tag":"a/b"}`
	stepBody    = `{"step":5}`
	logTarget   = "/admin/log"
	levelBody   = `{"level":"debug"}`
	confirmed   = "?confirm=x"
	adminSecret = "root"
)

func (f *fakeAdmin) Apps(context.Context) ([]model.AppSummary, error) {
	return []model.AppSummary{orders}, f.err
}

func (f *fakeAdmin) App(_ context.Context, id uint8) (model.AppSummary, error) {
	f.note(admin.Actor{}, "show %d", id)
	return orders, f.err
}

func (f *fakeAdmin) CreateApp(_ context.Context, by admin.Actor, app model.App) (model.AppSummary, admin.Effect, error) {
	f.note(by, "create %+v", app)
	return orders, effect, f.err
}

func (f *fakeAdmin) ChangeApp(_ context.Context, by admin.Actor, id uint8, c model.AppChange) (model.AppSummary, admin.Effect, error) {
	f.note(by, "change %d name %s description %s step %s limit %s policy %s min %s confirm %q", id,
		said(c.Name), said(c.Description), said(c.Step), said(c.MaxLimitID), said(c.LimitPolicy), said(c.MinIndex), c.Confirm)
	return orders, effect, f.err
}

func (f *fakeAdmin) DeleteApp(_ context.Context, by admin.Actor, id uint8, name string) (model.AppSummary, admin.Effect, error) {
	f.note(by, "delete %d %q", id, name)
	return orders, effect, f.err
}

func (f *fakeAdmin) Tags(context.Context) ([]model.Tag, error) { return []model.Tag{ordersTag}, f.err }

func (f *fakeAdmin) Tag(_ context.Context, name string) (model.Tag, error) {
	f.note(admin.Actor{}, "show %q", name)
	return ordersTag, f.err
}

func (f *fakeAdmin) CreateTag(_ context.Context, by admin.Actor, tag model.Tag) (model.Tag, admin.Effect, error) {
	f.note(by, "create %+v", tag)
	return ordersTag, effect, f.err
}

func (f *fakeAdmin) ChangeTag(_ context.Context, by admin.Actor, name string, c model.TagChange) (model.Tag, admin.Effect, error) {
	f.note(by, "change %q step %s max %s description %s", name, said(c.Step), said(c.MaxID), said(c.Description))
	return ordersTag, effect, f.err
}

func (f *fakeAdmin) DeleteTag(_ context.Context, by admin.Actor, name, confirm string) (model.Tag, admin.Effect, error) {
	f.note(by, "delete %q %q", name, confirm)
	return ordersTag, effect, f.err
}

// State implements LogLevel.
func (f *fakeAdmin) State() LogState { return LogState{Level: "info", Configured: "info"} }

// Set implements LogLevel.
func (f *fakeAdmin) Set(level slog.Level, by, requestID string) LogState {
	f.note(admin.Actor{Name: by, RequestID: requestID}, "log %v", level)
	return LogState{Level: "debug", Configured: "info"}
}

// said is what a pointer points at, in a form to compare.
func said[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// administrated gives the API the token root and that administration.
func administrated(f *fakeAdmin) func(*Options) {
	return func(o *Options) {
		o.Admin, o.LogLevel, o.Access = f, f, guardOf(adminSecret, "orders", "role: get, apps: '*'")
	}
}

// operation is a request of each kind, with what it is answered when all is well.
type operation struct {
	method, target, send string
	status               int
	body                 string
}

func operations() []operation {
	app, tag := `{"code":0,`+ordersJSON, `{"code":0,`+tagJSON
	return append(append(nameOperations(), spaceOperations()...), []operation{
		{"GET", "/admin/apps", "", 200, `{"code":0,"apps":[{` + ordersJSON + `}]}`},
		{"POST", "/admin/apps", newAppBody, 201, app + effectJSON},
		{"GET", appTarget, "", 200, app + "}"},
		{"PATCH", appTarget, stepBody, 200, app + effectJSON},
		{"DELETE", appTarget + confirmed, "", 200, app + effectJSON},
		{"GET", "/admin/tags", "", 200, `{"code":0,"tags":[{` + tagJSON + `}]}`},
		{"POST", "/admin/tags", newTagBody, 201, tag + effectJSON},
		{"GET", tagTarget, "", 200, tag + "}"},
		{"PATCH", tagTarget, stepBody, 200, tag + effectJSON},
		{"DELETE", tagTarget + confirmed, "", 200, tag + effectJSON},
		{"GET", logTarget, "", 200, `{"code":0,"level":"info","configured":"info"}`},
		{"PATCH", logTarget, levelBody, 200, `{"code":0,"level":"debug","configured":"info"}`},
	}...)
}

// adminExchanges are each operation with each answer.
func adminExchanges() []exchange {
	var all []exchange
	for _, op := range operations() {
		x := exchange{method: op.method, target: op.target, send: op.send, token: adminSecret}
		add := func(name string, err error, status, code int, says string) {
			y := x
			y.name, y.change, y.status, y.code, y.says = op.method+" "+op.target+": "+name, administrated(&fakeAdmin{err: err}), status, code, says
			if code == 0 {
				y.body = op.body
			}
			all = append(all, y)
		}
		add("done", nil, op.status, 0, "")
		for token, status := range map[string]int{"": 401, "wrong": 401, "orders": 403, "slow": 429} {
			x.token = token
			add("the token "+token, nil, status, -7, "")
			if status == 429 {
				all[len(all)-1].change, all[len(all)-1].code = spentAdmin, -12
			}
		}
		if x.token = adminSecret; op.target == logTarget {
			continue // it asks no store
		}
		add("the database is away", storeAway(), 503, -1, "connection refused")
		add("a fault", errors.New("secret"), 500, -11, "internal error")
		if one := strings.Count(op.target, "/") > 2; one {
			add("unknown", wrap(model.ErrUnknownApp), 404, -2, "not provisioned")
			add("unknown tag", wrap(model.ErrUnknownTag), 404, -2, "not provisioned")
			add("unknown name", wrap(model.ErrUnknownName), 404, -2, "not provisioned")
			add("unknown space", wrap(model.ErrUnknownSpace), 404, -2, "not provisioned")
		}
		refuses := op.method == "POST" || op.method == "PATCH"
		if strings.HasPrefix(op.target, nameTarget) || strings.HasPrefix(op.target, spaceTarget) {
			refuses = op.method == "DELETE" // while a lease lives, or numbers are in doubt
		}
		if refuses {
			add("refused", wrap(model.ErrRefused), 409, -13, "refused")
			add("another region", wrap(model.ErrLayoutChanged), 409, -13, "may not change")
			add("there already", wrap(model.ErrAppExists), 409, -13, "already")
			add("tag there already", wrap(model.ErrTagExists), 409, -13, "already")
			add("name there already", wrap(model.ErrNameExists), 409, -13, "already")
			add("space there already", wrap(model.ErrSpaceExists), 409, -13, "already")
		}
		if op.method != "GET" {
			add("bad", wrap(model.ErrInvalidArgument), 400, -6, "invalid argument")
		}
	}
	return slices.Concat(all, badAdminRequests(), badNameRequests(), badSpaceRequests())
}

// spentAdmin has a token for administration whose rate is used up.
func spentAdmin(o *Options) {
	g := guardOf("", "slow", "role: admin, rate: 0.1")
	_, _ = g.Operator(http.Header{"Authorization": {"Bearer slow"}})
	o.Admin, o.LogLevel, o.Access = &fakeAdmin{}, &fakeAdmin{}, g
}

// badAdminRequests never reach the service.
func badAdminRequests() (all []exchange) {
	add := badRequests(&all)
	const apps, tags = "/admin/apps", "/admin/tags"
	add("POST", apps, "must be a JSON object with some of id, name", "", "[]", "null")
	add("POST", apps, "not JSON", `{"id":7`, `{"id":7 "name":"x"}`)
	add("POST", apps, "something follows", newAppBody+"{}", newAppBody+"x")
	add("POST", apps, "not UTF-8", "{\"id\":7,\"name\":\"\xff\"}")
	add("POST", apps, "more than 65536 bytes", `{"name":"`+strings.Repeat("a", maxBody)+`"}`)
	add("POST", apps, "id is missing", `{"name":"x"}`)
	add("POST", apps, "name is missing", `{"id":7}`)
	for _, id := range []string{"256", "-1", `"7"`, "7.0", "1e1", "null", "true"} {
		add("POST", apps, "id must be a whole number in 0…255, not "+id, `{"id":`+id+`,"name":"x"}`)
	}
	add("POST", apps, "name must be a string, not 7", `{"id":7,"name":7}`)
	add("POST", apps, "name must not be a list or an object", `{"id":7,"name":["x"]}`)
	for field, says := range map[string]string{
		`"ID":8`: `unknown field "ID"`, `"minIndex":8`: "unknown field", `"id":7`: "id is given twice",
		`"step":0`: "step must be a whole number in 1…1000000, not 0", `"step":1000001`: "step must be",
		`"maxLimitId":-1`: "maxLimitId must be", `"maxLimitId":9223372036854775808`: "maxLimitId must be",
		`"limitPolicy":"Wrap"`: "limitPolicy must be reject or wrap",
		`"description":null`:   "description must be a string, not null",
	} {
		add("POST", apps, says, `{"id":7,"name":"x",`+field+`}`)
	}
	add("PATCH", appTarget, "unknown field", `{"id":8}`)
	add("PATCH", appTarget, "minIndex must be", `{"minIndex":562949953421311}`)
	add("PATCH", appTarget+"?confirm=%zz", "percent-encoded", stepBody)
	add("PATCH", appTarget+"?confirm=a&confirm=a", "confirm is given twice", stepBody)
	add("PATCH", "/admin/apps/256", "id must be a whole number in 0…255", stepBody)
	add("GET", "/admin/apps/+7", "id must be", "")
	add("DELETE", appTarget, "confirm is missing, nothing was done: DELETE /admin/apps/7?confirm=NAME", "")
	add("DELETE", appTarget+"?confirm=", "confirm is missing", "")
	add("DELETE", appTarget+"?confirm=x&con%66irm=x", "confirm is given twice", "")
	add("POST", tags, "tag is missing", `{"step":5}`)
	add("POST", tags, "maxId must be", `{"tag":"x","maxId":0}`)
	add("POST", tags, "step must be", `{"tag":"x","step":1000000001}`)
	add("PATCH", tagTarget, "unknown field", `{"tag":"x"}`)
	add("PATCH", "/admin/tags/%ff", "not valid UTF-8", stepBody)
	add("GET", "/admin/tags/"+strings.Repeat("a", 129), "129 bytes", "")
	add("DELETE", tagTarget, "DELETE /admin/tags/a%2Fb?confirm=NAME", "")
	add("PATCH", logTarget, "JSON object with some of level", "debug")
	add("PATCH", logTarget, "level is missing", `{}`)
	add("PATCH", logTarget, "level must be one of debug, info, warn, error",
		`{"level":"trace"}`, `{"level":"DEBUG"}`, `{"level":"info+2"}`)
	add("PATCH", logTarget, "level must be a string", `{"level":7}`)
	add("PATCH", logTarget, "unknown field", `{"level":"debug","for":"1h"}`)
	add("PATCH", logTarget, "something follows", `{"level":"debug"}]`)
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"PUT", "/admin/apps", 405}, {"PUT", appTarget, 405}, {"POST", appTarget, 405}, {"DELETE", "/admin/apps", 405},
		{"PUT", "/admin/tags", 405}, {"PUT", tagTarget, 405}, {"DELETE", logTarget, 405},
		{"PUT", namesTarget, 405}, {"POST", nameTarget, 405}, {"GET", "/admin/names/", 404}, {"GET", "/admin/names/a/b", 404},
		{"PUT", spacesTarget, 405}, {"POST", spaceTarget, 405}, {"GET", "/admin/sequences/", 404}, {"GET", "/admin/sequences/a/b", 404},
		{"GET", "/admin/apps/", 404}, {"DELETE", "/admin/apps/7/8", 404}, {"GET", "/admin/tags/", 404}, {"GET", "/admin/tags/a/b", 404}, {"GET", "/admin/", 404},
	} {
		all = append(all, exchange{name: fmt.Sprint(c.status, " ", c.method, c.target), method: c.method, target: c.target, token: adminSecret,
			change: administrated(&fakeAdmin{}), status: c.status, code: -10})
	}
	return all
}

// What does not pass never reaches the service.
func TestAdminAnswers(t *testing.T) {
	for _, x := range adminExchanges() {
		t.Run(x.name, func(t *testing.T) {
			var service *fakeAdmin
			change := x.change
			x.change = func(o *Options) {
				change(o)
				service, _ = o.Admin.(*fakeAdmin)
				o.LogLevel = service
			}
			got, _, _ := x.do()
			if x.code != 0 && service.err == nil && len(service.calls) > 0 {
				t.Errorf("the service was asked: %v", service.calls)
			}
			if x.code == 0 {
				wantAnswer(t, got, x.status, x.body)
			} else {
				checkError(t, x, got)
			}
			check.Equal(t, got.Header().Get("Cache-Control"), "no-store", "Cache-Control")
		})
	}
}

// What the service is asked for, from what a client sent.
func TestAdminRequests(t *testing.T) {
	for _, c := range []struct{ method, target, send, want string }{
		{"POST", "/admin/apps", newAppBody, "create {ID:7 Name:x Description: Step:1000 Limit:{MaxID:0 Policy:reject} Scramble:false Fresh:}"},
		{"POST", "/admin/apps", ` {"limitPolicy":"wrap","maxLimitId":9223372036854775807,"step":5,"description":"\u8ba2","name":"x","id":255} `, "create {ID:255 Name:x Description:订 Step:5 Limit:{MaxID:9223372036854775807 Policy:wrap} Scramble:false Fresh:}"},
		{"POST", "/admin/apps", `{"id":9,"name":"y","scramble":true,"fresh":"y"}`, "create {ID:9 Name:y Description: Step:1000 Limit:{MaxID:0 Policy:reject} Scramble:true Fresh:y}"},
		{"PATCH", appTarget, stepBody, `change 7 name - description - step 5 limit - policy - min - confirm ""`},
		{"PATCH", appTarget + "?confirm=%E8%AE%A2+%26", `{"limitPolicy":"wrap","maxLimitId":0,"name":"","description":"","minIndex":0}`, `change 7 name  description  step - limit 0 policy wrap min 0 confirm "订 &"`},
		{"PATCH", "/admin/apps/0", `{}`, `change 0 name - description - step - limit - policy - min - confirm ""`},
		{"DELETE", "/admin/apps/255?x=1&con%66irm=a%2Bb", "", `delete 255 "a+b"`},
		{"GET", appTarget, "", "show 7"},
		{"POST", "/admin/tags", `{"tag":"n","pattern":"{seq:4}","reset":"none","zone":"+01:00","overflow":"refuse","fresh":"n"}`,
			"create {Name:n MaxID:1 Step:2000 Description: UpdatedAt:0001-01-01 00:00:00 +0000 UTC Numbering:{Pattern:{seq:4} Reset:none Zone:+01:00 Overflow:refuse} Region: Fresh:n Beginning:{Skipped:0 Waits:false}}"},
		{"POST", "/admin/tags", newTagBody, "create {Name:a/b MaxID:1 Step:2000 Description: UpdatedAt:0001-01-01 00:00:00 +0000 UTC Numbering:{Pattern: Reset: Zone: Overflow:} Region: Fresh: Beginning:{Skipped:0 Waits:false}}"},
		{"PATCH", tagTarget, `{"maxId":9,"step":1,"description":"d"}`, `change "a/b" step 1 max 9 description d`},
		{"DELETE", tagTarget + "?confirm=a/b", "", `delete "a/b" "a/b"`},
		{"GET", "/admin/tags/%E8%AE%A2%20x", "", `show "订 x"`},
		{"PATCH", logTarget, `{"level":"debug"}`, "log DEBUG"},
		{"PATCH", logTarget, ` {"level":"error"} `, "log ERROR"},
	} {
		f := &fakeAdmin{}
		got, _, _ := exchange{method: c.method, target: c.target, send: c.send, token: adminSecret, change: administrated(f)}.do()
		if len(f.calls) != 1 || f.calls[0] != c.want {
			t.Errorf("%s %s: %d %s\ngot  %q\nwant %q", c.method, c.target, got.Code, got.Body, f.calls, c.want)
		}
	}
}

// The header confirms as the query does, and never besides it.
func TestConfirmHeader(t *testing.T) {
	for _, c := range []struct {
		query  string
		header []string
		want   string
	}{
		{"", []string{"%E8%AE%A2+x"}, `delete 7 "订+x"`},
		{"?confirm=x", []string{"x"}, ""},
		{"", []string{"x", "x"}, ""},
		{"", []string{"%zz"}, ""},
	} {
		f := &fakeAdmin{}
		x := exchange{method: http.MethodDelete, target: appTarget + c.query, token: adminSecret, change: administrated(f)}
		for _, value := range c.header {
			x.header = append(x.header, "X-Confirm", value)
		}
		w, _, _ := x.do()
		if done := strings.Join(f.calls, ""); done != c.want || (w.Code == http.StatusBadRequest) != (c.want == "") {
			t.Errorf("%q, %q: %d, %q", c.query, c.header, w.Code, done)
		}
	}
}

// The service learns who asks, from where, and in which request, and never the token.
func TestAdminActor(t *testing.T) {
	for _, c := range []struct {
		method, target, send string
		want                 admin.Actor
	}{
		{"POST", "/admin/tags", newTagBody, admin.Actor{Name: "admin", Remote: "192.0.2.1:1234", RequestID: "r-1"}},
		{"PATCH", logTarget, levelBody, admin.Actor{Name: "admin", RequestID: "r-1"}},
	} {
		f := &fakeAdmin{}
		x := exchange{method: c.method, target: c.target, send: c.send, token: adminSecret, header: []string{requestIDHeader, "r-1"}, change: administrated(f)}
		if got, _, _ := x.do(); f.by != c.want || got.Code >= 300 {
			t.Errorf("%s: %d, by %+v", c.target, got.Code, f.by)
		}
	}
}

// Without administration there are no such paths, with a token or without.
func TestNoAdministration(t *testing.T) {
	for _, op := range operations() {
		x := exchange{method: op.method, target: op.target, send: op.send, token: adminSecret, change: func(o *Options) {
			o.LogLevel, o.Access = nil, guardOf(adminSecret)
		}}
		if got, _, _ := x.do(); got.Code != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", op.method, op.target, got.Code, got.Body)
		}
	}
}

// No body makes the reader panic, and what passes is what was sent.
func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{newAppBody, `{}`, `{"name":"\ud800"}`, `{"id":1e400}`, `{"a":{"a":1}}`, `{"id":7,}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o := &object{values: map[string]any{}}
		o.parse(body, []string{"id", "name"})
		refused := o.err != nil
		n, s := o.number("id", 1, 9), o.text("name")
		if o.err != nil && !errors.Is(o.err, model.ErrInvalidArgument) {
			t.Error(o.err)
		}
		if n != nil && (*n < 1 || *n > 9) || refused && (n != nil || s != nil) {
			t.Errorf("%q gives %v, %v", body, n, s)
		}
	})
}
