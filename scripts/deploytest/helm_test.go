package deploytest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"shardid/scripts/check"
)

const chartDir = "deploy/helm/shardid/"

// helm runs it with folders of its own and gives what it prints; an error has what it complains of.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command(deployTool(t, "helm-v3.22.0"), args...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.New(stderr.String() + string(out))
	}
	return string(out), err
}

// chartValues are the files of values that the chart is tried with.
func chartValues(t *testing.T) (files []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, chartDir, "ci", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	return files
}

// template renders a chart for the newest Kubernetes that kubectl-validate knows; a Helm that go install
// built does it for 1.20, which is too old.
func template(t *testing.T, path string, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "shardid", path, "--namespace", "shardid", "--kube-version", "1.30.0"}, args...)...)
}

// deployTool is a program that make test-deploy builds.
func deployTool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, ".tools", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("make test-deploy has not built %s", name)
	}
	return path
}

// valid says what the schemas of Kubernetes and of the Prometheus Operator have against a text.
func valid(t *testing.T, text string) (string, error) {
	t.Helper()
	validate, crds := deployTool(t, "kubectl-validate-v0.0.4"), deployTool(t, "prometheus-operator-v0.85.0")
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(validate, "--local-crds", crds, path).CombinedOutput()
	return string(out), err
}

// object is one document of Kubernetes.
type object map[string]any

// at follows keys and, for lists, first elements; nil where there is nothing.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, key := range path {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

// objects are the documents of a text by "Kind name".
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	all, n := map[string]object{}, 0
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(text, -1) {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if o != nil {
			all[object(o).text("kind")+" "+object(o).text("metadata", "name")], n = o, n+1
		}
	}
	if len(all) != n {
		t.Fatalf("%d objects have %d names", n, len(all))
	}
	return all
}

// chart is the objects of the chart with a file of ci/ and further arguments.
func chart(t *testing.T, values string, args ...string) map[string]object {
	t.Helper()
	return rendered(t, filepath.Join(root, chartDir), values, args...)
}

// rendered is the same of a chart elsewhere.
func rendered(t *testing.T, path, values string, args ...string) map[string]object {
	t.Helper()
	out, err := template(t, path, append([]string{"--values", filepath.Join(root, chartDir, "ci", values)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, out)
}

// TestChart: with each file of values Helm finds nothing to warn of, and what it renders is valid by the
// schemas of Kubernetes and of the Prometheus Operator. Several replicas with an embedded store each, which
// would all issue the same IDs, are refused.
func TestChart(t *testing.T) {
	check.Deep(t)
	for _, values := range chartValues(t) {
		if _, err := helm(t, "lint", "--strict", filepath.Join(root, chartDir), "--values", values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
		text, err := template(t, filepath.Join(root, chartDir), "--values", values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		if out, err := valid(t, text); err != nil {
			t.Errorf("%s: %s", values, out)
		}
		for name, o := range objects(t, text) {
			restricted(t, values+" "+name, o)
		}
	}
	embedded := filepath.Join(root, chartDir, "ci/embedded.yaml")
	for _, set := range []string{"replicas=2", "autoscaling.enabled=true"} {
		if _, err := template(t, filepath.Join(root, chartDir), "--values", embedded, "--set", set); err == nil ||
			!strings.Contains(err.Error(), "an embedded store is for one replica") {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// restricted: a pod has what the strictest profile of a namespace asks for, and more.
func restricted(t *testing.T, name string, o object) {
	t.Helper()
	pod, _ := o.at("spec", "template", "spec").(map[string]any)
	if o.text("kind") == "Pod" {
		pod, _ = o["spec"].(map[string]any)
	}
	if pod == nil {
		return
	}
	p := object(pod)
	boxes, _ := p["containers"].([]any)
	for _, box := range boxes {
		b := object(box.(map[string]any))
		if b.at("securityContext", "allowPrivilegeEscalation") != false || b.at("securityContext", "readOnlyRootFilesystem") != true ||
			!reflect.DeepEqual(b.at("securityContext", "capabilities", "drop"), []any{"ALL"}) || b.at("resources", "limits", "memory") == nil {
			t.Errorf("%s: %v may do more than it needs", name, b)
		}
	}
	if len(boxes) == 0 || p.at("securityContext", "runAsNonRoot") != true || p.text("securityContext", "seccompProfile", "type") != "RuntimeDefault" ||
		p["automountServiceAccountToken"] != false || p["enableServiceLinks"] != false {
		t.Errorf("%s: %v", name, p)
	}
}

// TestChartAlerts: the rule is deploy/prometheus/alerts.yml, of which the chart has no copy and its package
// has one. Both have the version of the sources.
func TestChartAlerts(t *testing.T) {
	check.Deep(t)
	if app := "\nappVersion: " + version() + "\n"; !strings.Contains(read(chartDir+"Chart.yaml"), app) {
		t.Errorf("Chart.yaml does not say%s", app)
	}
	if target, err := os.Readlink(filepath.Join(root, chartDir, "alerts.yml")); err != nil || target != "../../prometheus/alerts.yml" {
		t.Errorf("alerts.yml in the chart is a link to %q, %v", target, err)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(read(alertsPath)), &want); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := helm(t, "package", filepath.Join(root, chartDir), "--destination", dir); err != nil {
		t.Fatal(err)
	}
	packed, err := filepath.Glob(filepath.Join(dir, "shardid-"+version()+".tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("the package of %s: %v, %v", version(), packed, err)
	}
	for _, path := range []string{filepath.Join(root, chartDir), packed[0]} {
		got := rendered(t, path, "kubernetes.yaml")["PrometheusRule shardid"]
		if len(want) == 0 || !reflect.DeepEqual(got["spec"], any(want)) {
			t.Errorf("the PrometheusRule of %s is not alerts.yml", path)
		}
	}
}

// containerEnv is the variables of a container that have a value.
func containerEnv(box object) map[string]string {
	env := map[string]string{}
	list, _ := box["env"].([]any)
	for _, each := range list {
		e := object(each.(map[string]any))
		if value, ok := e["value"].(string); ok {
			env[e.text("name")] = value
		}
	}
	return env
}
