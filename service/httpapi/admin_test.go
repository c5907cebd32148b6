package httpapi

import (
	"context"
	"encoding/json"
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

// fakeAdmin is a store with one app, one tag, one name and one space, and a replica. It notes what it is asked, or
// answers with err.
type fakeAdmin struct {
	err   error
	calls []string
	by    string // who changed the level of the log, in which request
	log   strings.Builder
}

func (f *fakeAdmin) note(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// resources are those of the store.
func (f *fakeAdmin) resources() []admin.Resource {
	return admin.New(admin.Options{
		Store: f, Queue: fakeReload{}, Segment: fakeTagReload{}, Now: func() time.Time { return loaded },
		Log: slog.New(slog.NewTextHandler(&f.log, nil)),
	}).Resources()
}

// fakeReload takes every change over.
type fakeReload struct{}

func (fakeReload) Reload(context.Context) error { return nil }
func (fakeReload) NextReload(time.Time) time.Time {
	return time.Date(2026, 11, 20, 16, 2, 30, 0, time.UTC)
}

type fakeTagReload struct{ fakeReload }

func (fakeTagReload) Reload(context.Context, string) error { return nil }

var (
	orders = model.AppSummary{
		App: model.App{ID: 7, Name: "订单/&", Description: "d", Step: 1000, Limit: model.Limit{MaxID: 1<<63 - 1, Policy: model.LimitReject}}, Shards: 64, MixedLimits: true, HighestIndex: 5000, TotalIndices: 5000,
	}
	ordersTag = model.Tag{Name: "a/b", MaxID: 1<<63 - 1, Step: 2000, UpdatedAt: time.Date(2026, 11, 20, 16, 0, 0, 0, time.FixedZone("", 3600))}
)

const (
	ordersJSON  = `"appId":7,"id":7,"name":"订单/&","description":"d","shards":64,"step":1000,"maxLimitId":9223372036854775807,"maxLimitIdStr":"9223372036854775807","mixedLimits":true,"limitPolicy":"reject","scramble":false,"highestIndex":5000,"totalIndices":5000`
	tagJSON     = `"tag":"a/b","maxId":9223372036854775807,"maxIdStr":"9223372036854775807","step":2000,"description":"","updatedAt":"2026-11-20T15:00:00Z"`
	effectJSON  = `,"effective":"here now, on every replica by 2026-11-20T16:02:35Z"}`
	newJSON     = `,"effective":"now, on every replica"}`
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
	f.note("show %d", id)
	return orders, f.err
}

func (f *fakeAdmin) CreateApp(_ context.Context, app model.App) (model.AppSummary, error) {
	f.note("create %+v", app)
	return orders, f.err
}

func (f *fakeAdmin) ChangeApp(
	_ context.Context, id uint8, c model.AppChange,
) (before, after model.AppSummary, err error) {
	f.note("change %d name %s description %s step %s limit %s policy %s min %s confirm %q", id,
		said(c.Name), said(c.Description), said(c.Step), said(c.MaxLimitID), said(c.LimitPolicy), said(c.MinIndex), c.Confirm)
	return orders, orders, f.err
}

func (f *fakeAdmin) DeleteApp(_ context.Context, id uint8, name string) (model.AppSummary, error) {
	f.note("delete %d %q", id, name)
	return orders, f.err
}

func (f *fakeAdmin) Tags(context.Context) ([]model.Tag, error) { return []model.Tag{ordersTag}, f.err }

func (f *fakeAdmin) Tag(_ context.Context, name string) (model.Tag, error) {
	f.note("show %q", name)
	return ordersTag, f.err
}

func (f *fakeAdmin) CreateTag(_ context.Context, tag model.Tag) (model.Tag, error) {
	f.note("create %+v", tag)
	return ordersTag, f.err
}

func (f *fakeAdmin) ChangeTag(_ context.Context, name string, c model.TagChange) (before, after model.Tag, err error) {
	f.note("change %q step %s max %s description %s", name, said(c.Step), said(c.MaxID), said(c.Description))
	return ordersTag, ordersTag, f.err
}

func (f *fakeAdmin) DeleteTag(_ context.Context, name string) (model.Tag, error) {
	f.note("delete %q", name)
	return ordersTag, f.err
}

// State implements LogLevel.
func (f *fakeAdmin) State() LogState { return LogState{Level: "info", Configured: "info"} }

// Set implements LogLevel.
func (f *fakeAdmin) Set(level slog.Level, by, requestID string) LogState {
	f.note("log %v", level)
	f.by = "who=" + by + " request_id=" + requestID
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
		o.Admin, o.LogLevel, o.Access = f.resources(), f, guardOf(adminSecret, "orders", "may: ['queue:*']")
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
		{"POST", "/admin/apps", newAppBody, 201, app + newJSON},
		{"GET", appTarget, "", 200, app + "}"},
		{"PATCH", appTarget, stepBody, 200, app + effectJSON},
		{"DELETE", appTarget + confirmed, "", 200, app + effectJSON},
		{"GET", "/admin/tags", "", 200, `{"code":0,"tags":[{` + tagJSON + `}]}`},
		{"POST", "/admin/tags", newTagBody, 201, tag + newJSON},
		{"GET", tagTarget, "", 200, tag + "}"},
		{"PATCH", tagTarget, stepBody, 200, tag + effectJSON},
		{"DELETE", tagTarget + "?confirm=a/b", "", 200, tag + effectJSON},
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
	g := guardOf("", "slow", "may: [admin], rate: 0.1")
	_, _ = g.Operator(http.Header{"Authorization": {"Bearer slow"}})
	o.Admin, o.LogLevel, o.Access = (&fakeAdmin{}).resources(), &fakeAdmin{}, g
}

// badAdminRequests never reach the store.
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
	add("PATCH", appTarget, "nothing is to be changed: give some of name, description, step, maxLimitId, "+
		"limitPolicy, minIndex, maxRate", `{}`)
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

// What does not pass never reaches the store.
func TestAdminAnswers(t *testing.T) {
	for _, x := range adminExchanges() {
		t.Run(x.name, func(t *testing.T) {
			var store *fakeAdmin
			change := x.change
			x.change = func(o *Options) {
				change(o)
				store, _ = o.LogLevel.(*fakeAdmin)
			}
			got, _, _ := x.do()
			if x.code != 0 && store.err == nil && len(store.calls) > 0 {
				t.Errorf("the store was asked: %v", store.calls)
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

// What the store is asked for, from what a client sent.
func TestAdminRequests(t *testing.T) {
	for _, c := range []struct{ method, target, send, want string }{
		{"POST", "/admin/apps", newAppBody, "create {ID:7 Name:x Description: Step:1000 Limit:{MaxID:0 Policy:reject} Scramble:false Fresh:}"},
		{"POST", "/admin/apps", ` {"limitPolicy":"wrap","maxLimitId":9223372036854775807,"step":5,"description":"\u8ba2","name":"x","id":255} `, "create {ID:255 Name:x Description:订 Step:5 Limit:{MaxID:9223372036854775807 Policy:wrap} Scramble:false Fresh:}"},
		{"POST", "/admin/apps", `{"id":9,"name":"y","scramble":true,"fresh":"y"}`, "create {ID:9 Name:y Description: Step:1000 Limit:{MaxID:0 Policy:reject} Scramble:true Fresh:y}"},
		{"PATCH", appTarget, stepBody, `change 7 name - description - step 5 limit - policy - min - confirm ""`},
		{"PATCH", appTarget + "?confirm=%E8%AE%A2+%26", `{"limitPolicy":"wrap","maxLimitId":0,"name":"","description":"","minIndex":0}`, `change 7 name  description  step - limit 0 policy wrap min 0 confirm "订 &"`},
		{"DELETE", "/admin/apps/255?x=1&con%66irm=a%2Bb", "", `delete 255 "a+b"`},
		{"GET", appTarget, "", "show 7"},
		{"POST", "/admin/tags", `{"tag":"n","pattern":"{seq:4}","reset":"none","zone":"+01:00","overflow":"refuse","fresh":"n"}`,
			"create {Name:n MaxID:1 Step:2000 Description: UpdatedAt:0001-01-01 00:00:00 +0000 UTC Numbering:{Pattern:{seq:4} Reset:none Zone:+01:00 Overflow:refuse} Region: Fresh:n Beginning:{Skipped:0 Waits:false}}"},
		{"POST", "/admin/tags", newTagBody, "create {Name:a/b MaxID:1 Step:2000 Description: UpdatedAt:0001-01-01 00:00:00 +0000 UTC Numbering:{Pattern: Reset: Zone: Overflow:} Region: Fresh: Beginning:{Skipped:0 Waits:false}}"},
		{"PATCH", tagTarget, `{"maxId":9,"step":1,"description":"d"}`, `change "a/b" step 1 max 9 description d`},
		{"DELETE", tagTarget + "?confirm=a/b", "", `delete "a/b"`},
		{"GET", "/admin/tags/%E8%AE%A2%20x", "", `show "订 x"`},
		{"POST", namesTarget, newNameBody,
			`create "orders", epoch_ms=1288834974657 worker_bits=10 seq_bits=12, for 1m0s`},
		{"POST", namesTarget, `{"hold":"1h","seqBits":2,"workerBits":22,"epoch":"5","name":"a.B_c-1"}`,
			`create "a.B_c-1", epoch_ms=5 worker_bits=22 seq_bits=2, for 1h0m0s`},
		{"POST", namesTarget, `{"name":"..","epoch":0}`,
			`create "..", epoch_ms=0 worker_bits=10 seq_bits=12, for 1m0s`},
		{"PATCH", nameTarget, holdBody, `change "orders" to 1m30s`},
		{"DELETE", nameTarget + "?confirm=orders", "", `delete "orders"`},
		{"GET", nameTarget, "", `show "orders"; 1000 holders of "orders"`},
		{"GET", spaceTarget, "", `show "chat"`},
		{"POST", spacesTarget, newSpaceBody, `create {Name:chat Sections:1024 Step:10000}`},
		{"POST", spacesTarget, `{"step":1000000,"sections":16384,"space":"a.B_c-1"}`,
			`create {Name:a.B_c-1 Sections:16384 Step:1000000}`},
		{"POST", spacesTarget, `{"space":"..","step":1,"sections":1}`, `create {Name:.. Sections:1 Step:1}`},
		{"PATCH", spaceTarget, newStepBody, `change "chat" to 5`},
		{"DELETE", spaceTarget + "?confirm=chat", "", `delete "chat"`},
		{"PATCH", logTarget, `{"level":"debug"}`, "log DEBUG"},
		{"PATCH", logTarget, ` {"level":"error"} `, "log ERROR"},
	} {
		f := &fakeAdmin{}
		got, _, _ := exchange{method: c.method, target: c.target, send: c.send, token: adminSecret, change: administrated(f)}.do()
		if asked := strings.Join(f.calls, "; "); asked != c.want {
			t.Errorf("%s %s: %d %s\ngot  %s\nwant %s", c.method, c.target, got.Code, got.Body, asked, c.want)
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

// The log has who asks, from where, and in which request, and never the token.
func TestAdminActor(t *testing.T) {
	for _, c := range []struct{ method, target, send, want string }{
		{"POST", "/admin/tags", newTagBody,
			`who=admin action=tag.create target="tag a/b" remote=192.0.2.1:1234 request_id=r-1`},
		{"PATCH", logTarget, levelBody, "who=admin request_id=r-1"},
	} {
		f := &fakeAdmin{}
		x := exchange{method: c.method, target: c.target, send: c.send, token: adminSecret, header: []string{requestIDHeader, "r-1"}, change: administrated(f)}
		got, _, _ := x.do()
		check.Equal(t, got.Code < 300, true, c.target)
		check.Has(t, f.log.String()+f.by, c.want, c.target)
		check.Lacks(t, f.log.String(), adminSecret, c.target)
	}
}

// A command is served without a token, in its own name.
func TestNewAdministration(t *testing.T) {
	f := &fakeAdmin{}
	api := NewAdministration(f.resources(), "cli:alice", slog.New(slog.DiscardHandler))
	deletion := exchange{method: "DELETE", target: appTarget + confirmed}
	wantAnswer(t, deletion.ask(api), 200, `{"code":0,`+ordersJSON+effectJSON)
	check.Has(t, f.log.String(), `who=cli:alice action=app.delete target="app 7" `)
	wantAnswer(t, exchange{target: "/admin/apps/256"}.ask(api), 400,
		`{"code":-6,"message":"invalid argument: id must be a whole number in 0…255, not \"256\""}`)
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
		n := field(o, "id", "a number", as[json.Number])
		s := field(o, "name", "a string", as[string])
		if o.err != nil && !errors.Is(o.err, model.ErrInvalidArgument) {
			t.Error(o.err)
		}
		if refused && (n != nil || s != nil) {
			t.Errorf("%q gives %v, %v", body, n, s)
		}
	})
}
