//go:build unix

package testserver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

// zookeeperTick is the server's tick in ms. Sessions last at least two of them
// and end on a multiple, so one of a second ends within 1.2 s.
const zookeeperTick = 200

// ZooKeeperServer is one stand-alone ZooKeeper, see ZooKeeper.
type ZooKeeperServer struct {
	addr string
	server
}

// ZooKeeper starts a private, empty ZooKeeper. Sessions may last 0.4…60 s. What
// was committed survives Kill and Restart. It is ready in 1–2 s.
func ZooKeeper(t testing.TB) *ZooKeeperServer {
	t.Helper()
	return startZooKeeper(t, 0, nil)
}

var sharedZooKeeper shared[ZooKeeperServer]

// SharedZooKeeper returns the one ZooKeeper of this test process, started on
// first use, for tests that each take a subtree of their own. It cannot be
// stopped or paused. Safe for concurrent use.
func SharedZooKeeper(t testing.TB) *ZooKeeperServer {
	t.Helper()
	s := sharedZooKeeper.get(t, ZooKeeper)
	s.t, s.shared = t, true
	return &s
}

// Addr is host:port; it stays the same over a Restart. Safe for concurrent use.
func (s *ZooKeeperServer) Addr() string { return s.addr }

// startZooKeeper starts one with further lines of zoo.cfg. The service of a server of an ensemble, which has a number
// above 0, is not waited for, as alone it has no quorum.
func startZooKeeper(t testing.TB, number int, settings []string) *ZooKeeperServer {
	t.Helper()
	s := &ZooKeeperServer{}
	s.begin(t)
	java, err := edition{}.program("openjdk-17-jre-headless", "java")
	check.Must(t, err)
	classes, err := findZooKeeper()
	check.Must(t, err)
	s.ready = s.isReady
	if number > 0 {
		s.ready = func() error { return check.Err(fourLetters(s.addr, "srvr")) }
		check.Must(t, os.Mkdir(s.path("data"), 0o700))
		check.Must(t, os.WriteFile(filepath.Join(s.path("data"), "myid"), []byte(strconv.Itoa(number)), 0o600))
	}
	s.startOnPorts(1, func(ports []int) []string {
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
		s.configure(ports[0], settings)
		return s.zookeeperArgs(java, classes)
	})
	return s
}

// zookeeperArgs keeps the virtual machine small and quick to start, and its
// traces in the server's folder, which is on the class path for the logging. A vote that
// was lost is repeated after a second at most, not after a minute.
func (s *ZooKeeperServer) zookeeperArgs(java, classes string) []string {
	return []string{java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.fastleader.maxNotificationInterval=1000", "-Djava.io.tmpdir=" + s.dir,
		"-cp", s.dir + ":" + classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"}
}

// configure writes the settings, and those of the two logging libraries that
// ZooKeeper comes with: warnings only.
func (s *ZooKeeperServer) configure(port int, settings []string) {
	s.t.Helper()
	config := append([]string{
		fmt.Sprintf("tickTime=%d", zookeeperTick), "maxSessionTimeout=60000", "admin.enableServer=false",
		"4lw.commands.whitelist=*", "clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", port),
		"dataDir=" + s.path("data"), "maxClientCnxns=0", // 0: as many connections as you like
	}, settings...)
	for name, text := range map[string]string{
		"zoo.cfg":                 strings.Join(config, "\n") + "\n",
		"simplelogger.properties": "org.slf4j.simpleLogger.defaultLogLevel=warn\n",
		"logback.xml": `<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender">` +
			`<encoder><pattern>%d %p %c %m%n</pattern></encoder></appender>` +
			`<root level="WARN"><appender-ref ref="out"/></root></configuration>`,
	} {
		check.Must(s.t, os.WriteFile(s.path(name), []byte(text), 0o600))
	}
}

// isReady checks the data folder too: on a port clash the one who answers is
// another program's server.
func (s *ZooKeeperServer) isReady() error {
	conf, err := fourLetters(s.addr, "conf")
	if err != nil {
		return err
	}
	status, err := fourLetters(s.addr, "srvr")
	if err != nil {
		return err
	}
	if !strings.Contains(status, "\nMode: ") {
		return errors.New(strings.TrimSpace(status))
	}
	if !strings.Contains(conf, "dataDir="+s.path("data")+"/") {
		return fmt.Errorf("%s belongs to another server", s.addr)
	}
	return nil
}

// fourLetters asks the server at addr one of ZooKeeper's four-letter words.
func fourLetters(addr, word string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, askLimit)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(askLimit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// findZooKeeper returns a class path. Debian's jar names the other jars that it needs, except one that logs; those of
// the project's archive lie beside it.
func findZooKeeper() (classes string, err error) {
	const debian, archive = "/usr/share/java/zookeeper.jar", "/opt/zookeeper/lib"
	if _, err := os.Stat(debian); err == nil {
		return debian + ":/usr/share/java/slf4j-simple.jar", nil
	}
	if _, err := os.Stat(archive); err == nil {
		return archive + "/*", nil
	}
	return "", errors.New("ZooKeeper not found: install the Debian package zookeeper; " +
		"`make test` or scripts/install-test-servers.sh does so")
}

// EnsembleSetup is three ZooKeepers that elect a leader, see Ensemble.
type EnsembleSetup struct {
	Servers []*ZooKeeperServer // server i has the number i+1
	t       testing.TB
}

// Ensemble starts three ZooKeepers, the fewest that outlive one of them. It returns when
// all serve, which takes about 3 s.
func Ensemble(t testing.TB) *EnsembleSetup {
	t.Helper()
	skipShort(t)
	const size = 3
	e := &EnsembleSetup{t: t}
	ports, err := FreePorts(2 * size) // for followers and for votes
	check.Must(t, err)
	settings := []string{"initLimit=50", "syncLimit=25"}
	for i := range size {
		settings = append(settings, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[2*i], ports[2*i+1]))
	}
	for i := range size {
		e.Servers = append(e.Servers, startZooKeeper(t, i+1, settings))
	}
	e.WaitAll()
	return e
}

// Addrs are host:port of all servers.
func (e *EnsembleSetup) Addrs() []string {
	addrs := make([]string, len(e.Servers))
	for i, s := range e.Servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// WaitAll waits, 60 s at most, until every server serves and one of them leads.
func (e *EnsembleSetup) WaitAll() {
	e.t.Helper()
	for _, s := range e.Servers {
		check.Must(e.t, check.Within(startLimit, s.isReady))
	}
	e.Leader()
}

// Leader waits, 60 s at most, for a leader among the servers that answer, and
// returns its index.
func (e *EnsembleSetup) Leader() (leader int) {
	e.t.Helper()
	check.Must(e.t, check.Within(startLimit, func() error {
		for i, s := range e.Servers {
			if !s.answers() {
				continue
			}
			if status, err := fourLetters(s.addr, "srvr"); err == nil && strings.Contains(status, "\nMode: leader") {
				leader = i
				return nil
			}
		}
		return errors.New("no ZooKeeper leads")
	}))
	return leader
}
