package deploytest

import (
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
)

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
	addr := rig.FreeAddrs(t, 1)[0]
	var log check.Log
	server := in("serve", "--demo", "--set", "server.addr="+addr)
	server.Stdout, server.Stderr = &log, &log
	check.Must(t, server.Start())
	err = rig.Within(time.Minute, func() error { return in("health", "--url", "http://"+addr).Run() })
	check.OK(t, err, "health")
	check.OK(t, server.Process.Signal(syscall.SIGTERM))
	check.OK(t, server.Wait(), "the server")
	if in("health", "--url", "http://"+addr).Run() == nil {
		t.Error("a server that is gone is healthy")
	}
}
