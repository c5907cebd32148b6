//go:build unix

package zkstore_test

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"log/slog"
	"net"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// TestMain lets more tests run in parallel than there are cores: they wait, for
// sessions to end and servers to start, much more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	var after []goleak.Option // what the library does for some seconds when no server answers
	for _, name := range []string{"loop", "sendLoop", "recvLoop", "request"} {
		after = append(after, goleak.IgnoreAnyFunction("github.com/go-zookeeper/zk.(*Conn)."+name))
	}
	testserver.Main(m, after...)
}

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// world is one name on a server, with the nodes below it.
type world struct {
	t    *testing.T
	addr string
	name string
}

// newWorld is empty: the name is used by this test only.
func newWorld(t *testing.T) world {
	t.Helper()
	return world{t, testserver.SharedZooKeeper(t).Addr(), "test-" + rand.Text()}
}

// alone lets a test run beside others, in a world of its own, with a session and a
// store of the mode.
func alone(t *testing.T, mode string) (world, *zk.Conn, instance) {
	t.Helper()
	t.Parallel()
	w := newWorld(t)
	return w, w.client(), w.mode(mode)
}

// network connects one store, and can be cut.
type network struct {
	mu    sync.Mutex
	conns []net.Conn
	cut   bool
	// before is called before each transaction is sent; nil: nothing is.
	before func()
}

func (n *network) dial(network, addr string, limit time.Duration) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		return nil, errors.New("the network is cut")
	}
	conn, err := net.DialTimeout(network, addr, limit)
	if err != nil {
		return nil, err
	}
	n.conns = append(n.conns, conn)
	return watched{conn, n}, nil
}

// sever cuts the network: ZooKeeper notices nothing but silence.
func (n *network) sever() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	for _, conn := range n.conns {
		_ = conn.Close()
	}
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = false
}

// beforeNext calls f before the next transaction is sent, and no other.
func (n *network) beforeNext(f func()) {
	var first sync.Once
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before = func() { first.Do(f) }
}

// watched is a connection of a network.
type watched struct {
	net.Conn
	*network
}

func (c watched) Write(packet []byte) (int, error) {
	const multi, head = 14, 12 // the request of a transaction, after length, number and opcode
	if len(packet) > head && binary.BigEndian.Uint32(packet[8:head]) == multi {
		c.mu.Lock()
		before := c.before
		c.mu.Unlock()
		if before != nil {
			before()
		}
	}
	return c.Conn.Write(packet)
}

// instance is a store as a process has it.
type instance struct {
	*zkstore.Store
	*network
}

// open opens a store, of this world where nothing else is said.
func (w world) open(o zkstore.Options) instance {
	w.t.Helper()
	if o.Addrs == nil {
		o.Addrs = []string{w.addr}
	}
	o.Mode, o.Name = cmp.Or(o.Mode, zkstore.ModeForever), cmp.Or(o.Name, w.name, "x")
	o.Log = slog.New(slog.DiscardHandler)
	o.SessionTimeout, o.ReclaimMargin = cmp.Or(o.SessionTimeout, 10*time.Second), cmp.Or(o.ReclaimMargin, 5*time.Second)
	o.Workers = cmp.Or(o.Workers, model.SnowflakeWorkers)
	n := &network{}
	s, err := zkstore.NewOver(o, n.dial)
	check.Must(w.t, err)
	w.t.Cleanup(func() { check.OK(w.t, errors.Join(s.Close(), s.Close())) })
	return instance{s, n}
}

func (w world) mode(mode string) instance {
	w.t.Helper()
	return w.open(zkstore.Options{Mode: mode})
}

// client is a session beside the stores.
func (w world) client() *zk.Conn {
	w.t.Helper()
	c, events, err := zk.Connect([]string{w.addr}, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	check.Must(w.t, err)
	w.t.Cleanup(func() {
		c.Close()
		for range events { // closed by the client's last goroutine
		}
	})
	return c
}

// write makes or overwrites a node and those above it.
func (w world) write(c *zk.Conn, at, data string) {
	w.t.Helper()
	for i := 1; i < len(at); i++ {
		if at[i] == '/' {
			_, err := c.Create(at[:i], nil, 0, zk.WorldACL(zk.PermAll))
			w.allow(err, zk.ErrNodeExists)
		}
	}
	_, err := c.Create(at, []byte(data), 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		_, err = c.Set(at, []byte(data), -1)
	}
	w.allow(err)
}

func (w world) read(c *zk.Conn, at string) string {
	w.t.Helper()
	data, _, err := c.Get(at)
	w.allow(err)
	return string(data)
}

func (w world) children(c *zk.Conn, of string) []string {
	w.t.Helper()
	names, _, err := c.Children(of)
	w.allow(err, zk.ErrNoNode)
	return names
}

// allow fails the test on an error that is none of those allowed.
func (w world) allow(err error, allowed ...error) {
	w.t.Helper()
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	check.Must(w.t, err)
}

func (w world) root() string    { return path.Join("/snowflake", w.name) }
func (w world) forever() string { return path.Join(w.root(), "forever") }

// leaf is what Java Leaf decodes a node into; it refuses any other field.
type leaf struct {
	IP        string `json:"ip"`
	Port      string `json:"port"`
	Timestamp int64  `json:"timestamp"`
}

func decodeLeaf(t *testing.T, data string) leaf {
	t.Helper()
	var l leaf
	d := json.NewDecoder(strings.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		t.Fatalf("Java Leaf refuses %q: %v", data, err)
	}
	return l
}

func wantAdvice(t testing.TB, err error, words ...string) {
	t.Helper()
	workertest.WantAdvice(t, "zookeeper", err, words...)
}

func modes() []string {
	return []string{zkstore.ModeForever, zkstore.ModeRecycle, zkstore.ModeEphemeral}
}

// eachMode runs the test over every mode, each in a world of its own.
func eachMode(t *testing.T, test func(t *testing.T, w world, mode string)) {
	t.Helper()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t), mode)
		})
	}
}

func owner(i int) model.Owner { return workertest.Owner(i) }

func TestContract(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			workertest.Run(t, func(t *testing.T) workertest.Backend {
				w := newWorld(t)
				open := func(*testing.T) workertest.Registry {
					return w.open(zkstore.Options{Mode: mode, Workers: workertest.Workers})
				}
				b := workertest.Backend{New: open, Late: w.late(mode), Session: mode == zkstore.ModeEphemeral}
				if b.Session {
					b.Crash = func(_ *testing.T, r workertest.Registry) { w.expire(r.(instance)) }
					b.Lapse = func(t *testing.T, r workertest.Registry, _ model.Lease) {
						w.expire(r.(instance))
						r.(instance).mend()
						check.Eventually(t, "reconnect", func() error { return r.(instance).Check(t.Context()) })
					}
				}
				return b
			})
		})
	}
}

// late holds the next transaction of an instance. Whatever the session sends is answered in order.
func (w world) late(mode string) func(*testing.T) (workertest.Registry, workertest.Hold) {
	return func(t *testing.T) (workertest.Registry, workertest.Hold) {
		s := w.mode(mode)
		return s, func() (<-chan struct{}, func()) {
			sent, arrive := make(chan struct{}), make(chan struct{})
			s.beforeNext(func() {
				close(sent)
				<-arrive
			})
			return sent, func() {
				close(arrive)
				check.Must(t, s.Check(t.Context()))
			}
		}
	}
}

// expire cuts an instance off, and removes what its session has made, as ZooKeeper does when the session ends.
func (w world) expire(s instance) {
	w.t.Helper()
	session := s.SessionID()
	s.sever()
	c := w.client()
	for _, name := range w.children(c, w.root()) {
		_, stat, err := c.Get(path.Join(w.root(), name))
		w.allow(err)
		if stat.EphemeralOwner == session {
			w.allow(c.Delete(path.Join(w.root(), name), -1))
		}
	}
}
