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
	"log/slog"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

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
	testserver.Main(m)
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
	// lose says of a request whether its reply is lost, and the connection with
	// it; nil: none is.
	lose func(opcode int32, packet []byte) bool
	// hello is the request that takes the last session over.
	hello []byte
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
	return &lossy{Conn: conn, network: n}, nil
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

// losing says which replies are lost from now on.
func (n *network) losing(lose func(opcode int32, packet []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = lose
}

// before calls f before each transaction is sent.
func (n *network) before(f func()) {
	n.losing(func(opcode int32, _ []byte) bool {
		if opcode == opMulti {
			f()
		}
		return false
	})
}

// Requests of ZooKeeper's protocol.
const (
	opCreate = 1
	opMulti  = 14
)

func (n *network) loses(packet []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	const head = 12 // length, number, opcode
	return n.lose != nil && len(packet) > head && n.lose(int32(binary.BigEndian.Uint32(packet[8:head])), packet)
}

// lossy is a connection that reads a reply and keeps it to itself.
type lossy struct {
	net.Conn
	network *network
	mu      sync.Mutex
	lost    bool
	begin   []byte // of what was read
}

// answerSize is that of the answer to a connect request: length, version,
// timeout, session, length of the password, password.
const answerSize = 4 + 4 + 4 + 8 + 4 + 16

// remember makes of the answer to a connect request one that asks for the same
// session.
func (n *network) remember(answer []byte) {
	hello := binary.BigEndian.AppendUint32(nil, answerSize+4) // besides the length: what the answer has, and 8 bytes
	hello = append(hello, 0, 0, 0, 0)                         // version
	hello = append(hello, 0, 0, 0, 0, 0, 0, 0, 0)             // last transaction seen
	hello = append(hello, answer[8:]...)                      // timeout, session, password
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hello = hello
}

// endSession cuts the network and makes ZooKeeper end the session now, as it
// would after the timeout.
func (n *network) endSession(addr string) error {
	n.sever()
	n.mu.Lock()
	defer n.mu.Unlock()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	closing := []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5} // length, number, opcode -11
	if _, err := conn.Write(append(n.hello[:len(n.hello):len(n.hello)], closing...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}

func (c *lossy) Write(p []byte) (int, error) {
	if c.network.loses(p) {
		c.mu.Lock()
		c.lost = true
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *lossy) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.begin) < answerSize {
		if c.begin = append(c.begin, p[:n]...); len(c.begin) >= answerSize {
			c.network.remember(c.begin[:answerSize])
		}
	}
	if c.lost && err == nil {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	return n, err
}

// instance is a store as a process has it.
type instance struct {
	*zkstore.Store
	*network
}

// open opens a store, of this world where nothing else is said.
func (w world) open(o zkstore.Options) instance {
	w.t.Helper()
	n := &network{}
	return instance{w.openOver(o, n.dial), n}
}

func (w world) openOver(o zkstore.Options, dial func(network, addr string, limit time.Duration) (net.Conn, error)) (
	s *zkstore.Store) {
	w.t.Helper()
	if o.Addrs == nil {
		o.Addrs = []string{w.addr}
	}
	o.Mode, o.Name = cmp.Or(o.Mode, zkstore.ModeForever), cmp.Or(o.Name, w.name, "x")
	o.Log = slog.New(slog.DiscardHandler)
	o.SessionTimeout, o.ReclaimMargin = cmp.Or(o.SessionTimeout, 10*time.Second), cmp.Or(o.ReclaimMargin, 5*time.Second)
	o.Workers = cmp.Or(o.Workers, model.SnowflakeWorkers)
	s, err := zkstore.NewOver(o, dial)
	check.Must(w.t, err)
	w.t.Cleanup(func() { check.OK(w.t, errors.Join(s.Close(), s.Close())) })
	return s
}

func (w world) mode(mode string) instance {
	w.t.Helper()
	return w.open(zkstore.Options{Mode: mode})
}

// client is a session beside the stores.
func (w world) client() *zk.Conn {
	w.t.Helper()
	c, events, err := zk.Connect([]string{w.addr}, 10*time.Second, zk.WithLogger(mute{}))
	check.Must(w.t, err)
	w.t.Cleanup(func() {
		c.Close()
		for range events { // closed by the client's last goroutine
		}
	})
	return c
}

type mute struct{}

func (mute) Printf(string, ...any) {}

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

func TestForeverContract(t *testing.T) {
	t.Parallel()
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		w := newWorld(t)
		return workertest.Backend{New: opener(w, zkstore.ModeForever), Max: model.SnowflakeWorkers, PerAddress: true,
			FixedIDs: true, Late: w.late(zkstore.ModeForever),
			Fill: func(*testing.T) { w.fillForever(w.client(), model.SnowflakeWorkers) }}
	})
}

func TestRecycleContract(t *testing.T) {
	t.Parallel()
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		w := newWorld(t)
		return workertest.Backend{New: opener(w, zkstore.ModeRecycle), Max: model.SnowflakeWorkers, PerAddress: true,
			Late: w.late(zkstore.ModeRecycle),
			Fill: func(*testing.T) { w.fillRecycle(w.client(), time.Now().UnixMilli()+hour) }}
	})
}

func TestEphemeralContract(t *testing.T) {
	t.Parallel()
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		w := newWorld(t)
		return workertest.Backend{New: opener(w, zkstore.ModeEphemeral), Max: model.SnowflakeWorkers, Session: true,
			Crash: func(_ *testing.T, r workertest.Registry) { w.expire(r.(instance)) },
			Lapse: func(t *testing.T, r workertest.Registry, _ model.Lease) {
				w.expire(r.(instance))
				r.(instance).mend()
				check.Eventually(t, "reconnect", func() error { return r.(instance).Check(t.Context()) })
			},
			Fill: func(*testing.T) { w.fillEphemeral(w.client()) }}
	})
}

func opener(w world, mode string) func(*testing.T) workertest.Registry {
	return func(*testing.T) workertest.Registry { return w.mode(mode) }
}

// late holds the next transaction of an instance. Whatever the session sends is answered in order.
func (w world) late(mode string) func(*testing.T) (workertest.Registry, workertest.Hold) {
	return func(t *testing.T) (workertest.Registry, workertest.Hold) {
		s := w.mode(mode)
		return s, func() (<-chan struct{}, func()) {
			sent, arrive := make(chan struct{}), make(chan struct{})
			var first sync.Once
			s.before(func() {
				first.Do(func() {
					close(sent)
					<-arrive
				})
			})
			return sent, func() {
				close(arrive)
				check.Must(t, s.Check(t.Context()))
			}
		}
	}
}

// expire cuts an instance off and ends its session.
func (w world) expire(s instance) {
	w.t.Helper()
	w.allow(s.endSession(w.addr))
}

// fillForever makes n nodes of Java Leaf.
func (w world) fillForever(c *zk.Conn, n int) {
	w.t.Helper()
	w.write(c, path.Join(w.forever(), "x"), "")
	w.allow(c.Delete(path.Join(w.forever(), "x"), -1))
	w.inBatches(c, n-1, func(i int) any { // the one above took the first number
		at := path.Join(w.forever(), workertest.Address(i)+"-")
		return &zk.CreateRequest{Path: at, Data: []byte(`{"ip":"10.0.0.5","port":"8080","timestamp":1567733700834}`),
			Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence}
	})
}

// fillRecycle makes every worker ID held until then.
func (w world) fillRecycle(c *zk.Conn, expires int64) {
	w.t.Helper()
	dir := path.Join(w.root(), "recycle", "inuse")
	w.write(c, path.Join(dir, "x"), "")
	w.allow(c.Delete(path.Join(dir, "x"), -1))
	w.inBatches(c, model.SnowflakeWorkers, func(i int) any {
		data := `{"ip":"10.1.1.1","port":"` + strconv.Itoa(i) + `","timestamp":5,"identity":"someone","token":"t",` +
			`"after":0,"reserved":7,"expires":` +
			strconv.FormatInt(expires, 10) + `,"acquired":0}`
		return &zk.CreateRequest{Path: path.Join(dir, strconv.Itoa(i)), Data: []byte(data),
			Acl: zk.WorldACL(zk.PermAll)}
	})
}

func (w world) fillEphemeral(c *zk.Conn) {
	w.t.Helper()
	w.write(c, path.Join(w.root(), "forever"), "") // another mode's, in the same folder
	w.inBatches(c, model.SnowflakeWorkers, func(i int) any {
		return &zk.CreateRequest{Path: path.Join(w.root(), strconv.Itoa(i)), Acl: zk.WorldACL(zk.PermAll),
			Flags: zk.FlagEphemeral}
	})
}

func (w world) inBatches(c *zk.Conn, n int, change func(i int) any) {
	w.t.Helper()
	for from := 0; from < n; from += 128 {
		var changes []any
		for i := from; i < min(from+128, n); i++ {
			changes = append(changes, change(i))
		}
		_, err := c.Multi(changes...)
		w.allow(err)
	}
}
