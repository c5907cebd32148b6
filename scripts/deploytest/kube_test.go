package deploytest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kube is what is in deploy/kubernetes.
type kube struct {
	kustomization kubeKustomization
	migration     kubeKustomization
	monitoring    kubeKustomization
	shared        kubeKustomization // the component of the first two
	monitor       kubePodMonitor
	namespace     kubeNamespace
	account       kubeServiceAccount
	secret        kubeSecret
	services      []kubeService
	set           kubeStatefulSet
	budget        kubeBudget
	autoscaler    kubeAutoscaler
	policy        kubeNetworkPolicy
	job           kubeJob
}

const kubeDir = "deploy/kubernetes/"

func readKube(f tree) (k kube, err error) {
	var errs []error
	k.kustomization = single[kubeKustomization](f, "kustomization.yaml", &errs)
	k.migration = single[kubeKustomization](f, "migrate/kustomization.yaml", &errs)
	k.monitoring = single[kubeKustomization](f, "monitoring/kustomization.yaml", &errs)
	k.shared = single[kubeKustomization](f, "settings/kustomization.yaml", &errs)
	k.monitor = single[kubePodMonitor](f, "monitoring/podmonitor.yaml", &errs)
	k.namespace = single[kubeNamespace](f, "namespace.yaml", &errs)
	k.account = single[kubeServiceAccount](f, "serviceaccount.yaml", &errs)
	k.secret = single[kubeSecret](f, "secret.example.yaml", &errs)
	k.set = single[kubeStatefulSet](f, "statefulset.yaml", &errs)
	k.budget = single[kubeBudget](f, "poddisruptionbudget.yaml", &errs)
	k.autoscaler = single[kubeAutoscaler](f, "horizontalpodautoscaler.yaml", &errs)
	k.policy = single[kubeNetworkPolicy](f, "networkpolicy.yaml", &errs)
	k.job = single[kubeJob](f, "migrate/job.yaml", &errs)
	k.services, err = decode[kubeService](f, kubeDir+"service.yaml")
	return k, errors.Join(append(errs, err)...)
}

// single is the one document of a file.
func single[T any](f tree, name string, errs *[]error) (one T) {
	all, err := decode[T](f, kubeDir+name)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("%s holds %d documents", name, len(all))
	}
	if err != nil {
		*errs = append(*errs, err)
		return one
	}
	return all[0]
}

// checkKube gives what does not fit together.
func checkKube(f tree) (c complaints) {
	k, err := readKube(f)
	if err != nil {
		return complaints{err.Error()}
	}
	k.kinds(&c)
	k.selectors(&c)
	k.references(&c)
	k.probes(f, &c)
	k.settings(f, &c)
	k.egress(f, &c)
	k.memory(&c)
	k.images(f, &c)
	k.scraping(f, &c)
	k.pod("the server", k.set.Spec.Template, &c)
	k.pod("the migration", k.job.Spec.Template, &c)
	return c
}

func (k kube) kinds(c *complaints) {
	for head, want := range map[kubeHeadLine]string{
		line(k.namespace.Head):  "v1 Namespace",
		line(k.account.Head):    "v1 ServiceAccount",
		line(k.secret.Head):     "v1 Secret",
		line(k.set.Head):        "apps/v1 StatefulSet",
		line(k.budget.Head):     "policy/v1 PodDisruptionBudget",
		line(k.autoscaler.Head): "autoscaling/v2 HorizontalPodAutoscaler",
		line(k.policy.Head):     "networking.k8s.io/v1 NetworkPolicy",
		line(k.job.Head):        "batch/v1 Job",
		line(k.monitor.Head):    "monitoring.coreos.com/v1 PodMonitor",
	} {
		c.unless(string(head) == want, "got %s, want %s", head, want)
	}
	for _, s := range k.services {
		c.unless(line(s.Head) == "v1 Service", "got %s, want a Service", line(s.Head))
	}
}

type kubeHeadLine string

func line(h Head) kubeHeadLine { return kubeHeadLine(h.APIVersion + " " + h.Kind) }

// selectors: what is for the servers finds them and not the migration.
func (k kube) selectors(c *complaints) {
	server, migration := k.set.Spec.Template.Metadata.Labels, k.job.Spec.Template.Metadata.Labels
	only := map[string]map[string]string{
		"the StatefulSet": k.set.Spec.Selector.MatchLabels,
		"the budget":      k.budget.Spec.Selector.MatchLabels,
		"the PodMonitor":  k.monitor.Spec.Selector.MatchLabels,
	}
	for _, s := range k.services {
		only["service "+s.Metadata.Name] = s.Spec.Selector
	}
	for i, s := range k.set.Spec.Template.Spec.Spread {
		only[fmt.Sprintf("spread %d", i)] = s.LabelSelector.MatchLabels
	}
	for who, selector := range only {
		c.unless(selects(selector, server), "%s selects %v, which are not the servers' labels %v", who, selector, server)
		c.unless(!selects(selector, migration), "%s selects the migration too", who)
	}
	all := k.policy.Spec.PodSelector.MatchLabels
	c.unless(selects(all, server) && selects(all, migration), "the network policy selects %v, not servers and migration", all)
}

func selects(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// references: what a file names, another one gives.
func (k kube) references(c *complaints) {
	pod := k.set.Spec.Template
	headless := slices.ContainsFunc(k.services, func(s kubeService) bool {
		return s.Metadata.Name == k.set.Spec.ServiceName && s.Spec.ClusterIP == "None" && s.Spec.NotReady
	})
	c.unless(headless, "serviceName %s is no headless service", k.set.Spec.ServiceName)
	c.unless(pod.Spec.ServiceAccount == k.account.Metadata.Name, "service account %s is not there", pod.Spec.ServiceAccount)
	target := k.autoscaler.Spec.Target
	c.unless(target.APIVersion+" "+target.Kind == string(line(k.set.Head)) && target.Name == k.set.Metadata.Name,
		"the autoscaler is for %+v", target)
	c.unless(k.set.Spec.Replicas == nil, "replicas are the autoscaler's to say")
	c.unless(k.autoscaler.Spec.Min >= 2 && k.autoscaler.Spec.Max >= k.autoscaler.Spec.Min, "from %d to %d replicas", k.autoscaler.Spec.Min, k.autoscaler.Spec.Max)
	c.unless(k.budget.Spec.MaxUnavailable < k.autoscaler.Spec.Min, "the budget lets all replicas go")
	for _, p := range []kubePod{pod, k.job.Spec.Template} {
		refs := p.Spec.Containers[0].EnvFrom
		c.unless(len(refs) == 1 && refs[0].SecretRef.Name == k.secret.Metadata.Name, "secret %+v is not there", refs)
	}
	k.volumes("the server", pod, c)
	k.volumes("the migration", k.job.Spec.Template, c)
	k.files(c)
	for _, n := range []string{k.secret.Metadata.Namespace, k.kustomization.Namespace, k.migration.Namespace, k.monitoring.Namespace} {
		c.unless(n == k.namespace.Metadata.Name, "namespace %q is not there", n)
	}
}

func (k kube) volumes(who string, pod kubePod, c *complaints) {
	given := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		given[v.Name] = true
		generator := k.shared.ConfigMapGenerator
		c.unless(len(generator) == 1 && generator[0].Name == v.ConfigMap.Name, "%s: config map %s is not there", who, v.ConfigMap.Name)
	}
	c.unless(given["config"], "%s has no config map", who)
	if who == "the server" {
		for _, v := range k.set.Spec.Claims {
			given[v.Metadata.Name] = true
		}
	}
	for _, m := range pod.Spec.Containers[0].Mounts {
		c.unless(given[m.Name], "%s: volume %s is not there", who, m.Name)
		delete(given, m.Name)
	}
	c.unless(len(given) == 0, "%s: not mounted: %v", who, slices.Collect(maps.Keys(given)))
}

// files: the kustomization has all that is not made once by hand, and the migration has
// the settings and the image of the servers.
func (k kube) files(c *complaints) {
	got := slices.Sorted(slices.Values(k.kustomization.Resources))
	want := []string{"horizontalpodautoscaler.yaml", "networkpolicy.yaml", "poddisruptionbudget.yaml",
		"service.yaml", "serviceaccount.yaml", "statefulset.yaml"}
	c.unless(slices.Equal(got, want), "kustomization.yaml lists %v, want %v", got, want)
	c.unless(slices.Equal(k.kustomization.Components, []string{"settings"}) && slices.Equal(k.migration.Components, []string{"../settings"}),
		"servers and migration have the components %v and %v, not both the settings", k.kustomization.Components, k.migration.Components)
	c.unless(len(k.kustomization.Images)+len(k.migration.Images) == 0, "images are set in more than one place")
}

// scraping: the monitor finds the port, and gives the job the name that the alerts expect.
func (k kube) scraping(f tree, c *complaints) {
	port := k.set.Spec.Template.Spec.Containers[0].Ports[0].Name
	ends := k.monitor.Spec.Endpoints
	c.unless(len(ends) == 1 && ends[0].Port == port && ends[0].Path == "/metrics", "the PodMonitor scrapes %+v", ends)
	job := k.set.Spec.Template.Metadata.Labels[k.monitor.Spec.JobLabel]
	c.unless(strings.Contains(f.read("deploy/prometheus/prometheus.yml"), "job_name: "+job+"\n"), "the job of the PodMonitor is %q", job)
	for _, expr := range []string{"up", "absent(up"} {
		c.unless(regexp.MustCompile(`expr: `+regexp.QuoteMeta(expr)+`\{job="`+job+`"\}`).MatchString(f.read(alertsPath)), "no alert is about %s of the job %q", expr, job)
	}
}

// pod: what the strictest profile of the namespace asks for, and more.
func (k kube) pod(who string, p kubePod, c *complaints) {
	c.unless(len(p.Spec.Containers) == 1, "%s has %d containers", who, len(p.Spec.Containers))
	pod, box := p.Spec.Security, p.Spec.Containers[0].Security
	c.unless(pod.RunAsNonRoot && pod.RunAsUser > 0 && pod.RunAsGroup > 0, "%s may be root: %+v", who, pod)
	c.unless(pod.SeccompProfile.Type == "RuntimeDefault", "%s has no seccomp profile", who)
	c.unless(box.AllowEscalation != nil && !*box.AllowEscalation, "%s may escalate privileges", who)
	c.unless(box.ReadOnlyRoot, "%s may write its root", who)
	c.unless(slices.Equal(box.Capabilities.Drop, []string{"ALL"}), "%s keeps capabilities", who)
	c.unless(p.Spec.Automount != nil && !*p.Spec.Automount, "%s gets a token of the API server", who)
	c.unless(p.Spec.ServiceLinks != nil && !*p.Spec.ServiceLinks, "%s gets variables of services", who)
	c.unless(k.namespace.Metadata.Labels["pod-security.kubernetes.io/enforce"] == "restricted", "the namespace is not restricted")
}

// TestKubernetes: the files in deploy/kubernetes fit together and to the sources.
func TestKubernetes(t *testing.T) { wantNone(t, checkKube(nil)) }

// TestKubernetesMistakes: each of these would have shown on a cluster at the
// earliest.
func TestKubernetesMistakes(t *testing.T) {
	set, svc := kubeDir+"statefulset.yaml", kubeDir+"service.yaml"
	notices(t, checkKube, []change{
		{set, "serviceName: shardid-pods", "serviceName: shardid", "headless"},
		{set, "terminationGracePeriodSeconds: 40", "terminationGracePeriodSeconds: 30", "grace"},
		{set, "path: /readyz", "path: /ready", "/ready"},
		{set, "path: /livez\n              port: http\n            periodSeconds: 10", "path: /readyz\n              port: http\n            periodSeconds: 10", "liveness"},
		{set, "mountPath: /data", "mountPath: /var", "data_dir"},
		{set, "mountPath: /etc/shardid", "mountPath: /etc/id", "WORKDIR"},
		{set, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "write its root"},
		{set, "value: 220MiB", "value: 300MiB", "GOMEMLIMIT"},
		{set, "  - metadata:\n        name: data", "  - metadata:\n        name: date", "volume data"},
		{set, "runAsUser: 65532", "runAsUser: 1000", "USER"},
		{set, "containerPort: 8080", "containerPort: 8081", "server.addr"},
		{set, "minReadySeconds", "minReadySecond", "minReadySecond"},
		{set, "  serviceName:", "  replicas: 3\n  serviceName:", "replicas"},
		{svc, "component: server", "component: web", "servers' labels"},
		{svc, "    app.kubernetes.io/component: server\n", "", "the migration too"},
		{svc, "targetPort: http", "targetPort: web", "targetPort"},
		{kubeDir + "migrate/job.yaml", "image: shardid", "image: shardid:0.0.9", "0.0.9"},
		{kubeDir + "migrate/job.yaml", "drop: [ALL]", "drop: []", "capabilities"},
		{kubeDir + "migrate/job.yaml", "value: 220MiB", "value: 300MiB", "GOMEMLIMIT"},
		{kubeDir + "migrate/job.yaml", "          configMap:\n            name: shardid", "          configMap:\n            name: migrate", "config map migrate"},
		{kubeDir + "migrate/job.yaml", "mountPath: /etc/shardid", "mountPath: /etc/id", "WORKDIR"},
		{kubeDir + "migrate/kustomization.yaml", "components: [../settings]\n", "", "not both the settings"},
		{kubeDir + "monitoring/podmonitor.yaml", "port: http", "port: metrics", "scrapes"},
		{kubeDir + "monitoring/podmonitor.yaml", "jobLabel: app.kubernetes.io/name", "jobLabel: app.kubernetes.io/component", "the job of the PodMonitor"},
		{kubeDir + "monitoring/podmonitor.yaml", "component: server", "component: web", "servers' labels"},
		{alertsPath, "absent(up{job=", "absent(up{service=", "absent(up"},
		{kubeDir + "settings/kustomization.yaml", "newTag: 0.2.0", "newTag: 0.0.9", "0.0.9"},
		{kubeDir + "migrate/job.yaml", "component: migrate\n    spec", "component: server\n    spec", "the migration too"},
		{kubeDir + "networkpolicy.yaml", "port: 6379", "port: 6380", "6379"},
		{kubeDir + "networkpolicy.yaml", "port: 3306", "port: 5432", "3306"},
		{kubeDir + "networkpolicy.yaml", "protocol: UDP", "protocol: TCP", "UDP"},
		{kubeDir + "horizontalpodautoscaler.yaml", "minReplicas: 3", "minReplicas: 1", "replicas"},
		{kubeDir + "horizontalpodautoscaler.yaml", "kind: StatefulSet", "kind: Deployment", "autoscaler"},
		{kubeDir + "poddisruptionbudget.yaml", "maxUnavailable: 1", "maxUnavailable: 3", "budget"},
		{kubeDir + "kustomization.yaml", "  - networkpolicy.yaml\n", "", "kustomization.yaml lists"},
		{kubeDir + "settings/kustomization.yaml", "name: shardid\n    files", "name: settings\n    files", "config map"},
		{kubeDir + "settings/config.yaml", "drain_delay: 10s", "drain_delay: 0s", "drain_delay"},
		{kubeDir + "settings/config.yaml", "data_dir: /data", "data_dir: data", "data_dir"},
		{kubeDir + "secret.example.yaml", "name: shardid\n", "name: secrets\n", "secret"},
	})
}

// kubeTool is a program that make test-deploy builds.
func kubeTool(t *testing.T, name string) string {
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

// kustomized is what kustomize makes of a folder.
func kustomized(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.Command(kubeTool(t, "kustomize-v5.8.1"), "build", filepath.Join(root, kubeDir, folder)).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", folder, err, out)
	}
	return string(out)
}

// TestKustomize: the image and the settings reach servers and migration from one place.
func TestKustomize(t *testing.T) {
	server, migration := kustomized(t, "."), kustomized(t, "migrate")
	config := regexp.MustCompile(`\n  name: shardid-\w{10}\n`)
	if a, b := config.FindString(server), config.FindString(migration); a == "" || a != b {
		t.Errorf("the config map of the servers is %q, of the migration %q", a, b)
	}
	for _, out := range []string{server, migration} {
		if !strings.Contains(out, "image: shardid:"+version(nil)+"\n") || strings.Contains(out, "        name: shardid\n      name: config") {
			t.Errorf("another image, or a config map that is not there:\n%s", out)
		}
	}
	if n, m := strings.Count(server, "\nkind: "), strings.Count(migration, "\nkind: "); n != 8 || m != 2 {
		t.Errorf("%d and %d objects", n, m)
	}
}

// TestKubernetesSchemas: what is applied, the README's rule for the Prometheus Operator
// included, is valid by the schemas of Kubernetes and of the operator.
func TestKubernetesSchemas(t *testing.T) {
	validate, crds, dir := kubeTool(t, "kubectl-validate-v0.0.4"), kubeTool(t, "prometheus-operator-v0.85.0"), t.TempDir()
	rule := regexp.MustCompile(`(?s)\n(\{ printf .*?; \}) \| kubectl`).FindStringSubmatch(tree{}.read(readmePath))
	if rule == nil {
		t.Fatal("the README makes no PrometheusRule")
	}
	cmd := exec.Command("/bin/sh", "-c", rule[1])
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	objects := map[string]string{"rule": string(out), "namespace": tree{}.read(kubeDir + "namespace.yaml"), "secret": tree{}.read(kubeDir + "secret.example.yaml")}
	for _, folder := range []string{".", "migrate", "monitoring"} {
		objects["folder "+folder] = kustomized(t, folder)
	}
	check := func(text string) (string, error) {
		path := filepath.Join(dir, "objects.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(validate, "--local-crds", crds, path).CombinedOutput()
		return string(out), err
	}
	for name, text := range objects {
		if out, err := check(text); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
	for _, slip := range []struct{ in, from, to string }{
		{"folder .", "whenDeleted: Retain", "whenDeletd: Retain"}, {"folder migrate", "backoffLimit: 10", "backoffLimit: ten"},
		{"folder monitoring", "jobLabel", "jobLable"}, {"rule", "alert: ", "alrt: "},
	} {
		bad := strings.Replace(objects[slip.in], slip.from, slip.to, 1)
		if out, err := check(bad); err == nil || bad == objects[slip.in] {
			t.Errorf("%s is not noticed in %s: %s", slip.to, slip.in, out)
		}
	}
}
