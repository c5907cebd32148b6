package zkstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// slots is the tree of a mode as a workerid.Store: all is read, what is told to change is one transaction with the
// versions that were read, and when another instance was quicker, all is read anew. So an owner needs no node that
// leads to its worker ID. Calls that race for one owner choose the same one, unless others race beside them: then an
// owner may get a second one, which nobody uses until it has ended.
type slots struct {
	tree
	mode mode
}

// tree is what the modes share: the connection and the nodes beside their own.
type tree struct {
	*link
	lock    string   // /lock/<name>
	since   string   // written when nothing was found below the name
	title   string   // mode and name, with which the registry's identity begins
	workers int      // how many worker IDs there are
	holders string   // the folder with the nodes of those who hold a worker ID
	records []string // the folders that are not empty once somebody had a worker ID
}

// mode is what the modes differ in: the nodes that keep a worker ID.
type mode interface {
	// choices reads the worker IDs that the owner may have had, and those that it may get as any other; to owners
	// that race it offers one of so many.
	choices(ctx context.Context, o model.Owner, now int64, among int) ([]workerid.Slot, error)
	// slot reads the worker ID of a lease.
	slot(ctx context.Context, lease model.Lease) (workerid.Slot, error)
	// put gives the changes that store a record if the nodes are still as they were read.
	put(slot workerid.Slot, next workerid.Record) []any
}

func newSlots(o Options, l *link, chroot string) slots {
	root, lock := path.Join("/", chroot, "snowflake", o.Name), path.Join("/", chroot, "lock", o.Name)
	t := tree{link: l, lock: lock, since: path.Join(lock, "since-"+o.Mode), title: o.Mode + " " + o.Name,
		workers: o.Workers}
	switch o.Mode {
	case ModeRecycle:
		notuse := path.Join(root, "recycle", "notuse")
		t.holders = path.Join(root, "recycle", "inuse")
		t.records = []string{t.holders, notuse}
		return slots{t, recycle{t, notuse}}
	case ModeEphemeral:
		reserved := path.Join(lock, "reserved")
		t.holders, t.records = root, []string{reserved}
		return slots{t, ephemeral{t, reserved}}
	default:
		t.holders = path.Join(root, "forever")
		t.records = []string{t.holders}
		return slots{t, forever{t}}
	}
}

func (s slots) Take(ctx context.Context, owner model.Owner, take workerid.Take) error {
	const op = "acquire worker ID"
	if strings.HasPrefix(owner.Address, ":") || strings.Contains(owner.Address, "/") { // it cannot be part of a path
		return explain(op, fmt.Errorf("%w: owner %+v", model.ErrInvalidArgument, owner))
	}
	for _, folder := range append([]string{s.holders}, s.records...) {
		if err := s.mkdir(ctx, folder); err != nil {
			return explain(op, err)
		}
	}
	return explain(op, workerid.Settle(ctx, isConflict, func(try int) error {
		return s.tryTake(ctx, owner, 1<<min(try, 10), take)
	}))
}

func (s slots) tryTake(ctx context.Context, owner model.Owner, among int, take workerid.Take) error {
	now, err := s.touch(ctx, path.Join(s.lock, "clock"))
	if err != nil {
		return err
	}
	c := workerid.Choice{Among: among}
	if c.Moment, err = s.moment(ctx, now); err != nil {
		return err
	}
	if c.Slots, err = s.mode.choices(ctx, owner, c.Now, among); err != nil {
		return err
	}
	slot, next, err := take(c)
	if err == nil && next != slot.Record {
		_, err = s.multi(ctx, s.mode.put(slot, next)...)
	}
	return err
}

func (s slots) Edit(ctx context.Context, lease model.Lease, edit workerid.Edit) (m workerid.Moment, err error) {
	err = workerid.Settle(ctx, isConflict, func(int) error {
		slot, err := s.mode.slot(ctx, lease)
		if err != nil {
			return err
		}
		next, err := edit(slot)
		if err != nil {
			return err
		}
		m.Now, err = s.multi(ctx, s.mode.put(slot, next)...)
		return err
	})
	return m, explain("store worker ID", err)
}

// moment says which registry this is, and since when it has forgotten nothing. now is the servers' clock
// before the tree is read. A tree that is empty may have lost everything: that moment is stored before
// the first worker ID, as those who come next do not find it empty any more. 0 when it never was.
func (t tree) moment(ctx context.Context, now int64) (m workerid.Moment, err error) {
	at := path.Join(t.lock, "registry")
	// That another instance was quicker here is no reason to choose another worker ID.
	if _, err = t.add(ctx, at, []byte(rand.Text()), zk.FlagPersistent); err != nil && !isConflict(err) {
		return m, err
	}
	id, err := t.get(ctx, at)
	if err != nil {
		return m, err
	}
	m.Registry = t.title + " " + string(id.data)
	empty := true
	for _, folder := range t.records {
		names, err := t.children(ctx, folder)
		if err != nil {
			return m, err
		}
		empty = empty && len(names) == 0
	}
	if empty {
		m.KeptSince, err = t.touch(ctx, t.since)
		m.Now = m.KeptSince
		return m, err
	}
	n, err := t.get(ctx, t.since)
	m.KeptSince = n.stat.Mtime
	m.Now = max(now, m.KeptSince) // another instance made it a moment ago
	return m, err
}

// again has all read anew.
func again(at string) error { return fmt.Errorf("%s: %w", at, zk.ErrBadVersion) }
