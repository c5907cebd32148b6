package httpapi

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"shardid/scripts/check"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestReferences keeps what docs and openapi.yaml have of the source.
func TestReferences(t *testing.T) {
	errors := errorReference(t)
	check.MadePart(t, "../../docs/http.md", "errors", errors)
	check.MadePart(t, "openapi.yaml", "errors", errors)
	check.Made(t, "../../docs/v1.md", routeReference(loadDocument(t)))
}

// errorReference is the public error table, each row of which is answered.
func errorReference(t *testing.T) string {
	t.Helper()
	answered := map[errorCode]bool{}
	for _, e := range apiErrors() {
		answered[e.errorCode] = true
	}
	table := "| code | HTTP | means | do |\n|---|---|---|---|\n"
	for _, e := range errorCodes {
		if !answered[e] {
			t.Errorf("nothing is answered with code %d, status %d", e.code, e.status)
		}
		later := ""
		if e.retry {
			later = " + `Retry-After`"
		}
		table += fmt.Sprintf("| %d | %d%s | %s | %s |\n", e.code, e.status, later, e.means, e.do)
	}
	return table
}

// routePage writes openapi.yaml as a page.
type routePage struct {
	strings.Builder
	shared map[string]string // answers of many routes, by name
	before map[string]string // lines about the path and their first methods
}

// routeReference is openapi.yaml as a page: by topic, then /v1, then by path.
func routeReference(doc *openapi3.T) string {
	p := &routePage{shared: map[string]string{}}
	p.WriteString("# Routes of HTTP\n\n" +
		"This page is `/openapi.yaml`, made from it: each path with its parameters and answers. [http.md](http.md) has what\n" +
		"holds for all of them and the [error codes](http.md#errors), [access.md](access.md) which take a token. An example is\n" +
		"one of several; where none is written down, … is any text and 1 any number.\n")
	for _, tag := range doc.Tags {
		fmt.Fprintf(p, "\n## %s%s\n", strings.ToUpper(tag.Description[:1]), tag.Description[1:])
		for _, path := range slices.SortedFunc(maps.Keys(doc.Paths.Map()), func(a, b string) int {
			return cmp.Compare(strings.Replace(a, "/v1/", "/ ", 1), strings.Replace(b, "/v1/", "/ ", 1))
		}) {
			p.path(tag.Name, path, doc.Paths.Value(path))
		}
	}
	p.WriteString("\n## Answers of many routes\n")
	for _, name := range slices.Sorted(maps.Keys(p.shared)) {
		fmt.Fprintf(p, "\n### %s\n\n%s\n", name, p.shared[name])
	}
	return p.String()
}

// path writes a path, if it is of the topic: what its methods have in common is written once.
func (p *routePage) path(tag, path string, item *openapi3.PathItem) {
	p.before = map[string]string{}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		op := item.GetOperation(method)
		if op == nil || op.Tags[0] != tag {
			continue
		}
		if len(p.before) == 0 {
			fmt.Fprintf(p, "\n### `%s`\n", path)
		}
		about := ""
		for _, text := range []string{op.Summary, op.Description} {
			if text != "" {
				about += " " + oneLine(text) + "."
			}
		}
		fmt.Fprintf(p, "\n**%s**%s\n", method, about)
		p.parameters(method, slices.Concat(item.Parameters, op.Parameters), op.RequestBody)
		p.answers(method, op.Responses)
	}
}

// fresh gives the lines that no method before has, and says where the others are.
func (p *routePage) fresh(method string, names, lines []string) (fresh []string, same string) {
	by := ""
	for i, line := range lines {
		switch first, known := p.before[line]; {
		case !known:
			p.before[line] = method
			fresh = append(fresh, line)
		case first == by:
			same += ", " + names[i]
		default:
			by = first
			same += "; as " + first + ": " + names[i]
		}
	}
	return fresh, strings.TrimPrefix(same, "; ")
}

// parameters writes those of path and query as a table, and those that only a body has.
func (p *routePage) parameters(method string, all openapi3.Parameters, body *openapi3.RequestBodyRef) {
	var names, lines, inBody []string
	add := func(name, in string, required bool, s *openapi3.Schema, about string) {
		must := map[bool]string{true: "yes"}[required]
		names = append(names, "`"+name+"`")
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", name, in, kind(s), must, check.Cell(cmp.Or(about, s.Description))))
	}
	for _, ref := range all {
		add(ref.Value.Name, ref.Value.In, ref.Value.Required, ref.Value.Schema.Value, ref.Value.Description)
	}
	if body != nil {
		schema := body.Value.Content.Get("application/json").Schema.Value
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if slices.Contains(names, "`"+name+"`") {
				inBody = append(inBody, "`"+name+"`")
				continue
			}
			add(name, "body", slices.Contains(schema.Required, name), schema.Properties[name].Value, "")
		}
	}
	fresh, same := p.fresh(method, names, lines)
	if len(fresh) > 0 {
		p.WriteString("\n| parameter | in | type | required | what it is |\n|---|---|---|---|---|\n" + strings.Join(fresh, ""))
	}
	if same != "" {
		p.WriteString("\nParameters " + same + "\n")
	}
	switch {
	case len(inBody) > 0:
		p.WriteString("\nIn the body, JSON or a form, there may be: " + strings.Join(inBody, ", ") + "\n")
	case body != nil && body.Value.Required:
		p.WriteString("\nThe body is JSON" + example(body.Value.Content) + "\n")
	}
}

// answers writes a list of them, the shared ones as links.
func (p *routePage) answers(method string, all *openapi3.Responses) {
	var statuses, lines, links []string
	for _, status := range slices.Sorted(maps.Keys(all.Map())) {
		ref := all.Value(status)
		text := oneLine(*ref.Value.Description) + example(ref.Value.Content)
		if name := path.Base(ref.Ref); ref.Ref != "" && status >= "400" {
			p.shared[name] = text
			links = append(links, fmt.Sprintf("[%s](#%s)", status, strings.ToLower(name)))
			continue
		}
		statuses, lines = append(statuses, status), append(lines, "- "+status+": "+text+"\n")
	}
	fresh, same := p.fresh(method, statuses, lines)
	p.WriteString("\n" + strings.Join(fresh, ""))
	if same != "" {
		p.WriteString("- " + same + "\n")
	}
	if len(links) > 0 {
		p.WriteString("- " + strings.Join(links, ", ") + "\n")
	}
}

// oneLine is a text on one line, without its last dot.
func oneLine(text string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
}

// kind is the type of a parameter with its bounds.
func kind(s *openapi3.Schema) string {
	text := strings.Join(s.Type.Slice(), " or ")
	switch {
	case len(s.Enum) > 0:
		text = strings.Trim(fmt.Sprint(s.Enum), "[]")
		text = "`" + strings.ReplaceAll(text, " ", "`, `") + "`"
	case s.Max != nil:
		text += fmt.Sprintf(" %.0f…%.0f", *s.Min, *s.Max)
	case s.Min != nil:
		text += fmt.Sprintf(" from %.0f", *s.Min)
	case s.MaxLength != nil:
		text += fmt.Sprintf(" of %d…%d characters", s.MinLength, *s.MaxLength)
	case s.Pattern != "":
		text += " like `" + s.Pattern + "`"
	}
	if s.Default != nil {
		text += fmt.Sprintf(", else `%v`", s.Default)
	}
	return check.Cell(text)
}

// example is what a body may be, in code: the first one of the document, or one made of the
// required fields. Pages have none.
func example(content openapi3.Content) string {
	var texts []string
	for _, media := range []string{"application/json", "text/plain"} {
		m := content[media]
		if m == nil {
			continue
		}
		value := m.Example
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(m.Examples))) {
			if v := m.Examples[name].Value.Value; v != "" {
				value = v
			}
		}
		if value == nil && media == "application/json" {
			value = sample(m.Schema.Value)
		}
		if value != nil {
			text, _ := encodeJSON(value) // was read from a document
			if media == "text/plain" {
				text = bytes.Trim(text, `"`)
			}
			mark := "`"
			if bytes.Contains(text, []byte(mark)) {
				mark = "``"
			}
			texts = append(texts, mark+string(text)+mark)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, " or ")
}

// sample is a value of the schema.
func sample(s *openapi3.Schema) any {
	switch {
	case s.Example != nil:
		return s.Example
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type.Is("object"):
		fields := map[string]any{}
		for _, name := range s.Required {
			fields[name] = sample(s.Properties[name].Value)
		}
		return fields
	case s.Type.Is("array"):
		return []any{sample(s.Items.Value)}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("string"):
		return "…"
	}
	return 1
}
