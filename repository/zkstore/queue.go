package zkstore

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// queue is the lock under which a free worker ID is looked for: ephemeral
// sequential nodes, the lowest of which is served. It only saves work, as taking
// a worker ID is a transaction that fails when another was quicker. So whoever
// holds it up, because its process stands still or its request to leave was
// lost, is taken out by the others.
type queue struct {
	*link
	dir string
	log *slog.Logger
}

const (
	ticketPrefix = "lock-"

	// queuePatience is how long the others wait for one at the head: it needs a
	// dozen requests.
	queuePatience = 5 * time.Second
	// leaveLimit bounds the removal of a ticket.
	leaveLimit = time.Second
)

// enter waits for its turn. leave must be called.
func (q queue) enter(ctx context.Context) (leave func(), err error) {
	ticket, err := q.add(ctx, path.Join(q.dir, ticketPrefix), nil, zk.FlagEphemeralSequential)
	if err != nil {
		return nil, err
	}
	leave = func() { q.leave(ctx, ticket) }
	if err := q.wait(ctx, path.Base(ticket)); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// leave gives the turn to the next, even when the caller gave up.
func (q queue) leave(ctx context.Context, ticket string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	if err := q.delete(ctx, ticket, -1); err != nil {
		q.log.Debug("a place in the queue for worker IDs stays until others remove it", "node", ticket, "error", err)
	}
}

// wait returns when the ticket is the lowest, or was taken out.
func (q queue) wait(ctx context.Context, ticket string) error {
	var head string
	var since time.Time // of that head
	for {
		tickets, err := q.tickets(ctx)
		if err != nil {
			return err
		}
		before, in := slices.BinarySearch(tickets, ticket)
		if before == 0 || !in {
			return nil
		}
		if tickets[0] != head {
			head, since = tickets[0], time.Now()
		} else if time.Since(since) >= queuePatience {
			if err := q.delete(ctx, path.Join(q.dir, head), -1); err != nil {
				return err
			}
		}
		if err := q.watch(ctx, tickets[before-1]); err != nil {
			return err
		}
	}
}

// watch returns when the ticket is gone, or something else has happened, at the
// latest after queuePatience: a watch is lost with its session. One that is not
// waited for any more stays with the client until the ticket goes.
func (q queue) watch(ctx context.Context, ticket string) error {
	gone, err := call(ctx, q.link, func(c *zk.Conn) (<-chan zk.Event, error) {
		_, _, events, err := c.GetW(path.Join(q.dir, ticket)) // unlike ExistsW it does not wait for a node that is gone
		return events, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	timer := time.NewTimer(queuePatience)
	defer timer.Stop()
	select {
	case <-gone:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tickets lists those who wait, the next one first. ZooKeeper's numbers have one
// length.
func (q queue) tickets(ctx context.Context) ([]string, error) {
	names, err := q.children(ctx, q.dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, ticketPrefix) })
	slices.Sort(names)
	return names, err
}
