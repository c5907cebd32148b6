//go:build linux

package stories_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// host is a machine that runs a program with a library of others under `shardid lease`.
type host struct {
	*rig.Process
	t    *testing.T
	name string
}

// leasing is where hosts get their worker IDs.
type leasing struct {
	t       *testing.T
	program string
	urls    string
	hosts   []*host
}

// buildHolders builds the program, a module of its own with the libraries.
func buildHolders(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "holders")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir, build.Env = "testdata/holders", append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// start runs a library on another host.
func (l *leasing) start(name, library string) *host {
	l.t.Helper()
	lease := []string{"lease", "--name", name, "--url", l.urls, "--", l.program, library}
	return l.run(command(l.t, l.t.TempDir(), settings{}, lease...))
}

// java runs the Java client on another host.
func (l *leasing) java(name, classes string) *host {
	l.t.Helper()
	return l.run(exec.Command("java", "-cp", classes, "shardid.Holder", l.urls, name))
}

func (l *leasing) run(cmd *exec.Cmd) *host {
	l.t.Helper()
	h := &host{t: l.t, name: fmt.Sprintf("host-%d", len(l.hosts)+1)}
	h.Process = rig.Start(l.t, cmd, filepath.Join(l.t.TempDir(), "log"))
	l.hosts = append(l.hosts, h)
	return h
}

// ids are those that the host has printed whole.
func (h *host) ids() (ids []int64) {
	for line := range strings.Lines(h.Output()) {
		if digits, whole := strings.CutSuffix(line, "\n"); whole {
			if id, err := strconv.ParseInt(digits, 10, 64); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// makes returns when the host has made new IDs.
func (h *host) makes(limit time.Duration) {
	h.t.Helper()
	begun := len(h.ids())
	rig.Until(h.t, limit, h.name+" makes IDs", func() error {
		if n := len(h.ids()); n <= begun {
			return fmt.Errorf("%d: %s", n, rig.LastLines(h.Output(), 3))
		}
		return nil
	})
}

// child is the process ID of the program.
func (h *host) child() int {
	h.t.Helper()
	pid := h.Cmd.Process.Pid
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, thread := range threads { // of any of its threads
		if more, err := os.ReadFile(thread); err == nil {
			raw = append(raw, more...)
		}
	}
	fields := strings.Fields(string(raw))
	if len(fields) == 0 {
		h.t.Fatalf("%s has no child: %v", h.name, err)
	}
	child, _ := strconv.Atoi(fields[0])
	return child
}

// ends returns when the process is gone.
func ends(t *testing.T, pid int, limit time.Duration) {
	t.Helper()
	eventually(t, limit, fmt.Sprintf("process %d is gone", pid), func() bool {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(raw), ") Z ")
	})
}

// TestLeaseCommand: a library that knows nothing of shardid runs on hosts that are killed, and the Java client
// on one that is frozen beside it, while replicas are killed and the database fails over to a
// copy that lacks leases. No ID is made twice.
func TestLeaseCommand(t *testing.T) {
	check.Deep(t)
	story(t)
	program := buildHolders(t)
	classes := javaClasses(t)
	withJava := classes != ""
	db := newMovingDatabase(t)
	s := db.settings()
	must(t, s, "migrate")
	must(t, s, "names", "add", "--name", "orders", "--worker-bits", "3", "--hold", "8s")
	replicas := serveReady(t, 3, s)
	l := &leasing{t: t, program: program}
	for _, r := range replicas {
		l.urls += "," + r.url
	}
	l.urls = l.urls[1:]

	first, second := l.start("orders", "bwmarrin"), l.start("orders", "bwmarrin")
	var java, sleeper *host
	if withJava {
		java, sleeper = l.java("orders", classes), l.java("orders", classes)
	}
	for _, h := range l.hosts {
		h.makes(startLimit)
	}

	db.CatchUp()
	db.Lag()
	third := l.start("orders", "bwmarrin") // the copy knows nothing of it
	third.makes(startLimit)
	db.Failover()
	db.leadTo(db.Primary)
	replicas[0].Kill()
	ends(t, third.Cmd.Process.Pid, startLimit) // its lease is lost
	second.makes(startLimit)                   // its own goes on
	if withJava {
		java.makes(startLimit)
	}

	child := first.child()
	first.Kill()
	ends(t, child, 5*time.Second)
	if withJava {
		sleeper.Signal(syscall.SIGSTOP)
	}
	second.Kill()
	fourth, fifth := l.start("orders", "bwmarrin"), l.start("orders", "bwmarrin")
	fourth.makes(time.Minute) // after what the copy may lack
	fifth.makes(time.Minute)
	sixth := l.start("orders", "bwmarrin")
	sixth.makes(time.Minute)
	if withJava {
		java.Kill()
		sleeper.Signal(syscall.SIGCONT)
		sleeper.makes(time.Minute) // with another lease: its own has ended
		sleeper.Kill()
	}
	for _, h := range []*host{fourth, fifth, sixth} {
		h.Signal(syscall.SIGTERM)
		if code := h.Exit(startLimit); code != 128+int(syscall.SIGTERM) {
			t.Errorf("%s ended with %d: %s", h.name, code, rig.LastLines(h.Output(), 3))
		}
	}
	books := &ledger{}
	for _, h := range l.hosts {
		ids := h.ids()
		t.Logf("%s made %d IDs", h.name, len(ids))
		books.Add(h.name, rig.List{App: -5}, ids...)
	}
	books.Settle(t)
}

// TestLeaseRecipes: each library of testdata/holders makes IDs of its name's layout.
func TestLeaseRecipes(t *testing.T) {
	check.Deep(t)
	story(t)
	l := &leasing{t: t, program: buildHolders(t)}
	d := prepared(t, nil,
		strings.Fields("names add --name bwmarrin --worker-bits 10 --seq-bits 12"),
		strings.Fields("names add --name sonyflake --worker-bits 16 --seq-bits 8 --epoch 1409529600000"),
		strings.Fields("names add --name yitter --worker-bits 6 --seq-bits 6 --epoch 1582136402000"))
	d.ready()
	l.urls = d.url
	for _, library := range []string{"bwmarrin", "sonyflake", "yitter"} {
		a, b := l.start(library, library), l.start(library, library)
		a.makes(startLimit)
		b.makes(startLimit)
		a.Signal(syscall.SIGTERM)
		b.Signal(syscall.SIGTERM)
		books := &ledger{}
		for _, h := range []*host{a, b} {
			h.Exit(startLimit)
			books.Add(h.name, rig.List{App: -5}, h.ids()...)
		}
		books.Settle(t, library)
	}
}
