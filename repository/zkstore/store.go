package zkstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"shardid/model"
)

// Store gives worker IDs, see the package documentation. Errors of its methods
// are model.ErrInvalidArgument for an owner without ip:port or token, those named
// at the method, and *model.StoreError. Safe for concurrent use.
type Store struct {
	link *link
	workers
}

// workers is what the modes differ in. A method that returns a conflict, see
// isConflict, has changed nothing and is called again.
type workers interface {
	acquire(ctx context.Context, owner model.Owner) (model.Lease, error)
	renew(ctx context.Context, lease model.Lease) (model.Lease, error)
	release(ctx context.Context, lease model.Lease) error
	peers(ctx context.Context) ([]model.WorkerPeer, error)
}

// New validates the options and connects to nothing. Errors:
// model.ErrInvalidArgument.
func New(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	l := newLink(o)
	return &Store{link: l, workers: newWorkers(o, newTree(o, l))}, nil
}

func newWorkers(o Options, t tree) workers {
	switch o.Mode {
	case ModeRecycle:
		return newRecycle(t, o.ReclaimMargin)
	case ModeEphemeral:
		return newEphemeral(t, queue{t.link, t.lock, o.Log})
	default:
		return newForever(t)
	}
}

// Close ends the session and waits for it: at once with a server, after about
// 3 s without one. Calls under way fail. In ModeEphemeral the worker ID is free
// then; the others keep theirs. It may be called twice.
func (s *Store) Close() error {
	s.link.close()
	return nil
}

// Check says whether ZooKeeper answers: a server without a quorum does not. It
// costs one read.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.link.stat(ctx, "/")
	return explain("check", err)
}

// Acquire gets a worker ID for the owner; called again with the same token it
// gets the same. Errors: model.ErrNoWorkerID, and in ModeForever
// *model.AddressTakenError.
func (s *Store) Acquire(ctx context.Context, owner model.Owner) (lease model.Lease, err error) {
	err = checkOwner(owner)
	if err == nil {
		err = settle(ctx, func() error { lease, err = s.acquire(ctx, owner); return err })
	}
	if err != nil {
		return model.Lease{}, explain("acquire worker ID", err)
	}
	return lease, nil
}

// Renew stores the lease's bounds, never lowering them, and its report. Errors:
// model.ErrLeaseLost.
func (s *Store) Renew(ctx context.Context, lease model.Lease) (renewed model.Lease, err error) {
	err = settle(ctx, func() error { renewed, err = s.renew(ctx, lease); return err })
	if err != nil {
		return model.Lease{}, explain("renew worker ID", err)
	}
	return renewed, nil
}

// Release gives the lease up and stores its Reserved as the bound for whoever
// follows. Releasing a lost lease is no error.
func (s *Store) Release(ctx context.Context, lease model.Lease) error {
	err := settle(ctx, func() error { return s.release(ctx, lease) })
	if errors.Is(err, model.ErrLeaseLost) {
		return nil
	}
	return explain("release worker ID", err)
}

// Peers returns the last reports under the name, in no order. In ModeForever
// these may be years old; all others are of those who hold a worker ID.
func (s *Store) Peers(ctx context.Context) ([]model.WorkerPeer, error) {
	found, err := s.peers(ctx)
	if err != nil {
		return nil, explain("list workers", err)
	}
	return found, nil
}

func checkOwner(owner model.Owner) error {
	if strings.Trim(owner.Token, ".") == "" || strings.Contains(owner.Token+owner.Identity, "/") {
		return fmt.Errorf("%w: token %q, identity %q", model.ErrInvalidArgument, owner.Token, owner.Identity)
	}
	_, err := reportOf(owner)
	return err
}

const (
	// settleTries bounds how often a call starts again because others were
	// quicker. Of racers for one node one wins each round, and free worker IDs
	// are tried at random, so even 1024 racers need far fewer.
	settleTries = 64
	// settlePause keeps a conflict that does not go away from being a busy loop.
	settlePause = 5 * time.Millisecond
)

// settle calls try until nobody is in its way.
func settle(ctx context.Context, try func() error) error {
	var err error
	for range settleTries {
		if err = try(); !isConflict(err) {
			return err
		}
		if err := sleep(ctx, settlePause); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", errBusy, err)
}

// errBusy reports a node that changed each time it was to be written.
var errBusy = errors.New("others were quicker each time")

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tree is what the modes share: the connection and the nodes beside their own.
type tree struct {
	*link
	root     string // /snowflake/<name>
	lock     string // /lock/<name>
	clock    string
	since    string
	registry string
	title    string // mode and name, of which the registry's identity begins
}

func newTree(o Options, l *link) tree {
	lock := path.Join("/lock", o.Name)
	return tree{link: l, root: path.Join("/snowflake", o.Name), lock: lock,
		clock: path.Join(lock, "clock"), since: path.Join(lock, "since-"+o.Mode),
		registry: path.Join(lock, "registry"), title: o.Mode + " " + o.Name}
}

// moment is the servers' clock in an Acquire and from when on nothing was
// forgotten, Unix ms; and the registry's identity.
type moment struct {
	now, since int64
	registry   string
}

// identify says which registry this is, and since when it has forgotten nothing. A
// tree that is empty may have lost everything: that moment is stored before the first
// worker ID, as those who come next do not find it empty any more. 0 when it never was.
func (t tree) identify(ctx context.Context, now int64, empty bool) (moment, error) {
	id, err := t.get(ctx, t.registry)
	if err == nil && !id.found {
		id.data = []byte(rand.Text())
		_, err = t.add(ctx, t.registry, id.data, zk.FlagPersistent)
	}
	if err != nil {
		return moment{}, err
	}
	m := moment{now: now, registry: t.title + " " + string(id.data)}
	if empty {
		m.since, err = t.touch(ctx, t.since)
		m.now = m.since
		return m, err
	}
	n, err := t.stat(ctx, t.since)
	m.since = n.stat.Mtime
	m.now = max(m.now, m.since) // made by somebody else a moment ago
	return m, err
}

// lost is the error of a lease that is somebody else's or nobody's.
func lost(at, why string) error { return fmt.Errorf("%w: %s %s", model.ErrLeaseLost, at, why) }

// again makes settle start anew.
func again(at string) error { return fmt.Errorf("%s: %w", at, zk.ErrBadVersion) }
