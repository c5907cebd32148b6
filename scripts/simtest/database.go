package simtest

import (
	"fmt"
	"slices"
	"time"

	"shardid/model"
)

// Server is one life of a database server.
type Server struct{ Name, Boot int }

// Copy is what a database holds, or held, beside its rows: about its servers, its replicas and
// the witness. Its slices are never changed.
type Copy struct {
	Server  Server // that wrote last
	Changes []model.Change
	Witness string
	place   int // of the witness
	members []memberRow
	model.ServerTimes
}

type memberRow struct {
	model.Member
	seenAt time.Time
}

// settled stands, in a change, for a witness whose marks the rows have.
const settled = "settled"

// Replica is what a process knows of the database, and of the witness.
type Replica struct {
	ID   string
	Cut  time.Time    // it reaches no database until then
	Last model.Change // that it has seen
	// Redis is the life of the Redis that answers it, and where that is: of the server that it
	// uses, or, to confirm, as the majority says. Without a Redis the life is "".
	Redis  func(confirm bool) (life string, place int, answers bool)
	Settle func() // brings the rows up to the marks of its Redis

	seen model.ServerTimes
	met  time.Time // the change that is not noted yet
	uses string
	used time.Time // when its Redis answered last
	hold struct {
		witness   string
		since, at time.Time
	}
}

// Database does what sqlstore does about the servers of a database, and about the witness. Any
// copy of it may come back, with the world's rows.
type Database struct {
	Copy
	Answers Server        // the server that answers
	Skew    time.Duration // of its clock
	Rate    int64         // of a counter, numbers a second; changes have it
	Now     func() time.Time
	Chance  func(percent int) bool

	// Mutants.
	Ignores     bool // another life of the server is taken for the one before
	Forgets     bool // a jump that the copy does not know of is forgotten
	NoHeartbeat bool // a copy is taken for new
	NoHold      bool // whoever reaches the witness lets it vouch
	NoAck       bool // a witness is retired while others hold it
	NoSettle    bool // rows count as settled when the change is noted

	names int
}

// Clock is that of the server.
func (d *Database) Clock() time.Time { return d.Now().Add(d.Skew) }

// Unsettled says whether nobody takes numbers, as the server has changed a moment ago.
func (d *Database) Unsettled() bool {
	return len(d.Changes) > 0 && d.Clock().Sub(d.Since) < model.ObjectFor
}

// Changed says whether a replica that meets the database has to note a change of it.
func (d *Database) Changed(r *Replica) bool {
	return !d.Ignores && (d.Server != d.Answers || d.Behind(r.seen) || d.lacks(r))
}

// lacks says whether the database lacks the last change that a replica has seen.
func (d *Database) lacks(r *Replica) bool {
	return r.Last.Number > 0 && !slices.ContainsFunc(d.Changes, func(c model.Change) bool {
		return c.Number == r.Last.Number && c.Gap.Now.Equal(r.Last.Gap.Now)
	})
}

// Meets says whether a replica reaches the database, after it has noted a change of it.
func (d *Database) Meets(r *Replica) bool {
	if d.Now().Before(r.Cut) {
		return false
	}
	if r.hold.witness != d.Witness {
		r.hold.witness = ""
	}
	if d.Changed(r) && !d.note(r) {
		return false
	}
	r.seen, r.met = d.ServerTimes, time.Time{}
	if !r.hold.since.Equal(d.Since) { // it is said anew on each server
		r.hold.witness = ""
	}
	if n := len(d.Changes); n > 0 {
		r.Last = d.Changes[n-1]
	}
	return true
}

// note notes that another life of the server answers, or one that lacks what the replica has
// seen; false means that it must try again.
func (d *Database) note(r *Replica) bool {
	vouched := false
	if d.Witness != "" && (d.Server != d.Answers || !d.lacks(r)) { // who objects does not wait
		patience := 4 * time.Second
		if d.holds(r) || d.NoHold {
			life, _, answers := r.Redis(true)
			vouched = answers && life == model.WitnessLife(d.Witness)
			if patience = 10 * time.Second; answers {
				patience = 0
			}
		}
		if r.met.IsZero() {
			r.met = d.Now()
		}
		if !vouched && d.Now().Sub(r.met) < patience {
			return false
		}
	}
	next, gap := d.Note(r.seen, d.Clock(), d.Server.Name == d.Answers.Name, d.lacks(r) && !d.Forgets)
	if d.NoHeartbeat {
		gap.Known, gap.Reach = d.Clock(), time.Time{}
	}
	if !vouched {
		d.Witness, r.hold.witness = "", ""
	}
	change := model.Change{Number: int64(len(d.Changes)) + 1, Gap: gap, ListRate: d.Rate, Witness: d.Witness}
	if vouched && d.NoSettle {
		change.Witness = settled
	}
	d.Changes = append(slices.Clip(d.Changes), change)
	d.Server, d.ServerTimes = d.Answers, next
	return true
}

// holds is Store.holds of sqlstore.
func (d *Database) holds(r *Replica) bool {
	h := r.hold
	return h.witness != "" && h.witness == d.Witness && d.Now().Sub(h.at) <= model.HoldLasts &&
		h.since.Equal(d.Since) && h.since.Equal(r.seen.Since)
}

// Attend is a heartbeat of a replica that meets the database, which also does its duty to the
// witness.
func (d *Database) Attend(r *Replica) {
	life, place, answers := r.Redis(false)
	if answers {
		r.uses, r.used = life, d.Now()
	} else if d.Now().Sub(r.used) >= 2*time.Second {
		r.uses = ""
	}
	duty := d.judge(r, false)
	if !duty.Hold {
		r.hold.witness = ""
	}
	if d.Chance(5) {
		return // the transaction failed
	}
	d.say(r, duty.Hold)
	other, at, confirmed := r.Redis(true)
	duty = d.judge(r, confirmed && d.place == at && other != model.WitnessLife(d.Witness))
	if duty.Retire || d.NoAck && d.Witness != "" && !duty.Hold {
		d.Witness = ""
		duty.Name = duty.Name || d.judge(r, false).Name
	}
	if duty.Name && answers {
		d.names++
		d.Witness, d.place = fmt.Sprint(r.uses, " ", d.names), place
	}
	if r.hold.witness != "" && answers && life == r.uses && len(d.Changes) > 0 && !d.Unsettled() && d.Chance(25) {
		r.Settle()
		d.Changes = slices.Clone(d.Changes)
		for i, c := range d.Changes {
			if c.Witness == d.Witness {
				d.Changes[i].Witness = settled
			}
		}
	}
}

// say stores what a replica uses and holds.
func (d *Database) say(r *Replica, hold bool) {
	me := model.Member{ID: r.ID, Uses: r.uses}
	if hold {
		me.Holds = d.Witness
		if r.hold.witness != d.Witness {
			r.hold.witness, r.hold.since = d.Witness, d.Since
		}
		r.hold.at = d.Now()
	}
	members := []memberRow{{me, d.Clock()}}
	for _, m := range d.members {
		if m.ID != r.ID && d.Clock().Sub(m.seenAt) < 4*model.HoldLasts {
			members = append(members, m)
		}
	}
	d.members = members
}

func (d *Database) judge(r *Replica, replaced bool) model.Duty {
	var others []model.Member
	for _, m := range d.members {
		if m.ID != r.ID {
			m.Quiet = d.Clock().Sub(m.seenAt)
			others = append(others, m.Member)
		}
	}
	return model.Judge(d.Witness, model.Member{ID: r.ID, Uses: r.uses}, others, replaced)
}

// Doubt is what a row may lack that accounts for so many changes, and for an earlier doubt, and
// was used last at that time.
func (d *Database) Doubt(accounts int64, at time.Time, before int64) int64 {
	var since []model.Change
	for _, c := range d.Changes[min(accounts, int64(len(d.Changes))):] {
		if c.Witness != settled {
			since = append(since, c)
		}
	}
	return model.Doubt(since, d.Witness, func(c model.Change) int64 { return c.ListRate }, at, before)
}
