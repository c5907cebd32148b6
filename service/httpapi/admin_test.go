package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
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
	three bool // names, not in order
	calls []string
	log   strings.Builder
}

// note keeps a call with what it is about, as JSON, and gives what it ends with.
func (f *fakeAdmin) note(call string, about ...any) error {
	for _, what := range about {
		call += " " + string(appendJSON(nil, what))
	}
	f.calls = append(f.calls, call)
	return f.err
}

// resources are those of the store.
func (f *fakeAdmin) resources() []admin.Resource { return f.service().Resources() }

func (f *fakeAdmin) service() *admin.Service {
	return admin.New(admin.Options{
		Store: f, Queue: replica, Segment: replica, Now: func() time.Time { return loaded },
		OwnName: "shardid", Log: slog.New(slog.NewTextHandler(&f.log, nil))})
}

// replica takes every change over.
var replica = admin.Replica{
	Reload:     func(context.Context, string) error { return nil },
	NextReload: func(time.Time) time.Time { return time.Date(2026, 11, 20, 16, 2, 30, 0, time.UTC) },
}

var (
	orders = model.AppSummary{
		App: model.App{ID: 7, Name: "订单/&", Description: "d", Step: 1000,
			Limit: model.Limit{MaxID: 1<<63 - 1, Policy: model.LimitReject}},
		Shards: 64, MixedLimits: true, HighestIndex: 5000, TotalIndices: 5000,
	}
	ordersTag = model.Tag{Name: "a/b", MaxID: 1<<63 - 1, Step: 2000,
		UpdatedAt: time.Date(2026, 11, 20, 16, 0, 0, 0, time.FixedZone("", 3600))}
	// ordersName has two worker IDs that are leased.
	ordersName = model.NameUse{Leased: 2, Name: model.Name{
		Name: "orders", Layout: model.NameLayout(1288834974657, 10, 12, 0), Hold: 5500 * time.Millisecond}}
	// chat has three sections that have given numbers, one the highest there is.
	chat = model.SpaceUse{Used: 3, Highest: model.MaxSequence,
		Space: model.Space{Name: "chat", Sections: model.DefaultSections, Step: model.DefaultSequenceStep}}
)

const (
	ordersJSON = `"appId":7,"id":7,"name":"订单/&","description":"d","shards":64,"step":1000,` +
		`"maxLimitId":9223372036854775807,"maxLimitIdStr":"9223372036854775807","mixedLimits":true,` +
		`"limitPolicy":"reject",` +
		`"scramble":false,"highestIndex":5000,"totalIndices":5000`
	tagJSON = `"tag":"a/b","maxId":9223372036854775807,"maxIdStr":"9223372036854775807","step":2000,"description":"",` +
		`"updatedAt":"2026-11-20T15:00:00Z"`
	nameFields  = `"name":"orders","epoch":"1288834974657","workerBits":10,"seqBits":12,"hold":"5.5s","leased":`
	nameJSON    = nameFields + `2,"workers":1024`
	newNameJSON = `{"code":0,` + nameFields + `0,"workers":1024`
	holdersJSON = `,"holders":[{"workerId":7,"instance":"pod-1","leased":true,"after":"1763654400000",` +
		`"until":"9223372036854775807","granted":"2025-11-20T16:00:00Z","renewed":"2025-11-20T16:00:20.5Z"},` +
		`{"workerId":0,"instance":"","leased":false,"after":"0","until":"1763654400000",` +
		`"granted":"2025-11-20T16:00:00Z"}]`
	spaceFields  = `"space":"chat","sections":1024,"step":10000`
	spaceUseJSON = spaceFields + `,"used":3,"highest":9007199254740991`
	newSpaceJSON = `{"code":0,` + spaceFields + `,"effective":"on every replica within 3 s"}`
	effectJSON   = `,"effective":"here now, on every replica by 2026-11-20T16:02:35Z"}`
	newJSON      = `,"effective":"now, on every replica"}`

	appsTarget   = "/admin/apps"
	appTarget    = "/admin/apps/7"
	tagsTarget   = "/admin/tags"
	tagTarget    = "/admin/tags/a%2Fb"
	namesTarget  = "/admin/names"
	nameTarget   = "/admin/names/orders"
	spacesTarget = "/admin/sequences"
	spaceTarget  = "/admin/sequences/chat"
	logTarget    = "/admin/log"
	stepBody     = `{"step":5}`
	adminSecret  = "root"
)

func (f *fakeAdmin) Apps(context.Context) ([]model.AppSummary, error) {
	return []model.AppSummary{orders}, f.err
}

func (f *fakeAdmin) App(_ context.Context, id uint8) (model.AppSummary, error) {
	return orders, f.note("show", id)
}

func (f *fakeAdmin) CreateApp(_ context.Context, app model.App) (model.AppSummary, error) {
	return orders, f.note("create", app)
}

func (f *fakeAdmin) ChangeApp(_ context.Context, id uint8, c model.AppChange) (was, is model.AppSummary, err error) {
	return orders, orders, f.note("change", id, c)
}

func (f *fakeAdmin) DeleteApp(_ context.Context, id uint8, name string) (model.AppSummary, error) {
	return orders, f.note("delete", id, name)
}

func (f *fakeAdmin) FindTags(_ context.Context, search string, limit int) ([]model.Tag, int, error) {
	if search != "" {
		return nil, limit + 1, f.err
	}
	return []model.Tag{ordersTag}, 1, f.err
}

func (f *fakeAdmin) Tag(_ context.Context, name string) (model.Tag, error) {
	return ordersTag, f.note("show", name)
}

func (f *fakeAdmin) CreateTag(_ context.Context, tag model.Tag) (model.Tag, error) {
	return ordersTag, f.note("create", tag)
}

func (f *fakeAdmin) ChangeTag(_ context.Context, name string, c model.TagChange) (was, is model.Tag, err error) {
	return ordersTag, ordersTag, f.note("change", name, c)
}

func (f *fakeAdmin) DeleteTag(_ context.Context, name string) (model.Tag, error) {
	return ordersTag, f.note("delete", name)
}

func (f *fakeAdmin) Names(context.Context) ([]model.NameUse, error) {
	all := []model.NameUse{ordersName}
	if f.three {
		a, z := ordersName, ordersName
		a.Name.Name, z.Name.Name = "a", "Z"
		all = append(all, a, z)
	}
	return all, f.err
}

func (f *fakeAdmin) Name(_ context.Context, name string) (model.NameUse, error) {
	return ordersName, f.note("show", name)
}

func (f *fakeAdmin) Holders(_ context.Context, name string, limit int) ([]model.NameHolder, error) {
	const at = 1763654400000
	granted := time.UnixMilli(at).UTC()
	return []model.NameHolder{
		{WorkerID: 7, Instance: "pod-1", Leased: true, After: at, Until: 1<<63 - 1, Granted: granted,
			Renewed: granted.Add(20_500 * time.Millisecond)},
		{Until: at, Granted: granted},
	}, f.note("holders", name, limit)
}

func (f *fakeAdmin) CreateName(_ context.Context, name model.Name) (model.Name, error) {
	return ordersName.Name, f.note("create", name)
}

func (f *fakeAdmin) ChangeName(
	_ context.Context, name string, hold time.Duration,
) (was model.Name, is model.NameUse, err error) {
	return ordersName.Name, ordersName, f.note("change", name, hold)
}

func (f *fakeAdmin) DeleteName(_ context.Context, name string) (model.Name, error) {
	return ordersName.Name, f.note("delete", name)
}

func (f *fakeAdmin) Spaces(context.Context) ([]model.SpaceUse, error) {
	return []model.SpaceUse{chat}, f.err
}

func (f *fakeAdmin) Space(_ context.Context, name string) (model.SpaceUse, error) {
	return chat, f.note("show", name)
}

func (f *fakeAdmin) CreateSpace(_ context.Context, space model.Space) (model.Space, error) {
	return chat.Space, f.note("create", space)
}

func (f *fakeAdmin) ChangeSpace(_ context.Context, name string, step int64) (was, is model.Space, err error) {
	return chat.Space, chat.Space, f.note("change", name, step)
}

func (f *fakeAdmin) DeleteSpace(_ context.Context, name string) (model.Space, error) {
	return chat.Space, f.note("delete", name)
}

// administrate gives an API the token root and that administration.
func (f *fakeAdmin) administrate(o *Options) {
	o.Admin, o.Access = f.resources(), closedGuard()
	o.LogLevel = &LogLevel{Audit: slog.New(slog.NewTextHandler(&f.log, nil))}
}

// operations are a request of each kind that is done, and more of what a store is asked for by what a client sent.
func operations() []exchange {
	const post, patch, del = http.MethodPost, http.MethodPatch, http.MethodDelete
	const levels = `,"configured":"info"}`
	app, tag := `{"code":0,`+ordersJSON, `{"code":0,`+tagJSON
	return []exchange{
		{target: appsTarget, body: `{"apps":[{` + ordersJSON + `}],"code":0}`},
		{target: appsTarget + "?search=8", body: `{"apps":[],"code":0}`},
		{target: appTarget, body: app + "}", asked: "show 7"},
		{method: post, target: appsTarget, send: `{"id":7,"name":"x"}`, status: 201, body: app + newJSON,
			asked: `create {"ID":7,"Name":"x","Description":"","Step":1000,"Limit":{"maxLimitId":0,` +
				`"limitPolicy":"reject"},"Scramble":false}`},
		{method: post, target: appsTarget, status: 201,
			send: ` {"limitPolicy":"wrap","maxLimitId":9223372036854775807,"step":5,"scramble":true,` +
				`"description":"\u8ba2","name":"y","id":255} `,
			asked: `create {"ID":255,"Name":"y","Description":"订","Step":5,` +
				`"Limit":{"maxLimitId":9223372036854775807,"limitPolicy":"wrap"},"Scramble":true}`},
		{method: patch, target: appTarget, send: stepBody, body: app + effectJSON,
			asked: `change 7 {"Name":null,"Description":null,"Step":5,"MaxLimitID":null,"LimitPolicy":null,` +
				`"MinIndex":null,"Confirm":""}`},
		{method: patch, target: appTarget + "?confirm=%E8%AE%A2+%26",
			send: `{"limitPolicy":"wrap","maxLimitId":0,"name":"","description":"","minIndex":0}`,
			lax:  true,
			asked: `change 7 {"Name":"","Description":"","Step":null,"MaxLimitID":0,"LimitPolicy":"wrap",` +
				`"MinIndex":0,"Confirm":"订 &"}`},
		{method: del, target: appTarget + "?confirm=x", body: app + effectJSON, asked: `delete 7 "x"`},
		{target: tagsTarget, body: `{"code":0,"tags":[{` + tagJSON + `}]}`},
		{target: tagsTarget + "?limit=5&search=x", body: `{"code":0,"tags":[],"total":6}`},
		{target: tagTarget, body: tag + "}", asked: `show "a/b"`},
		{method: post, target: tagsTarget, send: `{"tag":"a/b"}`, status: 201, body: tag + newJSON},
		{method: post, target: tagsTarget, status: 201,
			send: `{"tag":"n","pattern":"{seq:4}","reset":"none","zone":"+01:00","overflow":"refuse"}`},
		{method: patch, target: tagTarget, send: `{"maxId":9,"step":1,"description":"d"}`, body: tag + effectJSON,
			asked: `change "a/b" {"Step":1,"Description":"d","MaxID":9}`},
		{method: del, target: tagTarget + "?confirm=a/b", body: tag + effectJSON, asked: `delete "a/b"`},
		{target: namesTarget, body: `{"code":0,"names":[{` + nameJSON + `}]}`},
		{target: nameTarget, body: `{"code":0,` + nameJSON + holdersJSON + "}",
			asked: `show "orders"; holders "orders" 1000`},
		{method: post, target: namesTarget, send: `{"name":"orders"}`, status: 201, body: newNameJSON + newJSON},
		{method: post, target: namesTarget,
			send: `{"hold":"1h","seqBits":2,"workerBits":22,"epoch":"5","name":"a.B_c-1"}`, status: 201},
		{method: patch, target: nameTarget, send: `{"hold":"90s"}`, asked: `change "orders" 90000000000`,
			body: `{"code":0,` + nameJSON + `,"effective":"for leases that are granted or renewed from now on"}`},
		{method: del, target: nameTarget + "?confirm=orders", body: newNameJSON + newJSON, asked: `delete "orders"`},
		{target: spacesTarget, body: `{"code":0,"spaces":[{` + spaceUseJSON + `}]}`},
		{target: spaceTarget, body: `{"code":0,` + spaceUseJSON + "}", asked: `show "chat"`},
		{method: post, target: spacesTarget, send: `{"space":"chat"}`, status: 201, body: newSpaceJSON},
		{method: post, target: spacesTarget, send: `{"step":1000000,"sections":16384,"space":"a.B_c-1"}`, status: 201,
			asked: `create {"Name":"a.B_c-1","Sections":16384,"Step":1000000}`},
		{method: patch, target: spaceTarget, send: stepBody, body: newSpaceJSON, asked: `change "chat" 5`},
		{method: del, target: spaceTarget + "?confirm=chat", body: newSpaceJSON, asked: `delete "chat"`},
		{target: logTarget, body: `{"code":0,"level":"info"` + levels},
		{method: patch, target: logTarget, send: `{"level":"debug"}`, body: `{"code":0,"level":"debug"` + levels},
	}
}

// adminExchanges are each operation with each answer.
func adminExchanges() []exchange {
	var all []exchange
	for _, x := range operations() {
		x.status, x.token, x.admin = max(x.status, 200), adminSecret, &fakeAdmin{}
		all = append(all, x)
		if x.body == "" { // another of its kind has one
			continue
		}
		x.body, x.asked, x.admin = "", "", nil
		denied := x // adminAccess has the other tokens
		denied.name, denied.token, denied.status, denied.code = "a token for IDs", "orders", 403, -7
		denied.admin = &fakeAdmin{}
		all = append(all, denied)
		closed := x // without administration there is no such path
		closed.change = func(o *Options) { o.Access = closedGuard() }
		closed.name, closed.status, closed.code, closed.says = "no administration", 404, -10, "no such path"
		all = append(all, closed)
		if x.target == logTarget {
			continue // it asks no store
		}
		away := x
		away.name, away.admin = "away", &fakeAdmin{err: storeAway()}
		away.status, away.code, away.says = 503, -1, "connection refused"
		all = append(all, away)
	}
	for err, code := range map[error]int{
		errFault: -11, model.ErrInvalidArgument: -6, model.ErrUnknownApp: -2, model.ErrUnknownTag: -2,
		model.ErrUnknownName: -2, model.ErrUnknownSpace: -2, model.ErrRefused: -13, model.ErrLayoutChanged: -13,
		model.ErrExists: -13,
	} {
		x := exchange{name: err.Error(), method: http.MethodPatch, target: tagTarget, send: stepBody,
			token: adminSecret, admin: &fakeAdmin{err: wrap(err)}, code: code, says: err.Error()}
		x.status = map[int]int{-11: 500, -6: 400, -2: 404, -13: 409}[code]
		if code == -11 {
			x.says = internalError
		}
		all = append(all, x)
	}
	return append(all, badAdminRequests()...)
}

// badAdminRequests never reach the store.
func badAdminRequests() (all []exchange) {
	add := func(method, target, says string, bodies ...string) {
		for _, body := range bodies {
			all = append(all, exchange{name: "400 " + says, method: method, target: target, send: body,
				token: adminSecret, admin: &fakeAdmin{}, status: 400, code: -6, says: says})
		}
	}
	const post, patch, del, get = http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodGet
	add(post, appsTarget, "send one JSON object with some of id, name", "", "[]", "null")
	add(post, appsTarget, "give `id`: it is missing", `{"name":"x"}`)
	add(post, appsTarget, `unknown field "ID"`, `{"id":7,"name":"x","ID":8}`)
	add(post, appsTarget, "`name` must be a string, not 7", `{"id":7,"name":7}`)
	for _, c := range []struct{ target, first, field, says, values string }{
		{appsTarget, `"name":"x"`, "id", "a whole number in 0…255", `256 -1 "7" 7.0 1e1 null true`},
		{appsTarget, `"id":7,"name":"x"`, "limitPolicy", "reject or wrap", `"Wrap"`},
		{appsTarget, `"id":7,"name":"x"`, "scramble", "true or false", `"true"`},
		{namesTarget, `"name":"x"`, "hold", "a duration in 5s…1h such as 60s",
			`60 "60" "4999ms" "3601s" "6000.5ms" null ""`},
		{namesTarget, `"name":"x"`, "epoch", "a time in Unix milliseconds, such as 1288834974657",
			`-1 1.5 1e3 "-1" "+1" "1e3" "2010-11-04" "" null true 9223372036854775808 "9223372036854775808"`},
	} {
		for value := range strings.SplitSeq(c.values, " ") {
			add(post, c.target, "`"+c.field+"` must be "+c.says, fmt.Sprintf(`{%s,"%s":%s}`, c.first, c.field, value))
		}
	}
	add(patch, appTarget, "unknown field", `{"id":8}`)
	add(patch, appTarget, "give some of `name`, `description`, `step`, `maxLimitId`, "+
		"`limitPolicy`, `minIndex`: nothing is to be changed", `{}`)
	add(patch, appTarget+"?confirm=%zz", "percent-encode confirm", stepBody)
	add(patch, appTarget+"?confirm=a&confirm=a", "give confirm once", stepBody)
	add(get, "/admin/apps/+7", "`id` must be", "")
	add(get, appsTarget+"/", "`id` must be", "")
	add(patch, "/admin/tags/%ff", "encode the tag in UTF-8", stepBody)
	for _, target := range []string{appTarget, tagTarget, nameTarget, spaceTarget} {
		add(del, target, "confirm the deletion with the name of the ", "")
		if target != appTarget { // whose name is compared in the store
			add(del, target+"?confirm=Orders", "confirm the deletion with the name of the ", "")
		}
	}
	add(patch, nameTarget, "give `hold`: it is missing", `{}`)
	add(patch, nameTarget, "unknown field", `{"workerBits":10}`)
	add(get, namesTarget+"/a%2Fb", "`name` must have 1…64 letters, digits, dots, hyphens and underscores", "")
	add(get, spacesTarget+"/a%20b", "`space` must have 1…64 letters, digits, dots, hyphens and underscores", "")
	add(patch, logTarget, "JSON object with some of level", "debug")
	add(patch, logTarget, "level must be one of debug, info, warn, error", `{}`, `{"level":"DEBUG"}`,
		`{"level":"info+2"}`, `{"level":7}`)
	all = append(all, exchange{name: "the replicas' own name", method: post, target: namesTarget,
		send: `{"name":"shardid"}`, token: adminSecret, admin: &fakeAdmin{}, status: 409, code: -13,
		says: "choose another name: refused: "})
	for _, request := range []string{"DELETE " + appsTarget, "POST " + appTarget, "PUT " + tagTarget,
		"DELETE " + logTarget} {
		method, target, _ := strings.Cut(request, " ")
		all = append(all, exchange{name: "405", method: method, target: target, token: adminSecret,
			admin: &fakeAdmin{}, status: 405, code: -10})
	}
	for _, target := range []string{appTarget + "/8", tagsTarget + "/a/b"} {
		all = append(all, exchange{name: "404", target: target, token: adminSecret,
			admin: &fakeAdmin{}, status: 404, code: -10, says: "no such path"})
	}
	return all
}

// The log has who asks, from where, and in which request.
func TestAdminActor(t *testing.T) {
	for _, x := range []exchange{
		{method: "POST", target: tagsTarget, send: `{"tag":"a/b"}`,
			says: `who=admin action=tag.create target="tag a/b" remote=192.0.2.1:1234 request_id=r-1`},
		{method: "PATCH", target: logTarget, send: `{"level":"debug"}`,
			says: `"log level changed" level=debug by=admin request_id=r-1`},
	} {
		f := &fakeAdmin{}
		x.token, x.header, x.admin = adminSecret, []string{requestIDHeader, "r-1"}, f
		check.Equal(t, x.do().Code < 300, true, x.target)
		check.Has(t, f.log.String(), x.says)
	}
}

// A command is served without a token, in its own name.
func TestNewAdministration(t *testing.T) {
	f := &fakeAdmin{}
	api := NewAdministration(f.resources(), slog.New(slog.DiscardHandler))
	deleted := askAs(api, "DELETE", appTarget+"?confirm=x", OperatorHeader, "cli:alice")
	wantAnswer(t, deleted, 200, `{"code":0,`+ordersJSON+effectJSON)
	check.Has(t, f.log.String(), `who=cli:alice action=app.delete target="app 7" `)
	wantAnswer(t, ask(api, "GET", "/admin/apps/256"), 400,
		"{\"code\":-6,\"message\":\"`id` must be a whole number in 0…255, not \\\"256\\\"\"}")
}

// TestOneProfileAtATime refuses a profile of CPU time, and a trace, while another is made.
func TestOneProfileAtATime(t *testing.T) {
	profiling.Lock()
	defer profiling.Unlock()
	for _, name := range []string{"profile", "trace"} {
		x := exchange{target: "/admin/pprof/" + name + "?seconds=1", token: adminSecret, admin: &fakeAdmin{}}
		wantAnswer(t, x.do().ResponseRecorder, 429,
			`{"code":-12,"message":"try again: too many requests: another profile or trace is being made"}`)
	}
}
