package httpapi

import (
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/service/queue"
	"shardid/service/segment"
	"shardid/service/uid"
	"shardid/service/worker"
)

// Every alarm links to a section of the runbook and has a title in Chinese, as conditions have a name,
// and every link between the pages of the documentation leads to a heading.
func TestDocumentationLinks(t *testing.T) {
	api := newAPI(&fakeQueue{})
	headings := map[string]map[string]bool{}
	pages := map[string]string{}
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
		pages[name], headings[name] = got.Body.String(), map[string]bool{"": true}
		for _, found := range regexp.MustCompile(`<(?:h\d|tr) id="([^"]+)"`).FindAllStringSubmatch(pages[name], -1) {
			headings[name][found[1]] = true
		}
	}
	links := 0
	for name, page := range pages {
		for _, found := range regexp.MustCompile(`href="([^":]*)"`).FindAllStringSubmatch(page, -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			anchor, err := url.PathUnescape(anchor)
			target, inDocs := strings.CutPrefix(path.Join("/docs", path.Dir(name), file), "/docs/")
			if file == "" {
				target, inDocs = name, true
			}
			if !inDocs {
				continue // of the page around the document
			}
			if links++; err != nil || !headings[target][anchor] {
				t.Errorf("%s links to %s, which is not there", name, found[1])
			}
		}
		for _, found := range regexp.MustCompile(`<img src="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if links++; manual()[path.Join(path.Dir(name), found[1])].body == nil {
				t.Errorf("%s has the picture %s, which is not there", name, found[1])
			}
		}
		if strings.Contains(page, `/deploy/`) {
			t.Errorf("%s links to what is not in the binary", name)
		}
	}
	rules, err := os.ReadFile("../monitor/alarms.go")
	check.Must(t, err)
	alarms, chinese := map[string]bool{}, string(consoleAssets()["zh.js"].body)
	for _, condition := range []string{
		queue.ConditionPop, queue.ConditionRefill, queue.ConditionReload, segment.ConditionLoad,
		segment.ConditionReload,
		worker.Condition, uid.Condition,
	} {
		if !strings.Contains(chinese, condition+": '") && !strings.Contains(chinese, "'"+condition+"': '") {
			t.Errorf("the condition %q has no name in zh.js", condition)
		}
	}
	for _, found := range regexp.MustCompile(`"(Shardid\w+)"`).FindAllStringSubmatch(string(rules), -1) {
		alarms[found[1]] = true
		for _, page := range []string{"operations.md", "zh/operations.md"} {
			if !headings[page][strings.ToLower(found[1])] {
				t.Errorf("%s has no section in %s", found[1], page)
			}
		}
		check.Has(t, chinese, found[1]+": ['", "zh.js")
	}
	script := string(consoleAssets()["health.js"].body)
	for _, found := range regexp.MustCompile(`'(Shardid\w+)'`).FindAllStringSubmatch(script, -1) {
		if !alarms[found[1]] {
			t.Errorf("the console knows %s, which is no alarm", found[1])
		}
	}
	if !headings["operations.md"]["when-something-fails"] || !headings["zh/operations.md"]["依赖出故障时会怎样"] ||
		!headings[""]["documentation"] ||
		links < 50 ||
		len(alarms) < 14 {
		t.Errorf("%d links, %d alarms", links, len(alarms))
	}
}
