package model_test

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

const plenty = int64(1) << 50

func TestCounterTakesItsRate(t *testing.T) {
	c, taken := model.Counter{Rate: 1000}, int64(0)
	take := func(after time.Duration, want int64) int64 {
		t.Helper()
		first, n, next, err := c.TakeNumbers(0, want, plenty, noon.Add(after))
		if errors.Is(err, model.ErrRate) {
			return 0
		}
		if err != nil || first != c.Last+1 {
			t.Fatalf("Take = %d, %d, %v after %d", first, n, err, c.Last)
		}
		c, taken = next, taken+n
		return n
	}
	for _, s := range []struct {
		after      time.Duration
		want, gets int64
	}{
		{0, 5000, 1000},                       // no more than a second's worth at once
		{0, 5000, 1000},                       // two at the beginning
		{0, 1, 0},                             // and then none
		{50 * time.Millisecond, 5000, 0},      // small pieces are not worth a transaction
		{50 * time.Millisecond, 20, 20},       // unless no more is asked for
		{150 * time.Millisecond, 5000, 130},   // what came in meanwhile
		{time.Hour, 1000, 1000},               // the bucket is full again
		{time.Hour - time.Minute, 1000, 1000}, // a clock that went back takes nothing of it
		{time.Hour - time.Minute, 1000, 0},    // and adds nothing
		{time.Hour, 1000, 1000},               //
	} {
		check.Equal(t, take(s.after, s.want), s.gets, "after", s.after, "of", s.want)
	}
	check.Equal(t, c.Last, taken, "last is after numbers")
	if _, n, _, err := (model.Counter{}).TakeNumbers(0, 1e9, plenty, noon); n != 1e9 || err != nil {
		t.Errorf("without a rate: %d, %v", n, err)
	}
}

// Who may end a doubt, and where the counter continues.
func TestCounterDoubt(t *testing.T) {
	row := model.Counter{Last: 5000, Rate: 1000, Doubt: 20_000, JumpFrom: noon.Add(-time.Minute)}
	for name, c := range map[string]struct {
		change func(*model.Counter)
		floor  int64
		limit  int64
		first  int64 // 0 for err
		err    error
	}{
		"it is jumped over":        {first: 25_001},
		"a floor is a part of it":  {floor: 7000, first: 25_001},
		"a floor above it ends it": {floor: 30_000, first: 30_002},
		"a small space asks":       {limit: 5000 + 20_000*100 - 1, err: model.ErrUnconfirmed},
		"a larger one does not":    {limit: 5000 + 20_000*100, first: 25_001},
		"a copy of unknown age asks": {change: func(c *model.Counter) { c.Doubt = model.UnknownDoubt },
			err: model.ErrUnconfirmed},
		"it waits before it jumps": {change: func(c *model.Counter) { c.JumpFrom = noon.Add(1) },
			err: model.ErrJumping},
		"but no longer": {change: func(c *model.Counter) { c.JumpFrom = noon }, first: 25_001},
		"and not when nothing is in doubt": {change: func(c *model.Counter) { c.Doubt, c.JumpFrom = 0, noon.Add(1) },
			first: 5001},
	} {
		t.Run(name, func(t *testing.T) {
			before, limit := row, plenty
			if c.change != nil {
				c.change(&before)
			}
			if c.limit > 0 {
				limit = c.limit
			}
			if got, want := before.Unconfirmed(c.floor, limit), errors.Is(c.err, model.ErrUnconfirmed); got != want {
				t.Errorf("Unconfirmed = %v, want %v", got, want)
			}
			first, n, next, err := before.TakeNumbers(c.floor, 10, limit, noon)
			if !errors.Is(err, c.err) || first != c.first {
				t.Fatalf("Take = %d, %v, want %d, %v", first, err, c.first, c.err)
			}
			if err == nil && (n != 10 || next.Doubt != 0 || next.Last != first+9) || err != nil && next != before {
				t.Errorf("next: %+v", next)
			}
		})
	}
}

func TestDoubt(t *testing.T) {
	ago := func(s int) time.Time { return noon.Add(-time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		beat, at time.Time
		before   int64
		jumpFrom time.Time
		same     bool
		seen     model.ServerTimes
		want     int64
	}{
		"since the heartbeat, and clocks differ": {beat: ago(20), want: 2*100*30 + 1},
		"a server that is back":                  {beat: ago(20), same: true, want: 2*100*21 + 1},
		"since the row's own time":               {beat: ago(20), at: ago(15), want: 2*100*25 + 1},
		"used by version 0.2 since the change":   {beat: ago(20), at: ago(-11), want: 2*100*30 + 1},
		"and long after it":                      {beat: ago(20), at: ago(-3600), same: true, want: 2*100*21 + 1},
		"not before the heartbeat":               {beat: ago(20), at: ago(600), want: 2*100*30 + 1},
		"clocks differ once": {beat: ago(20), before: 500, jumpFrom: ago(-11),
			want: 500 + 2*100*20 + 1},
		"and for a row that was in no doubt": {beat: ago(20), jumpFrom: ago(-11), want: 2*100*30 + 1},
		"and again after a jump": {beat: ago(20), before: 500, jumpFrom: ago(-10),
			want: 500 + 2*100*30 + 1},
		"a second change does not shorten the wait": {beat: ago(20), before: 500, jumpFrom: ago(-30),
			want: 500 + 2*100*20 + 1},
		"a clock that is a little behind": {beat: ago(-9), want: 2*100*1 + 1},
		"or more":                         {beat: ago(-11), want: model.UnknownDoubt},
		"four years":                      {beat: ago(4 * 365 * 86400), want: model.UnknownDoubt},
		"a jump that the copy does not know": {
			beat: ago(20), at: ago(15), before: 500, seen: model.ServerTimes{Since: ago(10), Oldest: ago(60)},
			want: 2*100*70 + 1,
		},
	} {
		times := model.ServerTimes{Since: ago(1000), Beat: c.beat, JumpFrom: c.jumpFrom}
		next, gap := times.Note(c.seen, noon, c.same, !c.seen.Since.IsZero())
		check.Equal(t, gap.Doubt(100, c.at, c.before), c.want, name)
		wait := 24 * time.Second
		if c.same {
			wait = 6 * time.Second
		}
		wait = max(wait, c.jumpFrom.Sub(noon))
		if got := next.JumpFrom.Sub(noon); got != wait || !next.Since.Equal(noon) || !next.Beat.Equal(noon) {
			t.Errorf("%s: a wait of %v, then %+v", name, got, next)
		}
	}
}

// A database that has jumped already, from where Oldest says, jumps again for a change that
// it lacks. Who has seen that meets an older copy next: its jump comes as far.
func TestNoteCoversEarlierJumps(t *testing.T) {
	const rate = 100
	numbers := func(perSecond int64, d time.Duration) int64 { return perSecond * int64(max(0, d.Seconds())) }
	beat, now := noon.Add(time.Hour), noon.Add(time.Hour+10*time.Second)
	// after noon; Beat is no jump
	for _, oldest := range []time.Duration{time.Hour, 50 * time.Minute, 0, -2 * time.Hour} {
		for _, reach := range []time.Duration{59 * time.Minute, 30 * time.Minute, -time.Hour} {
			from := noon.Add(oldest)
			next, gap := model.ServerTimes{Since: noon, Beat: beat, Oldest: from}.
				Note(model.ServerTimes{Oldest: noon.Add(reach)}, now, false, true)
			for age := time.Duration(0); age < 40*time.Hour; age += 7 * time.Minute {
				copied := beat.Add(-age) // with 0 as its last number
				last := numbers(rate, from.Sub(copied)) + numbers(2*rate, beat.Sub(later(from, copied)))
				last += gap.Doubt(rate, beat, 0)
				then := now.Add(time.Minute)
				_, old := model.ServerTimes{Beat: copied}.Note(next, then, false, true)
				if got, want := old.Doubt(rate, copied, 0), last+numbers(rate, then.Sub(now)); got < want {
					t.Errorf("oldest %v, reach %v, a copy of %v before: it jumps to %d, %d were used", oldest, reach,
						age, got, want)
				}
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
