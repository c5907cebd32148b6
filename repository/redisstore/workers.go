package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"shardid/model"
	"shardid/repository/workerid"
)

// The registry redis keeps a record of package workerid in two places. The lease is a key with the token of its holder,
// which expires by Redis' own clock. The bounds of all worker IDs, who had them last, and their reports are in one
// hash, for ever. One script replaces a worker ID if both are still as they were read, so a request that arrives twice,
// or late, changes nothing. All keys of a name share a slot of a cluster.
//
// The hash also tells for which replication ID of the server the leases are valid. On any other they are all dropped,
// as an old snapshot or a lagging replica brought them back: the holders lose them. The bounds are kept then; they may
// be too old, which the lease's KeptSince tells.
//
// A write counts once the server and the replicas that have it are a majority, of the most replicas that any server of
// the registry was ever seen with. So a master that was deposed and does not know it renews nothing, as its replicas
// have left it.

const (
	// peersWithin is how old a report may be to say something about a clock.
	peersWithin = time.Minute
	// nobody stands for an empty identity.
	nobody = "-"
)

// WorkersOptions says how worker IDs are leased.
type WorkersOptions struct {
	// Name is the namespace of the worker IDs: letters, digits, ".", "_", "-".
	Name string
	// TTL is how long a lease lasts without a renewal, in whole ms.
	TTL time.Duration
	// Workers is how many worker IDs there are, 1…model.SnowflakeWorkers: 0…Workers-1.
	Workers int
}

// Workers is the registry of worker IDs in Redis. Errors of its methods are those of workerid.Registry and
// *model.StoreError. All calls may be repeated. Safe for concurrent use, over processes too.
type Workers struct {
	workerid.Registry
	slots workerSlots
}

// Workers gives the registry of one name, over the connections of the store.
func (s *Store) Workers(o WorkersOptions) *Workers {
	slots := workerSlots{s, o, newScript(s.opts.Observe, "prelude", "workers")}
	return &Workers{workerid.NewRegistry(slots, 0), slots} // a lease ends by one clock: no margin is needed
}

// Peers gives the reports of the last minute.
func (w *Workers) Peers(ctx context.Context) (peers []model.WorkerPeer, err error) {
	r, err := w.slots.read(ctx, 0, w.slots.o.Workers-1, "")
	for _, s := range r.slots {
		if s.Reported > 0 && r.Now-s.Seen <= peersWithin.Milliseconds() {
			peer := model.WorkerPeer{Address: s.Address, WorkerID: s.ID, Reported: s.Reported, Seen: s.Seen}
			peers = append(peers, peer)
		}
	}
	return peers, w.slots.store.fail("read the reports of worker IDs", err)
}

// workerSlots are the worker IDs of a name as a workerid.Store.
type workerSlots struct {
	store  *Store
	o      WorkersOptions
	script script
}

// workersKey names the hash of a registry. A cluster places its leases beside it.
func workersKey(name string) string { return "id.gen.workers_{" + name + "}" }

// reading is what was read at once.
type reading struct {
	workerid.Moment
	life     string
	replicas int // the most that a server of the registry was seen with
	slots    []workerid.Slot
}

// kept is what Redis keeps of a worker ID, "" where there is none.
type kept struct{ token, entry string }

func (w workerSlots) Take(ctx context.Context, owner model.Owner, take workerid.Take) error {
	return w.settle(ctx, "acquire a worker ID", func(try int) error {
		if strings.ContainsFunc(owner.Token+owner.Address+owner.Identity, unicode.IsSpace) {
			return fmt.Errorf("%w: owner %+v is not told in words", model.ErrInvalidArgument, owner)
		}
		r, err := w.read(ctx, 0, w.o.Workers-1, rand.Text())
		if err != nil {
			return err
		}
		slot, next, err := take(workerid.Choice{Moment: r.Moment, Slots: r.slots, Among: 1 << min(3*try, 10)})
		if err == nil {
			_, err = w.put(ctx, r, slot, next)
		}
		return err
	})
}

// Edit finds nobody at a lease of another life.
func (w workerSlots) Edit(ctx context.Context, lease model.Lease, edit workerid.Edit) (m workerid.Moment, err error) {
	err = w.settle(ctx, "store a worker ID", func(int) error {
		r, err := w.read(ctx, lease.WorkerID, lease.WorkerID, "")
		if err != nil {
			return err
		}
		var slot workerid.Slot
		if r.life != "" && r.life == lease.Node {
			slot = r.slots[0]
		}
		next, err := edit(slot, r.Moment)
		if err == nil {
			m, err = w.put(ctx, r, slot, next)
		}
		return err
	})
	return m, err
}

// settle calls what is to be tried until no other instance is in its way.
func (w workerSlots) settle(ctx context.Context, op string, once func(try int) error) error {
	err := workerid.Settle(ctx, func(err error) bool { return errors.Is(err, errChanged) }, once)
	if errors.Is(err, model.ErrNoWorkerID) || errors.Is(err, model.ErrLeaseLost) {
		return fmt.Errorf("redis: %w", err)
	}
	return w.store.fail(op, err)
}

// read reads the worker IDs first…last; none, in no life, of a registry that is not there. With an ID it is made.
func (w workerSlots) read(ctx context.Context, first, last int, id string) (r reading, err error) {
	reply, err := w.script.run(ctx, w.store.client, []string{workersKey(w.o.Name)}, w.store.deploymentID(),
		"read", first, last, id)
	if err != nil || reply == "none" {
		return r, err
	}
	head, rest, _ := strings.Cut(reply, "\n")
	f := fields{rest: head}
	r.life, r.KeptSince, r.Now, r.replicas = strings.Clone(f.word()), f.number(), f.number(), int(f.number())
	r.Registry = "redis " + w.o.Name + " " + f.word()
	bad := f.bad || f.rest != ""
	for line := range strings.SplitSeq(rest, "\n") {
		token, entry, _ := strings.Cut(line, "\t")
		s := workerid.Slot{ID: first + len(r.slots), Path: r.life, Read: kept{token, entry}}
		if entry != "" {
			e := fields{rest: entry}
			s.Reserved, s.Expires, s.Reported, s.Seen = e.number(), e.number(), e.number(), e.number()
			s.Identity, s.Address = e.word(), e.word()
			bad = bad || e.bad || e.rest != ""
		}
		if s.Identity == nobody {
			s.Identity = ""
		}
		if s.Token = token; token != "" {
			s.Acquired = r.Now // others keep off as long as the key lasts
		}
		r.slots = append(r.slots, s)
	}
	if bad {
		return reading{}, fmt.Errorf("%w: worker IDs are %.80q", errMalformed, reply)
	}
	return r, nil
}

// put replaces a worker ID, and has replicas confirm it, also one that stays as it is.
func (w workerSlots) put(ctx context.Context, r reading, slot workerid.Slot, next workerid.Record) (m workerid.Moment,
	err error) {
	read, key := slot.Read.(kept), workersKey(w.o.Name)
	entry := read.entry
	if next != slot.Record {
		if next.Acquired > 0 || next.Token == "" {
			next.Reported = 0 // of another instance, or of one that is gone
		}
		entry = fmt.Sprintf("%d %d %d %d %s %s", next.Reserved, next.Expires, next.Reported, next.Seen,
			cmp.Or(next.Identity, nobody), next.Address)
	}
	// WAIT counts the replicas that have what was written over its own connection, and names no key: in a cluster the
	// node is asked that has ours. Only MOVED tells that it has it no more, and the caller asks again.
	node := w.store.client
	if cluster, ok := node.(*redis.ClusterClient); ok {
		if node, err = cluster.MasterForKey(ctx, key); err != nil {
			return m, err
		}
	}
	args := []any{w.store.deploymentID(), "put", r.life, slot.ID, read.token, read.entry, next.Token, entry,
		w.o.TTL.Milliseconds()}
	need := (r.replicas + 1) / 2
	reply, confirmed, err := w.confirm(ctx, node, need, w.script.EvalSha, key, args)
	if isNoScript(err) {
		reply, confirmed, err = w.confirm(ctx, node, need, w.script.Eval, key, args)
	}
	switch {
	case err != nil:
		return m, err
	case reply == "changed":
		return m, errChanged
	case confirmed < need:
		return m, fmt.Errorf("%w: %d of %d within %v", errTooFewAcks, confirmed, need, w.store.waitLimit)
	}
	f := fields{rest: reply}
	_, m.KeptSince, m.Now = f.word(), f.number(), f.number()
	if f.bad {
		err = fmt.Errorf("%w: a worker ID became %.80q", errMalformed, reply)
	}
	return m, err
}

var (
	// errChanged is the refusal of a put: another request was quicker.
	errChanged = errors.New("it is not as it was read")
	// errTooFewAcks reports a write that too few replicas have confirmed.
	errTooFewAcks = errors.New("too few replicas have confirmed")
)

// confirm runs the script, and WAIT in the same pipeline, which is one connection, and says how many replicas have
// confirmed. WAIT ends before the client gives up its reply.
func (w workerSlots) confirm(ctx context.Context, node redis.UniversalClient, need int, run eval, key string,
	args []any) (reply string, confirmed int, err error) {
	pipe := node.Pipeline()
	cmd := run(ctx, pipe, []string{key}, args...) // only queues; each command has its own error
	wait := redis.NewIntCmd(ctx, "wait", need, w.store.waitLimit.Milliseconds())
	if need > 0 {
		_ = pipe.Process(ctx, wait)
	}
	_, execErr := pipe.Exec(ctx)
	put := resultOf(cmd, execErr)
	return put.reply, int(wait.Val()), errors.Join(put.err, wait.Err())
}
