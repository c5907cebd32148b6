//go:build unix

package sqlstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// leaseWorld is a name with four worker IDs on a database that fails over to copies of any age,
// whose clock differs from the one before. Time passes by making all that is stored older; times
// of the world are those of the first database's clock.
type leaseWorld struct {
	t      *testing.T
	s      *Store
	rnd    *rand.Rand
	passed int64 // how far the world is ahead of what the database's clock says, ms
	skew   int64 // of this server's clock, within model.MaxClockApart, ms
	leases []*worldLease
	copies []leaseCopy
	log    []string
}

// worldLease is what a holder knows of its lease, which it may use or renew for ever.
type worldLease struct {
	key          model.LeaseKey
	after, until int64 // world's times
	over         bool  // its holder has stopped
}

// leaseCopy is what a copy of the database has, as of a time of the world.
type leaseCopy struct {
	rows []leaseRow
	at   int64
}

// TestLeaseWorlds runs holders, faults and time in a random order. No two leases of a worker ID
// have a time in common. A file fails over to nothing, so what holds there holds without the
// waits that follow a failover.
func TestLeaseWorlds(t *testing.T) {
	check.Deep(t)
	onBoth(t, leaseWorlds)
}

func leaseWorlds(t *testing.T, s *Store) {
	const worlds, steps = 8, 300
	check.Must(t, s.Beat(t.Context()))
	for seed := range uint64(worlds) {
		name := fmt.Sprint("world", seed)
		n := aName(name)
		n.WorkerBits = 2
		check.Must(t, check.Err(s.CreateName(t.Context(), n)))
		w := &leaseWorld{t: t, s: s, rnd: rand.New(rand.NewPCG(seed, 1))}
		w.copy(name)
		for range steps {
			w.step(name)
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, w.log)
			}
		}
	}
}

func (w *leaseWorld) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *leaseWorld) step(name string) {
	pick := func() *worldLease {
		if len(w.leases) == 0 {
			return &worldLease{}
		}
		return w.leases[w.rnd.IntN(len(w.leases))]
	}
	switch dice := w.rnd.IntN(40); {
	case dice < 10:
		l, err := w.s.GrantLease(w.t.Context(), name, []string{"", "a", "b"}[w.rnd.IntN(3)])
		if err == nil {
			w.leases = append(w.leases, &worldLease{key: keyOf(l)})
			w.granted(w.leases[len(w.leases)-1], l)
		}
	case dice < 22: // also by one that was frozen for long
		if l := pick(); l.key.Name == name && !l.over {
			if got, err := w.s.RenewLease(w.t.Context(), l.key); err == nil {
				w.granted(l, got)
			}
		}
	case dice < 28:
		if l := pick(); l.key.Name == name && l.until > l.after {
			if !l.over { // it stops, and that it says may arrive now, later or again
				l.over, l.until = true, l.after+w.rnd.Int64N(l.until-l.after+1)
			}
			if w.rnd.IntN(2) == 0 {
				err := w.s.ReleaseLease(w.t.Context(), l.key, l.until-w.passed)
				w.say("worker %d released up to %d: %v", l.key.WorkerID, l.until, err)
			}
		}
	case dice < 37:
		w.pass(w.rnd.Int64N(40_000))
	case dice < 39:
		w.copy(name)
	case w.s.server != nil:
		w.failOver(name)
	}
}

// granted notes the times of a lease, which must be nobody else's.
func (w *leaseWorld) granted(l *worldLease, got model.NameLease) {
	l.after, l.until = got.After+w.passed, max(l.until, got.Until+w.passed)
	w.say("worker %d %s has %d to %d", got.WorkerID, got.Secret[:4], l.after, l.until)
	for _, other := range w.leases {
		if other != l && other.key.Name == l.key.Name && other.key.WorkerID == l.key.WorkerID &&
			max(other.after, l.after) < min(other.until, l.until) {
			w.t.Errorf("worker %d: %d to %d of %s, and %d to %d of %s", l.key.WorkerID, l.after, l.until,
				l.key.Secret[:4], other.after, other.until, other.key.Secret[:4])
		}
	}
}

// pass makes all that is stored older.
func (w *leaseWorld) pass(ms int64) {
	w.passed += ms
	age(w.t, w.s, ms)
	run(w.t, w.s, fmt.Sprintf("UPDATE shardid_deployment SET since = since - %d, booted_at = booted_at - %d", ms,
		ms/1000))
	w.s.seen.mu.Lock()
	w.s.seen.times.Since = w.s.seen.times.Since.Add(-time.Duration(ms) * time.Millisecond)
	w.s.seen.mu.Unlock()
	w.say("%d ms pass", ms)
}

// copy takes a copy, which may be failed over to at any time from now on.
func (w *leaseWorld) copy(name string) {
	rows, err := query[[]leaseRow](w.s.gorm, "copy", "SELECT "+leaseColumns+" FROM "+leaseTable+" WHERE name = ?", name)
	check.Must(w.t, err)
	w.copies = append(w.copies, leaseCopy{rows, w.passed})
	w.say("copy %d", len(w.copies)-1)
}

// failOver makes a copy the database, whose clock is another one: what is stored is older, or
// younger, by how much that differs.
func (w *leaseWorld) failOver(name string) {
	c := w.copies[w.rnd.IntN(len(w.copies))]
	skew := w.rnd.Int64N(2*model.MaxClockApart.Milliseconds()) - model.MaxClockApart.Milliseconds()
	w.passed += skew - w.skew // this server's clock says so much more
	w.skew = skew
	run(w.t, w.s, "DELETE FROM shardid_lease WHERE name = '"+name+"'")
	for _, r := range slices.Clone(c.rows) {
		older := w.passed - c.at
		check.Must(w.t, write(w.s.gorm, "restore",
			"INSERT INTO "+leaseTable+" ("+leaseColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			r.Name, r.WorkerID, r.Instance, r.Secret, r.AfterMs-older, r.UntilMs-older, r.GrantedAt, r.RenewedAt))
	}
	run(w.t, w.s, "UPDATE shardid_deployment SET server = 'another'")
	check.Must(w.t, w.s.Beat(w.t.Context()))
	w.say("fail over to a copy of %d ms ago, its clock is %d ms ahead", w.passed-c.at, skew)
}
