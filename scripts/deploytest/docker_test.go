package deploytest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dockerfilePath = "deploy/docker/Dockerfile"

// instruction is one line of a Dockerfile, continued lines joined.
type instruction struct{ name, args string }

type image []instruction

// dockerfile reads the Dockerfile.
func dockerfile(f tree) (all image) {
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(f.read(dockerfilePath), "")
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		if name, args, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all = append(all, instruction{name, strings.Join(strings.Fields(args), " ")})
		}
	}
	return all
}

// last is the arguments of the last instruction of that name, which is the one that
// counts.
func (d image) last(name string) string {
	for _, i := range slices.Backward(d) {
		if i.name == name {
			return i.args
		}
	}
	return ""
}

// all is the arguments of all instructions of that name.
func (d image) all(name string) (args []string) {
	for _, i := range d {
		if i.name == name {
			args = append(args, i.args)
		}
	}
	return args
}

// build is the command that makes the binary.
func (d image) build() string {
	for _, run := range d.all("RUN") {
		if strings.Contains(run, "go build") {
			return run
		}
	}
	return ""
}

func checkDocker(f tree) (c complaints) {
	d := dockerfile(f)
	from := d.all("FROM")
	c.unless(len(from) == 2 && from[1] == "scratch", "built FROM %v", from)
	pinned := regexp.MustCompile(`^golang:(\d+\.\d+)\.\d+-[a-z]+ AS build$`).FindStringSubmatch(from[0])
	c.unless(pinned != nil, "FROM %s is not pinned to a release", from[0])
	c.unless(pinned == nil || strings.Contains(f.read("go.mod"), "\ngo "+pinned[1]), "FROM %s is not the Go of go.mod", from[0])
	for _, want := range []string{"CGO_ENABLED=0 ", " -trimpath ", " -tags nomsgpack ", "-X main.revision=${REVISION}", " ./cmd/shardid"} {
		c.unless(strings.Contains(d.build(), want), "go build without %s: %s", want, d.build())
	}
	c.unless(strings.Contains(f.read("cmd/shardid/version.go"), "\nvar revision string\n"), "main.revision is not there to set")
	c.unless(regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(d.last("USER")), "USER %s is not a number above 0", d.last("USER"))
	c.unless(strings.Contains(d.last("HEALTHCHECK"), `CMD ["/shardid", "health"]`), "HEALTHCHECK %s", d.last("HEALTHCHECK"))
	c.unless(d.last("ENTRYPOINT") == `["/shardid"]` && d.last("CMD") == `["serve"]`, "ENTRYPOINT %s CMD %s", d.last("ENTRYPOINT"), d.last("CMD"))
	s, err := readConfig(f, "deploy/docker/config.yaml")
	c.unless(err == nil && s.DataDir == d.last("VOLUME") && s.Server.Addr == ":"+d.last("EXPOSE"), "VOLUME %s, EXPOSE %s, config %+v, %v", d.last("VOLUME"), d.last("EXPOSE"), s, err)
	copied := slices.ContainsFunc(d.all("COPY"), func(args string) bool {
		return strings.Contains(args, "--chown="+d.last("USER")) && strings.HasSuffix(args, " "+d.last("VOLUME"))
	})
	c.unless(copied, "the user does not own %s", d.last("VOLUME"))
	return c
}

// TestDockerfile: what the image promises is in its instructions.
func TestDockerfile(t *testing.T) { wantNone(t, checkDocker(nil)) }

func TestDockerfileMistakes(t *testing.T) {
	notices(t, checkDocker, []change{
		{dockerfilePath, "golang:1.26.8-bookworm", "golang:latest", "pinned"},
		{dockerfilePath, "golang:1.26.8-bookworm", "golang:1.25.1-bookworm", "go.mod"},
		{dockerfilePath, "CGO_ENABLED=0 ", "", "CGO_ENABLED"},
		{dockerfilePath, "main.revision", "main.commit", "main.revision"},
		{dockerfilePath, "USER 65532:65532", "USER shardid", "USER"},
		{dockerfilePath, "VOLUME /data", "VOLUME /var", "VOLUME"},
		{dockerfilePath, "EXPOSE 8080", "EXPOSE 80", "EXPOSE"},
		{dockerfilePath, `"health"]`, `"healthy"]`, "HEALTHCHECK"},
		{dockerfilePath, "--chown=65532:65532 ", "", "own"},
		{"deploy/docker/config.yaml", "data_dir: /data", "data_dir: data", "VOLUME"},
	})
}

// TestDockerContext: what .dockerignore lets through is enough to build from, holds no
// test, and nothing else.
func TestDockerContext(t *testing.T) {
	dir := t.TempDir()
	if err := sources(dir); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"go.mod", "sql/embed.go", "service/httpapi/openapi.yaml", "deploy/docker/config.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{".git", "data", "config.yaml", "deploy/compose", "cmd/shardid/app_test.go", "scripts"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s is sent to the engine", path)
		}
	}
	cmd := exec.Command("go", "list", "-deps", "./cmd/shardid") // fails for a package or an embedded file that is missing
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// sources copies what an engine would get: the lines of .dockerignore as Docker reads
// them, of the forms that are used here. The last one that matches counts.
func sources(dir string) error {
	lines := strings.Fields(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(tree{}.read(".dockerignore"), ""))
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || d.IsDir() && slices.Contains([]string{".git", "data", "bin", ".tools"}, name) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || ignored(lines, filepath.ToSlash(name)) {
			return nil
		}
		return copyFile(path, filepath.Join(dir, name))
	})
}

func ignored(lines []string, name string) (is bool) {
	for _, line := range lines {
		pattern, keep := strings.CutPrefix(line, "!")
		if matchesIgnore(pattern, name) {
			is = !keep
		}
	}
	return is
}

// matchesIgnore: a pattern matches a path or one of the folders above it; with **/ in
// front, in any folder.
func matchesIgnore(pattern, name string) bool {
	rest, anywhere := strings.CutPrefix(pattern, "**/")
	parts := strings.Split(name, "/")
	for i := range parts {
		candidate := strings.Join(parts[:i+1], "/")
		if anywhere {
			candidate = parts[i]
		}
		if ok, err := filepath.Match(rest, candidate); err == nil && ok {
			return true
		}
	}
	return false
}

func copyFile(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o644)
}

func TestDockerIgnoreRules(t *testing.T) {
	lines := []string{"*", "!cmd", "!deploy/docker/config.yaml", "**/*_test.go", "**/testdata"}
	for name, want := range map[string]bool{
		"cmd/shardid/main.go": false, "cmd/shardid/main_test.go": true, "cmd/testdata/a": true,
		"deploy/docker/config.yaml": false, "deploy/docker/Dockerfile": true, "README.md": true, "cmdx": true,
	} {
		if got := ignored(lines, name); got != want {
			t.Errorf("%s: ignored %t", name, got)
		}
	}
}
