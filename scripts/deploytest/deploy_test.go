//go:build linux

package deploytest

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/goccy/go-yaml"
)

// TestFilesAgree: what one file names and another one uses, and no program compares.
func TestFilesAgree(t *testing.T) {
	first := func(path, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, path))
		if m == nil {
			t.Fatalf("%s has no %s", path, pattern)
		}
		return m[1]
	}
	version := first("cmd/shardid/version.go", `version = "(.*)"`)
	goVersion := first("go.mod", `\ngo (\d+\.\d+)`)
	const image, unit, chart = "deploy/docker/Dockerfile", "deploy/systemd/shardid.service", "deploy/helm/shardid/"
	const asService = " --uid=shardid --setenv=SHARDID_DATA_DIR=/var/lib/shardid \\\n" +
		"  --property=EnvironmentFile=-/etc/shardid/shardid.env "
	for _, c := range []struct{ what, path, text string }{
		{"the version", image, `image.version="` + version + `"`},
		{"the version", chart + "Chart.yaml", "\nversion: " + version + "\nappVersion: " + version + "\n"},
		{"the version", "deploy/compose/compose.yaml", "\n  image: shardid:" + version + "\n"},
		{"the version", "docs/running.md", "shardid:" + version},
		{"the version", "README.md", "/shardid:" + version + " "},
		{"the version", "README.md", "/shardid@v" + version + "\n"},
		{"the version", "README.md", " --version " + version + " "},
		{"the version", "README.zh-CN.md", "/shardid:" + version + " "},
		{"the version", "README.zh-CN.md", "/shardid@v" + version + "\n"},
		{"the version", "README.zh-CN.md", " --version " + version + " "},
		{"the Go of go.mod", ".github/workflows/ci.yml", `go-version: "` + goVersion + `"`},
		{"the Go of go.mod", ".github/workflows/release.yml", `go-version: "` + goVersion + `"`},
		{"the Go of go.mod", image, " golang:" + goVersion + "."},
		{"the variable of the revision", "cmd/shardid/version.go", "\nvar revision string\n"},
		{"the port of HTTP", "deploy/docker/config.yaml", "\n  addr: \":8080\""},
		{"the folder of the data", "deploy/docker/config.yaml", "\ndata_dir: /data\n"},
		{"the folder of the data", "deploy/compose/compose.yaml", "[shardid-1:/data]"},
		{"the folder of the service", unit, "\nEnvironment=SHARDID_DATA_DIR=/var/lib/shardid\n"},
		{"the user of the service", unit, "\nUser=shardid\n"},
		{"the user of the service", "deploy/systemd/shardid.sysusers", "\nu shardid - "},
		{"the secrets of the service", unit, "\nEnvironmentFile=-/etc/shardid/shardid.env\n"},
		{"the secrets of the service", "deploy/systemd/shardid.env.example", "# /etc/shardid/shardid.env,"},
		{"migrate as the service, of a package", "docs/running.md", asService + "/usr/bin/shardid migrate "},
		{"migrate as the service", "docs/running.md", asService + "/usr/local/bin/shardid migrate "},
	} {
		check.Has(t, read(t, c.path), c.text, c.what, "in", c.path)
	}
	example := read(t, "deploy/compose/.env.example")
	variables := regexp.MustCompile(`\$\{(\w+)[:}]`).FindAllStringSubmatch(read(t, "deploy/compose/compose.yaml"), -1)
	for _, v := range variables {
		check.Has(t, example, "\n"+v[1]+"=\n", ".env.example")
	}
	if target, err := os.Readlink(filepath.Join(root, chart, "alerts.yml")); target != "../../prometheus/alerts.yml" {
		t.Errorf("alerts.yml of the chart is a link to %q, %v", target, err)
	}
}

// TestUnit: systemd knows each key and value of the unit, and rates its exposure at most 1.4 of 10.
func TestUnit(t *testing.T) {
	check.Deep(t)
	analyze, path := found(t, "systemd-analyze"), filepath.Join(t.TempDir(), "shardid.service")
	// A program that is there.
	unit := strings.Replace(read(t, "deploy/systemd/shardid.service"), "/usr/local/bin/shardid", "/bin/true", 1)
	check.Must(t, os.WriteFile(path, []byte(unit), 0o644))
	out, err := run("", analyze, "verify", path)
	check.OK(t, err, out)
	check.Equal(t, strings.TrimSpace(out), "", "systemd-analyze verify")
	out, err = run("", analyze, "security", "--no-pager", "--offline=true", "--threshold=14", path)
	check.OK(t, err, rig.LastLines(out, 2))
}

// TestAlertRules: Prometheus takes the rules.
func TestAlertRules(t *testing.T) {
	check.Deep(t)
	out, err := run(root, found(t, "promtool"), "check", "rules", "deploy/prometheus/alerts.yml")
	check.OK(t, err, out)
}

// TestHAProxy: HAProxy takes the configuration of docs/api.md.
func TestHAProxy(t *testing.T) {
	check.Deep(t)
	_, text, _ := strings.Cut(read(t, "docs/api.md"), "\n```haproxy\n")
	text, _, _ = strings.Cut(text, "```\n")
	check.Has(t, text, "\nbackend shardid\n")
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
	out, err := run("", found(t, "haproxy"), "-c", "-f", path)
	check.OK(t, err, out)
}

// TestCompose: what docker compose reads its file with takes it. TestCompose runs what it says.
func TestCompose(t *testing.T) {
	check.Deep(t)
	parser, path := built(t, "compose-go-v2.16.2"), filepath.Join(t.TempDir(), "compose.yaml")
	text := regexp.MustCompile(`\$\{\w+[^}]*\}`).ReplaceAllString(read(t, "deploy/compose/compose.yaml"), "password")
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
	out, err := run("", parser, path)
	check.OK(t, err, out)
	for _, s := range []string{"shardid-1", "shardid-2", "migrate", "provision"} {
		service := regexp.MustCompile(`(?ms)^    ` + s + `:$(.*?)^ {0,4}\w`).FindString(out)
		for _, want := range []string{"read_only: true", "- ALL", "no-new-privileges:true", "GOMEMLIMIT: 220MiB"} {
			check.Has(t, service, want, s)
		}
	}
}

// chart is the folder of it.
var chart = filepath.Join(root, "deploy/helm/shardid")

// helm runs it with folders of its own and gives what it prints; an error has what it complains of.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(built(t, "helm-v3.22.0"), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s%s", err, &complaints, out)
	}
	return string(out), err
}

// render renders a chart with a file of ci/ for the newest Kubernetes that kubectl-validate knows; a Helm that go
// install built does it for 1.20, which is too old.
func render(t *testing.T, chart, values string, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "shardid", chart, "--namespace", "shardid", "--kube-version", "1.30.0",
		"--values", filepath.Join(root, "deploy/helm/shardid/ci", values)}, args...)...)
}

// object is the part of an object of Kubernetes that is used here.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Pod      `yaml:",inline"`
		Template struct{ Spec Pod }
	}
}

// Pod is what a Pod, or the template of one, consists of.
type Pod struct {
	SecurityContext              map[string]any `yaml:"securityContext"`
	AutomountServiceAccountToken *bool          `yaml:"automountServiceAccountToken"`
	Containers                   []container
}

type container struct {
	Args            []string
	Env             []struct{ Name, Value string }
	SecurityContext map[string]any `yaml:"securityContext"`
	Resources       struct{ Limits map[string]string }
}

// pod is that of an object, if it has one.
func (o object) pod() Pod {
	if o.Spec.Containers != nil {
		return o.Spec.Pod
	}
	return o.Spec.Template.Spec
}

// objects are the documents of what was rendered by "Kind name".
func objects(t *testing.T, text string, err error) map[string]object {
	t.Helper()
	check.Must(t, err)
	all := map[string]object{}
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(text, -1) {
		var o object
		check.Must(t, yaml.Unmarshal([]byte(doc), &o))
		all[o.Kind+" "+o.Metadata.Name] = o
	}
	return all
}

// TestChart: with each file of values Helm finds nothing to warn of, what it renders is valid by the schemas of
// Kubernetes and of the Prometheus Operator, shardid takes the settings and the arguments of each container, and a pod
// may do what the strictest profile of a namespace allows. Several replicas with an embedded store each, which would
// all issue the same IDs, are refused, and apps that no Job would make.
func TestChart(t *testing.T) {
	check.Deep(t)
	validate, crds := built(t, "kubectl-validate-v0.0.4"), built(t, "prometheus-operator-v0.85.0")
	for _, values := range []string{"embedded.yaml", "full.yaml", "secrets.yaml"} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, "lint", "--strict", chart, "--values", filepath.Join(chart, "ci", values))
			check.OK(t, err)
			text, err := render(t, chart, values)
			all := objects(t, text, err)
			for name, o := range all {
				checkRestricted(t, name, o.pod())
				for _, box := range o.pod().Containers {
					settings := strings.Replace(o.Metadata.Name, "-provision", "-migrate", 1)
					for _, args := range [][]string{append(box.Args, "--help"), {"decode", "16385"}} {
						out, err := command(t, all, box, settings, args).CombinedOutput()
						check.OK(t, err, name, args, string(out))
					}
				}
			}
			path := filepath.Join(t.TempDir(), "objects.yaml")
			check.Must(t, os.WriteFile(path, []byte(text), 0o600))
			out, err := run("", validate, "--local-crds", crds, path)
			check.OK(t, err, out)
		})
	}
	for set, want := range map[string]string{
		"replicas=2":               "an embedded store is for one replica",
		"autoscaling.enabled=true": "an embedded store is for one replica",
		"apps[0].id=1":             "leave apps empty and run shardid provision",
		"replicas=2,config.database.driver=mysql": "", // without Redis
	} {
		_, err := render(t, chart, "embedded.yaml", "--set", set)
		if want == "" {
			check.OK(t, err, set)
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a refusal", set, err)
		}
	}
}

func checkRestricted(t *testing.T, name string, pod Pod) {
	t.Helper()
	for _, box := range pod.Containers {
		may := fmt.Sprint(box.SecurityContext, pod.SecurityContext)
		for _, want := range []string{"allowPrivilegeEscalation:false", "readOnlyRootFilesystem:true",
			"capabilities:map[drop:[ALL]]", "runAsNonRoot:true", "seccompProfile:map[type:RuntimeDefault]"} {
			check.Has(t, may, want, name)
		}
		token := pod.AutomountServiceAccountToken
		if box.Resources.Limits["memory"] == "" || token == nil || *token {
			t.Errorf("%s has no limit of memory, or a token of Kubernetes", name)
		}
	}
}

// command runs shardid as a container does, without a cluster: in a folder with the files of a config map, with the
// variables of a Secret of the same name, and its own.
func command(t *testing.T, all map[string]object, box container, settings string, args []string) *exec.Cmd {
	t.Helper()
	local := strings.NewReplacer("[$(POD_IP)]", "[fd00::1]", "$(POD_IP)", "127.0.0.1")
	cmd := exec.Command(rig.Binary(t), args...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}
	for file, text := range all["ConfigMap "+settings].Data {
		check.Must(t, os.WriteFile(filepath.Join(cmd.Dir, file), []byte(local.Replace(text)), 0o600))
	}
	for key, value := range all["Secret "+settings].Data {
		plain, err := base64.StdEncoding.DecodeString(value)
		check.Must(t, err)
		cmd.Env = append(cmd.Env, key+"="+string(plain))
	}
	for _, e := range box.Env {
		if e.Value != "" {
			cmd.Env = append(cmd.Env, e.Name+"="+local.Replace(e.Value))
		}
	}
	return cmd
}

// TestImage does what the Dockerfile does, without an engine: its commands in what .dockerignore leaves, and then the
// binary in a file system that has nothing else, as the image's user and as one of group 0 that a platform such as
// OpenShift chooses.
func TestImage(t *testing.T) {
	check.Deep(t)
	if os.Geteuid() != 0 {
		t.Skip("chroot needs root")
	}
	work := t.TempDir()
	context, out := filepath.Join(work, "context"), filepath.Join(work, "out")
	check.Must(t, os.MkdirAll(context, 0o755))
	kept := regexp.MustCompile(`(?m)^!(.*)$`).FindAllStringSubmatch(read(t, ".dockerignore"), -1)
	check.Has(t, read(t, ".dockerignore"), "\n*\n!", "what is not named is left out")
	for _, k := range kept {
		sh(t, root, "cp -r --parents "+k[1]+" "+context)
	}
	dockerfile := strings.ReplaceAll(read(t, "deploy/docker/Dockerfile"), "\\\n", " ")
	for _, command := range []string{"go build", "mkdir"} {
		run := regexp.MustCompile(`\nRUN (.*` + command + ` .*)`).FindStringSubmatch(dockerfile)[1]
		run = strings.NewReplacer("/out/", out+"/", "${REVISION}", "0123456789abcdef").Replace(run)
		sh(t, context, "unset GOFLAGS; umask 022; "+run)
	}
	var uid, gid, group int
	_, user, _ := strings.Cut(dockerfile, "\nUSER ")
	_, owner, _ := strings.Cut(dockerfile, "--chown=")
	check.Must(t, check.Err(fmt.Sscanf(user, "%d:%d", &uid, &gid)))
	check.Must(t, check.Err(fmt.Sscanf(owner, "%d:%d /out/data /data", &uid, &group)))
	check.Must(t, os.Chown(filepath.Join(out, "data"), uid, group))
	for who, user := range map[string]syscall.Credential{
		"its own user": {Uid: uint32(uid), Gid: uint32(gid)}, "any user of group 0": {Uid: 1000680000, Gid: 0},
	} {
		t.Run(who, func(t *testing.T) {
			dir := t.TempDir()
			sh(t, out, "cp -a . "+dir+"; chmod 0755 "+dir+" "+filepath.Dir(dir))
			serveImage(t, dir, user)
		})
	}
}

func sh(t *testing.T, dir, command string) {
	t.Helper()
	out, err := run(dir, "/bin/sh", "-ec", command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// serveImage runs the image's commands until its health check passes, and stops it.
func serveImage(t *testing.T, dir string, user syscall.Credential) {
	t.Helper()
	in := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "/shardid", args...)
		cmd.Err = nil // it was looked for outside
		cmd.Dir, cmd.Env = "/etc/shardid", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &user, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	version, err := in("version").Output()
	check.OK(t, err)
	check.Has(t, string(version), "+0123456789ab ", "the revision")
	addr := testserver.FreeAddrs(t, 1)[0]
	var log check.Log
	server := in("serve", "--demo", "--set", "server.addr="+addr)
	server.Stdout, server.Stderr = &log, &log
	check.Must(t, server.Start())
	err = check.Within(time.Minute, func() error { return in("health", "--url", "http://"+addr).Run() })
	check.OK(t, err, "health")
	check.OK(t, server.Process.Signal(syscall.SIGTERM))
	check.OK(t, server.Wait(), "the server")
	if in("health", "--url", "http://"+addr).Run() == nil {
		t.Error("a server that is gone is healthy")
	}
}
