package zkstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"shardid/model"
	"shardid/repository/workerid"
)

// node is what was read at a path.
type node struct {
	path  string
	found bool
	data  []byte
	stat  zk.Stat
}

// put is the change that writes data where the node was, or was not, if that is
// still so.
func (n node) put(data []byte) any {
	if !n.found {
		return create(n.path, data, zk.FlagPersistent)
	}
	return &zk.SetDataRequest{Path: n.path, Data: data, Version: n.stat.Version}
}

// same is the condition that the node was not written since it was read.
func (n node) same() any {
	return &zk.CheckVersionRequest{Path: n.path, Version: n.stat.Version}
}

// remove is the change that deletes the node if it was not written since.
func (n node) remove() any {
	return &zk.DeleteRequest{Path: n.path, Version: n.stat.Version}
}

// create is the change that makes a node where there is none.
func create(at string, data []byte, flags int32) any {
	return &zk.CreateRequest{Path: at, Data: data, Acl: openACL, Flags: flags}
}

// openACL is that of Leaf's nodes: every client of ZooKeeper may do anything.
var openACL = zk.WorldACL(zk.PermAll)

// isConflict reports an answer that says that another instance was quicker, after
// which nothing was changed.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) ||
		errors.Is(err, zk.ErrNotEmpty)
}

// unlessMissing is nil for an answer that says that a node is not there.
func unlessMissing(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// get reads a node, there or not.
func (l *link) get(ctx context.Context, at string) (node, error) {
	return call(ctx, l, "get", func(c *zk.Conn) (node, error) {
		data, stat, err := c.Get(at)
		if err == nil {
			return node{path: at, found: true, data: data, stat: *stat}, nil
		}
		return node{path: at}, unlessMissing(err)
	})
}

// readers is how many requests of one getAll are under way.
const readers = 32

// getAll reads many nodes, in order.
func (l *link) getAll(ctx context.Context, paths []string) ([]node, error) {
	nodes := make([]node, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, at := range paths {
		group.Go(func() (err error) { nodes[i], err = l.get(ctx, at); return err })
	}
	return nodes, group.Wait()
}

// children returns the names below a node; none when it does not exist.
func (l *link) children(ctx context.Context, of string) ([]string, error) {
	return call(ctx, l, "children", func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(of)
		return names, unlessMissing(err)
	})
}

// multi makes all of the changes or none. It returns the time, in Unix ms by the servers' clock, of the
// first that writes an existing node; 0 without one.
func (l *link) multi(ctx context.Context, changes ...any) (written int64, err error) {
	answers, err := call(ctx, l, "multi", func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(changes...) })
	if err != nil {
		return 0, err
	}
	for _, a := range answers {
		if a.Stat != nil {
			return a.Stat.Mtime, nil
		}
	}
	return 0, nil
}

// add creates a node in a folder that is there. It returns its path, which is longer than at with
// zk.FlagSequence.
func (l *link) add(ctx context.Context, at string, data []byte, flags int32) (string, error) {
	return call(ctx, l, "create", func(c *zk.Conn) (string, error) { return c.Create(at, data, flags, openACL) })
}

// mkdir makes a node without data, and those above it; those that are there are
// left alone.
func (l *link) mkdir(ctx context.Context, at string) error {
	_, err := l.add(ctx, at, nil, zk.FlagPersistent)
	if errors.Is(err, zk.ErrNoNode) {
		if err = l.mkdir(ctx, path.Dir(at)); err == nil {
			_, err = l.add(ctx, at, nil, zk.FlagPersistent)
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// touch writes a node without data, there or not, and returns when that was, in Unix ms by the
// servers' clock.
func (l *link) touch(ctx context.Context, at string) (int64, error) {
	if err := l.mkdir(ctx, at); err != nil {
		return 0, err
	}
	stat, err := call(ctx, l, "set", func(c *zk.Conn) (*zk.Stat, error) { return c.Set(at, nil, -1) })
	if err != nil {
		return 0, err
	}
	return stat.Mtime, nil
}

// errForeign reports a node that neither we nor Leaf have written.
var errForeign = errors.New("is not a record of a worker ID")

// report is what Java Leaf keeps in a node, by name and type: its decoder
// refuses any other field.
type report struct {
	IP        string `json:"ip"`
	Port      string `json:"port"`
	Timestamp int64  `json:"timestamp"` // the holder's clock at its last report, Unix ms; 0 before the first
}

// record is a workerid.Record as a node has it.
type record struct {
	report
	Identity string `json:"identity"`
	Token    string `json:"token"`
	Reserved int64  `json:"reserved"`
	Expires  int64  `json:"expires"`
	Acquired int64  `json:"acquired"`
}

func reportOf(r workerid.Record) report {
	ip, port, _ := net.SplitHostPort(r.Address) // checked when the call began
	return report{IP: ip, Port: port, Timestamp: r.Reported}
}

func recordOf(r workerid.Record) record {
	return record{reportOf(r), r.Identity, r.Token, r.Reserved, r.Expires, r.Acquired}
}

func (r report) address() string { return net.JoinHostPort(r.IP, r.Port) }

func (r record) record() workerid.Record {
	return workerid.Record{Address: r.address(), Identity: r.Identity, Token: r.Token,
		Reserved: r.Reserved, Expires: r.Expires, Acquired: r.Acquired, Reported: r.Timestamp}
}

// own is the record without the report of another holder, or of another life: a replica of 0.3 compares its clock with
// the report of whoever holds a worker ID.
func own(r workerid.Record) workerid.Record {
	if r.Acquired > 0 {
		r.Reported = 0
	}
	return r
}

// encode gives the JSON of a report or a record, which are made of texts and
// numbers: it cannot fail.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}

// decode reads a report or a record. Fields it does not know are left alone: another
// version may have written them.
func decode[T report | record | forkReport](n node) (T, error) {
	var v T
	if err := json.Unmarshal(n.data, &v); err != nil {
		return v, fmt.Errorf("%s %w: %w", n.path, errForeign, err)
	}
	return v, nil
}

// numberOf is the worker ID that a name is; false for any other.
func numberOf(name string) (id int, ok bool) {
	id, err := strconv.Atoi(name)
	return id, err == nil && id >= 0 && id < model.SnowflakeWorkers && strconv.Itoa(id) == name
}
