package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"shardid/model"
)

const (
	spacesTarget  = "/admin/sequences"
	spaceTarget   = "/admin/sequences/chat"
	newSpaceBody  = `{"space":"chat"}`
	newStepBody   = `{"step":5}`
	spaceFields   = `"space":"chat","sections":1024,"step":10000`
	spaceUseJSON  = spaceFields + `,"used":3,"highest":9007199254740991`
	newSpaceJSON  = `{"code":0,` + spaceFields + `,"effective":"on every replica within 3 s"}`
	spaceNameSays = "a space has 1…64 letters, digits, dots, hyphens and underscores"
)

// chat is a space of which three sections have given numbers, one the highest there is.
var chat = model.SpaceUse{
	Space: model.Space{Name: "chat", Sections: model.DefaultSections, Step: model.DefaultSequenceStep},
	Used:  3, Highest: model.MaxSequence,
}

func (f *fakeAdmin) Spaces(context.Context) ([]model.SpaceUse, error) {
	return []model.SpaceUse{chat}, f.err
}

func (f *fakeAdmin) Space(_ context.Context, name string) (model.SpaceUse, error) {
	f.note("show %q", name)
	return chat, f.err
}

func (f *fakeAdmin) CreateSpace(_ context.Context, space model.Space) (model.Space, error) {
	f.note("create %+v", space)
	return chat.Space, f.err
}

func (f *fakeAdmin) ChangeSpace(_ context.Context, name string, step int64) (before, after model.Space, err error) {
	f.note("change %q to %d", name, step)
	return chat.Space, chat.Space, f.err
}

func (f *fakeAdmin) DeleteSpace(_ context.Context, name string) (model.Space, error) {
	f.note("delete %q", name)
	return chat.Space, f.err
}

func spaceOperations() []operation {
	return []operation{
		{"GET", spacesTarget, "", 200, `{"code":0,"spaces":[{` + spaceUseJSON + `}]}`},
		{"POST", spacesTarget, newSpaceBody, 201, newSpaceJSON},
		{"GET", spaceTarget, "", 200, `{"code":0,` + spaceUseJSON + "}"},
		{"PATCH", spaceTarget, newStepBody, 200, newSpaceJSON},
		{"DELETE", spaceTarget + "?confirm=chat", "", 200, newSpaceJSON},
	}
}

// badSpaceRequests never reach the store.
func badSpaceRequests() (all []exchange) {
	add := badRequests(&all)
	add("POST", spacesTarget, "space is missing", `{"step":60}`)
	add("POST", spacesTarget, "must be a JSON object with some of space, sections, step", "", "[]")
	add("POST", spacesTarget, "space must be a string, not 7", `{"space":7}`)
	for field, says := range map[string]string{
		`"space":"x"`: "space is given twice", `"Step":10`: "unknown field", `"name":"x"`: "unknown field",
		`"sections":0`: "sections must be a whole number in 1…16384, not 0", `"sections":16385`: "sections must be", `"sections":"8"`: "sections must be",
		`"step":0`: "step must be a whole number in 1…1000000, not 0", `"step":1000001`: "step must be", `"step":1.5`: "step must be", `"step":null`: "step must be",
	} {
		add("POST", spacesTarget, says, `{"space":"chat",`+field+`}`)
	}
	add("PATCH", spaceTarget, "step is missing", `{}`)
	add("PATCH", spaceTarget, "unknown field", `{"sections":10}`)
	add("PATCH", spaceTarget, "step must be", `{"step":-1}`)
	for _, name := range []string{"a%20b", "%E8%AE%A2", "..%2F", "a%2Fb"} {
		add("GET", spacesTarget+"/"+name, spaceNameSays, "")
	}
	add("DELETE", spaceTarget, "confirm is missing, nothing was done: DELETE /admin/sequences/chat?confirm=NAME", "")
	return all
}

// spacePageExchanges provoke each status of the page about spaces.
func spacePageExchanges() []exchange {
	broken := func(err error) func(*Options) { return func(o *Options) { o.Spaces = (&fakeAdmin{err: err}).Spaces } }
	return []exchange{
		{name: "spaces", target: "/api/sequences", status: 200},
		{name: "spaces, those that follow", target: "/api/sequences?after=chat&limit=1&search=CH", status: 200},
		{name: "spaces, too many", target: "/api/sequences?limit=5001", status: 400, code: -6},
		{name: "spaces, POST", method: http.MethodPost, target: "/api/sequences", status: 405},
		{name: "spaces, away", target: "/api/sequences", change: broken(storeAway()), status: 503, code: -1},
		{name: "spaces, broken", target: "/api/sequences", change: broken(errors.New("secret")), status: 500, code: -11},
	}
}

// Spaces are in the order of their bytes, in windows.
func TestSpacePages(t *testing.T) {
	api := newAPIOf(func(o *Options) {
		o.Spaces = func(context.Context) (all []model.SpaceUse, _ error) {
			for _, name := range []string{"feed", "a", "Z"} {
				use := chat
				use.Name = name
				all = append(all, use)
			}
			return all, nil
		}
	})
	page := func(total string, names ...string) string {
		for i, name := range names {
			names[i] = "{" + strings.Replace(spaceUseJSON, "chat", name, 1) + "}"
		}
		return `{"code":0,"spaces":[` + strings.Join(names, ",") + "]" + total + "}"
	}
	for target, want := range map[string]string{
		"/api/sequences":                 page("", "Z", "a", "feed"),
		"/api/sequences?limit=2":         page(`,"total":3,"next":"a"`, "Z", "a"),
		"/api/sequences?limit=2&after=a": page(`,"total":3`, "feed"),
		"/api/sequences?search=E":        page("", "feed"),
		"/api/sequences?search=x":        page(""),
	} {
		wantAnswer(t, ask(api, http.MethodGet, target), 200, want)
	}
}
