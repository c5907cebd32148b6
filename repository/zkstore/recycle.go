package zkstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"shardid/model"
	"shardid/repository/workerid"
)

// recycle is ModeRecycle: worker IDs move between two pools, inuse and notuse. One that was never held is
// in neither, so that no pool has to be filled first. NotFound9's fork of Leaf has the same pools, and calls its nodes
// workId:N. A tree with such a node is refused: an instance of the fork that cannot report goes on for an hour, so that
// no node says whether one still issues IDs.
type recycle struct {
	tree
	notuse string // the folder of those that nobody holds
}

// forkPrefix begins the names that the fork gives to worker IDs.
const forkPrefix = "workId:"

// errFork reports a node that NotFound9's fork has made.
var errFork = errors.New("is of NotFound9's fork of Leaf")

// choices reads all.
func (r recycle) choices(ctx context.Context, _ model.Owner, _ int64, _ int) ([]workerid.Slot, error) {
	var paths [model.SnowflakeWorkers]string // of the nodes that keep the worker IDs; "" where none was found
	for _, pool := range []string{r.notuse, r.holders} {
		names, err := r.children(ctx, pool)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasPrefix(name, forkPrefix) {
				return nil, fmt.Errorf("%s %w", path.Join(pool, name), errFork)
			}
			if id, ok := numberOf(name); ok {
				paths[id] = path.Join(pool, name)
			}
		}
	}
	nodes, err := r.getAll(ctx, paths[:r.workers])
	if err != nil {
		return nil, err
	}
	slots := make([]workerid.Slot, len(nodes))
	for id, n := range nodes {
		if n.path != "" && !n.found {
			return nil, again(n.path)
		}
		if slots[id], err = slotOf(id, n); err != nil {
			return nil, err
		}
	}
	return slots, nil
}

// put moves a worker ID to the pool that its record belongs to, if it is still as it was read. That it is
// still in neither can only be tested by creating what must not be there.
func (r recycle) put(slot workerid.Slot, next workerid.Record) (changes []any) {
	id, read := strconv.Itoa(slot.ID), slot.Read.(node)
	data, target, left := encode(recordOf(own(next))), path.Join(r.holders, id), path.Join(r.notuse, id)
	if next.Token == "" {
		target = left
	}
	switch {
	case read.path == target:
		return []any{read.put(data)}
	case read.found:
		changes = []any{read.remove()}
	default:
		changes = []any{create(left, nil, zk.FlagPersistent), &zk.DeleteRequest{Path: left, Version: -1}}
	}
	return append(changes, create(target, data, zk.FlagPersistent))
}

// slot reads the node of a lease.
func (r recycle) slot(ctx context.Context, lease model.Lease) (workerid.Slot, error) {
	n, err := r.get(ctx, path.Join(r.holders, strconv.Itoa(lease.WorkerID)))
	if err != nil {
		return workerid.Slot{}, err
	}
	return slotOf(lease.WorkerID, n)
}

// slotOf is a worker ID with the node that keeps it.
func slotOf(id int, n node) (workerid.Slot, error) {
	rec, err := recordIn(n)
	return workerid.Slot{Record: rec, ID: id, Read: n}, err
}
