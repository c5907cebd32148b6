package witness_test

import (
	"testing"
	"time"
	"unsafe"

	"shardid/model"
	"shardid/model/witness"
	"shardid/scripts/check"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// What the replicas say of themselves decides who is the witness.
func TestJudge(t *testing.T) {
	ago := func(d time.Duration, uses, holds string) witness.Member {
		return witness.Member{ID: "other", Uses: uses, Holds: holds, Seen: noon.Add(-d)}
	}
	hold, retire, rename := witness.Duty{Hold: true}, witness.Duty{Retire: true}, witness.Duty{Retire: true, Name: true}
	for name, c := range map[string]struct {
		witness  string
		other    witness.Member
		replaced string
		want     witness.Duty
	}{
		"the life that all use":          {"r1 a", ago(8*time.Second, "r1", ""), "", hold},
		"nobody is named":                {"", ago(8*time.Second, "r1", ""), "", witness.Duty{Name: true}},
		"nor while one uses another":     {"", ago(8*time.Second, "r2", ""), "", witness.Duty{}},
		"which has gone":                 {"", ago(9*time.Second, "r2", ""), "", witness.Duty{Name: true}},
		"one uses another":               {"r1 a", ago(0, "r2", ""), "", retire},
		"a life that nobody uses":        {"r2 a", ago(0, "r1", "r2 b"), "", rename},
		"but the other holds it":         {"r2 a", ago(0, "r1", "r2 a"), "", witness.Duty{}},
		"as one that has gone":           {"r2 a", ago(910*time.Second, "r1", "r2 a"), "", witness.Duty{}},
		"for ever":                       {"r2 a", ago(911*time.Second, "r1", "r2 a"), "", rename},
		"its place has another life":     {"r2 a", ago(9*time.Second, "r1", "r2 a"), "r2 a", rename},
		"but who holds it was heard of":  {"r2 a", ago(8*time.Second, "r1", "r2 a"), "r2 a", witness.Duty{}},
		"the one before it was replaced": {"r2 a", ago(9*time.Second, "r1", "r2 a"), "r2 b", witness.Duty{}},
	} {
		me := witness.Member{ID: "me", Uses: "r1"}
		check.Equal(t, witness.Judge(c.witness, me, []witness.Member{me, c.other}, c.replaced, noon), c.want, name)
	}
}

// A process lets the witness vouch that it holds on the server that it met last, and for 15 minutes.
func TestMayVouch(t *testing.T) {
	on := witness.Database{ServerTimes: model.ServerTimes{Since: noon}, Changes: 1, Witness: "r1 a", Same: true}
	later, other, hold := on, on, witness.Duty{Hold: true}
	later.Since, other.Witness = noon.Add(time.Minute), "r1 b"
	for name, c := range map[string]struct {
		then  func(*witness.Seen)
		copy  witness.Database
		now   time.Duration
		sleep time.Duration // of the machine, from then on
		want  bool
	}{
		"for 15 minutes":              {copy: on, now: 15 * time.Minute, want: true},
		"no longer":                   {copy: on, now: 15*time.Minute + 1},
		"while the machine sleeps":    {copy: on, sleep: 15*time.Minute + 1},
		"while the clock is set back": {copy: on, now: 16 * time.Minute, sleep: -16 * time.Minute},
		"another witness":             {copy: other},
		"another server":              {copy: later},
		"the copy knows no change":    {func(s *witness.Seen) { s.Meet(later) }, on, 0, 0, false},
		"it met another server":       {func(s *witness.Seen) { s.Meet(later) }, later, 0, 0, false},
		"it met another witness":      {func(s *witness.Seen) { s.Meet(other) }, on, 0, 0, false},
		"it gives it up": {func(s *witness.Seen) {
			s.Say(witness.Member{}, on, witness.Duty{})
		}, on, 0, 0, false},
		"it noted that nobody vouches": {func(s *witness.Seen) { s.Note(on, noon, false, false) }, on, 0, 0, false},
		"it noted that it vouches":     {func(s *witness.Seen) { s.Note(on, noon, false, true) }, on, 0, 0, true},
		"it is to hold what is not yet": {func(s *witness.Seen) {
			s.Meet(other)
			s.Say(witness.Member{}, other, hold)
		}, other, 0, 0, false},
		"it met another one before the answer": {func(s *witness.Seen) {
			s.Meet(later)
			s.Said(on, hold, time.Now())
		}, later, 0, 0, false},
	} {
		var s witness.Seen
		now := time.Now()
		s.Meet(on)
		s.Said(on, hold, now)
		if c.then != nil {
			c.then(&s)
		}
		check.Equal(t, s.MayVouch(c.copy, asleep(now.Add(c.now), c.sleep)), c.want, name)
	}
}

// asleep is so much later, by a clock that did not stand still while the machine slept.
func asleep(t time.Time, d time.Duration) time.Time {
	t = t.Add(d)
	*(*int64)(unsafe.Add(unsafe.Pointer(&t), 8)) -= int64(d) // the clock that stood still
	return t
}

// The Redis that is asked anew vouches if it is the witness. What it knows is waited for, but not by one that objects.
func TestVouches(t *testing.T) {
	for name, c := range map[string]struct {
		found   witness.Database
		holds   bool
		life    string
		waited  time.Duration
		vouched bool
		wait    time.Duration
	}{
		"it vouches":                {found: witness.Database{Witness: "r1 a"}, holds: true, life: "r1", vouched: true},
		"its place has another":     {found: witness.Database{Witness: "r1 a"}, holds: true, life: "r2"},
		"it does not answer":        {found: witness.Database{Witness: "r1 a"}, holds: true, wait: 10 * time.Second},
		"and is given up":           {found: witness.Database{Witness: "r1 a"}, holds: true, waited: 10 * time.Second},
		"who holds it is waited":    {found: witness.Database{Witness: "r1 a"}, wait: 4 * time.Second},
		"and then is not":           {found: witness.Database{Witness: "r1 a"}, waited: 4 * time.Second},
		"nobody is named":           {found: witness.Database{}},
		"who objects does not wait": {found: witness.Database{Witness: "r1 a", Same: true, Lacks: true}},
	} {
		var s witness.Seen
		if c.waited > 0 {
			s.Met = noon.Add(-c.waited)
		}
		vouched, wait := s.Vouches(c.found, c.holds, c.life, noon)
		check.Equal(t, vouched, c.vouched, name)
		check.Equal(t, wait, c.wait, name)
	}
}

// A change has the highest rates that any process may have used: those that are configured here, that were seen, or
// that the copy has.
func TestRatesOfAChange(t *testing.T) {
	for highest := range 3 {
		var rates [3]witness.Rates
		rates[highest] = witness.Rates{ListRate: 5, TagRate: 7}
		s := witness.Seen{Rates: rates[0]}
		s.Meet(witness.Database{Rates: rates[1]})
		_, change := s.Note(witness.Database{Rates: rates[2]}, noon, false, false)
		check.Equal(t, change.Rates, rates[highest], highest)
	}
}
