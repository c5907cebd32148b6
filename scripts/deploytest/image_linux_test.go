package deploytest

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// TestImage does what the Dockerfile does, without an engine: its go build in what
// .dockerignore leaves, the files beside it, and then the binary as root of its own
// file system, as the image's user and as one that a platform such as OpenShift chooses.
func TestImage(t *testing.T) {
	check.Deep(t)
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("builds the binary and needs chroot")
	}
	uid, gid := imageUser(t)
	for who, user := range map[string]syscall.Credential{"its own user": {Uid: uid, Gid: gid}, "any user of group 0": {Uid: 1000680000, Gid: 0}} {
		t.Run(who, func(t *testing.T) { serveImage(t, user) })
	}
}

func serveImage(t *testing.T, user syscall.Credential) {
	t.Helper()
	dir := imageRoot(t)
	inImage := func(args ...string) *exec.Cmd { return inImage(t.Context(), dir, user, args...) }
	static(t, filepath.Join(dir, "shardid"))
	out, err := inImage("version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "+0123456789ab ") {
		t.Errorf("version: %v\n%s", err, out)
	}
	addr := rig.FreeAddrs(t, 1)[0]
	var log bytes.Buffer
	server := inImage("serve", "--demo", "--set", "server.addr="+addr, "--set", "time_zone=Asia/Shanghai")
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed, or ended below
	}()
	if err := healthy(inImage, addr); err != nil {
		_ = server.Process.Kill()
		_ = server.Wait()
		t.Fatalf("%v\n%s", err, &log)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
	if out, err = inImage("health", "--url", "http://"+addr).CombinedOutput(); err == nil {
		t.Errorf("a server that is gone is healthy: %s", out)
	}
}

// built is the binary by the Dockerfile's own command, from what .dockerignore leaves,
// in a folder of its own; TestMain removes it.
var built = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp(buildRoot(), "")
	if err != nil {
		return "", err
	}
	context := filepath.Join(dir, "context")
	if err := sources(context); err != nil {
		return "", err
	}
	build := strings.NewReplacer("/out/", dir+"/", "${REVISION}", "0123456789abcdef").Replace(dockerfile().run("go build"))
	cmd := exec.Command("/bin/sh", "-c", build)
	cmd.Dir, cmd.Env = context, append(os.Environ(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return filepath.Join(dir, "shardid"), nil
})

func builtBinary(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// imageRoot is the file system of the image, as the Dockerfile's own command makes it.
func imageRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := builtBinary(t)
	d := dockerfile()
	beside := exec.Command("/bin/sh", "-c", "umask 022; "+strings.ReplaceAll(d.run("mkdir"), "/out/", dir+"/"))
	beside.Dir = root
	if out, err := beside.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var uid, gid int
	for _, args := range d.all("COPY") {
		if _, owner, ok := strings.Cut(args, "--chown="); ok {
			if _, err := fmt.Sscanf(owner, "%d:%d /out/data /data", &uid, &gid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, err := range []error{
		os.Link(bin, filepath.Join(dir, "shardid")), os.Chown(filepath.Join(dir, "data"), uid, gid),
		os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func imageUser(t *testing.T) (uid, gid uint32) {
	t.Helper()
	if _, err := fmt.Sscanf(dockerfile().last("USER"), "%d:%d", &uid, &gid); err != nil {
		t.Fatal(err)
	}
	return uid, gid
}

// static: no interpreter, so no library of the system.
func static(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary is linked dynamically")
		}
	}
	if info, err := os.Stat(path); err == nil {
		t.Logf("the binary has %d MiB", info.Size()>>20)
	}
}

// inImage is a command in the image: its root, user, working directory, and an
// environment of its own. It ends with the test process, however that ends.
func inImage(ctx context.Context, dir string, user syscall.Credential, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/shardid", args...)
	cmd.Err = nil // it is looked for outside
	cmd.Dir, cmd.Env = "/etc/shardid", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &user, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// healthy asks as the HEALTHCHECK does until the server is ready.
func healthy(inImage func(args ...string) *exec.Cmd, addr string) error {
	var last error
	for begun := time.Now(); time.Since(begun) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		out, err := inImage("health", "--url", "http://"+addr).CombinedOutput()
		if err == nil && strings.HasPrefix(string(out), "ok") {
			return nil
		}
		last = fmt.Errorf("not healthy: %w: %s", err, out)
	}
	return last
}
