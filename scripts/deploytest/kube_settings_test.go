package deploytest

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// serviceConfig is what the checks need of a config.yaml; whether it is a valid one is
// for the test beside the loader.
type serviceConfig struct {
	Server struct {
		Addr            string `yaml:"addr"`
		DrainDelay      string `yaml:"drain_delay"`
		ShutdownTimeout string `yaml:"shutdown_timeout"`
	} `yaml:"server"`
	Redis struct {
		Addrs []string `yaml:"addrs"`
	} `yaml:"redis"`
	DataDir string `yaml:"data_dir"`
}

func readConfig(f tree, path string) (s serviceConfig, err error) {
	if err := yaml.Unmarshal([]byte(f.read(path)), &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// probes: their ports and paths are served, and only readiness looks at stores.
func (k kube) probes(f tree, c *complaints) {
	box := k.set.Spec.Template.Spec.Containers[0]
	ports := map[string]bool{}
	for _, p := range box.Ports {
		ports[p.Name] = true
	}
	api := f.read("service/httpapi/openapi.yaml")
	for name, p := range map[string]kubeProbe{"startup": box.Startup, "liveness": box.Live, "readiness": box.Ready} {
		c.unless(strings.Contains(api, "\n  "+p.HTTPGet.Path+":\n"), "%s probe: no such path %s", name, p.HTTPGet.Path)
		c.unless(ports[p.HTTPGet.Port], "%s probe: no such port %s", name, p.HTTPGet.Port)
		c.unless((p.HTTPGet.Path == "/livez") == (name != "readiness"), "%s probe asks %s", name, p.HTTPGet.Path)
		c.unless(p.Period > 0 && p.Threshold > 0, "%s probe: %+v", name, p)
	}
	for _, s := range k.services {
		for _, p := range s.Spec.Ports {
			c.unless(ports[p.TargetPort], "service %s: no such targetPort %s", s.Metadata.Name, p.TargetPort)
		}
	}
	for _, in := range k.policy.Spec.Ingress {
		for _, p := range in.Ports {
			c.unless(ports[fmt.Sprint(p.Port)], "network policy: no such port %v", p.Port)
		}
	}
}

// settings: the ConfigMap, the pod and the image agree.
func (k kube) settings(f tree, c *complaints) {
	s, err := readConfig(f, kubeDir+"settings/config.yaml")
	if err != nil {
		c.unless(false, "%v", err)
		return
	}
	image, pod := dockerfile(f), k.set.Spec.Template.Spec
	_, port, _ := net.SplitHostPort(s.Server.Addr)
	c.unless(port == strconv.Itoa(pod.Containers[0].Ports[0].ContainerPort) && strings.HasPrefix(s.Server.Addr, ":"),
		"server.addr %s is not the container's port", s.Server.Addr)
	c.unless(image.last("EXPOSE") == port, "EXPOSE %s is not server.addr %s", image.last("EXPOSE"), s.Server.Addr)
	at := map[string]string{}
	for _, m := range pod.Containers[0].Mounts {
		at[m.Name] = m.MountPath
	}
	c.unless(at["data"] == s.DataDir && s.DataDir == image.last("VOLUME"), "data_dir %s, mounted at %s, VOLUME %s", s.DataDir, at["data"], image.last("VOLUME"))
	for _, p := range []kubePod{k.set.Spec.Template, k.job.Spec.Template} {
		for _, m := range p.Spec.Containers[0].Mounts {
			c.unless(m.Name != "config" || m.MountPath == image.last("WORKDIR"), "the config map is at %s, WORKDIR is %s", m.MountPath, image.last("WORKDIR"))
		}
	}
	user := fmt.Sprintf("%d:%d", pod.Security.RunAsUser, pod.Security.RunAsGroup)
	c.unless(image.last("USER") == user && pod.Security.FSGroup == pod.Security.RunAsGroup, "USER %s, the pod runs as %s", image.last("USER"), user)
	drain, stop := duration(s.Server.DrainDelay), duration(s.Server.ShutdownTimeout)
	c.unless(drain >= 5*time.Second, "drain_delay %v is over before the endpoints are gone", drain)
	c.unless(time.Duration(pod.Grace)*time.Second >= stop+5*time.Second, "the grace period of %d s is too short for %v", pod.Grace, stop)
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// egress: the stores of the settings and the names can be reached.
func (k kube) egress(f tree, c *complaints) {
	open := map[string]bool{}
	for _, e := range k.policy.Spec.Egress {
		for _, p := range e.Ports {
			open[fmt.Sprint(p.Protocol, " ", p.Port)] = true
		}
	}
	want := []string{"UDP 53", "TCP 53"}
	s, _ := readConfig(f, kubeDir+"settings/config.yaml") // settings complains
	dsn := regexp.MustCompile(`@tcp\((.*?)\)`).FindStringSubmatch(k.secret.StringData["SHARDID_DATABASE_DSN"])
	if c.unless(dsn != nil, "the secret has no DSN"); dsn != nil {
		s.Redis.Addrs = append(s.Redis.Addrs, dsn[1])
	}
	for _, addr := range s.Redis.Addrs {
		_, port, _ := net.SplitHostPort(addr)
		want = append(want, "TCP "+port)
	}
	for _, w := range want {
		c.unless(open[w], "the network policy closes %s", w)
	}
	c.unless(slices.Equal(k.policy.Spec.Types, []string{"Ingress", "Egress"}), "the network policy is for %v", k.policy.Spec.Types)
}

// memory: the collector begins before the kernel ends the process. mebibytes reads
// both spellings.
func (k kube) memory(c *complaints) {
	for _, p := range []kubePod{k.set.Spec.Template, k.job.Spec.Template} {
		box := p.Spec.Containers[0]
		limit, request, soft := mebibytes(box.Resources.Limits["memory"]), mebibytes(box.Resources.Requests["memory"]), 0
		for _, e := range box.Env {
			if e.Name == "GOMEMLIMIT" {
				soft = mebibytes(e.Value)
			}
		}
		c.unless(soft > request && soft <= limit*9/10, "%s: GOMEMLIMIT is %d MiB, requested %d, limit %d", box.Name, soft, request, limit)
	}
	const measured = 64 // MiB with 16 384 lists, the goal in docs/performance.md
	request := mebibytes(k.set.Spec.Template.Spec.Containers[0].Resources.Requests["memory"])
	c.unless(request >= 2*measured, "%d MiB are requested", request)
}

func mebibytes(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSuffix(text, "B"), "Mi"))
	if err != nil {
		return 0
	}
	return n
}

// images: one place names the image of the servers and of the migration, in the version
// of the sources.
func (k kube) images(f tree, c *complaints) {
	images := k.shared.Images
	c.unless(len(images) == 1 && images[0].NewName != "" && images[0].NewTag == version(f), "images %+v, the version is %s", images, version(f))
	for _, p := range []kubePod{k.set.Spec.Template, k.job.Spec.Template} {
		box := p.Spec.Containers[0]
		c.unless(len(images) == 1 && box.Image == images[0].Name, "%s: the image is %s, not the one of the settings", box.Name, box.Image)
	}
}

// version is that of the sources.
func version(f tree) string {
	found := regexp.MustCompile(`var version = "(.*)"`).FindStringSubmatch(f.read("cmd/shardid/version.go"))
	if found == nil {
		return "unknown"
	}
	return found[1]
}
