package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"shardid/cmd/shardid/config"
	"shardid/scripts/check"
)

const deployDir = "../../deploy/"

// environment is an environ of what a file gives, filled in: with a value for each of
// the variables that it needs and for each config.Placeholder.
func environment(vars map[string]string) (environ []string) {
	used := regexp.MustCompile(`\$\{\w+[^}]*\}`)
	for name, value := range vars {
		value = regexp.MustCompile(`\$\{\w+:-\}`).ReplaceAllString(value, "")
		value = strings.ReplaceAll(used.ReplaceAllString(value, filledIn), config.Placeholder, filledIn)
		environ = append(environ, name+"="+value)
	}
	return environ
}

const filledIn = "bff4c1e1a9d84e2f"

// composeEnv is what the Compose file gives a replica; its anchors need all of it.
func composeEnv(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(deployDir + "compose/compose.yaml")
	check.Must(t, err)
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	check.Must(t, yaml.Unmarshal(raw, &file))
	return file.Services["shardid-1"].Environment
}

// systemdEnv is what the unit and its file give the service.
func systemdEnv(t *testing.T) map[string]string {
	t.Helper()
	vars := map[string]string{}
	for _, file := range []string{"systemd/shardid.env.example", "systemd/shardid.service"} {
		raw, err := os.ReadFile(deployDir + file)
		check.Must(t, err)
		set := regexp.MustCompile(`(?m)^(?:Environment=)?(SHARDID_\w+)=(.*)$`)
		for _, m := range set.FindAllStringSubmatch(string(raw), -1) {
			vars[m[1]] = m[2]
		}
	}
	return vars
}

// packageSettings is a file with what docs/running.md has an operator set after the package is installed.
func packageSettings(t *testing.T) (file string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/running.md")
	check.Must(t, err)
	_, page, _ := strings.Cut(string(raw), "\n## Packages\n")
	page, _, _ = strings.Cut(page, "\n## ")
	_, block, _ := strings.Cut(page, "\n```yaml\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	file = filepath.Join(t.TempDir(), "config.yaml")
	check.Must(t, os.WriteFile(file, []byte(block), 0o600))
	return file
}

// load reads a configuration as shardid does.
func load(t *testing.T, environ []string, args ...string) (*config.Loaded, error) {
	t.Helper()
	flags := pflag.NewFlagSet("shardid", pflag.ContinueOnError)
	config.AddFlags(flags)
	check.Must(t, flags.Parse(args))
	return config.Load(flags, environ)
}

// TestDeployConfigs: what deploy/ gives shardid, shardid takes.
func TestDeployConfigs(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		vars map[string]string
		want string // driver, address, folder, and Redis for what is not embedded
	}{
		"docker":   {"docker/config.yaml", nil, "sqlite :8080 /data"},
		"compose":  {"docker/config.yaml", composeEnv(t), "mysql :8080 /data Redis"},
		"systemd":  {"../config.yaml", systemdEnv(t), "sqlite 127.0.0.1:8080 /var/lib/shardid"},
		"packages": {packageSettings(t), systemdEnv(t), "mysql :8080 /var/lib/shardid Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "systemd" {
				delete(c.vars, "SHARDID_DATABASE_DSN") // for the driver that the operator writes
				delete(c.vars, "SHARDID_REDIS_URL")
			}
			file := c.file
			if !filepath.IsAbs(file) {
				file = deployDir + file
			}
			cfg, err := load(t, environment(c.vars), "--config", file)
			check.Must(t, err)
			for key, value := range c.vars {
				_, err := load(t, append(environment(c.vars), key+"="+value), "--config", file)
				if strings.Contains(value, config.Placeholder) && err == nil {
					t.Errorf("%s is taken as the example has it", key)
				}
			}
			got := strings.Join([]string{cfg.Database.Driver, cfg.Server.Addr, cfg.DataDir}, " ")
			if cfg.Redis.URL != "" {
				got += " Redis"
			}
			check.Equal(t, got, c.want)
		})
	}
}

// TestDeployNames: each variable and key that deploy/ and the documentation name is one of shardid's, or of those
// that shardid lease tells its command and that the examples read; so is each key in a configuration that they show.
func TestDeployNames(t *testing.T) {
	known, sections := map[string]bool{}, map[string]bool{}
	for _, name := range []string{
		"SHARDID_WORKER_ID", "SHARDID_EPOCH", "SHARDID_WORKER_BITS", "SHARDID_SEQ_BITS",
		"SHARDID_SHARD_BITS", "SHARDID_URLS",
		"SHARDID_TOKEN", "SHARDID_TEST_DATA",
	} {
		known[name] = true
	}
	for _, k := range config.Defaults().Keys {
		known[k.Env()], known[k.Path] = true, true
		if head, _, ok := strings.Cut(k.Path, "."); ok {
			sections[head], known[k.Path[:strings.LastIndexByte(k.Path, '.')]] = true, true
		}
	}
	names, n := regexp.MustCompile("\\bSHARDID_[A-Z][A-Z_]*[A-Z]\\b|`[a-z]+\\.[a-z_.]+`"), 0
	shown := regexp.MustCompile("(?ms)^```yaml.*?\n(.*?)^```")
	for _, file := range deployTexts(t) {
		raw, err := os.ReadFile(file)
		check.Must(t, err)
		found := names.FindAllString(string(raw), -1)
		for _, block := range shown.FindAllSubmatch(raw, -1) {
			var settings map[string]map[string]any
			if yaml.Unmarshal(block[1], &settings) != nil {
				continue // of another program
			}
			for section, values := range settings {
				for key := range values {
					found = append(found, section+"."+key)
				}
			}
		}
		for _, name := range found {
			name = strings.Trim(name, "`")
			head, _, dotted := strings.Cut(name, ".")
			if n++; !strings.HasSuffix(name, ".pml") && !known[name] && (!dotted || sections[head]) {
				t.Errorf("%s: %s is no key", file, name)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d names were found", n)
	}
}

// deployTexts are the files of deploy/, and the pages.
func deployTexts(t *testing.T) (files []string) {
	t.Helper()
	for _, pages := range []string{"../../*.md", "../../docs/*.md", "../../docs/zh/*.md"} {
		found, err := filepath.Glob(pages)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pages, err)
		}
		for _, file := range found {
			if filepath.Base(file) != "CHANGELOG.md" { // which names what is gone
				files = append(files, file)
			}
		}
	}
	err := filepath.WalkDir(deployDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	check.Must(t, err)
	return files
}
