// Package workerid decides who gets a snowflake worker ID, and which times its IDs may carry.
//
// A registry keeps one [Record] of each worker ID for ever. The record says who has the worker ID, or
// had it last, and up to when IDs may have been issued with it. Pure functions say what a record
// becomes when an owner takes, renews or releases the worker ID, and which worker ID an owner gets.
// [Registry] runs them over a store, which reads records together with its clock, and replaces a record
// only while it is still as it was read. A database and ZooKeeper are such stores.
//
// No ID repeats, because each time of a worker ID belongs to one lease: an owner follows above
// [Record.AfterFor], which is never below what those before it were allowed. Whether the holder before
// still lives decides only how long others wait, never whether an ID is safe. That is judged by the
// store's clock alone.
package workerid

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"shardid/model"
)

// FirstRenewal is for how long, in ms, a worker ID that was taken is left to its holder before the
// first renewal, which follows at once. Until then no Expires keeps others away.
const FirstRenewal = 10_000

// Record is what a registry keeps of a worker ID. Times are Unix ms. The zero record is that of a
// worker ID that nobody has ever had.
type Record struct {
	// Address is the ip:port of the holder, or of the last one; "" where nobody knows it.
	Address string
	// Identity is that of the holder's data folder, or of the last one's; it may be empty.
	Identity string
	// Token is that of the process that holds the worker ID, "" once it was released.
	Token string
	// Reserved is up to when IDs may have been issued.
	Reserved int64
	// Expires is from when on owners of other identities may follow.
	Expires int64
	// Acquired is when the holder took it, by the store's clock, and 0 once it has renewed.
	Acquired int64
	// Reported is the clock of the holder, or of the one before, at its last report.
	Reported int64
	// OthersUntil is until when, by the store's clock, another program counts as the holder: a Java
	// Leaf has reported for the worker ID after shardid wrote the record. It is 0 without one.
	OthersUntil int64
}

// OfOthers is the record when another program has reported at that time, by its own clock. That
// report is trusted for so many ms, and until then by the store's clock. No owner of ours has
// the worker ID any more.
func (r Record) OfOthers(address string, reported, trust, until int64) Record {
	bound := reported + trust
	return Record{Address: address, Reported: reported,
		Reserved: max(r.Reserved, bound), Expires: max(r.Expires, bound), OthersUntil: until}
}

// HeldBy says whether the owner's process holds the worker ID.
func (r Record) HeldBy(o model.Owner) bool { return o.Token != "" && r.Token == o.Token }

// OwnedBy says whether the owner holds the worker ID, or had it last, in an earlier process.
func (r Record) OwnedBy(o model.Owner) bool {
	return r.HeldBy(o) || o.Identity != "" && r.Identity == o.Identity
}

// Bound is up to when IDs may have been issued by anybody.
func (r Record) Bound() int64 { return max(r.Reserved, r.Expires) }

// AfterFor is what the IDs of an owner who follows must be later than. One who comes back knows that
// nothing above Reserved was issued; others have to believe all that was granted.
func (r Record) AfterFor(o model.Owner) int64 {
	if r.OwnedBy(o) {
		return r.Reserved
	}
	return r.Bound()
}

// LiveUntil is until when, by the store's clock, the record keeps other owners away.
func (r Record) LiveUntil() int64 {
	switch {
	case r.OthersUntil > 0:
		return r.OthersUntil
	case r.Acquired > 0:
		return max(r.Expires, r.Acquired+FirstRenewal)
	}
	return r.Expires
}

// FreeAt is until when owners of other addresses leave the worker ID alone. A holder that was silent
// may have been judged by another clock, so they wait margin ms longer; a release is its own word.
func (r Record) FreeAt(margin int64) int64 {
	if r.Token == "" && r.OthersUntil == 0 {
		return r.LiveUntil()
	}
	return r.LiveUntil() + margin
}

// Taken is the record once the owner has the worker ID.
func (r Record) Taken(o model.Owner, now int64) Record {
	after := r.AfterFor(o)
	return Record{Address: o.Address, Identity: o.Identity, Token: o.Token,
		Reserved: after, Expires: max(r.Expires, after), Acquired: now, Reported: r.Reported}
}

// Renewed is the record with the bounds and the report of the lease. No bound goes down.
func (r Record) Renewed(l model.Lease) Record {
	r.Reserved, r.Expires = max(r.Reserved, l.Reserved), max(r.Expires, l.Expires)
	r.Reported, r.Acquired = l.Reported, 0
	return r
}

// Released is the record when its holder has given it up and says what it issued last. What was
// issued before that lease stays issued.
func (r Record) Released(l model.Lease) Record {
	bound := max(l.Reserved, l.After)
	r.Token, r.Reserved, r.Expires, r.Acquired = "", bound, max(bound, l.Expires), 0
	return r
}

// Slot is a worker ID as a store has read it.
type Slot struct {
	Record
	ID int
	// Path is where the store keeps the worker ID, or is to keep it; the store alone reads it.
	Path string
	// Ended says that the store knows that nobody holds the worker ID, whatever the record says: its
	// holder's session has ended. That holder, too, has to take it anew.
	Ended bool
	// Read is what a store needs to replace the record only if it is still as it was read.
	Read any
}

// findKnown gives the index of the worker ID that the owner holds; else of the one that it had last,
// wherever it was then; else of one that was last used at its address, if no holder lives there. It
// gives -1 without one.
func findKnown(slots []Slot, o model.Owner, now int64) int {
	for _, is := range []func(Slot) bool{
		func(s Slot) bool { return s.HeldBy(o) },
		func(s Slot) bool { return s.OwnedBy(o) },
		func(s Slot) bool { return s.Address == o.Address && (s.Ended || s.LiveUntil() <= now) },
	} {
		if i := slices.IndexFunc(slots, is); i >= 0 {
			return i
		}
	}
	return -1
}

// findFree gives the index of a worker ID that an owner gets who never had one: one that nobody ever had;
// else the one that has been free for longest, which is the one that can be used soonest. It is chosen
// among so many, at random, where owners that race would all choose the same one. Without one it gives
// -1, and when the next may be free, Unix ms.
func findFree(slots []Slot, now, margin int64, among int) (i int, next int64) {
	var free []int
	for i, s := range slots {
		at := s.FreeAt(margin)
		switch {
		case s.Ended || at < now || s.Record == (Record{}):
			free = append(free, i)
		case next == 0 || at < next:
			next = at
		}
	}
	if len(free) == 0 {
		return -1, next
	}
	slices.SortStableFunc(free, func(a, b int) int { return cmp.Compare(slots[a].Bound(), slots[b].Bound()) })
	return free[rand.IntN(min(among, len(free)))], 0
}
