package zkstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// slots is the tree of a mode as a workerid.Store: what is told to change is one transaction with the
// versions that were read, and when another instance was quicker, all is read anew.
type slots struct {
	tree
	mode func() mode // for one try
}

// tree is what the modes share: the connection and the nodes beside their own.
type tree struct {
	*link
	root    string // /snowflake/<name>
	lock    string // /lock/<name>
	since   string // written when nothing was found below the name
	title   string // mode and name, with which the registry's identity begins
	session bool   // the nodes of an index end with the session
	workers int    // how many worker IDs there are
}

// mode is what the modes differ in, the nodes that keep a worker ID, and what was listed of them. An index
// of nodes leads from what an owner is known by to the end of the path of its worker ID.
type mode interface {
	// list lists the nodes; empty says that none keeps a worker ID.
	list(ctx context.Context) (empty bool, err error)
	// index gives the paths of the nodes that lead to the worker ID of an owner.
	index(o model.Owner) []string
	// known reads the worker IDs that the owner may have had.
	known(ctx context.Context, c *choice) ([]workerid.Slot, error)
	// others reads those that may be given to any owner.
	others(ctx context.Context, c *choice) ([]workerid.Slot, error)
	// slot reads the worker ID of a lease.
	slot(ctx context.Context, lease model.Lease) (workerid.Slot, error)
	// put gives the changes that store a record if the nodes are still as they were read.
	put(slot workerid.Slot, next workerid.Record) []any
	// folders are the nodes above those that put creates.
	folders() []string
	// reporting lists the nodes with the last reports, and their worker IDs.
	reporting(ctx context.Context) (paths []string, ids []int, err error)
}

func newSlots(o Options, l *link, chroot string) slots {
	t := tree{link: l, root: path.Join("/", chroot, "snowflake", o.Name), lock: path.Join("/", chroot, "lock", o.Name),
		title: o.Mode + " " + o.Name, session: o.Mode == ModeEphemeral, workers: o.Workers}
	t.since = path.Join(t.lock, "since-"+o.Mode)
	switch o.Mode {
	case ModeRecycle:
		return slots{t, func() mode { return newRecycle(t) }}
	case ModeEphemeral:
		return slots{t, func() mode { return newEphemeral(t) }}
	default:
		return slots{t, func() mode { return newForever(t) }}
	}
}

func (s slots) Take(ctx context.Context, owner model.Owner, take workerid.Take) error {
	const op = "acquire worker ID"
	if strings.HasPrefix(owner.Address, ":") || strings.Trim(owner.Token, ".") == "" ||
		strings.Contains(owner.Address+owner.Token+owner.Identity, "/") { // it cannot be part of a path
		return explain(op, fmt.Errorf("%w: owner %+v", model.ErrInvalidArgument, owner))
	}
	return explain(op, settle(ctx, func(try int) error { return s.tryTake(ctx, owner, 1<<min(try, 10), take) }))
}

func (s slots) tryTake(ctx context.Context, owner model.Owner, among int, take workerid.Take) error {
	now, err := s.touch(ctx, path.Join(s.lock, "clock"))
	if err != nil {
		return err
	}
	c := &choice{Choice: workerid.Choice{Among: among}, tree: s.tree, mode: s.mode(), owner: owner}
	// The index is read before the nodes are listed, and its versions are those of the transaction. So
	// another call of the same owner, which may just have taken a worker ID, is seen or in the way.
	if c.led, err = s.getAll(ctx, c.mode.index(owner)); err != nil {
		return err
	}
	empty, err := c.mode.list(ctx)
	if err != nil {
		return err
	}
	if c.Moment, err = s.moment(ctx, now, empty); err != nil {
		return err
	}
	if c.Slots, err = c.mode.known(ctx, c); err != nil {
		return err
	}
	c.More = func(ctx context.Context) ([]workerid.Slot, error) { return c.mode.others(ctx, c) }
	slot, next, err := take(c.Choice)
	if errors.Is(err, model.ErrNoWorkerID) && c.unread != nil {
		return fmt.Errorf("%w; a node is left alone, remove it if it stands for no worker ID in use: %w", err, c.unread)
	}
	if err != nil || next == slot.Record {
		return err
	}
	changes, err := c.lead(ctx, slot)
	if err != nil {
		return err
	}
	_, err = s.multi(ctx, c.mode.folders(), append(c.mode.put(slot, next), changes...)...)
	return err
}

func (s slots) Edit(ctx context.Context, lease model.Lease, edit workerid.Edit) (m workerid.Moment, err error) {
	err = settle(ctx, func(int) error {
		nodes := s.mode()
		slot, err := nodes.slot(ctx, lease)
		if err != nil {
			return err
		}
		next, err := edit(slot, m)
		if err != nil {
			return err
		}
		m.Now, err = s.multi(ctx, nodes.folders(), nodes.put(slot, next)...)
		return err
	})
	return m, explain("store worker ID", err)
}

// reports reads what the holders of worker IDs have reported.
func (s slots) reports(ctx context.Context) (found []model.WorkerPeer, err error) {
	paths, ids, err := s.mode().reporting(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := s.getAll(ctx, paths)
	for i, n := range nodes {
		// A clock is not compared with what is gone, or is no report.
		if rep, bad := decode[report](n); n.found && bad == nil && rep.Timestamp > 0 {
			found = append(found, model.WorkerPeer{Address: rep.address(), WorkerID: ids[i],
				Reported: rep.Timestamp, Seen: n.stat.Mtime})
		}
	}
	return found, err
}

// moment says which registry this is, and since when it has forgotten nothing. now is the servers' clock
// before the tree was read. A tree that is empty may have lost everything: that moment is stored before
// the first worker ID, as those who come next do not find it empty any more. 0 when it never was.
func (t tree) moment(ctx context.Context, now int64, empty bool) (workerid.Moment, error) {
	id, err := t.get(ctx, path.Join(t.lock, "registry"))
	if err == nil && !id.found {
		id.data = []byte(rand.Text())
		_, err = t.add(ctx, id.path, id.data, zk.FlagPersistent)
	}
	m := workerid.Moment{Registry: t.title + " " + string(id.data)}
	switch {
	case err != nil:
		return m, err
	case empty:
		m.KeptSince, err = t.touch(ctx, t.since)
		m.Now = m.KeptSince
		return m, err
	}
	n, err := t.get(ctx, t.since)
	m.KeptSince = n.stat.Mtime
	m.Now = max(now, m.KeptSince) // another instance made it a moment ago
	return m, err
}

// choice is what there is for one owner.
type choice struct {
	workerid.Choice
	tree  tree
	mode  mode
	owner model.Owner
	led   []node // the nodes of the owner's index
	// unread is the error of a node that is no record: it says neither whether its holder lives, nor what
	// was issued.
	unread error
}

// lead makes the index lead from the owner to a worker ID, and from the one before no more.
func (c *choice) lead(ctx context.Context, slot workerid.Slot) (changes []any, err error) {
	end := path.Base(slot.Path)
	for _, n := range c.led {
		switch {
		case !c.tree.session:
			changes = append(changes, n.put([]byte(end)))
			continue
		case n.found: // it may be of an older session
			changes = append(changes, n.remove())
		}
		changes = append(changes, create(n.path, []byte(end), zk.FlagEphemeral))
	}
	mine := c.mode.index(c.owner)
	before, err := c.tree.getAll(ctx, c.mode.index(model.Owner{Address: slot.Address, Identity: slot.Identity,
		Token: slot.Token}))
	for _, n := range before {
		if n.found && string(n.data) == end && !slices.Contains(mine, n.path) {
			changes = append(changes, n.remove())
		}
	}
	return changes, err
}

const (
	// settleTries bounds how often a call starts again because others were
	// quicker. Of racers for one node one wins each round, and more and more
	// worker IDs are chosen from, so even 1024 racers need far fewer.
	settleTries = 64
	// settlePause keeps a conflict that does not go away from being a busy loop.
	settlePause = 5 * time.Millisecond
)

// settle calls what is to be tried until no other instance is in its way.
func settle(ctx context.Context, once func(try int) error) error {
	var err error
	for try := range settleTries {
		if err = once(try); !isConflict(err) {
			return err
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: %w", errBusy, err)
}

// errBusy reports a node that changed each time it was to be written.
var errBusy = errors.New("others were quicker each time")

// again makes settle start anew.
func again(at string) error { return fmt.Errorf("%s: %w", at, zk.ErrBadVersion) }
