package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"shardid/cmd/shardid/config"
)

const deployDir = "../../deploy/"

// section reads a part of a YAML file, such as $.spec.
func section[T any](t *testing.T, file, path string) (v T) {
	t.Helper()
	raw, err := os.ReadFile(deployDir + file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := yaml.PathString(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Read(strings.NewReader(string(raw)), &v); err != nil {
		t.Fatalf("%s: %s: %v", file, path, err)
	}
	return v
}

// environment is an environ of what a file gives, filled in: with a value for each of
// the variables it uses and for each config.Placeholder.
func environment(vars map[string]string) (environ []string) {
	used := regexp.MustCompile(`\$\{\w+[^}]*\}`)
	for name, value := range vars {
		value = strings.NewReplacer("$(POD_IP)", "10.1.2.3", config.Placeholder, filledIn).Replace(used.ReplaceAllString(value, filledIn))
		environ = append(environ, name+"="+value)
	}
	return environ
}

const filledIn = "bff4c1e1a9d84e2f"

// composeEnv is what the Compose file gives a replica; its anchors need all of it.
func composeEnv(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(deployDir + "compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services["shardid-1"].Environment
}

// kubernetesEnv is what the StatefulSet and the Secret give a container.
func kubernetesEnv(t *testing.T) map[string]string {
	t.Helper()
	vars := section[map[string]string](t, "kubernetes/secret.example.yaml", "$.stringData")
	type variable struct{ Name, Value string }
	for _, v := range section[[]variable](t, "kubernetes/statefulset.yaml", "$.spec.template.spec.containers[0].env") {
		vars[v.Name] = v.Value
	}
	return vars
}

// systemdEnv is what the unit and its file give the service.
func systemdEnv(t *testing.T) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for _, file := range []string{"systemd/shardid.env.example", "systemd/shardid.service"} {
		raw, err := os.ReadFile(deployDir + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:Environment=)?(SHARDID_\w+)=(.*)$`).FindAllStringSubmatch(string(raw), -1) {
			vars[m[1]] = m[2]
		}
	}
	return vars
}

// load reads a configuration as shardid does.
func load(t *testing.T, file string, environ []string) (*config.Loaded, error) {
	t.Helper()
	flags := pflag.NewFlagSet("shardid", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Set("config", file); err != nil {
		t.Fatal(err)
	}
	return config.Load(flags, environ)
}

// TestDeployConfigs: what deploy/ gives shardid, shardid takes.
func TestDeployConfigs(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		vars map[string]string
		want string // driver, mode, address to listen on and to advertise, folder
	}{
		"docker":     {"docker/config.yaml", nil, "sqlite embedded :8080  /data"},
		"compose":    {"docker/config.yaml", composeEnv(t), "mysql single :8080  /data"},
		"kubernetes": {"kubernetes/settings/config.yaml", kubernetesEnv(t), "mysql single :8080 10.1.2.3:8080 /data"},
		"systemd":    {"../config.yaml", systemdEnv(t), "sqlite embedded 127.0.0.1:8080  /var/lib/shardid"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "systemd" {
				delete(c.vars, "SHARDID_DATABASE_DSN") // for the driver that the operator writes
			}
			cfg, err := load(t, deployDir+c.file, environment(c.vars))
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range c.vars {
				if _, err := load(t, deployDir+c.file, append(environment(c.vars), key+"="+value)); strings.Contains(value, config.Placeholder) && err == nil {
					t.Errorf("%s is taken as the example has it", key)
				}
			}
			got := strings.Join([]string{cfg.Database.Driver, cfg.Redis.Mode, cfg.Server.Addr, cfg.Snowflake.Advertise, cfg.DataDir}, " ")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestDeploySecrets: a Secret and an environment file hold keys that are secret, and
// no other place does.
func TestDeploySecrets(t *testing.T) {
	secret := map[string]bool{}
	for _, k := range config.Defaults().Keys {
		secret[k.Env()] = k.Secret
	}
	for name := range section[map[string]string](t, "kubernetes/secret.example.yaml", "$.stringData") {
		if !secret[name] {
			t.Errorf("%s is no secret", name)
		}
	}
	file := deployDir + "kubernetes/settings/config.yaml"
	cfg, err := load(t, file, environment(kubernetesEnv(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range cfg.Keys {
		if k.Secret && strings.HasPrefix(k.From, file) {
			t.Errorf("%s is in %s", k.Path, file)
		}
	}
}

// TestDeployNames: each variable and key that deploy/ and its documentation name is
// one of shardid's.
func TestDeployNames(t *testing.T) {
	known, sections := map[string]bool{}, map[string]bool{}
	for _, k := range config.Defaults().Keys {
		known[k.Env()], known[k.Path] = true, true
		if head, _, ok := strings.Cut(k.Path, "."); ok {
			sections[head] = true
		}
	}
	names, n := regexp.MustCompile("\\bSHARDID_[A-Z][A-Z_]*[A-Z]\\b|`[a-z]+\\.[a-z_.]+`"), 0
	for _, file := range deployTexts(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names.FindAllString(string(raw), -1) {
			name = strings.Trim(name, "`")
			head, _, dotted := strings.Cut(name, ".")
			if n++; !known[name] && (!dotted || sections[head]) && !isSection(name, known) {
				t.Errorf("%s: %s is no key", file, name)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d names were found", n)
	}
}

// TestDeployChartKeys: the chart takes each key of config.yaml, but for secrets and for those that it sets
// itself, and no other one.
func TestDeployChartKeys(t *testing.T) {
	raw, err := os.ReadFile(deployDir + "helm/shardid/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type node struct{ Properties map[string]json.RawMessage }
	var got []string
	var walk func(prefix string, raw json.RawMessage)
	walk = func(prefix string, raw json.RawMessage) {
		var n node
		if json.Unmarshal(raw, &n) != nil || len(n.Properties) == 0 { // true, or a key with a type
			got = append(got, prefix)
			return
		}
		for name, below := range n.Properties {
			walk(strings.TrimPrefix(prefix+"."+name, "."), below)
		}
	}
	var root node
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	walk("", root.Properties["config"])
	own := []string{"server.addr", "server.tokens_file", "server.tls_cert_file", "server.tls_key_file",
		"server.tls_client_ca_file", "resp.addr", "snowflake.advertise", "data_dir"}
	var want []string
	for _, k := range config.Defaults().Keys {
		if !k.Secret && !slices.Contains(own, k.Path) {
			want = append(want, k.Path)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// isSection: snowflake.worker has keys of its own.
func isSection(name string, known map[string]bool) bool {
	for path := range known {
		if strings.HasPrefix(path, name+".") {
			return true
		}
	}
	return false
}

// deployTexts are the files of deploy/, the page about operation, and the Chinese pages.
func deployTexts(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../docs/zh/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("docs/zh: %v", err)
	}
	files = append(files, "../../docs/operations.md")
	err = filepath.WalkDir(deployDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
