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
// the next holder.
type ephemeral struct {
	tree
	reserved string // the folder of the records
}

// seat is the node of a holder, and the one that stays.
type seat struct{ holder, reserved node }

// choices gives the worker ID that the process has, if it was not removed by hand. If that belongs to the
// session that the process has now, an answer was lost; else it moves over from the old session before
// that ends. Without one it gives the smallest free one, and to owners that race one of the smallest.
func (e ephemeral) choices(ctx context.Context, o model.Owner, _ int64, among int) ([]workerid.Slot, error) {
	names, err := e.children(ctx, e.holders)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, name := range names {
		if id, ok := numberOf(name); ok && id < e.workers {
			ids = append(ids, id)
		}
	}
	slots, err := e.read(ctx, o, ids...)
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		if s.HeldBy(o) && s.Read.(seat).holder.found {
			return []workerid.Slot{s}, nil
		}
	}
	var free []int
	for id := range e.workers {
		if !slices.Contains(ids, id) {
			free = append(free, id)
		}
	}
	if len(free) == 0 {
		return nil, fmt.Errorf("%w: %w: all %d of them are held by instances with a session",
			model.Do("stop some instances, or give a part of them another snowflake.name if their IDs may be equal to "+
				"those of the others"), model.ErrNoWorkerID, e.workers)
	}
	slots, err = e.read(ctx, o, free[rand.IntN(min(among, len(free)))])
	if err == nil && !slots[0].Ended {
		err = again(slots[0].Path)
	}
	return slots, err
}

func (e ephemeral) put(slot workerid.Slot, next workerid.Record) (changes []any) {
	read, taken, released := slot.Read.(seat), next.Acquired > 0, next.Token == ""
	if read.holder.found && (taken || released) {
		changes = append(changes, read.holder.remove())
	}
	next = own(next)
	switch data := encode(reportOf(next)); {
	case taken:
		changes = append(changes, create(slot.Path, data, zk.FlagEphemeral))
	case !released:
		changes = append(changes, read.holder.put(data))
	}
	return append(changes, read.reserved.put(encode(recordOf(next))))
}

func (e ephemeral) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	slots, err := e.read(ctx, lease.Owner, lease.WorkerID)
	if err != nil {
		return workerid.Slot{}, err
	}
	return slots[0], nil
}

// read reads worker IDs. One has Ended without a node of its holder, and also for an owner that has
// another session than the node.
func (e ephemeral) read(ctx context.Context, owner model.Owner, ids ...int) ([]workerid.Slot, error) {
	var paths []string
	for _, id := range ids {
		paths = append(paths, path.Join(e.holders, strconv.Itoa(id)), path.Join(e.reserved, strconv.Itoa(id)))
	}
	nodes, err := e.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	slots := make([]workerid.Slot, len(ids))
	for i, id := range ids {
		read := seat{nodes[2*i], nodes[2*i+1]}
		slots[i] = workerid.Slot{ID: id, Path: read.holder.path, Read: read}
		if read.reserved.found {
			rec, err := decode[record](read.reserved)
			if err != nil {
				return nil, err
			}
			slots[i].Record = rec.record()
		}
		slots[i].Ended = !read.holder.found ||
			slots[i].HeldBy(owner) && read.holder.stat.EphemeralOwner != e.sessionID()
	}
	return slots, nil
}
