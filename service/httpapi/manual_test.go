package httpapi

import (
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/sequence"
	"shardid/service/uid"
	"shardid/service/worker"
)

// Every page of the documentation is rendered, and the sections to which the console links are there: one for each
// alarm. Alarms and conditions have names in both languages.
func TestDocumentation(t *testing.T) {
	api := newAPI()
	sections := map[string]map[string]bool{}
	for name := range manual() {
		got := ask(api, http.MethodGet, "/docs/"+name)
		kind := "text/html; charset=utf-8"
		if path.Ext(name) == ".png" {
			kind = "image/png"
		}
		if got.Code != 200 || got.Header().Get("Content-Type") != kind {
			t.Errorf("%s: %d %v", name, got.Code, got.Header())
		}
		wantConsoleHeaders(t, name, got.Header())
		page := got.Body.String()
		check.Lacks(t, page, "/deploy/", name) // which is not in the binary
		sections[name] = map[string]bool{}
		for _, found := range regexp.MustCompile(`<(?:h\d|tr) id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
			sections[name][found[1]] = true
		}
		for _, found := range regexp.MustCompile(`<img src="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			check.Equal(t, manual()[path.Join(path.Dir(name), found[1])] != nil, true, name, "shows", found[1])
		}
	}
	const english, translated = "operations.md", "zh/operations.md"
	check.Equal(t, sections[english]["when-something-fails"] && sections[translated]["依赖出故障时会怎样"], true, "failures")
	rules, err := os.ReadFile("../monitor/alarms.go")
	check.Must(t, err)
	console := consoleAssets(t)
	alarms := map[string]bool{}
	for _, found := range regexp.MustCompile(`"(Shardid\w+)"`).FindAllStringSubmatch(string(rules), -1) {
		alarms[found[1]] = true
		section := strings.ToLower(found[1])
		check.Equal(t, sections[english][section] && sections[translated][section], true, "sections", found[1])
		for _, texts := range []string{"en.js", "zh.js"} {
			check.Has(t, console[texts], found[1]+": ['", texts)
		}
	}
	for _, found := range regexp.MustCompile(`'(Shardid\w+)'`).FindAllStringSubmatch(console["health.js"], -1) {
		check.Equal(t, alarms[found[1]], true, "the console knows", found[1])
	}
	for _, condition := range []string{queue.ConditionPop, queue.ConditionRefill, queue.ConditionReload,
		segment.ConditionLoad, segment.ConditionReload, worker.Condition, uid.Condition, sequence.Condition} {
		for _, texts := range []string{"en.js", "zh.js"} {
			if !regexp.MustCompile(`\b` + condition + `'?: '`).MatchString(console[texts]) {
				t.Errorf("the condition %q has no name in %s", condition, texts)
			}
		}
	}
}
