// Package witness decides who vouches for a database that may go back in time, by the protocol of docs/design.md: a
// Redis that all replicas use remembers the highest number of each counter, and the database names it. The functions
// are pure. The stores, and the simulations in their place, read and write; scripts/prove/witness.pml is the protocol's
// model.
package witness

import (
	"strings"
	"time"

	"shardid/model"
)

const (
	// HoldLasts is for how long a replica that hears nothing of the database may still let
	// the witness vouch that it holds: a database that is unreachable for less, and then continues,
	// leaves nothing out. For so long a replica that has vanished keeps the witness named.
	HoldLasts = 15 * time.Minute
	// MemberForgotten is the age at which the row of a replica is deleted.
	MemberForgotten = 4 * HoldLasts
	// holdSlack is added where others wait for the end of a hold: clocks run apart a little.
	holdSlack = 10 * time.Second
	// memberGone is how long a replica must not be heard of to count as gone: it writes its
	// row every MemberEvery.
	memberGone = 8 * time.Second
	// objectFor is for how long after a change of the server nobody takes numbers: a
	// replica that has seen what the copy lacks notes it again, within a heartbeat or two.
	objectFor = 3 * time.Second
	// MemberEvery is the longest time between two writes of a replica's row.
	MemberEvery = 3 * time.Second
	// awayFor is how long Redis does not answer before a process counts as one without it.
	awayFor = 2 * time.Second
	// witnessPatience is how long a change of the server waits for a witness that does not answer before it is noted
	// without.
	witnessPatience = 10 * time.Second
	// holderPatience is the same for a replica that holds the witness: each sends a heartbeat every second.
	holderPatience = 4 * time.Second
)

// Mark is how far a counter has come, as a witness knows it.
type Mark struct {
	Counter string
	Value   int64 // highest number that was taken; 0 for none
}

// Life is the life of Redis that a name of a witness stands for.
func Life(name string) string {
	life, _, _ := strings.Cut(name, " ")
	return life
}

// Using is the life of Redis that a process uses.
type Using struct {
	Life string    // "" once it has not answered for a while
	at   time.Time // when it answered last
}

// Hear takes in the life that has answered now, or that none has.
func (u *Using) Hear(life string, answers bool, now time.Time) {
	if answers {
		*u = Using{life, now}
	} else if now.Sub(u.at) >= awayFor {
		u.Life = ""
	}
}

// Rates are numbers a second, of a list and of a tag.
type Rates struct{ ListRate, TagRate int64 }

// Max is the higher of each.
func (r Rates) Max(o Rates) Rates {
	return Rates{max(r.ListRate, o.ListRate), max(r.TagRate, o.TagRate)}
}

// Member is what a replica says of itself in the database.
type Member struct {
	ID    string
	Uses  string    // the life of Redis that it uses; "" for none
	Holds string    // the witness that it may let vouch; "" for none
	Rates           // that it is configured with
	Seen  time.Time // when it was heard of, by the server's clock
}

// Duty is what a replica is to do about the row of the deployment.
type Duty struct {
	Hold   bool // it may let the witness vouch
	Retire bool // the database is to name no witness
	Name   bool // the database is to name the life that the replica uses
	Rates       // the highest that any replica is configured with
	Forget bool // there are rows of replicas that are older than MemberForgotten
}

// Judge says what me is to do while the database names that witness ("" for none), by the server's clock. Exactly
// one life of Redis vouches, or none: it is named while every replica uses it, and
// nobody else is named before each replica that holds it has given it up. replaced is a witness ("" for none)
// whose place has another life: a replica that has gone then asks in vain there.
func Judge(witness string, me Member, all []Member, replaced string, now time.Time) Duty {
	mixed, held, d := false, false, Duty{Rates: me.Rates}
	for _, o := range all {
		if o.ID == me.ID {
			continue
		}
		quiet := now.Sub(o.Seen)
		gone := quiet > memberGone
		mixed = mixed || !gone && o.Uses != me.Uses
		held = held || o.Holds == witness && quiet <= HoldLasts+holdSlack && (!gone || replaced != witness)
		if quiet <= HoldLasts {
			d.Rates = d.Max(o.Rates)
		}
		d.Forget = d.Forget || quiet > MemberForgotten
	}
	d.Hold = witness != "" && Life(witness) == me.Uses && !mixed
	d.Retire = witness != "" && !d.Hold && !held
	d.Name = (witness == "" || d.Retire) && me.Uses != "" && !mixed
	return d
}

// Database is what a transaction finds of the database, in the row of the deployment.
type Database struct {
	model.ServerTimes
	Rates          // the highest that any replica may use
	Changes int64  // number of the last change of the server
	Witness string // "" for none
	Same    bool   // the server that answers is the one that wrote last
	Cluster bool   // of which one node may lag a little behind another, and still misses no commit of its own
	Lacks   bool   // it lacks the last change that the process has seen; see Seen.Looks
}

// Objecting is how long nobody takes numbers yet, as the server has changed a moment ago: at most 3 s.
func (d Database) Objecting(now time.Time) time.Duration {
	if d.Changes == 0 {
		return 0
	}
	return max(0, objectFor-now.Sub(d.Since))
}

// Hold is the right of a process to let a witness vouch, on the server that it met last.
type Hold struct {
	Witness string    // "" for none
	At      time.Time // when the database heard of it last
	Began   time.Time // when the process began to hold it
}

// Lasts says whether there is one that has not run out: a clock that stands still while a machine
// sleeps, and one that is set, count both.
func (h Hold) Lasts(now time.Time) bool {
	return h.Witness != "" && max(now.Sub(h.At), now.Round(0).Sub(h.At.Round(0))) <= HoldLasts
}

// Seen is what a process has seen of the database. A row that has less went back.
type Seen struct {
	model.ServerTimes
	Rates         // the highest, also of its own configuration
	Changes int64 // number of the last change of the server
	Hold    Hold
	// Met is when a change of the server was met that is not noted yet; zero without one.
	Met time.Time
}

// Looks says whether the changes of the database must be searched for the last one that the process has seen: its
// number is Seen.Changes, and it was noted at Seen.Since.
func (s *Seen) Looks(d Database) bool {
	return !d.Cluster && s.Changes > 0 && !d.Since.Equal(s.Since)
}

// Changed says whether another life of the server wrote the row, or the row says less than it has said to this process
// before: then a change of the server is to be noted.
func (s *Seen) Changed(d Database) bool {
	return d.Lacks || !d.Same || !d.Cluster && d.Behind(s.ServerTimes)
}

// Meet takes in a database that has not changed. What is not the witness any more is held no more, and what is held
// must be said anew on each server.
func (s *Seen) Meet(d Database) {
	if s.Hold.Witness != d.Witness || !s.Since.Equal(d.Since) {
		s.Hold = Hold{}
	}
	s.ServerTimes, s.Changes, s.Met, s.Rates = d.ServerTimes, d.Changes, time.Time{}, s.Max(d.Rates)
}

// Say gives what the row of me is to say, and whether the process knows already that it holds that. What it gives up
// it forgets at once.
func (s *Seen) Say(me Member, d Database, duty Duty) (says Member, known bool) {
	if duty.Hold {
		me.Holds = d.Witness
	}
	if s.Hold.Witness != me.Holds {
		s.Hold = Hold{}
	}
	return me, s.Hold.Witness == me.Holds
}

// Said is to be called once the database has stored what Say gave. Only then the process holds the witness.
func (s *Seen) Said(d Database, duty Duty, now time.Time) {
	if !duty.Hold || !s.Since.Equal(d.Since) {
		return
	}
	if s.Hold.Witness != d.Witness {
		s.Hold = Hold{Witness: d.Witness, Began: now}
	}
	s.Hold.At = now
}

// MayVouch says whether the process may let the witness vouch for a copy: that names the server on which the process
// has said that it holds the witness, and the process knows of no later one.
func (s *Seen) MayVouch(d Database, now time.Time) bool {
	return s.Hold.Lasts(now) && s.Hold.Witness == d.Witness && s.Since.Equal(d.Since)
}

// Vouches says whether the witness that the row names knows what the copy lacks: the process must hold it, and the
// Redis at its place must still have that life; life is the one that it has given, "" if it does not answer. For who
// can vouch, and for a Redis that does not answer, a change waits so long in all, 0 for no longer. But where another
// process has noted the server already, which does not know the change that the database lacks, that one takes numbers
// soon: then nobody vouches, at once.
func (s *Seen) Vouches(d Database, holds bool, life string, now time.Time) (vouched bool, wait time.Duration) {
	switch {
	case d.Witness == "" || d.Lacks && d.Same:
		return false, 0
	case holds && life != "":
		return life == Life(d.Witness), 0
	case holds:
		wait = witnessPatience
	default:
		wait = holderPatience
	}
	if s.Met.IsZero() {
		s.Met = now
	}
	if now.Sub(s.Met) >= wait {
		return false, 0
	}
	return false, wait
}

// Note gives the change of the server that is to be stored, and the times with it; restarted says that the server that
// wrote last came back. Without a witness that vouches nobody is the witness any more, and the process forgets what it
// held before that is stored. The rates are the highest that any process may have used, as far as is known.
func (s *Seen) Note(d Database, now time.Time, restarted, vouched bool) (model.ServerTimes, Change) {
	if !vouched {
		d.Witness, s.Hold = "", Hold{}
	}
	next, gap := d.Note(s.ServerTimes, now, restarted, d.Lacks)
	return next, Change{Number: d.Changes + 1, Gap: gap, Rates: s.Max(d.Rates), Witness: d.Witness}
}

// Change is one change of the database server, as it was noted: the rows may lack what the
// gap says, in which at most so many numbers a second were taken.
type Change struct {
	Number  int64
	Gap     model.Gap
	Rates          // the highest that any process may have used
	Witness string // knows what the rows lack; "" when nobody does
}

// Doubt is how many numbers a row may lack that accounts for an earlier doubt and was used
// last at that time, with the changes since, of which rate gives the numbers a second. What
// the present witness knows is no doubt.
func Doubt(changes []Change, witness string, rate func(Change) int64, at time.Time, before int64) int64 {
	for _, c := range changes {
		if c.Witness == "" || c.Witness != witness {
			before = c.Gap.Doubt(rate(c), at, before)
		}
	}
	return before
}

// The states of Vouching.
const (
	Named   = "named"   // the database names a Redis, which knows all numbers that were taken
	None    = "none"    // numbers are skipped should the database go back
	Unknown = "unknown" // the database has not answered yet
)

// Vouching is who vouches for the database should it go back, as of the last heartbeat.
type Vouching struct {
	State string `json:"state"`
	// HeldSince is since when this replica may let the witness vouch; zero while it may not.
	HeldSince time.Time `json:"heldSince,omitzero"`
}

// Meaning is the state in words.
func (v Vouching) Meaning() string {
	switch {
	case v.State == None:
		return "nobody vouches for the database"
	case v.State == Named && v.HeldSince.IsZero():
		return "this replica does not hold it"
	case v.State == Named:
		return "Redis vouches for the database"
	}
	return "the database has not answered yet"
}
