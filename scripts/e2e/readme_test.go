//go:build unix

package e2e_test

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// step is a command of a page and what it prints, "" when it does not say.
type step struct{ command, prints string }

// pageSteps are the lines of the sh blocks of a page: a line "# …" is what the command above
// it prints, and what follows two blanks and a "#" is for people.
func pageSteps(t *testing.T, file string) (steps []step) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(string(raw), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", "")) {
			line = strings.TrimSpace(regexp.MustCompile(`(\S)\s{2,}#.*`).ReplaceAllString(line, "$1"))
			output, isOutput := strings.CutPrefix(line, "# ")
			switch last := len(steps) - 1; {
			case isOutput && last >= 0:
				steps[last].prints += output + "\n"
			case line != "":
				steps = append(steps, step{command: line})
			}
		}
	}
	return steps
}

// reader is somebody who follows the README from its first line: `make run` runs in one
// window, and what they export is there in the other.
type reader struct {
	t   *testing.T
	run *daemon // of make run
	dir string  // the folder they are in
	env []string
}

// TestE2EReadme: each command of the README, and of the page about HTTP, does what it says.
func TestE2EReadme(t *testing.T) {
	story(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl here")
	}
	compared := 0
	for _, page := range []string{"../../README.md", "../../docs/http.md"} {
		r := reader{t: t, dir: t.TempDir(), env: settings{}.Environ(t.TempDir())}
		r.run = serveIn(t, r.dir, nil, "--demo", "--set", "resp.addr=127.0.0.1:0")
		eventually(t, startLimit, "ready", func() bool { return r.run.get("/readyz").status == 200 })
		for _, s := range pageSteps(t, page) {
			r.follow(s)
			if s.prints != "" {
				compared++
			}
		}
	}
	if compared < 8 {
		t.Errorf("only %d outputs were compared", compared)
	}
}

func (r *reader) follow(s step) {
	r.t.Helper()
	words := strings.Fields(s.command)
	switch {
	case words[0] == "make":
		r.hasTarget(words[1])
	case words[0] == "export":
		r.export(words[1])
	case words[0] == "curl":
		r.shell(s, strings.Replace(s.command, "curl", "curl -sSf", 1))
	case words[0] == "redis-cli":
		if _, err := exec.LookPath("redis-cli"); err == nil {
			_, port, _ := net.SplitHostPort(r.run.respAddr())
			r.shell(s, strings.Replace(s.command, "6380", port, 1))
		}
	case strings.HasPrefix(s.command, "bin/shardid serve"):
		r.serves()
	case strings.HasPrefix(s.command, "bin/shardid bench"):
		r.shell(s, s.command+" --duration 300ms")
	case words[0] == "bin/shardid":
		r.shell(s, s.command)
	default:
		r.t.Errorf("the test does not know how to follow %q", s.command)
	}
}

// shell runs a command with the addresses and paths of this test.
func (r *reader) shell(s step, command string) {
	r.t.Helper()
	if strings.Contains(command, "127.0.0.1:6380") {
		command = strings.ReplaceAll(command, "127.0.0.1:6380", r.run.respAddr())
	}
	command = strings.NewReplacer("http://127.0.0.1:8080", r.run.url, "bin/shardid", rig.Binary(r.t)).Replace(command)
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	got := strings.TrimSpace(string(out))
	if want := strings.TrimSpace(s.prints); err != nil || want != "" && got != want {
		r.t.Errorf("%s\n got  %s (%v)\n want %s", s.command, got, err, want)
	}
}

// hasTarget: make knows it; what it does is for its own tests.
func (r *reader) hasTarget(name string) {
	r.t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil || !strings.Contains(string(makefile), "\n"+name+": ") {
		r.t.Errorf("make %s: no such target, %v", name, err)
	}
}

// export sets a variable; stores that it names are started.
func (r *reader) export(assignment string) {
	r.t.Helper()
	name, value, _ := strings.Cut(assignment, "=")
	value = strings.Trim(value, "'")
	switch name {
	case "SHARDID_DATABASE_DSN":
		value = testserver.SharedMariaDB(r.t).NewDatabase(r.t)
	case "SHARDID_REDIS_ADDRS":
		value = testserver.Redis(r.t).Addr
	}
	r.env = append(r.env, name+"="+value)
}

// settings are what was exported.
func (r *reader) settings() settings {
	s := settings{}
	for _, entry := range r.env {
		if name, value, ok := strings.Cut(strings.TrimPrefix(entry, "SHARDID_"), "="); ok && strings.HasPrefix(entry, "SHARDID_") {
			s[name] = value
		}
	}
	return s
}

// serves: a replica on what was exported gives the IDs that were provisioned.
func (r *reader) serves() {
	r.t.Helper()
	d := serveIn(r.t, r.t.TempDir(), r.settings())
	eventually(r.t, startLimit, "the first ID", func() bool { return d.get(aliceGet).status == 200 })
	d.Kill()
}
