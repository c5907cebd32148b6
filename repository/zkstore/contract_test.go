//go:build unix

package zkstore_test

import (
	"path"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workertest"
	"shardid/repository/zkstore"
)

func TestForeverContract(t *testing.T) {
	t.Parallel()
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		w := newWorld(t)
		return workertest.Backend{New: opener(w, zkstore.ModeForever), Max: model.SnowflakeWorkers, PerAddress: true, FixedIDs: true,
			Fill: func(*testing.T) { w.fillForever(w.client(), model.SnowflakeWorkers) }}
	})
}

func TestRecycleContract(t *testing.T) {
	t.Parallel()
	workertest.Run(t, func(t *testing.T) workertest.Backend {
		w := newWorld(t)
		return workertest.Backend{New: opener(w, zkstore.ModeRecycle), Max: model.SnowflakeWorkers, PerAddress: true,
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
				eventually(t, "reconnect", func() error { return r.(instance).Check(t.Context()) })
			},
			Fill: func(*testing.T) { w.fillEphemeral(w.client()) }}
	})
}

func opener(w world, mode string) func(*testing.T) workertest.Registry {
	return func(*testing.T) workertest.Registry { return w.mode(mode) }
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
		data := `{"ip":"10.1.1.1","port":"` + strconv.Itoa(i) + `","timestamp":5,"identity":"someone","token":"t","after":0,"reserved":7,"expires":` +
			strconv.FormatInt(expires, 10) + `,"acquired":0}`
		return &zk.CreateRequest{Path: path.Join(dir, strconv.Itoa(i)), Data: []byte(data), Acl: zk.WorldACL(zk.PermAll)}
	})
}

func (w world) fillEphemeral(c *zk.Conn) {
	w.t.Helper()
	w.write(c, path.Join(w.root(), "forever"), "") // another mode's, in the same folder
	w.inBatches(c, model.SnowflakeWorkers, func(i int) any {
		return &zk.CreateRequest{Path: path.Join(w.root(), strconv.Itoa(i)), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}
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
