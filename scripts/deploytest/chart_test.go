package deploytest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write what Helm renders to "+golden)

// golden is what Helm makes of the chart with ci/kubernetes.yaml, without the alerts.
const golden = "testdata/kubernetes.yaml"

// TestChartGolden: the golden file is what Helm makes of the chart now.
func TestChartGolden(t *testing.T) {
	got, err := template(t, filepath.Join(root, chartDir), "--values", filepath.Join(root, chartDir, "ci/kubernetes.yaml"), "--set", "prometheusRule.enabled=false")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read("scripts/deploytest/" + golden); got != want {
		t.Errorf("the chart makes other objects: look at the difference that go test ./scripts/deploytest -run TestChartGolden -update leaves")
	}
}

// TestChartFits: the objects of the chart fit together, and to the image, the settings, the alerts and the docs.
func TestChartFits(t *testing.T) {
	all := objects(t, read("scripts/deploytest/"+golden))
	set, job := all["StatefulSet shardid"], all["Job shardid-migrate"]
	servers, migration := set.at("spec", "template", "metadata", "labels"), job.at("spec", "template", "metadata", "labels")
	for who, selector := range map[string]any{
		"StatefulSet": set.at("spec", "selector", "matchLabels"),
		"spread":      set.at("spec", "template", "spec", "topologySpreadConstraints", "labelSelector", "matchLabels"),
		"budget":      all["PodDisruptionBudget shardid"].at("spec", "selector", "matchLabels"),
		"PodMonitor":  all["PodMonitor shardid"].at("spec", "selector", "matchLabels"),
		"Service":     all["Service shardid"].at("spec", "selector"),
		"headless":    all["Service shardid-pods"].at("spec", "selector"),
	} {
		if !selects(selector, servers) || selects(selector, migration) {
			t.Errorf("%s selects %v: not the servers, %v, or the migration, too, %v", who, selector, servers, migration)
		}
	}
	policy := all["NetworkPolicy shardid"]
	if selector := policy.at("spec", "podSelector", "matchLabels"); !selects(selector, servers) || !selects(selector, migration) {
		t.Errorf("the network policy selects %v", selector)
	}
	if set.text("spec", "serviceName") != "shardid-pods" || all["Service shardid-pods"].text("spec", "clusterIP") != "None" {
		t.Error("the StatefulSet has no headless service")
	}
	box := object(set.at("spec", "template", "spec", "containers").([]any)[0].(map[string]any))
	settings := fitsImage(t, set, box, all["ConfigMap shardid"])
	drain, stop := duration(settings.Server.DrainDelay), duration(settings.Server.ShutdownTimeout)
	if grace, _ := set.at("spec", "template", "spec", "terminationGracePeriodSeconds").(uint64); drain < 5*time.Second ||
		time.Duration(grace)*time.Second < stop+5*time.Second {
		t.Errorf("drain_delay %v, shutdown_timeout %v, a grace period of %d s", drain, stop, grace)
	}
	fitsProbes(t, box)
	fitsMemory(t, box)
	var open []string
	for _, rule := range policy.at("spec", "egress").([]any) {
		for _, p := range rule.(map[string]any)["ports"].([]any) {
			open = append(open, fmt.Sprint(p.(map[string]any)["protocol"], " ", p.(map[string]any)["port"]))
		}
	}
	for _, want := range []string{"UDP 53", "TCP 53", "UDP 5353", "TCP 5353", "TCP 3306", "TCP 6379"} {
		if !slices.Contains(open, want) {
			t.Errorf("the network policy closes %s: %v", want, open)
		}
	}
	name := servers.(map[string]any)[all["PodMonitor shardid"].text("spec", "jobLabel")]
	for file, want := range map[string]string{"deploy/prometheus/prometheus.yml": "job_name: %s\n", alertsPath: `expr: up{job="%s"}`} {
		if text := fmt.Sprintf(want, name); !strings.Contains(read(file), text) {
			t.Errorf("%s has no %q, the job of the PodMonitor", file, text)
		}
	}
}

// selects says whether a selector is for pods with those labels.
func selects(selector, labels any) bool {
	want, _ := selector.(map[string]any)
	has, _ := labels.(map[string]any)
	for name, value := range want {
		if has[name] != value {
			return false
		}
	}
	return len(want) > 0
}

// fitsImage compares user, folders and port with the Dockerfile's, and gives the settings.
func fitsImage(t *testing.T, set, box, file object) (s serviceConfig) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(file.text("data", "config.yaml")), &s); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, m := range box["volumeMounts"].([]any) {
		at[object(m.(map[string]any)).text("name")] = object(m.(map[string]any)).text("mountPath")
	}
	image, pod := dockerfile(), set.at("spec", "template", "spec", "securityContext").(map[string]any)
	http, _ := image.ports()
	got := fmt.Sprint(pod["runAsUser"], ":", pod["runAsGroup"], " ", at["data"], " ", s.DataDir, " ", at["config"], " ", s.Server.Addr, " ", box.at("ports", "containerPort"))
	if want := fmt.Sprint(image.last("USER"), " ", image.last("VOLUME"), " ", image.last("VOLUME"), " ", image.last("WORKDIR"), " :", http, " ", http); got != want {
		t.Errorf("the pod has %s, the image %s", got, want)
	}
	return s
}

// fitsProbes: their paths are served, and only readiness looks at the stores.
func fitsProbes(t *testing.T, box object) {
	t.Helper()
	for _, name := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		path := box.text(name, "httpGet", "path")
		if !strings.Contains(read("service/httpapi/openapi.yaml"), "\n  "+path+":\n") || (path == "/livez") == (name == "readinessProbe") ||
			box.text(name, "httpGet", "port") != box.text("ports", "name") {
			t.Errorf("%s asks %v", name, box.at(name))
		}
	}
}

// fitsMemory: the collector begins before the kernel ends the process, and limits are as the docs say.
func fitsMemory(t *testing.T, box object) {
	t.Helper()
	limit, request := mebibytes(box.text("resources", "limits", "memory")), mebibytes(box.text("resources", "requests", "memory"))
	if soft := mebibytes(containerEnv(box)["GOMEMLIMIT"]); soft <= request || soft > limit*9/10 {
		t.Errorf("GOMEMLIMIT is %d MiB, requested %d, limit %d", soft, request, limit)
	}
	measured := regexp.MustCompile(`\| memory, 16 384 lists, 1024 of them in use \| (\d+) MiB \|`).FindStringSubmatch(read("docs/performance.md"))
	if measured == nil || request < 2*mebibytes(measured[1]) || !strings.Contains(read(chartDir+"values.yaml"), "# "+measured[1]+" MiB were measured") {
		t.Errorf("docs/performance.md measured %q, %d MiB are requested, or values.yaml names another measurement", measured, request)
	}
	limits := regexp.MustCompile(`\*\*Memory limit\*\*: (\d+) MiB, .*\n.* systemd unit has (\d+) MiB`).FindStringSubmatch(read(runningPath))
	if limits == nil || mebibytes(limits[1]) != limit || !strings.Contains(read("deploy/systemd/shardid.service"), "\nMemoryMax="+limits[2]+"M\n") ||
		!strings.Contains(read(composePath), "mem_limit: "+limits[1]+"m\n") {
		t.Errorf("docs/running.md has the memory limits %q, the pod %d MiB", limits, limit)
	}
}

// serviceConfig is what the checks need of a config.yaml; whether it is a valid one is
// for the test beside the loader.
type serviceConfig struct {
	Server struct {
		Addr            string `yaml:"addr"`
		DrainDelay      string `yaml:"drain_delay"`
		ShutdownTimeout string `yaml:"shutdown_timeout"`
	} `yaml:"server"`
	DataDir string `yaml:"data_dir"`
}

func readConfig(path string) (s serviceConfig, err error) {
	err = yaml.Unmarshal([]byte(read(path)), &s)
	return s, err
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

func mebibytes(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(text, "B"), "Mi"))
	if err != nil {
		return 0
	}
	return n
}

// version is that of the sources.
func version() string {
	found := regexp.MustCompile(`var version = "(.*)"`).FindStringSubmatch(read("cmd/shardid/version.go"))
	if found == nil {
		return "unknown"
	}
	return found[1]
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
