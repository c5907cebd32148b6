//go:build unix

package e2e_test

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
)

// TestE2ESequencesAdmin: an operator adds, lists, changes and deletes spaces of sequences over HTTP
// and by commands. One that was deleted comes back once no replica gives its numbers any more, and
// goes on above them.
func TestE2ESequencesAdmin(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	d := serveIn(t, dir, settings{"SERVER_ADMIN_TOKEN": adminToken})
	d.ready()
	d.commands(dir, nil, try{"sequences", 0, `^there is no space of sequences: shardid sequences add --space chat\n$`, ""})
	d.addSpaces(dir)
	d.listSpaces(dir)
	if first := d.room42(); first != 1 {
		t.Errorf("the first number is %d", first)
	}
	d.commands(dir, nil, try{"sequences", 0, `\nchat +8 +10000 +1 of 8 +10000\n`, ""})
	d.changeSpaces(dir)
	d.deleteSpaces(dir)
	for action, lines := range map[string]int{"create": 2, "change": 1, "delete": 1} {
		if got := d.Lines(`"msg":"audit"`, `"action":"space.`+action+`"`, `"outcome":"done"`); len(got) != lines {
			t.Errorf("%d audit lines of space.%s, want %d: %q", len(got), action, lines, got)
		}
	}
	if got := d.Lines(`"action":"space.change"`, `"target":"space chat"`, `"before":{"sections":8,"step":10000},"after":{"sections":8,"step":20000},"outcome":"done"`); len(got) != 1 {
		t.Errorf("the change has the audit lines %q", got)
	}
}

func (d *daemon) addSpaces(dir string) {
	d.t.Helper()
	if a := d.wantAdmin(201, "POST", "/admin/sequences", `{"space":"chat","sections":8}`); a.body != `{"code":0,"space":"chat","sections":8,"step":10000,"effective":"on every replica within 3 s"}` {
		d.t.Errorf("%s", a.body)
	}
	for body, want := range map[string]string{
		`{"space":"chat","sections":8}`:                "space is already provisioned",
		`{"space":"chat","sections":9,"step":1}`:       "space is already provisioned",
		`{"space":"a/b"}`:                              "letters, digits, dots, hyphens and underscores",
		`{"space":"` + strings.Repeat("x", 65) + `"}`:  "1…64",
		`{"space":""}`:                                 "1…64",
		`{"space":"x","sections":0}`:                   "sections must be a whole number in 1…16384",
		`{"space":"x","sections":16385}`:               "sections must be a whole number in 1…16384",
		`{"space":"x","step":1000001}`:                 "step must be a whole number in 1…1000000",
		`{"space":"x","step":"5"}`:                     "step must be",
		`{"space":"x","Sections":8}`:                   "unknown field",
		`{"sections":8}`:                               "space is missing",
		`{"space":"x","keys":["room42"],"sections":8}`: "unknown field",
	} {
		if a := d.administer("POST", "/admin/sequences", body); a.status != 400 && a.status != 409 || !strings.Contains(a.Message, want) {
			d.t.Errorf("%s: %d %s, want %q", body, a.status, a.body, want)
		}
	}
	d.commands(dir, nil, []try{
		{"sequences add --space feed --sections 16384 --step 1000000", 0, `^space feed has a sequence for each key, on every replica within 3 s: curl -X POST 'http\S+/v1/sequence/feed/ids\?key=room42'\n$`, ""},
		{"sequences add --space feed", 1, `^$`, "space is already provisioned"},
		{"sequences add --if-missing --space chat --sections 8", 0, `^space chat is there, nothing was changed\n$`, ""},
		{"sequences add --if-missing --space chat", 1, `^$`, "it has 8 sections, not 1024"},
		{"sequences add --if-missing --space chat --sections 8 --step 7", 1, `^$`, "its step is 10000, not 7"},
		{"sequences add --space a/b", 2, `^$`, "letters, digits, dots, hyphens and underscores"},
		{"sequences add --space x --sections 0", 2, `^$`, "0 sections are not 1…16384"},
		{"sequences add --space x --sections 16385", 2, `^$`, "16385 sections are not 1…16384"},
		{"sequences add --space x --step 0", 2, `^$`, "step 0 is not in 1…1000000"},
		{"sequences add --space x --step many", 2, `^$`, "many"},
		{"sequences add --space x y", 2, `^$`, `"y"`},
		{"sequences add", 2, `^$`, `required flag(s) "space"`},
	}...)
}

func (d *daemon) listSpaces(dir string) {
	d.t.Helper()
	const chat = `{"space":"chat","sections":8,"step":10000,"used":0,"highest":0}`
	const all = `[` + chat + `,{"space":"feed","sections":16384,"step":1000000,"used":0,"highest":0}]`
	if a := d.wantAdmin(200, "GET", "/admin/sequences", ""); a.body != `{"code":0,"spaces":`+all+`}` {
		d.t.Errorf("%s", a.body)
	}
	if a := d.wantAdmin(200, "GET", "/admin/sequences/chat", ""); a.body != `{"code":0,`+chat[1:] {
		d.t.Errorf("%s", a.body)
	}
	if a := d.wantAdmin(404, "GET", "/admin/sequences/none", ""); a.Code != -2 {
		d.t.Errorf("%s", a.body)
	}
	if a := d.get("/api/sequences?limit=1"); a.body != `{"code":0,"spaces":[`+chat+`],"total":2,"next":"chat"}` {
		d.t.Errorf("%s", a.body)
	}
	d.commands(dir, nil, []try{
		{"sequences", 0, `^SPACE +SECTIONS +STEP +USED +HIGHEST\nchat +8 +10000 +0 of 8 +0\nfeed +16384 +1000000 +0 of 16384 +0\n$`, ""},
		{"sequences list --json", 0, `^` + regexp.QuoteMeta(all) + `\n$`, ""},
		{"sequences --json=false extra", 2, `^$`, "extra"},
	}...)
}

// changeSpaces: a step changes, the number of sections never does.
func (d *daemon) changeSpaces(dir string) {
	d.t.Helper()
	if a := d.wantAdmin(200, "PATCH", "/admin/sequences/chat", `{"step":20000}`); !strings.Contains(a.body, `"sections":8,"step":20000,"effective":"on every replica within 3 s"}`) {
		d.t.Errorf("%s", a.body)
	}
	d.wantAdmin(400, "PATCH", "/admin/sequences/chat", `{"sections":9}`)
	d.wantAdmin(400, "PATCH", "/admin/sequences/chat", `{"step":0}`)
	d.wantAdmin(404, "PATCH", "/admin/sequences/none", `{"step":1}`)
	d.commands(dir, nil, []try{
		{"sequences set --space feed --step 10", 0, `^space feed takes 10 numbers at once, on every replica within 3 s\n$`, ""},
		{"sequences set --space feed --step 0", 2, `^$`, "step 0 is not in 1…1000000"},
		{"sequences set --space feed", 2, `^$`, `required flag(s) "step"`},
		{"sequences set --space none --step 10", 1, `^$`, "space is not provisioned"},
		{"sequences set --space feed --sections 10", 2, `^$`, "--sections"},
	}...)
}

// deleteSpaces: the name must be given twice. A space that comes back may have other sections.
func (d *daemon) deleteSpaces(dir string) {
	d.t.Helper()
	d.wantAdmin(400, "DELETE", "/admin/sequences/chat", "")
	d.wantAdmin(400, "DELETE", "/admin/sequences/chat?confirm=Chat", "")
	d.wantAdmin(404, "DELETE", "/admin/sequences/none?confirm=none", "")
	d.commands(dir, nil, []try{
		{"sequences delete --space chat --confirm feed", 2, `^$`, `confirm the deletion with the space's name, which is "chat"`},
		{"sequences delete --space chat", 2, `^$`, `required flag(s) "confirm"`},
		{"sequences delete --space feed --confirm feed", 0, `^space feed is deleted, on every replica within 3 s; should it come back, all of its sequences go on above its numbers\n$`, ""},
		{"sequences delete --space feed --confirm feed", 1, `^$`, "space is not provisioned"},
	}...)
	d.wantAdmin(200, "DELETE", "/admin/sequences/chat?confirm=chat", "")
	d.wantAdmin(404, "GET", "/admin/sequences/chat", "")
	d.wantAdmin(409, "POST", "/admin/sequences", `{"space":"chat","sections":8}`)
	eventually(d.t, time.Minute, "it comes back", func() bool {
		time.Sleep(time.Second)
		return d.administer("POST", "/admin/sequences", `{"space":"chat","sections":8}`).status == 201
	})
	if next := d.room42(); next <= 10_000 {
		d.t.Errorf("it goes on at %d, and may have given 10000 before", next)
	}
	d.commands(dir, nil, try{"sequences", 0, `^SPACE .*\nchat +8 +10000 +1 of 8 +\d{5}\n$`, ""})
}

// room42 gets the next number of a key, once the replica knows its space.
func (d *daemon) room42() int64 {
	d.t.Helper()
	text := ""
	const target = "/v1/sequence/chat/ids?key=room42"
	eventually(d.t, startLimit, target, func() bool {
		a := d.get(target)
		return a.status == 200 && len(a.IDs) == 1 && json.Unmarshal(a.IDs[0], &text) == nil
	})
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		d.t.Errorf("%s: %v", target, err)
	}
	return number
}

// TestE2EDemoSpace: serve --demo has a space of sequences that gives numbers, and adds none to a
// database that has one.
func TestE2EDemoSpace(t *testing.T) {
	check.Deep(t)
	story(t)
	dir := t.TempDir()
	must := func(want string, d *daemon) {
		t.Helper()
		d.ready()
		if a := d.get("/api/sequences"); !strings.HasPrefix(a.body, `{"code":0,"spaces":[{"space":"`+want+`","sections":`) || strings.Count(a.body, `"space":`) != 1 {
			t.Errorf("%s, want %s", a.body, want)
		}
	}
	d := serveIn(t, dir, nil, "--demo")
	must("chat", d)
	if first := d.room42(); first != 1 {
		t.Errorf("the first number is %d", first)
	}
	d.stops(syscall.SIGTERM, startLimit)
	must("chat", serveIn(t, dir, nil, "--demo"))
	other := t.TempDir()
	if o := shardidIn(t, other, nil, "sequences", "add", "--space", "feed"); o.exit != 0 {
		t.Fatalf("%+v", o)
	}
	must("feed", serveIn(t, other, nil, "--demo"))
}
