package worker

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// A clock that jumped ahead reserves nothing, with the registry there or away.
func TestAClockThatJumpedReservesNothing(t *testing.T) {
	for name, cause := range map[string]error{"there": nil, "away": errAway} {
		t.Run(name, func(t *testing.T) {
			m, l := withFile(t).serving()
			row, file := m.registry.stored(), m.folder.lease
			m.registry.fail(cause)
			m.clock.set(time.Hour)
			check.Is(t, l.steps(), ErrClockOff, "jumped")
			if now := m.registry.stored(); now.Reserved != row.Reserved || now.Expires != row.Expires {
				t.Errorf("the registry's bounds went to %+d and %+d ms", now.Reserved-someday, now.Expires-someday)
			}
			if now := m.folder.lease; now.Reserved != file.Reserved || now.Expires != file.Expires {
				t.Errorf("the file's bounds went to %+d and %+d ms", now.Reserved-someday, now.Expires-someday)
			}
			l.refuses("in the wrong hour", model.ErrNoLease)
			m.registry.fail(nil)
			m.clock.set(0)
			m.clock.pass(every)
			l.mustStep()
			l.issues("set right")
			check.Equal(t, m.registry.stored().Reserved, row.Reserved+every.Milliseconds(), "reserved")
		})
	}
}

// Where both clocks moved alike, the next renewal follows at once, and reserves time.
func TestTimeThatWasMissed(t *testing.T) {
	m, l := withFile(t).serving()
	m.clock.suspend(time.Hour)
	l.mustStep()
	l.refuses("before it is known", model.ErrNoLease)
	check.Equal(t, len(l.due), 1, "steps that are due")
	l.mustStep()
	l.issues("after that")
}

// A registry without a clock says nothing of what moved, so that nothing is tried at once without the database.
func TestTimeThatIsNotTold(t *testing.T) {
	m := withFile(t)
	l := m.boot(func(o *Options) { o.Registry = clockless{m.registry} })
	l.mustStep()
	m.clock.suspend(time.Hour)
	m.claim = errAway
	_ = l.steps()
	check.Equal(t, len(l.due), 0, "steps that are due")
}

// A call was stored, its answer lost, and the clock set right: what the registry
// holds since is not taken for the grant that was asked for.
func TestOnlyWhatWasAskedForIsGranted(t *testing.T) {
	m, l := withFile(t).serving()
	m.registry.set(func(r *registry) { r.row.Reserved += 3_600_000 })
	m.clock.pass(every)
	l.mustStep()
	want := m.clock.wall.Load() + Ahead.Milliseconds()
	check.Equal(t, m.folder.lease.Reserved, want, "reserved in the file")
	m.clock.wall.Store(want + 1)
	l.refuses("past what was asked for", model.ErrNoLease)
}

func TestTheClockAtTheStart(t *testing.T) {
	const six, four = 6 * time.Second, 4 * time.Second
	for _, c := range []struct {
		name   string
		offset time.Duration
		ok     bool
		slow   time.Duration // the answer
	}{
		{"6 s ahead of the registry", six, false, 0},
		{"6 s behind it", -six, false, 0},
		{"4 s ahead", four, true, 0},
		{"4 s behind", -four, true, 0},
		{"3 s behind, or a slow answer", -3 * time.Second, true, 3500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := withFile(t)
			m.clock.set(c.offset)
			m.registry.during["acquire"] = func() { m.clock.pass(c.slow) }
			l := m.boot()
			if err := l.steps(); errors.Is(err, ErrClockOff) == c.ok || (err == nil) != c.ok {
				t.Fatal(err)
			}
			if c.ok {
				l.issues("near enough")
				return
			}
			l.refuses("too far", ErrClockOff)
			if held := m.registry.stored().Owner.Token; held != "" || len(m.registry.releases) != 1 {
				t.Errorf("not given back: %q, %d releases", held, len(m.registry.releases))
			}
			m.clock.set(0)
			l.mustStep()
			l.issues("set right")
		})
	}
}

// A worker ID that is in use from the file is not given back when the registry
// comes back and finds the clock off: it ends.
func TestAClockThatIsOffEndsTheFilesTerm(t *testing.T) {
	m, l := fromTheFile(t)
	m.registry.fail(nil)
	m.clock.server.Add(6000)
	if err := l.steps(); !errors.Is(err, ErrClockOff) || len(m.registry.releases) != 0 {
		t.Errorf("%v, %d releases", err, len(m.registry.releases))
	}
	l.refuses("off", ErrClockOff)
	m.clock.set(0)
	m.clock.pass(Ahead)
	l.mustStep()
	l.issues("set right")
}

func TestDoubt(t *testing.T) {
	const s, year = int64(1000), int64(365 * 86400 * 1000)
	wait := (Ahead + testOffset).Milliseconds()
	expiry := testExpiry.Milliseconds()
	for _, c := range []struct {
		name      string
		file      bool
		issued    int64 // for how long IDs may have been, ms
		keptSince int64 // 0: for ever; else relative to someday
		want      int64 // 0: none; else relative to someday
	}{
		{"kept for ever", true, year, 0, 0},
		{"a first start", true, 0, -1, 0},
		{"the first ones came at about the same time", true, 300 * s, -299 * s, 0},
		{"it came well after the first ones", true, 300 * s, -299*s + 1, -299*s + 1 + wait},
		{"it is older than the first ones", true, 300 * s, -year, 0},
		{"it forgot just now", false, year, -s, -s + wait},
		{"it forgot long ago: what follows is in the past", false, year, -3600 * s, -3600*s + wait},
		{"with files, while any may last", true, year, -s, wait},
		{"with files, at the last moment", true, year, -expiry + 1, wait},
		{"with files, once all have ended", true, year, -expiry, -expiry + wait},
		{"it is empty", true, year, -1, wait},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := fileless(t)
			if c.file {
				m = withFile(t)
			}
			l := m.boot()
			if c.file {
				l.file, _ = m.folder.opener(address)
			}
			lease := model.Lease{ServerTime: someday}
			if c.keptSince != 0 {
				lease.KeptSince = someday + c.keptSince
			}
			want := int64(0)
			if c.want != 0 {
				want = someday + c.want
			}
			check.Equal(t, l.doubt(lease, time.Duration(c.issued)*time.Millisecond), want)
		})
	}
}
