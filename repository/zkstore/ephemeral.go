package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// ephemeral is ModeEphemeral: the smallest free worker ID, for as long as the
// session lasts. The record is in a node that outlives it. Every change writes
// that node too and names the version it has seen: a session that has ended
// without noticing cannot write over the next holder.
type ephemeral struct {
	tree
	reserved, token string
	queue           lockQueue
}

func newEphemeral(t tree, log *slog.Logger) *ephemeral {
	return &ephemeral{t, path.Join(t.lock, "reserved"), path.Join(t.lock, "token"), lockQueue{t.link, t.lock, log}}
}

func (e *ephemeral) acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	leave, err := e.queue.enter(ctx)
	if err != nil {
		return model.Lease{}, err
	}
	defer leave()
	now, err := e.touch(ctx, e.clock)
	if err != nil {
		return model.Lease{}, err
	}
	mark, err := e.get(ctx, e.mark(owner))
	if err != nil {
		return model.Lease{}, err
	}
	if mark.found {
		return e.keep(ctx, mark, owner, now)
	}
	return e.takeFree(ctx, owner, now)
}

// keep is for a process that has a worker ID. If that belongs to the session the
// process has now, an answer was lost; else it moves over from the old session
// before that ends.
func (e *ephemeral) keep(ctx context.Context, mark node, owner model.Owner, now int64) (model.Lease, error) {
	m, err := e.identify(ctx, now, false)
	if err != nil {
		return model.Lease{}, err
	}
	id, err := strconv.Atoi(string(mark.data))
	if err != nil {
		return model.Lease{}, fmt.Errorf("%s %w: %w", mark.path, errForeign, err)
	}
	s, err := e.seat(ctx, id)
	if err != nil {
		return model.Lease{}, err
	}
	if !s.found || !s.rec.heldBy(owner) {
		return e.takeFree(ctx, owner, now, mark.remove()) // removed by hand, or the old session just ends
	}
	session, err := e.sessionID(ctx)
	if err != nil || s.stat.EphemeralOwner == session {
		return s.rec.lease(id, owner, s.path, m), err
	}
	return e.takeSeat(ctx, s, owner, m, s.remove(), mark.remove())
}

// takeFree takes the smallest free worker ID, after changes that make it possible.
func (e *ephemeral) takeFree(ctx context.Context, owner model.Owner, now int64, before ...any) (model.Lease, error) {
	known, err := e.get(ctx, e.reserved)
	if err != nil {
		return model.Lease{}, err
	}
	m, err := e.identify(ctx, now, known.stat.NumChildren == 0)
	if err != nil {
		return model.Lease{}, err
	}
	names, err := e.children(ctx, e.root)
	if err != nil {
		return model.Lease{}, err
	}
	taken := numbers(names)
	id := slices.Index(taken[:e.workers], false)
	if id < 0 {
		return model.Lease{}, e.errAllOnline()
	}
	s, err := e.seat(ctx, id)
	if err != nil {
		return model.Lease{}, err
	}
	if s.found {
		return model.Lease{}, again(s.path)
	}
	return e.takeSeat(ctx, s, owner, m, before...)
}

// errAllOnline: each worker ID has a session.
func (e *ephemeral) errAllOnline() error {
	return fmt.Errorf("%w: all %d of them are held by instances with a session: stop some, or give a part of them another snowflake.name "+
		"if their IDs may be equal to those of the others", model.ErrNoWorkerID, e.workers)
}

// takeSeat makes the owner the holder of a worker ID, after changes that free it. A
// seat without a holder is free whatever its Expires says: that still bounds the
// times that may have been issued.
func (e *ephemeral) takeSeat(ctx context.Context, s seat, owner model.Owner, m moment, before ...any) (model.Lease, error) {
	next := s.rec.takenBy(owner, m.now)
	next.Timestamp = 0 // that of another instance, or of another life
	err := e.multiIn(ctx, []string{e.root, e.reserved, e.token}, append(before,
		create(s.path, encode(next.report), zk.FlagEphemeral), s.reserved.put(encode(next)),
		create(e.mark(owner), []byte(strconv.Itoa(s.id)), zk.FlagEphemeral))...)
	return next.lease(s.id, owner, s.path, m), err
}

func (e *ephemeral) renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	s, err := e.mine(ctx, lease)
	if err != nil {
		return model.Lease{}, err
	}
	session, err := e.sessionID(ctx)
	if err != nil {
		return model.Lease{}, err
	}
	if s.stat.EphemeralOwner != session {
		return model.Lease{}, lost(s.path, "belongs to a session that has ended")
	}
	next := s.rec.renewed(lease)
	now, err := e.multi(ctx, s.put(encode(next.report)), s.reserved.put(encode(next)))
	return next.lease(s.id, lease.Owner, s.path, moment{now, lease.KeptSince, lease.Registry}), err
}

func (e *ephemeral) release(ctx context.Context, lease model.Lease) error {
	s, err := e.mine(ctx, lease)
	if err != nil {
		return err
	}
	changes := []any{s.remove(), s.reserved.put(encode(s.rec.released(lease)))}
	mark, err := e.get(ctx, e.mark(lease.Owner))
	if err != nil {
		return err
	}
	if mark.found {
		changes = append(changes, mark.remove())
	}
	_, err = e.multi(ctx, changes...)
	return err
}

func (e *ephemeral) places(ctx context.Context) ([]place, error) { return e.numbered(ctx, e.root) }

// seat is a worker ID: the node of its holder and the one that stays.
type seat struct {
	node
	id       int
	reserved node
	rec      record
}

func (e *ephemeral) seat(ctx context.Context, id int) (s seat, err error) {
	s.id = id
	if s.node, err = e.get(ctx, path.Join(e.root, strconv.Itoa(id))); err != nil {
		return s, err
	}
	if s.reserved, err = e.get(ctx, path.Join(e.reserved, strconv.Itoa(id))); err != nil || !s.reserved.found {
		return s, err
	}
	s.rec, err = decode[record](s.reserved)
	return s, err
}

// mine reads the seat of a lease. Errors: model.ErrLeaseLost.
func (e *ephemeral) mine(ctx context.Context, lease model.Lease) (seat, error) {
	s, err := e.seat(ctx, lease.WorkerID)
	return s, cmp.Or(err, s.rec.lostFrom(lease.Owner, s.node))
}

// mark is the node that leads from a process to its worker ID.
func (e *ephemeral) mark(owner model.Owner) string { return path.Join(e.token, owner.Token) }

// lockQueue is the lock under which a free worker ID is looked for: ephemeral
// sequential nodes, the lowest of which is served. It only saves work, as taking
// a worker ID is a transaction that fails when another was quicker. So an instance
// that holds it up, because its process stands still or its request to leave was
// lost, is taken out by the others.
type lockQueue struct {
	*link
	dir string
	log *slog.Logger
}

const (
	ticketPrefix = "lock-"

	// queuePatience is how long the others wait for one at the head: it needs a
	// dozen requests.
	queuePatience = 5 * time.Second
	// turn is about how long that takes. One that waits looks again after so many turns
	// as are before it, and after longestLook at the latest.
	turn        = 5 * time.Millisecond
	longestLook = time.Second
	// leaveLimit bounds the removal of a ticket.
	leaveLimit = time.Second
)

// enter waits for its turn. leave must be called; it gives the turn to the next, even
// when the caller gave up.
func (q lockQueue) enter(ctx context.Context) (leave func(), err error) {
	ticket, err := q.add(ctx, path.Join(q.dir, ticketPrefix), nil, zk.FlagEphemeralSequential)
	if err != nil {
		return nil, err
	}
	leave = func() {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
		defer cancel()
		if err := q.delete(leaving, ticket); err != nil {
			q.log.Debug("a place in the queue for worker IDs stays until others remove it", "node", ticket, "error", err)
		}
	}
	if err := q.wait(ctx, path.Base(ticket)); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// wait returns when the ticket is the lowest, or was taken out.
func (q lockQueue) wait(ctx context.Context, ticket string) error {
	var head string
	var since time.Time // of that head
	for {
		tickets, err := q.children(ctx, q.dir)
		if err != nil {
			return err
		}
		tickets = slices.DeleteFunc(tickets, func(name string) bool { return !strings.HasPrefix(name, ticketPrefix) })
		slices.Sort(tickets) // ZooKeeper's numbers have one length
		before, in := slices.BinarySearch(tickets, ticket)
		if before == 0 || !in {
			return nil
		}
		if tickets[0] != head {
			head, since = tickets[0], time.Now()
		} else if time.Since(since) >= queuePatience {
			if err := q.delete(ctx, path.Join(q.dir, head)); err != nil {
				return err
			}
		}
		// No watch: the library restores watches of a lost connection while it already
		// counts the new one's answers, so that one may never come.
		select {
		case <-time.After(min(time.Duration(before)*turn, longestLook)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
