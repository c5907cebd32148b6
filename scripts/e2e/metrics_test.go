//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// deployed is a file of the folder deploy.
func deployed(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// alertRule is one rule of alerts.yml.
type alertRule struct {
	Alert       string
	Expr        string
	For         string
	Labels      struct{ Severity string }
	Annotations struct{ Summary, Description, Runbook string }
}

func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	if err := yaml.UnmarshalWithOptions(deployed(t, "prometheus/alerts.yml"), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// Each alert says what it means, what to do, how soon, and where more is told.
func TestAlertsAreComplete(t *testing.T) {
	rules, seen := alertRules(t), map[string]bool{}
	for _, r := range rules {
		anchor := "docs/operations.md#" + strings.ToLower(r.Alert)
		switch {
		case !regexp.MustCompile(`^Shardid[A-Z][A-Za-z]+$`).MatchString(r.Alert) || seen[r.Alert]:
			t.Errorf("%q is no name, or comes twice", r.Alert)
		case !slices.Contains([]string{"critical", "warning", "info"}, r.Labels.Severity):
			t.Errorf("%s: severity %q", r.Alert, r.Labels.Severity)
		case len(r.Annotations.Summary) < 15 || len(r.Annotations.Description) < 15 || r.Annotations.Runbook != anchor:
			t.Errorf("%s: %+v", r.Alert, r.Annotations)
		}
		seen[r.Alert] = true
		if _, err := time.ParseDuration(r.For); err != nil && r.For != "" {
			t.Errorf("%s: %v", r.Alert, err)
		}
	}
	if len(rules) < 25 {
		t.Errorf("%d alerts", len(rules))
	}
}

// The alarms of a replica and the alerts have the same names and severities; only what a
// replica cannot see of itself has an alert alone.
func TestAlarmsAreAlerts(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "service", "monitor", "alarms.go"))
	if err != nil {
		t.Fatal(err)
	}
	alarms := map[string]string{}
	for _, m := range regexp.MustCompile(`(Critical|Warning|Info), "(Shardid\w+)"`).FindAllStringSubmatch(string(raw), -1) {
		alarms[m[2]] = strings.ToLower(m[1])
	}
	for _, r := range alertRules(t) {
		severity, ok := alarms[r.Alert]
		if alone := slices.Contains([]string{"ShardidDown", "ShardidNotScraped", "ShardidSlow"}, r.Alert); ok == alone || ok && severity != r.Labels.Severity {
			t.Errorf("%s: alert %s, alarm %q", r.Alert, r.Labels.Severity, severity)
		}
		delete(alarms, r.Alert)
	}
	for name := range alarms {
		t.Errorf("no alert is called %s", name)
	}
}

func TestPrometheusSample(t *testing.T) {
	var file struct {
		Global struct {
			ScrapeInterval     string `yaml:"scrape_interval"`
			EvaluationInterval string `yaml:"evaluation_interval"`
		}
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			MetricsPath   string `yaml:"metrics_path"`
			StaticConfigs []struct {
				Targets []string
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.UnmarshalWithOptions(deployed(t, "prometheus/prometheus.yml"), &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if s := file.ScrapeConfigs; len(s) != 1 || s[0].JobName != "shardid" || s[0].MetricsPath != "/metrics" || len(s[0].StaticConfigs) != 1 {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(file.RuleFiles, []string{"alerts.yml"}) {
		t.Errorf("rules: %v", file.RuleFiles)
	}
}

// dashboard is what a test needs to know of the one for Grafana.
type dashboard struct {
	Title      string
	UID        string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal(deployed(t, "grafana/shardid.json"), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboardIsComplete(t *testing.T) {
	d := readDashboard(t)
	var rows []string
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else if len(p.Targets) == 0 || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H < 3 {
			t.Errorf("panel %+v", p)
		}
		if ids[p.ID] {
			t.Errorf("ID %d comes twice", p.ID)
		}
		ids[p.ID] = true
	}
	if want := []string{"Traffic", "Queue", "Segment", "Snowflake", "UID", "Stores", "Process"}; !slices.Equal(rows, want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
	v := d.Templating.List
	if len(v) != 2 || v[0].Name != "datasource" || v[1].Name != "instance" {
		t.Errorf("variables %+v", v)
	}
}

// Whatever the alerts and the dashboard look at is what a replica with every mode
// exports: each metric, and each label of it.
func TestExpressionsNameWhatIsExported(t *testing.T) {
	story(t)
	d := serve(t, nil, "--demo", "--resp.addr", "127.0.0.1:0")
	eventually(t, startLimit, "every mode serves", func() bool {
		ok := true
		for _, target := range []string{"/get?appId=1&gatePass=alice", "/api/segment/get/leaf-segment-test", "/api/snowflake/get/x", "/api/uid/get"} {
			ok = d.get(target).status == 200 && ok
		}
		return ok
	})
	exported := exportedBy(d.want("/metrics", 200, 0).body)
	if len(exported) < 60 {
		t.Fatalf("%d metrics", len(exported))
	}
	for _, r := range alertRules(t) {
		exported.check(t, r.Alert, r.Expr, r.Annotations.Summary+r.Annotations.Description)
	}
	dash := readDashboard(t)
	for _, p := range dash.Panels {
		for _, target := range p.Targets {
			exported.check(t, p.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, v := range dash.Templating.List {
		exported.check(t, v.Name, strings.TrimSuffix(strings.TrimPrefix(v.Definition, "label_values("), ")"), "")
	}
}

// metricLabels are the labels of each metric.
type metricLabels map[string]map[string]bool

func exportedBy(body string) metricLabels {
	all := metricLabels{"up": {}}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? `).FindAllStringSubmatch(body, -1) {
		if all[m[1]] == nil {
			all[m[1]] = map[string]bool{}
		}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			all[m[1]][label[1]] = true
		}
	}
	for _, labels := range all { // Prometheus adds these
		labels["job"], labels["instance"] = true, true
	}
	return all
}

// token is an identifier, with what tells its kind: the bracket it is in, and whether
// one follows.
var (
	promQuoted    = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	promRanges    = regexp.MustCompile(`\[[^\]]*\]`)
	promSelectors = regexp.MustCompile(`(\w+)\s*\{([^}]*)\}`)
	promGrouping  = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	promWords     = regexp.MustCompile(`\b[a-zA-Z_]\w*\b(\s*\()?`)
)

// problems are the names in an expression, and in the text that shows its labels, that
// nothing exported has.
func (all metricLabels) problems(expr, text string) (wrong []string) {
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		wrong = append(wrong, "unbalanced brackets")
	}
	expr = promRanges.ReplaceAllString(promQuoted.ReplaceAllString(expr, ""), "")
	used := map[string]bool{} // labels of all metrics of the expression
	for _, s := range promSelectors.FindAllStringSubmatch(expr, -1) {
		for _, word := range promWords.FindAllString(s[2], -1) {
			if !all[s[1]][word] {
				wrong = append(wrong, s[1]+"{"+word+"}")
			}
		}
	}
	expr = promSelectors.ReplaceAllString(expr, "$1")
	groups := promGrouping.FindAllStringSubmatch(expr, -1)
	for _, word := range promWords.FindAllString(promGrouping.ReplaceAllString(expr, " "), -1) {
		labels, ok := all[word]
		switch {
		case ok:
			for label := range labels {
				used[label] = true
			}
		case strings.HasSuffix(word, "("):
			if !slices.Contains(functions(), strings.TrimRight(word, " (")) {
				wrong = append(wrong, word)
			}
		case !slices.Contains(operators(), word):
			wrong = append(wrong, word)
		}
	}
	for _, g := range groups {
		for _, label := range promWords.FindAllString(g[1], -1) {
			if !used[label] {
				wrong = append(wrong, "by "+label)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\$labels\.(\w+)|\{\{(\w+)\}\}`).FindAllStringSubmatch(text, -1) {
		if label := m[1] + m[2]; !used[label] {
			wrong = append(wrong, "label "+label)
		}
	}
	return wrong
}

func (all metricLabels) check(t *testing.T, what, expr, text string) {
	t.Helper()
	for _, p := range all.problems(expr, text) {
		t.Errorf("%s: nothing exports %s: %s", what, p, expr)
	}
}

// functions and operators are those of PromQL that are in use.
func functions() []string {
	return []string{"abs", "absent", "count", "histogram_quantile", "increase", "max", "min", "rate", "sum", "vector", "or", "and", "unless"}
}

func operators() []string {
	return []string{"or", "and", "unless", "sum", "min", "max", "count", "instance"} // instance: of label_values
}

// The check finds what it is there to find.
func TestExpressionsThatAreWrong(t *testing.T) {
	all := exportedBy("a_total{mode=\"queue\"} 1\nb 2\nc_bucket{le=\"1\",x=\"y\"} 3\n")
	for _, c := range []struct{ expr, text, wrong string }{
		{`sum by (mode) (rate(a_total{mode=~"queue|x", job="a"}[5m])) > 0`, "{{ $labels.mode }} {{mode}}", ""},
		{`(b > 1) unless on (instance) (a_total == 0) or vector(0)`, "{{ $labels.instance }}", ""},
		{`histogram_quantile(0.99, sum by (x, le) (rate(c_bucket[$__rate_interval]))) / 2`, "", ""},
		{`a_totals > 0`, "", "a_totals"},
		{`rate(a_total{code="1"}[5m])`, "", "a_total{code}"},
		{`sum by (app) (b)`, "", "by app"},
		{`deriv(b[5m])`, "", "deriv("},
		{`sum(b`, "", "unbalanced brackets"},
		{`b`, "{{ $labels.mode }}", "label mode"},
		{`c_bucket`, "{{mode}}", "label mode"},
	} {
		if got := fmt.Sprint(all.problems(c.expr, c.text)); got != "["+c.wrong+"]" {
			t.Errorf("%s: %s, want [%s]", c.expr, got, c.wrong)
		}
	}
}
