package main

import (
	"slices"
	"strings"
	"testing"

	"shardid/model"
)

func TestParseApps(t *testing.T) {
	got, err := parseApps("apps.yaml", []byte(`# as the chart writes it
- id: 0
  name: "7"
- {id: 255, name: 订单, description: d, step: 5000, maxLimitId: 4294967295, limitPolicy: wrap}
- {name: invoices, id: 8, scramble: true}
`))
	none := model.Limit{Policy: model.LimitReject}
	want := []model.App{
		{ID: 0, Name: "7", Step: 1000, Limit: none},
		{ID: 255, Name: "订单", Description: "d", Step: 5000, Limit: model.Limit{MaxID: 4294967295, Policy: model.LimitWrap}},
		{ID: 8, Name: "invoices", Step: 1000, Limit: none, Scramble: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestParseAppsRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                       "apps.yaml:1: is no list of apps: write each as - {id: 1, name: orders}",
		"[]":                                     "is no list of apps",
		"id: 1":                                  "is no list of apps",
		"- 7":                                    "apps.yaml:1: is no app",
		"- &a {id: 1}\n- *a":                     "name: is missing",
		"- {name: a}":                            "id: is missing",
		"\n- {id: 1}":                            "apps.yaml:2: name: is missing: every app has an id and a name",
		"- {id: 256, name: a}":                   "id: has a value of another kind: id is 0…255",
		"- {id: ~, name: a}":                     "id: has a value of another kind",
		"- {id: 1, name: 1.5}":                   "name: has a value of another kind",
		"- {id: 1, name: [a]}":                   "name: has a value of another kind",
		"- {id: 1, name: a, step: 1.5}":          "step: has a value of another kind",
		"- {id: 1, name: a, step: 0}":            "apps.yaml:1: app 1: invalid argument: step 0",
		"- {id: 1, name: a, limitPolicy: wrp}":   "limit policy",
		"- {id: 1, name: a, nme: b}":             `"nme" is no key of an app`,
		"- {id: 1, name: a, id: 2}":              `"id" is no key of an app, or is there twice`,
		"- {<<: {id: 1}, name: a}":               "is no key of an app",
		"- {id: 1, name: \"a\\u001b[31m\"}":      "control character",
		"- {id: 1, name: a}\n- {id: 1, name: b}": "apps.yaml:2: id: app 1 is there twice: keep one",
		"- {id: 1, name: a}\n---\n- {id: 2, name: b}":      "begins a second document",
		"- {id: 1, name: a, scramble: true, maxLimitId: 5": "is not YAML",
	} {
		if apps, err := parseApps("apps.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %+v, %v, want %q", text, apps, err, says)
		}
	}
}

// FuzzParseApps: what is taken can be provisioned, each app once, and an error is one line.
func FuzzParseApps(f *testing.F) {
	for _, text := range []string{
		"- {id: 1, name: a, step: 5, maxLimitId: 7, limitPolicy: wrap, scramble: false, description: d}\n- {id: 0x2, name: '1'}",
		"- id: 1\n  name: |\n    a\n", "- &a {id: 1}\n- *a", "- {id: !!int '1', name: !!binary YQ==}", "- {? [a] : b}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		apps, err := parseApps("f.yaml", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		seen := map[uint8]bool{}
		for _, app := range apps {
			if err := app.Validate(); err != nil || seen[app.ID] {
				t.Errorf("%+v, %v", app, err)
			}
			seen[app.ID] = true
		}
		if len(apps) == 0 {
			t.Error("no app and no error")
		}
	})
}
