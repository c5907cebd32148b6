package deploytest

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
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
// schemas of Kubernetes and of the Prometheus Operator. A slip in a template is not.
func TestChart(t *testing.T) {
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
		bad := strings.Replace(text, "podManagementPolicy:", "podManagmentPolicy:", 1)
		if out, err := valid(t, bad); err == nil || bad == text {
			t.Errorf("%s: a slip is not noticed: %s", values, out)
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

// TestChartRefuses: a value that cannot be right ends the rendering with a message that says why.
func TestChartRefuses(t *testing.T) {
	kube, embedded := filepath.Join(root, chartDir, "ci/kubernetes.yaml"), filepath.Join(root, chartDir, "ci/embedded.yaml")
	for _, c := range []struct{ values, set, complaint string }{
		{"", "config.redis.addrs={redis:6379}", "the database has no DSN: set existingSecret"},
		{"", "existingSecret=shardid", "config.redis.mode is single but config.redis.addrs is empty"},
		{kube, "secrets.adminToken=bff4c1e1a9d84e2f", "existingSecret and secrets are both set"},
		{kube, "secrets.adminToken=short", "/secrets/adminToken"},
		{kube, "replicas=0", "/replicas': minimum: got 0, want 1"},
		{kube, "replica=2", "additional properties 'replica' not allowed"},
		{kube, "config.uid.enable=false", "additional properties 'enable' not allowed"},
		{kube, "config.uid.schedule_interval=false", "/config/uid/schedule_interval': got boolean, want string"},
		{kube, "config.database.dsn=x", "additional properties 'dsn' not allowed"},
		{kube, "config.server.addr=:80", "additional properties 'addr' not allowed"},
		{kube, "config.database.driver=postgres", "/config/database/driver': value must be one of 'mysql', 'sqlite'"},
		{kube, "config.redis.addrs={redis}", "/config/redis/addrs/0'"},
		{kube, "config.redis.mode=embedded", "an embedded store is for one replica"},
		{embedded, "replicas=2", "an embedded store is for one replica"},
		{embedded, "apps[0].id=1,apps[0].name=orders", "apps needs a database server"},
		{kube, "apps[0].id=256,apps[0].name=orders", "/apps/0/id': maximum: got 256, want 255"},
		{kube, "apps[0].id=1,apps[0].name=orders,apps[0].maxLimitId=9007199254740993", "/apps/0/maxLimitId': maximum"},
		{kube, "openshift=yes", "/openshift': got string, want boolean"},
		{kube, "autoscaling.minReplicas=11", "autoscaling.minReplicas is above autoscaling.maxReplicas"},
		{kube, "config.snowflake.worker.mode=zk", "config.snowflake.worker.mode zk binds a worker ID to an address"},
		{kube, "config.server.shutdown_timeout=soon", "soon"},
		{kube, "tokens.existingSecret=a,tokens.entries[0].name=b", "tokens.existingSecret and tokens.entries are both set"},
		{kube, "tls.clientCA=true", "tls.clientCA is set but tls.existingSecret is empty"},
		{kube, "resp.enabled=true,resp.port=8080", "resp.port is 8080, the port of HTTP"},
		{kube, "probes.readinessPath=/ready", "/probes/readinessPath'"},
		{kube, "image.digest=latest", "/image/digest'"},
	} {
		args := []string{"--set", c.set}
		if c.values != "" {
			args = append(args, "--values", c.values)
		}
		if out, err := template(t, filepath.Join(root, chartDir), args...); err == nil || !strings.Contains(err.Error(), c.complaint) {
			t.Errorf("%s: %v, want %q\n%.300s", c.set, err, c.complaint, out)
		}
	}
}

// TestChartAlerts: the rule is deploy/prometheus/alerts.yml, of which the chart has no copy and its package
// has one. Both have the version of the sources.
func TestChartAlerts(t *testing.T) {
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

// TestChartDecides: what follows from values of ci/full.yaml and ci/secrets.yaml.
func TestChartDecides(t *testing.T) {
	full := chart(t, "full.yaml")
	set := full["StatefulSet ids"]
	box, _ := set.at("spec", "template", "spec", "containers").([]any)
	server := object(box[0].(map[string]any))
	for what, pair := range map[string][2]any{
		"image":             {server["image"], "registry.example.com/shardid@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		"replicas":          {set.at("spec", "replicas"), uint64(5)},
		"the grace period":  {set.at("spec", "template", "spec", "terminationGracePeriodSeconds"), uint64(70)},
		"the volume":        {set.text("spec", "volumeClaimTemplates", "spec", "accessModes"), ""},
		"liveness":          {server.at("livenessProbe", "exec", "command"), []any{"/shardid", "health", "--url", "/livez"}},
		"readiness":         {server.at("readinessProbe", "exec", "command"), []any{"/shardid", "health", "--url", "/readyz/queue"}},
		"the test pod":      {full["Pod ids-first-id"] == nil, true}, // it would need a certificate
		"the own tokens":    {full["Secret ids-tokens"] != nil, true},
		"the HPA":           {full["HorizontalPodAutoscaler ids"] == nil, true},
		"the Redis port":    {full["Service ids"].at("spec", "ports").([]any)[1].(map[string]any)["port"], uint64(6380)},
		"the spread's pods": {set.text("spec", "template", "spec", "topologySpreadConstraints", "labelSelector", "matchLabels", "app.kubernetes.io/component"), "server"},
		"who may migrate":   {full["Job ids-migrate"].text("spec", "template", "spec", "containers", "env", "name"), "GOMEMLIMIT"},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	env := containerEnv(server)
	if env["GOMEMLIMIT"] != "1760MiB" || env["SHARDID_SNOWFLAKE_ADVERTISE"] != "[$(POD_IP)]:8080" {
		t.Errorf("variables of the server: %v", env)
	}
	tls := chart(t, "kubernetes.yaml", "--set", "tls.existingSecret=shardid-tls")
	if probe := tls["StatefulSet shardid"].at("spec", "template", "spec", "containers", "readinessProbe", "httpGet", "scheme"); probe != "HTTPS" {
		t.Errorf("with TLS the probes speak %v", probe)
	}
	var ports []any
	for _, rule := range full["NetworkPolicy ids"].at("spec", "egress").([]any) {
		list, _ := rule.(map[string]any)["ports"].([]any)
		for _, p := range list {
			ports = append(ports, p.(map[string]any)["port"])
		}
	}
	want := []any{uint64(53), uint64(53), uint64(5353), uint64(5353), uint64(3307), uint64(6379), uint64(4318), uint64(26379), uint64(2181)}
	if !reflect.DeepEqual(ports, want) {
		t.Errorf("open are %v, want %v", ports, want)
	}
	for name, o := range full {
		secret := regexp.MustCompile(`bff4c1e1a9d84e2f|9d84e2fbff4c1e1a|tcp\(mysql`)
		if text, err := yaml.Marshal(map[string]any(o)); err != nil || secret.Match(text) {
			t.Errorf("%s holds a secret, %v", name, err)
		}
	}
	for _, name := range []string{"StatefulSet ids", "Job ids-migrate", "Job ids-provision"} {
		boxes, _ := full[name].at("spec", "template", "spec", "containers").([]any)
		text, err := yaml.Marshal(full[name].at("spec", "template", "spec"))
		if err != nil || len(boxes) != 1 || !strings.Contains(string(text), "emptyDir: {}") || !strings.Contains(string(text), "mountPath: /extra") {
			t.Errorf("%s has %d containers, or not the extra volume: %v\n%s", name, len(boxes), err, text)
		}
	}
	open := chart(t, "kubernetes.yaml", "--set", "openshift=true,apps[0].id=1,apps[0].name=orders")
	for _, name := range []string{"StatefulSet shardid", "Job shardid-migrate", "Job shardid-provision", "Pod shardid-first-id"} {
		restricted(t, "on OpenShift "+name, open[name])
		if text, err := yaml.Marshal(map[string]any(open[name])); err != nil || regexp.MustCompile(`runAsUser|runAsGroup|fsGroup:`).Match(text) {
			t.Errorf("on OpenShift %s chooses a user or a group: %v\n%s", name, err, text)
		}
	}
	ordinal := chart(t, "secrets.yaml")
	modes := ordinal["StatefulSet shardid"].at("spec", "volumeClaimTemplates", "spec", "accessModes")
	if !reflect.DeepEqual(modes, []any{"ReadWriteOncePod"}) {
		t.Errorf("with ordinal the volumes are %v", modes)
	}
	// A Job of the hooks needs nothing that comes after it.
	for _, job := range []string{"Job shardid-migrate", "Job shardid-provision"} {
		pod := object(ordinal[job].at("spec", "template", "spec").(map[string]any))
		for _, name := range []string{
			"ConfigMap " + pod.text("volumes", "configMap", "name"), "Secret " + pod.text("containers", "envFrom", "secretRef", "name"),
		} {
			if ordinal[name].text("metadata", "annotations", "helm.sh/hook") != "pre-install,pre-upgrade" || weight(ordinal[name]) >= weight(ordinal[job]) {
				t.Errorf("%s needs %s, which comes later", job, name)
			}
		}
	}
	if weight(ordinal["Job shardid-migrate"]) >= weight(ordinal["Job shardid-provision"]) {
		t.Error("the apps are provisioned before the schema is there")
	}
}

// weight orders the hooks; what is none comes after all of them.
func weight(o object) int {
	n, err := strconv.Atoi(o.text("metadata", "annotations", "helm.sh/hook-weight"))
	if err != nil {
		return math.MaxInt
	}
	return n
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
