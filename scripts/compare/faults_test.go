//go:build unix

package compare

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// IDs of each generator, one a millisecond: many are more than a segment, and more than the clock is set back by.
const few, some, many = 500, 2000, 6000

// fault is a column of the page.
type fault struct {
	key, name string
	ofStores  bool // of no concern to generators without a store
	happens   func(w *world)
}

var faults = []fault{
	{"two", "two processes on a machine", false, func(w *world) {
		w.begin(2, everything)
		w.take(some)
	}},
	{"hundred", "a hundred processes", false, aHundred},
	{"containers", "two containers with one address", false, twoContainers},
	{"kill", "kill -9, and start at once", false, func(w *world) {
		w.begin(2, withStore)
		w.prepare()
		w.take(some)
		w.kill()
		w.restart()
		w.afterwards(some)
	}},
	{"clock", "clock back 5 s, right after 10", false, func(w *world) {
		w.begin(2, withStore)
		w.take(many)
		w.happen()
		w.setClock(-5)
		w.take(10_000)
		w.setClock(0)
		w.settle()
		w.take(some)
	}},
	{"restart", "the same over a restart", false, func(w *world) {
		w.begin(2, withStore)
		w.prepare()
		w.take(many)
		w.kill()
		w.happen()
		w.setClock(-5)
		w.restart()
		w.take(10_000)
		w.setClock(0)
		w.settle()
		w.take(some)
	}},
	{"frozen", "frozen for a minute", false, func(w *world) {
		w.begin(2, withStore)
		w.take(some)
		w.freeze(syscall.SIGSTOP)
		w.more()
		for begun := time.Now(); time.Since(begun) < time.Minute; {
			w.take(some)
		}
		w.freeze(syscall.SIGCONT)
		w.afterwards(some)
	}},
	{"emptied", "Redis emptied", true, func(w *world) {
		w.begin(2, withStore)
		w.take(many)
		w.redis.FlushAll()
		w.more()
		w.afterwards(many)
	}},
	{"redis", "Redis fails over to a lagging replica", true, func(w *world) {
		w.begin(2, withStore)
		w.link.Switch(testserver.FreeAddrs(w.t, 1)[0]) // where nobody listens
		w.take(many)
		w.promoteRedis()
		w.more()
		w.afterwards(many)
	}},
	{"database", "database fails over to a lagging copy", true, func(w *world) {
		w.begin(2, withStore)
		w.db.Lag()
		w.more()
		w.take(many)
		w.promoteDatabase()
		w.more()
		w.afterwards(many)
	}},
	{"dump", "a dump restored, all stopped", true, func(w *world) {
		w.begin(2, withStore)
		w.take(15_000)
		dump := output(w.t, w.client("mariadb-dump", "--databases", "shardid", "alone", "peers"))
		w.more()
		w.prepare()
		w.take(many)
		w.kill()
		restore := w.client("mariadb")
		restore.Stdin = bytes.NewReader(dump)
		output(w.t, restore)
		w.restart()
		w.afterwards(many)
	}},
	{"both", "both stores go back at once", true, func(w *world) {
		w.begin(2, withStore)
		w.link.Switch(testserver.FreeAddrs(w.t, 1)[0])
		w.db.Lag()
		w.more()
		w.take(many)
		w.promoteRedis()
		w.promoteDatabase()
		w.more()
		w.afterwards(many)
	}},
}

func everything(p peer) bool { return !p.speedOnly }
func withStore(p peer) bool  { return !p.speedOnly && p.hasStore }

// aHundred starts programs by tens, as fast as two cores can, beside three replicas of shardid with each set of stores.
// Each program issues as soon as it runs, and in the end all issue together.
func aHundred(w *world) {
	for i := range 3 {
		w.serve(i, "")
		w.serve(i, "-alone")
	}
	for i := range 100 {
		w.addPrograms(i, everything)
		if i%10 != 9 {
			continue
		}
		var all sync.WaitGroup
		for _, p := range w.processes {
			if p.url == "" && p.number > i-10 {
				all.Go(func() { p.take(some) })
			}
		}
		all.Wait()
		progress(fmt.Sprint(i+1, " run"))
	}
	leased := func() int { return min(len(w.tally("lease").last), len(w.tally("lease-java").last)) }
	for begun := time.Now(); leased() < 100 && time.Since(begun) < time.Minute || time.Since(begun) < time.Second; {
		w.take(few)
	}
}

// begin starts so many processes of each kind, and returns when all generators issue. Those without a store are in the
// first process alone, unless others want everything.
func (w *world) begin(n int, others func(peer) bool) {
	for i := range n {
		w.serve(i, "")
		w.serve(i, "-alone")
	}
	for i := range n {
		useful := others
		if i == 0 {
			useful = everything
		}
		w.addPrograms(i, useful)
	}
	w.settle()
}

func (w *world) serve(number int, suffix string) {
	addr := testserver.FreeAddrs(w.t, 1)[0]
	w.addReplica(number, suffix, addr, addr)
}

// more starts one process more of each that has a store, as people do after a fault.
func (w *world) more() {
	w.serve(9, "")
	w.serve(9, "-alone")
	w.addPrograms(9, withStore)
}

func (w *world) afterwards(n int) {
	w.happen()
	w.settle()
	w.take(n)
}

// freeze stops the first process of each kind, or lets it go on.
func (w *world) freeze(signal syscall.Signal) {
	for _, p := range w.processes {
		if p.number == 0 {
			check.Must(w.t, syscall.Kill(-p.Cmd.Process.Pid, signal))
			p.frozen = signal == syscall.SIGSTOP
		}
	}
}

func (w *world) promoteRedis() {
	w.redis.Kill()
	check.Must(w.t, w.copy.Client().Do(w.t.Context(), "REPLICAOF", "NO", "ONE").Err())
	w.redisAddr.Switch(w.copy.Addr)
}

func (w *world) promoteDatabase() {
	w.db.Primary.Kill()
	w.db.Promote()
	w.dbAddr.Switch(w.db.Primary.Addr())
}

// client is a program of MariaDB, for the primary.
func (w *world) client(name string, args ...string) *exec.Cmd {
	path := filepath.Join(filepath.Dir(testserver.MariaDBClient(w.t)), name)
	return exec.Command(path, append([]string{"--user=root", "--socket=" + w.db.Primary.Socket}, args...)...)
}

// output runs a command that must succeed.
func output(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, rig.LastLines(failure.String(), 20), rig.LastLines(string(out), 20))
	}
	return out
}

// setClock takes effect within a tenth of a second.
func (w *world) setClock(seconds int) {
	check.Must(w.t, os.WriteFile(w.clock, fmt.Appendf(nil, "%+d", seconds), 0o600))
	time.Sleep(200 * time.Millisecond)
}

// networkScript makes a network with one address, to which the host's name leads, and runs what forwards connections.
const networkScript = `
ip link set lo up
ip link add eth0 type veth peer name peer0
ip link set eth0 address 02:42:ac:11:00:02
ip addr add 172.17.0.2/16 dev eth0
ip link set eth0 up
ip link set peer0 up
hostname machine
printf '127.0.0.1 localhost\n172.17.0.2 machine\n' >"$0"
mount --bind "$0" /etc/hosts
exec "$@"`

// newNetwork makes a network of its own, in which addresses of this machine are reached by sockets in the file system.
// It gives what runs a program there. The address is the one that Docker gives to the first container of each host.
func (w *world) newNetwork(pairs ...string) (enter []string) {
	argv := []string{"--net", "--uts", "--mount", "sh", "-euc", networkScript, filepath.Join(w.t.TempDir(), "hosts")}
	p := w.forward("unshare", append(argv, tools.peers, "forward"), pairs)
	return []string{"nsenter", "--net", "--uts", "--mount", "--target", fmt.Sprint(p.Cmd.Process.Pid)}
}

// forward runs a program that carries connections, and returns when it listens.
func (w *world) forward(path string, argv, pairs []string) *rig.Process {
	p := rig.Start(w.t, exec.Command(path, append(argv, pairs...)...), filepath.Join(w.t.TempDir(), "log"))
	rig.Eventually(w.t, 10*time.Second, path, func() bool { return p.Gone() || strings.Contains(p.Output(), "ready") })
	if p.Gone() {
		w.t.Fatal(path, pairs, p.Output())
	}
	return p
}

// alone is what gives a program process IDs of its own: it is number 1.
var alone = []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}

// enter is what runs a program in the network of the machine or, in a container, in one of its own.
func (w *world) enter() []string {
	if w.boxed {
		return slices.Concat(w.newNetwork(w.pairs...), alone)
	}
	if w.network == nil && os.Geteuid() == 0 {
		w.network = w.newNetwork(w.reach()...)
	}
	return w.network
}

// reach is what a network needs so that the stores and replicas have the addresses there that they have here.
func (w *world) reach() (there []string) {
	here := []string{}
	for _, url := range slices.Concat([]string{w.dbAddr.Addr, w.redisAddr.Addr}, w.urls(""), w.urls("-alone")) {
		addr := strings.TrimPrefix(url, "http://")
		socket := "unix:" + filepath.Join(w.dir, addr)
		here, there = append(here, socket+"=tcp:"+addr), append(there, "tcp:"+addr+"="+socket)
	}
	w.forward(tools.peers, []string{"forward"}, here)
	return there
}

// twoContainers: two hosts, on each of which the only container has the same address.
func twoContainers(w *world) {
	if os.Geteuid() != 0 {
		w.t.Skip("run it as root: it makes networks")
	}
	w.pairs = w.reach()
	stores := w.pairs
	for i, addr := range testserver.FreeAddrs(w.t, 4) {
		socket := "unix:" + filepath.Join(w.dir, addr)
		box := w.newNetwork(slices.Concat(stores, []string{socket + "=tcp:127.0.0.1:8080"})...)
		w.forward(tools.peers, []string{"forward"}, []string{"tcp:" + addr + "=" + socket})
		w.addReplica(i, []string{"", "-alone"}[i%2], "127.0.0.1:8080", addr, slices.Concat(box, alone)...)
		w.pairs = append(w.pairs, "tcp:"+addr+"="+socket)
	}
	w.boxed = true
	w.addPrograms(0, everything)
	w.addPrograms(1, everything)
	w.settle()
	w.take(some)
}
