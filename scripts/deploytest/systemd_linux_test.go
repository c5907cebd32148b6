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
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

const unitPath = "deploy/systemd/shardid.service"

// setting is the last value of a key of the unit.
func setting(unit, key string) string {
	all := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(unit, -1)
	if len(all) == 0 {
		return "(not set)"
	}
	return all[len(all)-1][1]
}

// TestUnit: what the unit promises; systemd's own programs judge the rest.
func TestUnit(t *testing.T) {
	c := checks{t}
	unit := read(unitPath)
	for key, want := range map[string]string{
		"Type": "notify", "Restart": "on-failure", "StartLimitIntervalSec": "0", "RestartPreventExitStatus": "(not set)", "CapabilityBoundingSet": "", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		"ProtectHome": "yes", "PrivateTmp": "yes", "MemoryDenyWriteExecute": "yes", "SystemCallArchitectures": "native",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_NETLINK AF_UNIX", "UMask": "0077", "KillMode": "mixed",
	} {
		c.unless(setting(unit, key) == want, "%s is %s, want %s", key, setting(unit, key), want)
	}
	pause := duration(setting(unit, "RestartSec") + "s")
	c.unless(pause >= 2*time.Second && pause <= 10*time.Second, "RestartSec %v: too soon for the journal, or too late for callers", pause)
	limit, soft := mebibytes(strings.TrimSuffix(setting(unit, "MemoryMax"), "M")), mebibytes(setting(unit, "Environment=GOMEMLIMIT"))
	c.unless(soft > limit/2 && soft <= limit*9/10, "GOMEMLIMIT is %d MiB, MemoryMax %d", soft, limit)
	seconds := duration(setting(unit, "TimeoutStopSec") + "s")
	c.unless(seconds >= 20*time.Second, "TimeoutStopSec %v is not above server.shutdown_timeout", seconds)
	dir := setting(unit, "StateDirectory")
	c.unless(strings.Contains(unit, "\nEnvironment=SHARDID_DATA_DIR=/var/lib/"+dir+"\n"), "data_dir is not StateDirectory %s, and nothing else can be written", dir)
	user := setting(unit, "User")
	for place, program := range map[string]string{"## Packages": "/usr/bin/shardid", "## systemd": "/usr/local/bin/shardid"} {
		_, page, _ := strings.Cut(read(readmePath), "\n"+place+"\n")
		_, other, _ := strings.Cut(page, "\nsystemd-run ")
		other, rest, _ := strings.Cut(other, "migrate")
		for _, want := range []string{"--uid=" + user + " ", "--setenv=SHARDID_DATA_DIR=" + setting(unit, "Environment=SHARDID_DATA_DIR") + " ", "--property=EnvironmentFile=" + setting(unit, "EnvironmentFile") + " ", " " + program + " "} {
			c.unless(strings.Contains(other, want), "%s of the README runs migrate without %s", place, want)
		}
		rest, _, _ = strings.Cut(rest, "\n```")
		c.unless(strings.Contains(rest, "\nsystemctl enable --now shardid"), "%s of the README does not start the service after migrate", place)
	}
	c.unless(regexp.MustCompile(`(?m)^u `+user+` - `).MatchString(read("deploy/systemd/shardid.sysusers")), "user %s is not made", user)
	c.unless(strings.Contains(read("deploy/systemd/shardid.env.example"), " "+strings.TrimPrefix(setting(unit, "EnvironmentFile"), "-")) ||
		strings.Contains(read("deploy/systemd/shardid.env.example"), strings.TrimPrefix(setting(unit, "EnvironmentFile"), "-")+","), "EnvironmentFile %s is not what the example is for", setting(unit, "EnvironmentFile"))
}

func analyze(t *testing.T, args ...string) string {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here")
	}
	out, err := exec.Command(tool, args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// TestUnitVerified: systemd knows each key and value of the unit. It gets a binary
// that is there.
func TestUnitVerified(t *testing.T) {
	check.Deep(t)
	unit := strings.Replace(read(unitPath), "/usr/local/bin/shardid", "/bin/true", 1)
	path := filepath.Join(t.TempDir(), "shardid.service")
	if err := os.WriteFile(path, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := analyze(t, "verify", path); strings.TrimSpace(out) != "" {
		t.Error(out)
	}
}

// TestUnitSecurity: at most 1.4 of 10 points of exposure.
func TestUnitSecurity(t *testing.T) {
	check.Deep(t)
	out := analyze(t, "security", "--no-pager", "--offline=true", "--threshold=14", filepath.Join(root, unitPath))
	t.Log(out[max(0, strings.LastIndex(strings.TrimSpace(out), "\n")):])
}

// TestUnitAllowsItsSystemCalls traces a server from its start over some IDs to its
// end: each system call it makes is one that the unit's filter lets through.
func TestUnitAllowsItsSystemCalls(t *testing.T) {
	check.Deep(t)
	strace, err := exec.LookPath("strace")
	if err != nil || testing.Short() {
		t.Skip("no strace here")
	}
	allowed := map[string]bool{}
	for name := range strings.FieldsSeq(setOf(t, "@system-service")) {
		allowed[name] = true
	}
	for _, group := range []string{"@privileged", "@resources"} {
		for name := range strings.FieldsSeq(setOf(t, group)) {
			delete(allowed, name)
		}
	}
	if len(allowed) < 200 || allowed["chown"] || !allowed["futex"] {
		t.Fatalf("%d system calls are allowed", len(allowed))
	}
	made := traced(t, strace)
	var refused []string
	for _, name := range made {
		if !allowed[name] {
			refused = append(refused, name)
		}
	}
	t.Logf("%d system calls are made: %v", len(made), made)
	if len(made) < 20 || len(refused) > 0 {
		t.Errorf("%d system calls are made, the filter refuses %v", len(made), refused)
	}
}

// setOf is the members of a set of system calls, those of its sets included.
func setOf(t *testing.T, set string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(analyze(t, "syscall-filter", set)) {
		switch line = strings.TrimSpace(line); {
		case line == set || line == "" || line[0] == '#':
		case line[0] == '@':
			all.WriteString(setOf(t, line))
		default:
			all.WriteString(line + " ")
		}
	}
	return all.String()
}

// traced runs a server under strace and gives the names of what it called. With -D
// the child is the server and strace watches from the side.
func traced(t *testing.T, strace string) []string {
	t.Helper()
	dir, addr := t.TempDir(), rig.FreeAddrs(t, 1)[0]
	bin, trace := filepath.Join(dir, "shardid"), filepath.Join(dir, "trace")
	if err := os.Link(builtBinary(t), bin); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strace, "-D", "-f", "-q", "-e", "signal=none", "-o", trace, bin, "serve", "--demo", "--set", "server.addr="+addr, "--set", "server.drain_delay=0s")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // SQLite gives its files to others only as root, which the service is not
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65532, Gid: 65532}
		if err := errors.Join(os.Chown(dir, 65532, 65532), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked := askAround(bin, addr)
	if err := errors.Join(asked, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	calls := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(whole(t, trace), -1) {
		calls[m[1]] = true
	}
	return slices.Sorted(maps.Keys(calls))
}

// askAround waits for the server and takes IDs of every mode.
func askAround(bin, addr string) error {
	var last error
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		if last = exec.Command(bin, "health", "--url", "http://"+addr).Run(); last == nil {
			break
		}
	}
	for _, mode := range []string{"queue", "segment", "snowflake", "uid"} {
		out, err := exec.Command(bin, "bench", "--url", "http://"+addr, "--mode", mode,
			"--duration", "200ms", "--concurrency", "4").CombinedOutput()
		if err != nil {
			last = errors.Join(last, fmt.Errorf("bench %s: %w: %s", mode, err, out))
		}
	}
	return last
}

// whole is the trace, once strace has seen the server's end.
func whole(t *testing.T, path string) string {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "+++ exited with 0 +++") {
			return string(raw)
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the trace has no end")
		}
	}
}
