package model_test

import (
	"testing"
	"time"
	"unsafe"

	"shardid/model"
	"shardid/scripts/check"
)

// What the replicas say of themselves decides who is the witness.
func TestJudge(t *testing.T) {
	ago := func(d time.Duration, uses, holds string) model.Member {
		return model.Member{ID: "other", Uses: uses, Holds: holds, Seen: noon.Add(-d)}
	}
	hold, retire, rename := model.Duty{Hold: true}, model.Duty{Retire: true}, model.Duty{Retire: true, Name: true}
	for name, c := range map[string]struct {
		witness  string
		other    model.Member
		replaced string
		want     model.Duty
	}{
		"the life that all use":          {"r1 a", ago(8*time.Second, "r1", ""), "", hold},
		"nobody is named":                {"", ago(8*time.Second, "r1", ""), "", model.Duty{Name: true}},
		"nor while one uses another":     {"", ago(8*time.Second, "r2", ""), "", model.Duty{}},
		"which has gone":                 {"", ago(9*time.Second, "r2", ""), "", model.Duty{Name: true}},
		"one uses another":               {"r1 a", ago(0, "r2", ""), "", retire},
		"a life that nobody uses":        {"r2 a", ago(0, "r1", "r2 b"), "", rename},
		"but the other holds it":         {"r2 a", ago(0, "r1", "r2 a"), "", model.Duty{}},
		"as one that has gone":           {"r2 a", ago(15*time.Minute+10*time.Second, "r1", "r2 a"), "", model.Duty{}},
		"for ever":                       {"r2 a", ago(15*time.Minute+11*time.Second, "r1", "r2 a"), "", rename},
		"its place has another life":     {"r2 a", ago(9*time.Second, "r1", "r2 a"), "r2 a", rename},
		"but who holds it was heard of":  {"r2 a", ago(8*time.Second, "r1", "r2 a"), "r2 a", model.Duty{}},
		"the one before it was replaced": {"r2 a", ago(9*time.Second, "r1", "r2 a"), "r2 b", model.Duty{}},
	} {
		me := model.Member{ID: "me", Uses: "r1"}
		check.Equal(t, model.Judge(c.witness, me, []model.Member{me, c.other}, c.replaced, noon), c.want, name)
	}
}

// A process lets the witness vouch that it holds on the server that it met last, and for 15 minutes.
func TestMayVouch(t *testing.T) {
	on := model.Database{ServerTimes: model.ServerTimes{Since: noon}, Changes: 1, Witness: "r1 a", Same: true}
	later, other, hold := on, on, model.Duty{Hold: true}
	later.Since, other.Witness = noon.Add(time.Minute), "r1 b"
	for name, c := range map[string]struct {
		then  func(*model.Seen)
		copy  model.Database
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
		"the copy knows no change":    {func(s *model.Seen) { s.Meet(later) }, on, 0, 0, false},
		"it met another server":       {func(s *model.Seen) { s.Meet(later) }, later, 0, 0, false},
		"it met another witness":      {func(s *model.Seen) { s.Meet(other) }, on, 0, 0, false},
		"it gives it up": {func(s *model.Seen) {
			s.Say(model.Member{}, on, model.Duty{})
		}, on, 0, 0, false},
		"it noted that nobody vouches": {func(s *model.Seen) { s.Note(on, noon, false, false) }, on, 0, 0, false},
		"it noted that it vouches":     {func(s *model.Seen) { s.Note(on, noon, false, true) }, on, 0, 0, true},
		"it is to hold what is not yet": {func(s *model.Seen) {
			s.Meet(other)
			s.Say(model.Member{}, other, hold)
		}, other, 0, 0, false},
		"it met another one before the answer": {func(s *model.Seen) {
			s.Meet(later)
			s.Said(on, hold, time.Now())
		}, later, 0, 0, false},
	} {
		var s model.Seen
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
		found   model.Database
		holds   bool
		life    string
		waited  time.Duration
		vouched bool
		wait    time.Duration
	}{
		"it vouches":                {found: model.Database{Witness: "r1 a"}, holds: true, life: "r1", vouched: true},
		"its place has another":     {found: model.Database{Witness: "r1 a"}, holds: true, life: "r2"},
		"it does not answer":        {found: model.Database{Witness: "r1 a"}, holds: true, wait: 10 * time.Second},
		"and is given up":           {found: model.Database{Witness: "r1 a"}, holds: true, waited: 10 * time.Second},
		"who holds it is waited":    {found: model.Database{Witness: "r1 a"}, wait: 4 * time.Second},
		"and then is not":           {found: model.Database{Witness: "r1 a"}, waited: 4 * time.Second},
		"nobody is named":           {found: model.Database{}},
		"who objects does not wait": {found: model.Database{Witness: "r1 a", Same: true, Lacks: true}},
	} {
		var s model.Seen
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
		var rates [3]model.Rates
		rates[highest] = model.Rates{ListRate: 5, TagRate: 7}
		s := model.Seen{Rates: rates[0]}
		s.Meet(model.Database{Rates: rates[1]})
		_, change := s.Note(model.Database{Rates: rates[2]}, noon, false, false)
		check.Equal(t, change.Rates, rates[highest], highest)
	}
}
