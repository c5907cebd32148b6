package deploytest

import (
	"io/fs"
	"os"
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
func dockerfile() (all image) {
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(read(dockerfilePath), "")
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

// run is the first RUN that holds text: "go build" makes the binary, "mkdir" what is beside it.
func (d image) run(text string) string {
	for _, run := range d.all("RUN") {
		if strings.Contains(run, text) {
			return run
		}
	}
	return ""
}

// ports are that of HTTP and that of Redis clients.
func (d image) ports() (http, resp string) {
	http, resp, _ = strings.Cut(d.last("EXPOSE"), " ")
	return http, resp
}

// TestDockerfile: what the image promises is in its instructions.
func TestDockerfile(t *testing.T) {
	c := checks{t}
	d := dockerfile()
	from := d.all("FROM")
	c.unless(len(from) == 2 && from[1] == "scratch", "built FROM %v", from)
	pinned := regexp.MustCompile(`^--platform=\$BUILDPLATFORM golang:(\d+\.\d+)\.\d+-[a-z]+ AS build$`).FindStringSubmatch(from[0])
	c.unless(pinned != nil, "FROM %s is not pinned to a release", from[0])
	c.unless(pinned == nil || strings.Contains(read("go.mod"), "\ngo "+pinned[1]), "FROM %s is not the Go of go.mod", from[0])
	for _, want := range []string{"CGO_ENABLED=0 ", " GOOS=${TARGETOS} GOARCH=${TARGETARCH} ", " -trimpath ", " -tags nomsgpack ", "-X main.revision=${REVISION}", " ./cmd/shardid"} {
		c.unless(strings.Contains(d.run("go build"), want), "go build without %s: %s", want, d.run("go build"))
	}
	c.unless(strings.Contains(read("cmd/shardid/version.go"), "\nvar revision string\n"), "main.revision is not there to set")
	version := regexp.MustCompile(`image\.version="(.*?)"`).FindStringSubmatch(d.last("LABEL"))
	c.unless(version != nil && strings.Contains(read("cmd/shardid/version.go"), "version = \""+version[1]+"\""), "LABEL %s has another version", d.last("LABEL"))
	for _, label := range []string{"title", "description", "revision", "licenses"} {
		c.unless(strings.Contains(d.last("LABEL"), "org.opencontainers.image."+label+`="`), "no LABEL of the %s", label)
	}
	c.unless(regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(d.last("USER")), "USER %s is not a number above 0", d.last("USER"))
	c.unless(strings.Contains(d.last("HEALTHCHECK"), `CMD ["/shardid", "health"]`), "HEALTHCHECK %s", d.last("HEALTHCHECK"))
	c.unless(d.last("ENTRYPOINT") == `["/shardid"]` && d.last("CMD") == `["serve"]`, "ENTRYPOINT %s CMD %s", d.last("ENTRYPOINT"), d.last("CMD"))
	config := read("deploy/docker/config.yaml")
	http, resp := d.ports()
	c.unless(strings.Contains(config, "\n  addr: \":"+http+"\"") && strings.Contains(config, "\ndata_dir: "+d.last("VOLUME")+"\n"),
		"VOLUME %s, EXPOSE %s, config %s", d.last("VOLUME"), d.last("EXPOSE"), config)
	values := read(chartDir + "values.yaml")
	c.unless(resp != "" && strings.Contains(values, "\nresp:\n  enabled: false\n  port: "+resp+"\n"), "EXPOSE %s, the chart has another port for Redis clients", d.last("EXPOSE"))
	uid, _, _ := strings.Cut(d.last("USER"), ":")
	copied := slices.ContainsFunc(d.all("COPY"), func(args string) bool {
		return strings.Contains(args, "--chown="+uid+":0 ") && strings.HasSuffix(args, " "+d.last("VOLUME"))
	})
	c.unless(copied, "the user and group 0 do not own %s", d.last("VOLUME"))
}

// sources copies what an engine would get: the lines of .dockerignore as Docker reads
// them, of the forms that are used here. The last one that matches counts.
func sources(dir string) error {
	lines := strings.Fields(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(read(".dockerignore"), ""))
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
