package zkstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// slot is a worker ID of ModeRecycle with the node that keeps it, if any.
type slot struct {
	id            int
	inuse, notuse node // at most one of them is found
	rec           record
}

func (s slot) found() bool { return s.inuse.found || s.notuse.found }

// slot reads a worker ID.
func (r *recycle) slot(ctx context.Context, id int) (s slot, err error) {
	s.id, s.notuse.path = id, r.path(r.notuse, id)
	if s.inuse, err = r.get(ctx, r.path(r.inuse, id)); err != nil {
		return s, err
	}
	if !s.inuse.found {
		if s.notuse, err = r.get(ctx, s.notuse.path); err != nil {
			return s, err
		}
	}
	switch {
	case s.inuse.found:
		s.rec, err = decode[record](s.inuse)
	case s.notuse.found:
		s.rec, err = decode[record](s.notuse)
	}
	return s, err
}

// slotOf reads the worker ID that a node of the index names.
func (r *recycle) slotOf(ctx context.Context, index node) (slot, error) {
	id, err := strconv.Atoi(string(index.data))
	if err != nil || id < 0 || id >= model.SnowflakeWorkers {
		return slot{}, fmt.Errorf("%s %w: %q", index.path, errForeign, index.data)
	}
	return r.slot(ctx, id)
}

// moveTo are the changes that put data into the pool of used worker IDs, if the
// slot is still as it was read. That it is still in neither pool can only be
// tested by creating what must not be there.
func (s slot) moveTo(data []byte) []any {
	switch {
	case s.inuse.found:
		return []any{s.inuse.put(data)}
	case s.notuse.found:
		return []any{s.notuse.remove(), s.inuse.put(data)}
	default:
		return []any{create(s.notuse.path, nil, zk.FlagPersistent),
			&zk.DeleteRequest{Path: s.notuse.path, Version: -1}, s.inuse.put(data)}
	}
}

// pools says what is not in use.
type pools struct {
	unheld    []int // never held
	givenBack []int
}

// pools lists both.
func (r *recycle) pools(ctx context.Context) (p pools, err error) {
	var inuse, notuse []string
	if inuse, err = r.children(ctx, r.inuse); err != nil {
		return p, err
	}
	if notuse, err = r.children(ctx, r.notuse); err != nil {
		return p, err
	}
	used, spare := numbers(inuse), numbers(notuse)
	for id := range model.SnowflakeWorkers {
		switch {
		case used[id]:
		case spare[id]:
			p.givenBack = append(p.givenBack, id)
		default:
			p.unheld = append(p.unheld, id)
		}
	}
	return p, nil
}

// numbers says which worker IDs are among the names.
func numbers(names []string) (is [model.SnowflakeWorkers]bool) {
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil && id >= 0 && id < len(is) && strconv.Itoa(id) == name {
			is[id] = true
		}
	}
	return is
}
