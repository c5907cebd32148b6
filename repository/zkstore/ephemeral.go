package zkstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// ephemeral is ModeEphemeral: the smallest free worker ID, for as long as the session lasts. Its node
// ends with the session, and the record is in a node that outlives it. Every change writes that node
// too and names the version it has seen: a session that has ended without noticing cannot write over
// the next holder. Another node of the session leads from the process to its worker ID.
type ephemeral struct {
	tree
	reserved, token string
}

// seat is the node of a holder, and the one that stays.
type seat struct{ holder, reserved node }

func newEphemeral(t tree) *ephemeral {
	return &ephemeral{t, path.Join(t.lock, "reserved"), path.Join(t.lock, "token")}
}

func (e *ephemeral) list(ctx context.Context) (empty bool, err error) {
	reserved, err := e.get(ctx, e.reserved)
	return reserved.stat.NumChildren == 0, err
}

func (e *ephemeral) index(o model.Owner) []string {
	if o.Token == "" {
		return nil
	}
	return []string{path.Join(e.token, o.Token)}
}

// known reads the worker ID that the process has, if it was not removed by hand. If that belongs to the
// session that the process has now, an answer was lost; else it moves over from the old session before
// that ends.
func (e *ephemeral) known(ctx context.Context, c *choice) ([]workerid.Slot, error) {
	mark := c.led[0]
	if !mark.found {
		return nil, nil
	}
	id, ok := workerOf(string(mark.data))
	if !ok {
		return nil, fmt.Errorf("%s %w: %q", mark.path, errForeign, mark.data)
	}
	slot, err := e.read(ctx, id, c.owner)
	if err != nil || !slot.HeldBy(c.owner) || !slot.Read.(seat).holder.found {
		return nil, err
	}
	return []workerid.Slot{slot}, nil
}

// others gives the smallest free worker ID; to owners that race one of the smallest.
func (e *ephemeral) others(ctx context.Context, c *choice) ([]workerid.Slot, error) {
	_, ids, err := e.numbered(ctx, e.root)
	if err != nil {
		return nil, err
	}
	var free []int
	for id := range e.workers {
		if !slices.Contains(ids, id) {
			free = append(free, id)
		}
	}
	if len(free) == 0 {
		return nil, fmt.Errorf("%w: all %d of them are held by instances with a session: stop some, "+
			"or give a part of them another snowflake.name if their IDs may be equal to those of the others",
			model.ErrNoWorkerID, e.workers)
	}
	slot, err := e.read(ctx, free[rand.IntN(min(c.Among, len(free)))], c.owner)
	if err == nil && !slot.Ended {
		err = again(slot.Path)
	}
	return []workerid.Slot{slot}, err
}

func (e *ephemeral) put(slot workerid.Slot, next workerid.Record) (changes []any) {
	read := slot.Read.(seat)
	next = own(next)
	if read.holder.found && (isTaken(next) || next.Token == "") {
		changes = append(changes, read.holder.remove())
	}
	switch data := encode(reportOf(next)); {
	case isTaken(next):
		changes = append(changes, create(slot.Path, data, zk.FlagEphemeral))
	case next.Token != "":
		changes = append(changes, read.holder.put(data))
	}
	return append(changes, read.reserved.put(encode(recordOf(next))))
}

func (e *ephemeral) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	return e.read(ctx, lease.WorkerID, lease.Owner)
}

// read reads a worker ID. It has Ended without a node of its holder, and also for an owner that has
// another session than the node.
func (e *ephemeral) read(ctx context.Context, id int, owner model.Owner) (workerid.Slot, error) {
	name := strconv.Itoa(id)
	slot := workerid.Slot{ID: id, Path: path.Join(e.root, name)}
	nodes, err := e.getAll(ctx, []string{slot.Path, path.Join(e.reserved, name)})
	if err != nil {
		return slot, err
	}
	read := seat{nodes[0], nodes[1]}
	slot.Read = read
	if read.reserved.found {
		rec, err := decode[record](read.reserved)
		if err != nil {
			return slot, err
		}
		slot.Record = rec.record()
	}
	slot.Ended = !read.holder.found || slot.HeldBy(owner) && read.holder.stat.EphemeralOwner != e.sessionID()
	return slot, nil
}

func (e *ephemeral) reporting(ctx context.Context) (paths []string, ids []int, err error) {
	return e.numbered(ctx, e.root)
}

// folders are those that taking a worker ID writes in.
func (e *ephemeral) folders() []string { return []string{e.root, e.reserved, e.token} }
