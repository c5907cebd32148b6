package workerid_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workerid"
	"shardid/repository/workertest"
	"shardid/scripts/check"
)

// memory is the plainest store there is: records, compared and set.
type memory struct {
	mu      sync.Mutex
	name    string
	since   int64
	records []workerid.Record
	now     func() int64
}

func newMemory(workers int, now func() int64) *memory {
	return &memory{name: fmt.Sprint("memory ", rand.Uint64()), since: now(), records: make([]workerid.Record, workers),
		now: now}
}

func unixMilli() int64 { return time.Now().UnixMilli() }

// errChanged is the refusal to replace a record that is not as it was read.
var errChanged = errors.New("changed")

func isChanged(err error) bool { return errors.Is(err, errChanged) }

func (m *memory) Take(ctx context.Context, owner model.Owner, take workerid.Take) error {
	return workerid.Settle(ctx, isChanged, func(try int) error {
		m.mu.Lock()
		c := workerid.Choice{Moment: workerid.Moment{Now: m.now(), Registry: m.name}, Among: 1 << min(try, 10)}
		empty := true
		for id, r := range m.records {
			c.Slots = append(c.Slots, workerid.Slot{Record: r, ID: id})
			empty = empty && r == (workerid.Record{})
		}
		if c.KeptSince = m.since; empty {
			c.KeptSince = c.Now
		}
		m.mu.Unlock()
		slot, next, err := take(c)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		return m.set(slot, next)
	})
}

func (m *memory) set(slot workerid.Slot, next workerid.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records[slot.ID] != slot.Record {
		return errChanged
	}
	m.records[slot.ID] = next
	return nil
}

func (m *memory) Edit(ctx context.Context, lease model.Lease, edit workerid.Edit) (moment workerid.Moment, err error) {
	err = workerid.Settle(ctx, isChanged, func(int) error {
		m.mu.Lock()
		slot := workerid.Slot{Record: m.records[lease.WorkerID], ID: lease.WorkerID}
		moment.Now = m.now()
		m.mu.Unlock()
		next, err := edit(slot)
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		return m.set(slot, next)
	})
	return moment, err
}

func TestContract(t *testing.T) {
	workertest.Run(t, func(*testing.T) workertest.Backend {
		m := newMemory(workertest.Workers, unixMilli)
		open := func(*testing.T) workertest.Registry {
			return workerid.NewRegistry(m, 5*time.Second)
		}
		return workertest.Backend{New: open}
	})
}

// TestChoice: who gets which of the worker IDs 0…2.
func TestChoice(t *testing.T) {
	const now, margin = 1_000_000, 5_000
	me := model.Owner{Address: "10.0.0.1:1", Identity: "me", Token: "t"}
	type record = workerid.Record
	live := record{Address: "10.0.0.9:1", Identity: "x", Token: "x", Reserved: now, Expires: now + 1}
	at := func(r record, expires int64) record { r.Reserved, r.Expires = 1, expires; return r }
	here := record{Address: me.Address, Identity: "x", Token: "x"}
	for name, c := range map[string]struct {
		records []record
		want    int   // -1: none
		after   int64 // of its lease
	}{
		"the one that its process has": {
			[]record{{Identity: "me"}, {Token: "t", Reserved: 7, Expires: now + 9}, {}}, 1, 7},
		"the one that its folder had": {
			[]record{{}, at(here, 3), {Identity: "me", Token: "x", Reserved: 7, Expires: now + 9}}, 2, 7},
		"the one that its address had": {[]record{{}, {}, at(here, now)}, 2, now},
		"not if a holder lives there":  {[]record{live, {}, at(here, now+1)}, 1, 0},
		"nor if it was taken a moment ago": {
			[]record{live, {}, {Address: me.Address, Token: "x", Acquired: now - 9_999}}, 1, 0},
		"nor if another program reports":     {[]record{live, {}, record{}.OfOthers(me.Address, 1, 1, now+1)}, 1, 0},
		"a new one before an old one":        {[]record{at(live, 4), {}, {}}, 1, 0},
		"the one that has ended longest ago": {[]record{at(live, 9), at(live, 3), at(live, 4)}, 1, 3},
		"one that has just been released": {
			[]record{live, {Address: "10.0.0.9:1", Reserved: now - 1, Expires: now - 1}, live}, 1, now - 1},
		"another program's, above what we had reserved": {
			[]record{live, at(live, 9).OfOthers("10.0.0.9:1", 1, 1, 2), live}, 1, 9},
		"none that may live by another clock": {
			[]record{at(live, now-margin), live, live}, -1, 0},
		"none that its last holder keeps": {
			[]record{live, {Address: "10.0.0.9:1", Reserved: 1, Expires: now + 1}, live}, -1, 0},
		"none of another program": {[]record{live, record{}.OfOthers("10.0.0.9:1", 1, 1, now-margin), live}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(len(c.records), func() int64 { return now })
			copy(m.records, c.records)
			lease, err := workerid.NewRegistry(m, margin*time.Millisecond).Acquire(t.Context(), me)
			if c.want < 0 {
				check.Is(t, err, model.ErrNoWorkerID)
				return
			}
			check.Must(t, err)
			check.Equal(t, lease.WorkerID, c.want)
			check.Equal(t, lease.After, c.after, "After")
		})
	}
}

// holder is an owner of a simulation.
type holder struct {
	model.Lease
	sent   []model.Lease // the renewals of the lease
	issued int64         // the latest time that it used
}

// TestEachTimeBelongsToOneLease: owners with and without a folder acquire, renew, release, die and come
// back, in any order and by a clock that jumps. Answers are lost, and renewals arrive twice and late.
// Owners with a folder continue up to Expires without asking. No time of a worker ID is used by two leases.
func TestEachTimeBelongsToOneLease(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		now := int64(1_000)
		registry := workerid.NewRegistry(newMemory(4, func() int64 { return now }), time.Second)
		used := map[[2]int64]string{} // by worker ID and time, whose it is
		use := func(h *holder, until int64) {
			for ; h.issued < until; h.issued++ {
				at := [2]int64{int64(h.WorkerID), h.issued + 1}
				if other, twice := used[at]; twice {
					t.Fatalf("seed %d: worker ID %d at %d is used by %s and by %s", seed, at[0], at[1], other,
						h.Owner.Token)
				}
				used[at] = h.Owner.Token
			}
		}
		restart := func(i int, h *holder) {
			o := model.Owner{Address: fmt.Sprintf("10.0.0.%d:1", r.IntN(6)), Token: fmt.Sprint(i, "-", r.Uint32())}
			if i%2 == 0 {
				o.Identity = fmt.Sprint("folder ", i)
			}
			h.Owner, h.sent = o, nil
		}
		holders := make([]holder, 6)
		for i := range holders {
			restart(i, &holders[i])
		}
		for range 300 {
			i := r.IntN(len(holders))
			h := &holders[i]
			action := r.IntN(10)
			switch {
			case action == 0:
				restart(i, h)
			case action == 1:
				now += r.Int64N(400) - 50
			case h.sent == nil:
				lease, err := registry.Acquire(t.Context(), h.Owner)
				if err != nil {
					break
				}
				start := lease.After
				if h.Owner.Identity != "" && lease.WorkerID == h.WorkerID {
					start = max(start, h.issued) // as its file says
				}
				*h = holder{lease, []model.Lease{}, start}
			case action == 2:
				lease := h.Lease
				if lease.Reserved = 0; h.issued > h.After {
					lease.Reserved = h.issued
				}
				lease.Expires = lease.Reserved + r.Int64N(2)*100
				check.Must(t, registry.Release(t.Context(), lease))
				restart(i, h)
			case action == 3 && len(h.sent) > 0 && h.Owner.Identity != "":
				use(h, min(now+60, h.Expires-1))
			case action == 4 && len(h.sent) > 0:
				_, _ = registry.Renew(t.Context(), h.sent[r.IntN(len(h.sent))])
			default:
				want := h.Lease
				want.Reserved = max(now+60, h.issued)
				want.Expires = want.Reserved + 1
				if h.Owner.Identity != "" {
					want.Expires += 300
				}
				_, err := registry.Renew(t.Context(), want)
				switch {
				case err != nil:
					check.Is(t, err, model.ErrLeaseLost)
					restart(i, h)
				case action > 4: // else its answer is lost
					h.Reserved, h.Expires = want.Reserved, want.Expires
					h.sent = append(h.sent, want)
					use(h, want.Reserved)
				}
			}
		}
	}
}
