package worker

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
	"shardid/service/uid"
)

// Mutants of the registry of UIDs' worker IDs.
const (
	noMark          mutant = "marks are confirmed and not stored"
	recycleUnmarked mutant = "a worker ID is used again without a bound"
	recycleTooEarly mutant = "a worker ID is used again before its mark has passed"
	numberAgain     mutant = "another server of WORKER_NODE is taken for the same"
)

// simNodes is WORKER_NODE. Its database fails over to older copies, or loses single rows. No witness is named.
type simNodes struct {
	simtest.Database
	w        *world
	layout   model.UIDLayout
	away     bool
	rows     map[int64]simNode // by worker ID
	last     int64             // number of the last start
	counter  model.Counter     // of the starts; its Last is last
	accounts int64             // change of the server that the counter accounts for
	known    simtest.Replica   // what the instances know of the server
	past     []func()          // each goes back to what was stored then
	recycled int
}

// simNode is a row.
type simNode struct {
	token string
	mark  int64 // Unix seconds
}

// simNodeRate is how many starts the database registers in a second, at most.
const simNodeRate = 50

// newSimNodes is one of few worker IDs, so that they are used again, or one that fails over, for whose jumps there is
// room.
func newSimNodes(w *world, failsOver bool) *simNodes {
	n := &simNodes{w: w, rows: map[int64]simNode{}, layout: model.UIDLayout{
		TimeBits: 58, WorkerBits: 2, SeqBits: 3, Epoch: time.UnixMilli(simStart).AddDate(-1, 0, 0),
	}}
	if failsOver {
		n.layout.TimeBits, n.layout.WorkerBits = 38, 22
	}
	n.Rate, n.Ignores = simNodeRate, w.mutant == numberAgain
	n.Now = func() time.Time { return time.UnixMilli(w.now) }
	n.ServerTimes = model.ServerTimes{Since: n.Now(), Beat: n.Now()}
	n.remember()
	return n
}

// beat is the heartbeat of the database's server, and a copy of it.
func (n *simNodes) beat() {
	if n.Beat.Add(model.BeatEvery).Before(n.Now()) && !n.Changed(&n.known) {
		n.Beat = n.Now()
	}
	n.remember()
}

// remember keeps what is stored, as a replica does.
func (n *simNodes) remember() {
	rows, last, counter, servers, accounts := maps.Clone(n.rows), n.last, n.counter, n.Copy, n.accounts
	n.past = append(n.past, func() {
		n.rows, n.last, n.counter, n.Copy, n.accounts = maps.Clone(rows), last, counter, servers, accounts
	})
}

// lose lets the database fail over to an older copy, or a row vanish.
func (n *simNodes) lose() {
	if n.layout.WorkerBits > 2 {
		n.w.note("database fails over")
		n.past[n.w.rng.IntN(len(n.past))]()
		n.Answers.Name++
		return
	}
	id := 1 + n.w.rng.Int64N(3)
	n.w.note("row %d vanishes", id)
	delete(n.rows, id)
}

// acquire is what sqlstore.Nodes.Acquire does, at an instance's second.
func (n *simNodes) acquire(o model.Owner, now int64) (lease model.Lease, err error) {
	id, row := int64(0), simNode{}
	for other, r := range n.rows {
		if r.token == o.Token {
			id, row = other, r
		}
	}
	switch {
	case id > 0:
	case n.last+1 < n.layout.Workers():
		if id, err = n.number(); err != nil {
			return lease, err
		}
	default:
		ids := slices.SortedFunc(maps.Keys(n.rows), func(a, b int64) int {
			return cmp.Or(cmp.Compare(n.rows[a].mark, n.rows[b].mark), cmp.Compare(a, b))
		})
		if len(ids) == 0 || n.rows[ids[0]].mark >= now && n.w.mutant != recycleTooEarly {
			return lease, model.ErrNoWorkerID
		}
		id, row = ids[0], n.rows[ids[0]]
		n.recycled++
	}
	after := max(row.mark, now-1)
	n.rows[id] = simNode{o.Token, after}
	switch n.w.mutant {
	case recycleUnmarked:
		after = 0
	case recycleTooEarly:
		after = now - 1
	}
	return model.Lease{WorkerID: int(id), Owner: o, Registry: "node", After: 1000 * after}, nil
}

// number gives a start its number, above those that a copy may lack.
func (n *simNodes) number() (number int64, err error) {
	n.Meets(&n.known)
	if n.Unsettled() {
		return 0, model.ErrJumping
	}
	c := n.counter
	c.Last, c.Rate, c.JumpFrom = n.last, simNodeRate, n.JumpFrom
	c.Doubt = n.Doubt(n.accounts, c.At, c.Doubt)
	number, _, next, err := c.TakeNumbers(0, 1, n.layout.Workers()-1, n.Now())
	if err == nil {
		n.last, n.counter, n.accounts = number, next, int64(len(n.Changes))
	}
	return number, err
}

// simNodeLink is one instance's way to WORKER_NODE.
type simNodeLink struct {
	*simNodes
	inst *instance
}

func (l simNodeLink) call(op string, do func() error) error {
	l.w.interleave(l.inst)
	if l.away || l.inst.cut {
		return away(op)
	}
	if err := do(); err != nil {
		return err
	}
	l.w.interleave(l.inst)
	if !l.w.calm && l.w.rng.IntN(12) == 0 {
		l.w.note("lost reply")
		return away(op)
	}
	return nil
}

func (l simNodeLink) Acquire(_ context.Context, o model.Owner) (lease model.Lease, err error) {
	err = l.call("acquire", func() (err error) {
		wall, _ := l.inst.clock()
		lease, err = l.acquire(o, wall/int64(time.Second))
		return err
	})
	l.w.note("%s acquires: worker %d after %d, %v", l.inst, lease.WorkerID, lease.After-simStart, err)
	return lease, err
}

func (l simNodeLink) Renew(_ context.Context, lease model.Lease) (model.Lease, error) {
	return lease, l.call("renew", func() error {
		id, mark := int64(lease.WorkerID), lease.Reserved/1000
		row := l.rows[id]
		if row.token != lease.Owner.Token {
			return model.ErrLeaseLost
		}
		l.w.note("%s renews worker %d up to %d", l.inst, id, lease.Reserved-simStart)
		if row.mark = max(row.mark, mark); l.w.mutant != noMark {
			l.rows[id] = row
		}
		l.inst.durable = max(l.inst.durable, lease.Reserved)
		return nil
	})
}

func (l simNodeLink) Release(context.Context, model.Lease) error        { return nil }
func (l simNodeLink) Peers(context.Context) ([]model.WorkerPeer, error) { return nil, nil }

// simUIDKeeper is how an instance's service knows its keeper.
type simUIDKeeper struct{ inst *instance }

func (k simUIDKeeper) Need(context.Context) {}
func (k simUIDKeeper) Wake()                { k.inst.due = min(k.inst.due, k.inst.w.now) }
func (k simUIDKeeper) Missing() string      { return "" }

// bootUIDs makes the service and the keeper of one life.
func (w *world) bootUIDs(i *instance) {
	s, err := uid.New(uid.Options{
		Mode: i.uidMode, Layout: w.nodes.layout,
		// which is for the filler: of the bubble's time, so that none passes with which it would try again
		Timeout:    time.Nanosecond,
		BoostPower: 1, PaddingFactor: 50, RejectPut: uid.PutDiscard, RejectTake: uid.TakeRefuse,
		Keeper: simUIDKeeper{i}, Now: i.clock,
	})
	if err != nil {
		panic(err)
	}
	i.uids, i.lastUID = s, 0
	i.keeper, err = New(Options{
		Condition: uid.Condition, Mode: "node", Registry: simNodeLink{w.nodes, i}, Generator: simGenerator{s, i},
		Reserve: s.Reserve,
		Layout:  func(context.Context, bool) (time.Duration, bool, error) { return 0, true, nil },
		Claim:   func(context.Context, model.WorkerClaim) (model.ClaimGrant, error) { return model.ClaimGrant{}, nil },
		TTL:     Forever, Expiry: Forever, MaxClockOffset: math.MaxInt64,
		Reporter: &check.Reports{}, Log: slog.New(slog.DiscardHandler), Now: i.clock,
	})
	if err != nil {
		panic(err)
	}
}

// endUIDs ends what a life has in the background. Nothing is said to the registry.
func (i *instance) endUIDs() {
	if i.uids != nil {
		_ = i.uids.Stop(context.Background()) // it ends at once
	}
}

// actUIDs is a step of a world of UIDs, whose marks are hours ahead.
func (w *world) actUIDs() {
	i := w.instances[w.rng.IntN(len(w.instances))]
	switch n := w.rng.IntN(100); {
	case n < 40:
		w.issueUIDs(i, 1+w.rng.IntN(8))
	case n < 70:
		w.pass(int64(w.rng.IntN(4000)))
	case n < 76:
		w.pass(w.rng.Int64N(6 * 3_600_000))
	case n < 83:
		most := []int64{1000, 1_800_000, 6 * 3_600_000}[w.rng.IntN(3)]
		i.offset = w.rng.Int64N(2*most+1) - most
		w.note("%s clock off by %d ms", i, i.offset)
	case n < 87:
		w.crash(i)
	case n < 89:
		w.stop(i)
	case n < 94:
		if i.life == 0 {
			w.boot(i)
		}
	case n < 96:
		i.cut = !i.cut
		w.note("%s cut %t", i, i.cut)
	case n < 97:
		w.nodes.away = !w.nodes.away
		w.note("database away %t", w.nodes.away)
	case n < 99: // a busy hour of cached mode
		for range 1 + w.rng.IntN(4) {
			w.issueUIDs(i, model.MaxBatch)
		}
	default:
		w.nodes.lose()
	}
}

// issueUIDs takes a batch and holds it against all others: it rises within a life.
func (w *world) issueUIDs(i *instance, count int) {
	if i.life == 0 || w.failed != nil {
		return
	}
	ids, _ := i.uids.Next(context.Background(), count, nil)
	synctest.Wait() // the ring is filled
	layout := w.nodes.layout
	for n, id := range ids {
		if id <= i.lastUID {
			w.fail("%s issued %d after %d", i, id, i.lastUID)
		}
		i.lastUID = id
		if n > 0 && n < len(ids)-1 {
			continue
		}
		second, worker := id>>(layout.WorkerBits+layout.SeqBits)+layout.Epoch.Unix(),
			id>>layout.SeqBits&(layout.Workers()-1)
		if 1000*second > i.durable && w.mutant == noMutant {
			w.fail("%s issued an ID of %d, its bound is %d", i, 1000*second-simStart, i.durable-simStart)
		}
		w.own(worker, second, i.String())
	}
	w.issued += len(ids)
}

// healUIDs ends every fault; long after, all that get a worker ID must issue.
func (w *world) healUIDs() {
	w.nodes.away, w.calm = false, true
	for _, i := range w.instances {
		i.cut, i.offset = false, 0
		if i.life == 0 {
			w.boot(i)
		}
	}
	w.pass(365 * 24 * 3_600_000) // past all marks
	for range 20 {
		w.pass(2000)
	}
	w.now += 1000 // to a second that is not used up
	for _, i := range w.instances {
		before := w.issued
		if w.issueUIDs(i, 8); w.issued == before && w.mutant == noMutant && w.layoutHasRoom() {
			w.fail("%s issues nothing long after every fault has ended: %v", i, i.uids.Ready())
		}
	}
}

// layoutHasRoom says whether each instance gets a worker ID: jumps may have used them up.
func (w *world) layoutHasRoom() bool { return w.nodes.layout.WorkerBits == 2 && len(w.nodes.rows) == 3 }
