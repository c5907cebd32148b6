package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"shardid/model"
)

const (
	// defaultLeaseTTL lets an instance miss two of its reports, which Leaf sends
	// every 3 s.
	defaultLeaseTTL = 10 * time.Second
	// peersWithin is how old a report may be to say something about a clock.
	peersWithin = time.Minute
	// maxMs is the latest bound, in Unix ms: some time in the year 19809, and
	// exact in Lua, whose numbers have 53 bits.
	maxMs = model.MaxIndex
	// noIdentity stands for the empty one, as words may not be empty.
	noIdentity = "-"
)

// WorkersOptions says how worker IDs are leased.
type WorkersOptions struct {
	// Name is the namespace of the worker IDs: letters, digits, ".", "_", "-".
	Name string
	// TTL is how long a lease lasts without a renewal, in whole ms; 0 means 10 s.
	TTL time.Duration
	// Acks is how many replicas must have a lease and each renewal before they
	// count: then a master that was deposed and does not know it renews nothing, as
	// its replicas have left it. Negative means that they and the server must be a
	// majority, of the most replicas that were ever seen; 0 asks none.
	Acks int
	// Workers is how many worker IDs there are: 0…Workers-1; 0 means
	// model.SnowflakeWorkers, which is the most.
	Workers int
}

// Workers is the registry of worker IDs in Redis. Safe for concurrent use, over
// processes too.
//
// A lease is a key that expires, with the token of its holder as value. The
// bounds of all worker IDs, who had them last, and its report are in one hash,
// for ever; it also tells for which replication ID of the server the leases are valid.
// On any other they are all dropped, as an old snapshot or a lagging replica
// brought them back: the holders lose them, and may get them back above what
// they reserved. The bounds are kept then; they may be too old, which the lease's
// KeptSince tells. All keys of a name share a slot of a cluster.
//
// A crashed holder with an identity gets its worker ID back at once. Owners are
// told apart by identity and token, not by address.
//
// All calls may be repeated, and go through the client that does so.
type Workers struct {
	store *Store
	o     WorkersOptions
	keys  []string // of the hash, then of each lease
	// replicas is the most that the registry has told of.
	replicas atomic.Int64

	acquire, renew, release, peers script
}

// Workers gives the registry of one name, over the connections of the store.
// Options that cannot work are refused by its calls, with
// model.ErrInvalidArgument.
func (s *Store) Workers(o WorkersOptions) *Workers {
	if o.TTL == 0 {
		o.TTL = defaultLeaseTTL
	}
	o.Workers = cmp.Or(o.Workers, model.SnowflakeWorkers)
	return &Workers{
		store: s, o: o, keys: workerKeys(o.Name, max(o.Workers, 0)),
		acquire: newScript(s.opts.Observe, "prelude", "workers", "worker_acquire"),
		renew:   newScript(s.opts.Observe, "prelude", "workers", "worker_renew"),
		release: newScript(s.opts.Observe, "prelude", "workers", "worker_release"),
		peers:   newScript(s.opts.Observe, "prelude", "workers", "worker_peers"),
	}
}

// Acquire gets the owner a worker ID, see worker_acquire.lua for which one.
// Errors: model.ErrNoWorkerID when all are held, *model.StoreError.
func (w *Workers) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	const op = "acquire a worker ID"
	lease := model.Lease{Owner: owner}
	if err := w.check(lease); err != nil {
		return model.Lease{}, explain(op, err)
	}
	held, err := w.run(ctx, w.acquire, "none", func(f *fields) (replicas int64) {
		lease.Node = strings.Clone(f.word())
		lease.KeptSince, lease.ServerTime, replicas = f.number(), f.number(), f.number()
		lease.Registry = "redis " + w.o.Name + " " + f.word()
		lease.WorkerID, lease.After = int(f.number()), f.number()
		f.bad = f.bad || lease.WorkerID >= w.o.Workers
		return replicas
	}, w.keys, w.store.deploymentID(), owner.Token, identityOf(owner), owner.Address, w.o.TTL.Milliseconds(),
		rand.Text())
	if err != nil {
		return model.Lease{}, w.store.fail(op, err)
	}
	if !held {
		return model.Lease{}, fmt.Errorf("%w: %d instances named %s hold one each: stop some, or wait %v after a "+
			"crash of one", model.ErrNoWorkerID, w.o.Workers, w.o.Name, w.o.TTL)
	}
	return lease, nil
}

// Renew stores the bounds and makes the lease last the TTL anew. Errors:
// model.ErrLeaseLost, *model.StoreError; after the latter the bounds may have
// been stored.
func (w *Workers) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	const op = "renew a worker ID"
	if err := w.check(lease); err != nil {
		return model.Lease{}, explain(op, err)
	}
	held, err := w.run(ctx, w.renew, "lost", func(f *fields) int64 {
		lease.KeptSince, lease.ServerTime = f.number(), f.number()
		return f.number()
	}, w.leaseKeys(lease), w.store.deploymentID(), lease.Node, lease.Owner.Token, lease.WorkerID,
		w.o.TTL.Milliseconds(), lease.Reserved, lease.Expires, lease.Reported)
	if err != nil {
		return model.Lease{}, w.store.fail(op, err)
	}
	if !held {
		return model.Lease{}, fmt.Errorf("redis: %w: worker ID %d of %s ran out, was taken over, or Redis has "+
			"another replication ID since", model.ErrLeaseLost, lease.WorkerID, w.o.Name)
	}
	return lease, nil
}

// Release ends the lease, if it is still held. The bound is never below After: a
// holder that issued nothing does not undo what those before it did. Errors:
// *model.StoreError.
func (w *Workers) Release(ctx context.Context, lease model.Lease) error {
	const op = "release a worker ID"
	if err := w.check(lease); err != nil {
		return explain(op, err)
	}
	bound := max(lease.Reserved, lease.After)
	_, err := w.release.run(ctx, w.store.client, w.leaseKeys(lease), w.store.deploymentID(),
		lease.Node, lease.Owner.Token, lease.WorkerID, bound, max(bound, lease.Expires))
	return w.store.fail(op, err)
}

// Peers gives the reports of the last minute. Errors: *model.StoreError.
func (w *Workers) Peers(ctx context.Context) ([]model.WorkerPeer, error) {
	const op = "read the reports of worker IDs"
	if err := w.checkOptions(); err != nil {
		return nil, explain(op, err)
	}
	reply, err := w.peers.run(ctx, w.store.client, w.keys[:1], w.store.deploymentID(), peersWithin.Milliseconds())
	if err != nil || reply == "none" {
		return nil, w.store.fail(op, err)
	}
	peers := make([]model.WorkerPeer, 0, strings.Count(reply, "\n")+1)
	for line := range strings.SplitSeq(reply, "\n") {
		f := fields{rest: line}
		id, reported, seen := int(f.number()), f.number(), f.number()
		peers = append(peers, model.WorkerPeer{WorkerID: id, Reported: reported, Seen: seen, Address: f.word()})
		if f.bad || f.rest != "" {
			return nil, explain(op, fmt.Errorf("%w: peers answered %.80q", errMalformed, line))
		}
	}
	return peers, nil
}

// workerKeys names the hash and, after it, the leases. The braces make a cluster
// place all by the name.
func workerKeys(name string, workers int) []string {
	keys := make([]string, 1, 1+workers)
	keys[0] = "id.gen.workers_{" + name + "}"
	for id := range workers {
		keys = append(keys, "id.gen.worker_{"+name+"}_"+strconv.Itoa(id))
	}
	return keys
}

func (w *Workers) leaseKeys(lease model.Lease) []string {
	return []string{w.keys[0], w.keys[1+lease.WorkerID]}
}

func identityOf(owner model.Owner) string {
	if owner.Identity == "" {
		return noIdentity
	}
	return owner.Identity
}

func (w *Workers) check(lease model.Lease) error {
	owner := lease.Owner
	switch {
	case !isWord(owner.Token) || !isWord(owner.Address) || !isWord(identityOf(owner)):
		return fmt.Errorf("%w: owner %+v: address and token are words", model.ErrInvalidArgument, owner)
	case lease.WorkerID < 0 || lease.WorkerID >= w.o.Workers:
		return fmt.Errorf("%w: worker ID %d is not 0…%d", model.ErrInvalidArgument, lease.WorkerID, w.o.Workers-1)
	}
	for _, ms := range []int64{lease.After, lease.Reserved, lease.Expires, lease.Reported} {
		if ms < 0 || ms > maxMs {
			return fmt.Errorf("%w: time %d of a lease is not 0…%d ms", model.ErrInvalidArgument, ms, maxMs)
		}
	}
	return w.checkOptions()
}

func (w *Workers) checkOptions() error {
	if !isWord(w.o.Name) || strings.ContainsAny(w.o.Name, "{}") || w.o.TTL < time.Millisecond ||
		w.o.Workers < 1 || w.o.Workers > model.SnowflakeWorkers {
		return fmt.Errorf("%w: registry of worker IDs %+v", model.ErrInvalidArgument, w.o)
	}
	return nil
}

// isWord tells what one word of a reply can hold.
func isWord(s string) bool { return s != "" && !strings.ContainsFunc(s, unicode.IsSpace) }

// errTooFewAcks reports a write that too few replicas have confirmed.
var errTooFewAcks = errors.New("too few replicas have confirmed")

// run runs a script that writes, and has replicas confirm it: as many as the options
// say, else so many that they are a majority with the server, of the most that any
// server of the registry was seen with. decode reads a lease from the reply, and that
// number; the reply none holds no lease, and needs no replicas. The first time more
// have to confirm than were known, the script runs again.
func (w *Workers) run(ctx context.Context, s script, none string, decode func(*fields) (replicas int64),
	keys []string, args ...any) (held bool, err error) {
	c, err := w.store.nodeOf(ctx, keys[0])
	if err != nil {
		return false, err
	}
	in := call{keys, args}
	for {
		asked := w.acks(w.replicas.Load())
		reply, confirmed, err := w.runConfirmed(ctx, c, s.byHash(ctx, in), asked)
		if isNoScript(err) {
			reply, confirmed, err = w.runConfirmed(ctx, c, s.byText(ctx, in), asked)
		}
		if err != nil || reply == none {
			return false, err
		}
		f := fields{rest: reply}
		seen := decode(&f)
		need := w.acks(seen)
		switch {
		case f.bad || f.rest != "":
			return false, fmt.Errorf("%w: a lease is %.80q", errMalformed, reply)
		case confirmed >= need:
			return true, nil
		case need <= asked:
			return false, fmt.Errorf("%w: %d of %d within %v", errTooFewAcks, confirmed, need, w.store.waitLimit)
		}
		w.replicas.Store(seen)
	}
}

// acks is how many replicas must confirm, of so many.
func (w *Workers) acks(replicas int64) int {
	if w.o.Acks >= 0 {
		return w.o.Acks
	}
	return int(replicas+1) / 2
}

// nodeOf is the client of the one server that has the key: WAIT counts the
// replicas that have what was written over its own connection, and a cluster
// client would send it, as it names no key, to any node. Only MOVED tells that
// the key is elsewhere by now; the caller asks again.
func (s *Store) nodeOf(ctx context.Context, key string) (redis.UniversalClient, error) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return s.client, nil
}

// runConfirmed sends cmd and WAIT in one pipeline, which is one connection, and says
// how many replicas have confirmed. WAIT ends before the client gives up the reply.
func (w *Workers) runConfirmed(ctx context.Context, c redis.UniversalClient, cmd *redis.StringCmd,
	acks int) (reply string, confirmed int, err error) {
	pipe := c.Pipeline()
	_ = pipe.Process(ctx, cmd) // only queues; each command has its own error
	wait := redis.NewIntCmd(ctx, "wait", acks, w.store.waitLimit.Milliseconds())
	if acks > 0 {
		_ = pipe.Process(ctx, wait)
	}
	_, execErr := pipe.Exec(ctx)
	if err := errors.Join(cmd.Err(), wait.Err()); err != nil {
		return "", 0, err
	}
	if cmd.Val() == "" {
		return "", 0, unanswered(execErr)
	}
	return cmd.Val(), int(wait.Val()), nil
}
