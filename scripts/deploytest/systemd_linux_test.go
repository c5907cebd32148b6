package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

const unitPath = "deploy/systemd/shardid.service"

// TestUnit: systemd knows each key and value of the unit, and rates its exposure at most 1.4 of 10.
func TestUnit(t *testing.T) {
	check.Deep(t)
	analyze, path := found(t, "systemd-analyze"), filepath.Join(t.TempDir(), "shardid.service")
	unit := strings.Replace(read(t, unitPath), "/usr/local/bin/shardid", "/bin/true", 1) // which is there
	check.Must(t, os.WriteFile(path, []byte(unit), 0o644))
	out, err := run("", analyze, "verify", path)
	check.OK(t, err, out)
	check.Equal(t, strings.TrimSpace(out), "", "systemd-analyze verify")
	out, err = run("", analyze, "security", "--no-pager", "--offline=true", "--threshold=14", path)
	check.OK(t, err, rig.LastLines(out, 2))
}

// TestUnitAllowsItsSystemCalls traces a server from its start over some IDs of each mode to its end: each system call
// that it makes is one that the unit's filter lets through.
func TestUnitAllowsItsSystemCalls(t *testing.T) {
	check.Deep(t)
	strace, analyze := found(t, "strace"), found(t, "systemd-analyze")
	check.Has(t, read(t, unitPath), "\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n")
	allowed := callsOf(t, analyze, "@system-service")
	for _, group := range []string{"@privileged", "@resources"} {
		for name := range callsOf(t, analyze, group) {
			delete(allowed, name)
		}
	}
	made := traced(t, strace)
	if len(allowed) < 200 || len(made) < 20 {
		t.Fatalf("%d system calls are allowed and %d made, want more", len(allowed), len(made))
	}
	for _, name := range made {
		if !allowed[name[1]] {
			t.Errorf("the filter refuses %s", name[1])
		}
	}
}

// callsOf is a set of system calls, with those of its sets.
func callsOf(t *testing.T, analyze, set string) map[string]bool {
	t.Helper()
	out, err := run("", analyze, "syscall-filter", set)
	check.Must(t, err)
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(@?\w[\w-]*)$`).FindAllStringSubmatch(out, -1) {
		if m[1][0] != '@' {
			all[m[1]] = true
			continue
		}
		for name := range callsOf(t, analyze, m[1]) {
			all[name] = true
		}
	}
	return all
}

// traced runs a server under strace and gives the lines of its calls. With -D the process is the server, and strace
// watches from the side. SQLite gives its files to others only as root, which the service is not.
func traced(t *testing.T, strace string) [][]string {
	t.Helper()
	dir, addr := t.TempDir(), rig.FreeAddrs(t, 1)[0]
	trace, binary := filepath.Join(dir, "trace"), rig.Binary(t)
	words := []string{strace, "-D", "-f", "-q", "-e", "signal=none", "-o", trace, binary, "serve", "--demo"}
	if os.Geteuid() == 0 {
		check.Must(t, os.Chown(dir, 65532, 65532))
		check.Must(t, os.Chmod(filepath.Dir(dir), 0o755))
		words = append([]string{found(t, "setpriv"), "--reuid=65532", "--regid=65532", "--clear-groups"}, words...)
	}
	env := rig.Settings{"SERVER_ADDR": addr, "SERVER_DRAIN_DELAY": "0s"}
	p := rig.Start(t, env.Command(dir, words[0], words[1:]...), filepath.Join(t.TempDir(), "log"))
	rig.Until(t, time.Minute, "ready", func() error { return check.Err(get("http://" + addr + "/readyz")) })
	for _, mode := range []string{"queue", "segment", "snowflake", "uid"} {
		out, err := run(dir, binary, "bench", "--url", "http://"+addr, "--mode", mode, "--duration", "200ms")
		check.OK(t, err, mode, out)
	}
	p.Signal(syscall.SIGTERM)
	check.Equal(t, p.Exit(time.Minute), 0, "exit status")
	var text []byte
	rig.Eventually(t, time.Minute, "strace has seen the end", func() bool {
		text, _ = os.ReadFile(trace) // there is none yet
		return strings.Contains(string(text), "+++ exited with 0 +++")
	})
	return regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(string(text), -1)
}
