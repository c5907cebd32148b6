package zkstore

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
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

// same is the condition that nobody wrote the node since it was read.
func (n node) same() any {
	return &zk.CheckVersionRequest{Path: n.path, Version: n.stat.Version}
}

// remove is the change that deletes the node if nobody wrote it since.
func (n node) remove() any {
	return &zk.DeleteRequest{Path: n.path, Version: n.stat.Version}
}

// create is the change that makes a node where there is none.
func create(at string, data []byte, flags int32) any {
	return &zk.CreateRequest{Path: at, Data: data, Acl: openACL(), Flags: flags}
}

// openACL is that of Leaf's nodes: whoever reaches ZooKeeper may do anything.
func openACL() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// isConflict reports an answer that says that somebody else was quicker, after
// which nothing was changed.
func isConflict(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty)
}

func (l *link) get(ctx context.Context, at string) (node, error) {
	n, err := call(ctx, l, func(c *zk.Conn) (node, error) {
		data, stat, err := c.Get(at)
		if err != nil {
			return node{}, err
		}
		return node{path: at, found: true, data: data, stat: *stat}, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return node{path: at}, nil
	}
	return n, err
}

// stat is get without the data.
func (l *link) stat(ctx context.Context, at string) (node, error) {
	return call(ctx, l, func(c *zk.Conn) (node, error) {
		found, stat, err := c.Exists(at)
		if err != nil || !found {
			return node{path: at}, err
		}
		return node{path: at, found: true, stat: *stat}, nil
	})
}

// readers is how many requests of one getAll are under way.
const readers = 32

// getAll reads many nodes, in order.
func (l *link) getAll(ctx context.Context, paths []string) ([]node, error) {
	nodes, errs := make([]node, len(paths)), make([]error, min(readers, len(paths)))
	var next atomic.Int64
	var wg sync.WaitGroup
	for r := range errs {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(paths)) && errs[r] == nil; i = next.Add(1) - 1 {
				nodes[i], errs[r] = l.get(ctx, paths[i])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// children returns the names below a node; none when it does not exist.
func (l *link) children(ctx context.Context, of string) ([]string, error) {
	names, err := call(ctx, l, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(of)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// multi makes all of the changes or none. It returns the time, in Unix ms by the
// servers' clock, of the first that writes an existing node; 0 without one.
func (l *link) multi(ctx context.Context, changes ...any) (written int64, err error) {
	answers, err := call(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(changes...) })
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

// multiIn is multi for nodes in these folders. When one is missing it makes them,
// and returns the conflict all the same: the next try finds them.
func (l *link) multiIn(ctx context.Context, folders []string, changes ...any) error {
	_, err := l.multi(ctx, changes...)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, at := range folders {
		if err := l.mkdir(ctx, at); err != nil {
			return err
		}
	}
	return err
}

// add creates a node, and first the folders above it where they are missing. It
// returns its path, which is longer than at with zk.FlagSequence.
func (l *link) add(ctx context.Context, at string, data []byte, flags int32) (string, error) {
	made, err := l.addHere(ctx, at, data, flags)
	if !errors.Is(err, zk.ErrNoNode) {
		return made, err
	}
	if err := l.mkdir(ctx, path.Dir(at)); err != nil {
		return "", err
	}
	return l.addHere(ctx, at, data, flags)
}

func (l *link) addHere(ctx context.Context, at string, data []byte, flags int32) (string, error) {
	return call(ctx, l, func(c *zk.Conn) (string, error) { return c.Create(at, data, flags, openACL()) })
}

// mkdir makes a node without data, and those above it; those that are there are
// left alone.
func (l *link) mkdir(ctx context.Context, at string) error {
	if _, err := l.add(ctx, at, nil, zk.FlagPersistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	return nil
}

// touch writes a node without data and returns when that was, in Unix ms by the
// servers' clock.
func (l *link) touch(ctx context.Context, at string) (int64, error) {
	set := func() (int64, error) {
		return call(ctx, l, func(c *zk.Conn) (int64, error) {
			stat, err := c.Set(at, nil, -1)
			if err != nil {
				return 0, err
			}
			return stat.Mtime, nil
		})
	}
	written, err := set()
	if !errors.Is(err, zk.ErrNoNode) {
		return written, err
	}
	if err := l.mkdir(ctx, at); err != nil {
		return 0, err
	}
	return set()
}

// delete removes a node, if it is there.
func (l *link) delete(ctx context.Context, at string, version int32) error {
	_, err := call(ctx, l, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(at, version) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
