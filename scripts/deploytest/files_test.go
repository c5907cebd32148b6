//go:build unix

package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
	"shardid/scripts/rig"
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
		{"the version", chart + "Chart.yaml", "\nappVersion: " + version + "\n"},
		{"the version", "deploy/compose/compose.yaml", "\n  image: shardid:" + version + "\n"},
		{"the Go of go.mod", image, " golang:" + goVersion + "."},
		{"the variable of the revision", "cmd/shardid/version.go", "\nvar revision string\n"},
		{"the port of HTTP", image, "\nEXPOSE 8080 6380\n"},
		{"the port of HTTP", "deploy/docker/config.yaml", "\n  addr: \":8080\""},
		{"the port of Redis clients", chart + "values.yaml", "\nresp:\n  enabled: false\n  port: 6380\n"},
		{"the folder of the data", image, "\nVOLUME /data\n"},
		{"the folder of the data", "deploy/docker/config.yaml", "\ndata_dir: /data\n"},
		{"the folder of the data", "deploy/compose/compose.yaml", "[shardid-1:/data]"},
		{"the health check", image, `CMD ["/shardid", "health"]`},
		{"the folder of the service", unit, "\nEnvironment=SHARDID_DATA_DIR=/var/lib/shardid\n"},
		{"the folder of the service", unit, "\nStateDirectory=shardid\n"},
		{"the user of the service", unit, "\nUser=shardid\n"},
		{"the user of the service", "deploy/systemd/shardid.sysusers", "\nu shardid - "},
		{"the secrets of the service", unit, "\nEnvironmentFile=-/etc/shardid/shardid.env\n"},
		{"the secrets of the service", "deploy/systemd/shardid.env.example", "# /etc/shardid/shardid.env,"},
		{"migrate as the service, of a package", "docs/running.md", asService + "/usr/bin/shardid migrate "},
		{"migrate as the service", "docs/running.md", asService + "/usr/local/bin/shardid migrate "},
		{"a service that never gives up", unit, "\nStartLimitIntervalSec=0\n"},
		{"a service that says when it listens", unit, "\nType=notify\n"},
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

// TestAlertRules: Prometheus takes the rules, and they fire when they should.
func TestAlertRules(t *testing.T) {
	check.Deep(t)
	promtool := found(t, "promtool")
	out, err := run(root, promtool, "check", "rules", alertsPath)
	check.OK(t, err, out)
	out, err = run("testdata", promtool, "test", "rules", "alerts_test.yml")
	check.OK(t, err, out)
}

const alertsPath = "deploy/prometheus/alerts.yml"

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
