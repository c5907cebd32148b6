package model

import (
	"strings"
	"time"
)

const (
	// HoldLasts is for how long a replica that hears nothing of the database may still let
	// the witness vouch that it holds: a database that is unreachable for less, and then continues,
	// leaves nothing out. For so long a replica that has vanished keeps the witness named.
	HoldLasts = 15 * time.Minute
	// holdSlack is added where others wait for the end of a hold: clocks run apart a little.
	holdSlack = 10 * time.Second
	// memberGone is how long a replica must not be heard of to count as gone: it writes its
	// row every MemberEvery.
	memberGone = 8 * time.Second
	// ObjectFor is for how long after a change of the server nobody takes numbers: a
	// replica that has seen what the copy lacks notes it again, within a heartbeat or two.
	ObjectFor = 3 * time.Second
	// MemberEvery is the longest time between two writes of a replica's row.
	MemberEvery = 3 * time.Second
)

// Mark is how far a counter has come, as a witness knows it.
type Mark struct {
	Counter string
	Value   int64 // highest number that was taken; 0 for none
}

// WitnessLife is the life of Redis that a name of a witness stands for.
func WitnessLife(name string) string {
	life, _, _ := strings.Cut(name, " ")
	return life
}

// Member is what a replica says of itself in the database.
type Member struct {
	ID    string
	Uses  string        // the life of Redis that it uses; "" for none
	Holds string        // the witness that it may let vouch; "" for none
	Quiet time.Duration // since it was heard of
}

// Duty is what a replica is to do about the witness.
type Duty struct {
	Hold   bool // it may let the witness vouch
	Retire bool // the database is to name no witness
	Name   bool // the database is to name the life that the replica uses
}

// Judge says what me is to do while the database names that witness ("" for none). Exactly
// one life of Redis vouches, or none: it is named while every replica uses it, and
// nobody else is named before each replica that holds it has given it up. replaced says
// that its place has another life: a replica that has gone then asks in vain there.
func Judge(witness string, me Member, others []Member, replaced bool) Duty {
	mixed, held := false, false
	for _, o := range others {
		gone := o.Quiet > memberGone
		mixed = mixed || !gone && o.Uses != me.Uses
		held = held || o.Holds == witness && o.Quiet <= HoldLasts+holdSlack && (!gone || !replaced)
	}
	v := Duty{Hold: witness != "" && WitnessLife(witness) == me.Uses && !mixed}
	v.Retire = witness != "" && !v.Hold && !held
	v.Name = (witness == "" || v.Retire) && me.Uses != "" && !mixed
	return v
}

// Change is one change of the database server, as it was noted: the rows may lack what the
// gap says, in which at most so many numbers a second were taken.
type Change struct {
	Number            int64
	Gap               Gap
	ListRate, TagRate int64
	Witness           string // knows what the rows lack; "" when nobody does
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
