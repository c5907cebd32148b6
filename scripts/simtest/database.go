package simtest

import (
	"fmt"
	"slices"
	"time"

	"shardid/model"
	"shardid/model/witness"
)

// Server is one life of a database server.
type Server struct{ Name, Boot int }

// Copy is what a database holds, or held, beside its rows: about its servers, its replicas and
// the witness. Its slices are never changed.
type Copy struct {
	Server  Server // that wrote last
	Changes []witness.Change
	Witness string
	place   int // of the witness
	members []witness.Member
	model.ServerTimes
}

// settled stands, in a change, for a witness whose marks the rows have.
const settled = "settled"

// Replica is what a process knows of the database, and of the witness.
type Replica struct {
	ID  string
	Cut time.Time // it reaches no database until then
	// Redis is the life of the Redis that answers it, and where that is: of the server that it
	// uses, or, to confirm, as the majority says. Without a Redis the life is "".
	Redis  func(confirm bool) (life string, place int, answers bool)
	Settle func() // brings the rows up to the marks of its Redis

	witness.Seen
	uses witness.Using
}

// Saw says whether that is the last change that the replica has seen.
func (r *Replica) Saw(c witness.Change) bool {
	return r.Changes == c.Number && r.Since.Equal(c.Gap.Now)
}

// Database stands in for the tables that sqlstore has of the servers of a database, and of the witness: what is
// decided about them is the real code. Any copy of it may come back, with the world's rows.
type Database struct {
	Copy
	Answers Server        // the server that answers
	Skew    time.Duration // of its clock
	Rate    int64         // of a counter, numbers a second; changes have it
	Now     func() time.Time
	Chance  func(percent int) bool

	names int
}

// Clock is that of the server.
func (d *Database) Clock() time.Time { return d.Now().Add(d.Skew) }

// Unsettled says whether nobody takes numbers, as the server has changed a moment ago.
func (d *Database) Unsettled() bool { return d.read().Objecting(d.Clock()) > 0 }

// Changed says whether a replica that meets the database has to note a change of it.
func (d *Database) Changed(r *Replica) bool { return r.Changed(d.readBy(r)) }

// read is the row of the deployment.
func (d *Database) read() witness.Database {
	return witness.Database{ServerTimes: d.ServerTimes, Rates: witness.Rates{ListRate: d.Rate},
		Changes: int64(len(d.Changes)), Witness: d.Witness, Same: d.Server == d.Answers}
}

// readBy also looks for the last change that a replica has seen.
func (d *Database) readBy(r *Replica) witness.Database {
	found := d.read()
	found.Lacks = r.Looks(found) && !slices.ContainsFunc(d.Changes, r.Saw)
	return found
}

// Meets says whether a replica reaches the database, after it has noted a change of it.
func (d *Database) Meets(r *Replica) bool {
	if d.Now().Before(r.Cut) || d.Changed(r) && !d.note(r) {
		return false
	}
	r.Meet(d.read())
	return true
}

// note notes that another life of the server answers, or one that lacks what the replica has
// seen; false means that it must try again.
func (d *Database) note(r *Replica) bool {
	found, life := d.readBy(r), ""
	holds := r.MayVouch(found, d.Now())
	if holds {
		if confirmed, _, answers := r.Redis(true); answers {
			life = confirmed
		}
	}
	vouched, wait := r.Vouches(found, holds, life, d.Now())
	if wait > 0 {
		return false
	}
	next, change := r.Note(found, d.Clock(), d.Server.Name == d.Answers.Name, vouched)
	d.Changes = append(slices.Clip(d.Changes), change)
	d.Server, d.ServerTimes, d.Witness = d.Answers, next, change.Witness
	return true
}

// Attend is a heartbeat of a replica that meets the database, which also does its duty to the
// witness.
func (d *Database) Attend(r *Replica) {
	life, place, answers := r.Redis(false)
	r.uses.Hear(life, answers, d.Now())
	me := witness.Member{ID: r.ID, Uses: r.uses.Life}
	duty := d.judge(me, "")
	says, _ := r.Say(me, d.read(), duty)
	if d.Chance(5) {
		return // the transaction failed
	}
	says.Seen = d.Clock()
	others := slices.DeleteFunc(slices.Clone(d.members), func(m witness.Member) bool { return m.ID == me.ID })
	d.members = append(others, says)
	r.Said(d.read(), duty, d.Now())
	other, at, confirmed := r.Redis(true)
	replaced := ""
	if confirmed && d.place == at && other != witness.Life(d.Witness) {
		replaced = d.Witness
	}
	duty = d.judge(me, replaced)
	if duty.Retire {
		d.Witness = ""
	}
	if duty.Name && answers {
		d.names++
		d.Witness, d.place = fmt.Sprint(me.Uses, " ", d.names), place
	}
	if r.Hold.Witness != "" && answers && life == me.Uses && len(d.Changes) > 0 && !d.Unsettled() && d.Chance(25) {
		r.Settle()
		d.Changes = slices.Clone(d.Changes)
		for i, c := range d.Changes {
			if c.Witness == d.Witness {
				d.Changes[i].Witness = settled
			}
		}
	}
}

func (d *Database) judge(me witness.Member, replaced string) witness.Duty {
	return witness.Judge(d.Witness, me, d.members, replaced, d.Clock())
}

// Doubt is what a row may lack that accounts for so many changes, and for an earlier doubt, and
// was used last at that time.
func (d *Database) Doubt(accounts int64, at time.Time, before int64) int64 {
	var since []witness.Change
	for _, c := range d.Changes[min(accounts, int64(len(d.Changes))):] {
		if c.Witness != settled {
			since = append(since, c)
		}
	}
	return witness.Doubt(since, d.Witness, func(c witness.Change) int64 { return c.ListRate }, at, before)
}
