//go:build unix

package testserver

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// lan is hosts with a switch between them, each a network namespace, so that one can be cut off from
// the others while the test still reaches it. Linux ends it all with the processes in it.
type lan struct {
	hosts []lanHost
	hub   string // the namespace of the switch
}

// lanHost is one host.
type lanHost struct {
	addr  string // where the test reaches it
	peer  string // where the other hosts do
	space string // its namespace
}

// loopback is where a server runs that is on no lan.
var loopback = lanHost{addr: "127.0.0.1", peer: "127.0.0.1"}

// enter runs argv on the host.
func (h lanHost) enter(argv ...string) []string {
	if h.space == "" {
		return argv
	}
	return append([]string{"nsenter", "--net=" + h.space, "--"}, argv...)
}

// newLAN makes a lan that ends with t. It needs the rights of root, and iproute2.
func newLAN(t testing.TB, hosts int) (*lan, error) {
	l := &lan{}
	var err error
	if l.hub, err = namespace(t); err != nil {
		return nil, err
	}
	if err = shell(lanHost{space: l.hub}, "ip link add lan type bridge && ip link set lan up"); err != nil {
		return nil, err
	}
	const tries = 10
	for range tries { // another test may have a lan of this number
		number := 1 + rand.IntN(254)
		l.hosts, err = nil, nil
		for i := 1; i <= hosts && err == nil; i++ {
			err = l.plug(t, number, i)
		}
		if err == nil || len(l.hosts) > 0 {
			break
		}
	}
	return l, err
}

// plug adds host i to lan number. Its addresses are of those set apart for laboratories (RFC 2544).
func (l *lan) plug(t testing.TB, number, i int) error {
	space, err := namespace(t)
	if err != nil {
		return err
	}
	h := lanHost{
		space: space,
		addr:  fmt.Sprintf("198.18.%d.%d", number, 4*i+2),
		peer:  fmt.Sprintf("198.19.%d.%d", number, i),
	}
	link := fmt.Sprintf("shardid%d-%d", number, i)
	if err = shell(lanHost{}, "ip link add %s type veth peer name test netns %s", link, space); err != nil {
		return err
	}
	for _, step := range []struct {
		on      lanHost
		command string
	}{
		{lanHost{}, fmt.Sprintf("ip addr add 198.18.%d.%d/30 dev %s && ip link set %s up", number, 4*i+1, link, link)},
		{lanHost{}, fmt.Sprintf("ip link add peers netns %s type veth peer name host%d netns %s", space, i, l.hub)},
		{h, fmt.Sprintf("ip addr add %s/30 dev test && ip link set test up && "+
			"ip addr add %s/24 dev peers && ip link set peers up", h.addr, h.peer)},
		{lanHost{space: l.hub}, fmt.Sprintf("ip link set host%d master lan up", i)},
	} {
		if err = shell(step.on, "%s", step.command); err != nil {
			return err
		}
	}
	l.hosts = append(l.hosts, h)
	return nil
}

// connect joins the host of an address to the others, or cuts it off.
func (l *lan) connect(addr string, on bool) error {
	for i, h := range l.hosts {
		if h.addr == addr {
			state := map[bool]string{true: "up", false: "down"}[on]
			return shell(lanHost{space: l.hub}, "ip link set host%d %s", i+1, state)
		}
	}
	return fmt.Errorf("%s is on no lan", addr)
}

// namespace is the file of a new network namespace, which lasts as long as t and this process.
func namespace(t testing.TB) (string, error) {
	holder := exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat >/dev/null")
	in, err := holder.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("hold a network namespace: %w", err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("hold a network namespace: %w", err)
	}
	if err = holder.Start(); err != nil {
		return "", fmt.Errorf("hold a network namespace: %w", err)
	}
	t.Cleanup(func() {
		_ = in.Close()    // it ends then
		_ = holder.Wait() // with a status that tells nothing
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return "", fmt.Errorf("hold a network namespace: %q: %w", line, err)
	}
	return fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid), nil
}

// shell runs a command on a host.
func shell(on lanHost, format string, args ...any) error {
	command := on.enter("sh", "-c", fmt.Sprintf(format, args...))
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}
