package worker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// The lives of processes on one machine. What the simulation does not hold of them is held here: the rules that
// matter in few worlds only, and that nothing is waited for without need.

// pastIt is when the clock has passed whatever a life that crashed reserved.
const pastIt = Ahead + time.Second

// wentOn is a machine whose process went on in its file for a while, as the
// registry was unreachable, and crashed: the file knows a higher bound than the registry.
func wentOn(t *testing.T) *machine {
	t.Helper()
	m, l := withFile(t).serving()
	m.registry.fail(errAway)
	l.goesOn(6 * time.Second)
	m.registry.fail(nil)
	if file, far := m.folder.lease.Reserved, m.registry.stored().Reserved; file <= far {
		t.Fatalf("the file has %d, the registry %d", file, far)
	}
	return m
}

// fromTheFile is such a machine whose next process continues from the file, as the registry is unreachable.
func fromTheFile(t *testing.T) (*machine, *life) {
	t.Helper()
	m := wentOn(t)
	m.registry.fail(errAway)
	m.clock.pass(pastIt)
	l := m.boot()
	check.Is(t, l.steps(), errAway)
	l.issues("from the file")
	return m, l
}

// The first life's bound is in its file alone. However far the second one comes, it lowers no bound, and the third
// starts above it. A registry that answered Acquire alone does not take the right away to continue from the file.
func TestAnInterruptedStart(t *testing.T) {
	for name, c := range map[string]struct {
		interrupt func(*machine)
		right     bool
	}{
		"before the file":   {func(m *machine) { m.folder.open = errDisk }, true},
		"the renewal fails": {func(m *machine) { m.registry.failing["renew"] = errAway }, true},
		"the clock jumps": {func(m *machine) {
			m.registry.during["claim"] = func() { m.clock.mono.Add(-8000); delete(m.registry.during, "claim") }
		}, false},
		"the file fails": {func(m *machine) { m.folder.store = errDisk }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := wentOn(t)
			bound := m.folder.lease.Reserved
			c.interrupt(m)
			_ = m.boot().steps()
			m.registry.failing, m.folder.open, m.folder.store = map[string]error{}, nil, nil
			if now := m.folder.lease.Reserved; now < bound {
				t.Errorf("the file's bound went from %d to %d", bound, now)
			}
			if c.right {
				m.registry.fail(errAway)
				m.clock.pass(pastIt)
				l := m.boot()
				_ = l.steps()
				l.issues("from the file")
				bound = m.folder.lease.Reserved
				m.registry.fail(nil)
			}
			m.clock.set(-4 * time.Second)
			_, l := m.serving()
			l.startsAfter(bound)
			l.refuses("behind what the file reserved", model.ErrTooEarly)
			l.goesOn(15 * time.Second)
			l.issues("past it")
		})
	}
}

// What a life reserved beyond the registry's knowledge, and its right to continue in
// its file, hold when a later life has to give the worker ID back unused.
func TestARefusedStartGivesNothingAwayThatTheFileHolds(t *testing.T) {
	m := wentOn(t)
	file := m.folder.lease
	m.clock.set(6 * time.Second)
	if err := m.boot().steps(); err == nil || len(m.registry.releases) != 1 {
		t.Fatalf("%v, released %d times", err, len(m.registry.releases))
	}
	if row := m.registry.stored(); row.Reserved < file.Reserved || row.Expires < file.Expires {
		t.Errorf("others may follow after %+d and %+d ms, the file has %+d and %+d", row.Reserved-someday,
			row.Expires-someday, file.Reserved-someday, file.Expires-someday)
	}
	m.registry.failing["release"] = errAway
	l := m.boot()
	check.Is(t, l.steps(), ErrClockOff, "the release is not heard of")
	l.refuses("a clock that is off", model.ErrNoLease)
	check.Equal(t, m.folder.lease.Reserved, file.Reserved, "what the file reserves")
}

// A stop that finds its worker ID given away, or its claim closed, takes the right away to continue from the file.
func TestAStopThatFindsItsWorkerIDGone(t *testing.T) {
	for name, lose := range map[string]func(*machine){
		"given away":   func(m *machine) { m.registry.give(someday) },
		"claim closed": func(m *machine) { m.claim = model.ErrLeaseLost },
	} {
		t.Run(name, func(t *testing.T) {
			m, l := withFile(t).serving()
			lose(m)
			check.Must(t, l.release(t.Context()))
			m.registry.fail(errAway)
			l = m.boot()
			check.Is(t, l.steps(), errAway)
			l.refuses("from the file", model.ErrNoLease)
		})
	}
}

// A lease that was lost is taken anew at once, and what continues in the file is confirmed, unless another had it. What
// was issued stays reserved in the file.
func TestItsWorkerIDAgain(t *testing.T) {
	served := func(t *testing.T) (*machine, *life) {
		m := withFile(t)
		m.clock.set(4 * time.Second)
		_, l := m.serving()
		m.clock.pass(time.Second)
		l.issues("serving")
		m.registry.lose()
		check.Is(t, l.steps(), model.ErrLeaseLost, "lost")
		l.refuses("lost", model.ErrLeaseLost)
		return m, l
	}
	nobody := func(*machine, *life, int64) int64 { return 0 }
	another := func(m *machine, _ *life, soon int64) int64 { m.registry.give(soon); return soon }
	for _, c := range []struct {
		name      string
		on        func(*testing.T) (*machine, *life)
		meanwhile func(m *machine, l *life, soon int64) int64 // IDs start above that; at 0 they go on
	}{
		{"lost, and nobody had it", served, nobody},
		{"lost, and another had it", served, another},
		{"lost, and its own renewal was stored", served, func(m *machine, _ *life, soon int64) int64 {
			m.registry.set(func(r *registry) { r.row.Reserved = soon })
			return soon
		}},
		{"lost, and the clock went back", served, func(m *machine, l *life, _ int64) int64 {
			m.clock.set(-4 * time.Second)
			return l.gen.LastIssued()
		}},
		{"nobody had it", fromTheFile, nobody},
		{"another had it", fromTheFile, another},
		{"another registry", fromTheFile, func(m *machine, l *life, _ int64) int64 {
			m.registry.identity = "test 2"
			return another(m, l, l.lease.Reserved)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, l := c.on(t)
			bound := c.meanwhile(m, l, m.clock.wall.Load()+30_000)
			m.registry.fail(nil)
			m.clock.pass(time.Millisecond)
			l.mustStep()
			if file, issued := m.folder.lease.Reserved, l.gen.LastIssued(); file < issued {
				t.Errorf("IDs were issued up to %+d ms, the file has %+d", issued-someday, file-someday)
			}
			if bound > 0 {
				l.startsAfter(bound)
				return
			}
			l.issues("again")
			check.Equal(t, l.Status().State, StateServing, "state")
		})
	}
}

// A lease that ran out in the registry's eyes was perhaps somebody else's since,
// if the registry may have forgotten that.
func TestALapsedLeaseCountsOnlyIfTheRegistryForgotNothing(t *testing.T) {
	for _, forgot := range []bool{false, true} {
		m := withFile(t)
		m.registry.keptSince = someday - 3_600_000
		_, l := m.serving()
		m.registry.fail(errAway)
		m.clock.pass(time.Duration(l.lease.Expires-m.clock.server.Load()) * time.Millisecond) // this moment
		m.registry.fail(nil)
		if forgot {
			m.registry.keptSince = m.clock.server.Load() - 10_000
		}
		if err := l.steps(); errors.Is(err, model.ErrLeaseLost) != forgot {
			t.Errorf("forgot %t: %v", forgot, err)
		}
		if !forgot {
			l.issues("nobody had it")
			continue
		}
		l.refuses("another may have it", model.ErrLeaseLost)
		l.mustStep()
		l.startsAfter(m.clock.server.Load() + (Ahead + testOffset).Milliseconds())
	}
}

// The file's term is trusted up to its end by each clock.
func TestStartWithoutTheRegistry(t *testing.T) {
	for _, c := range []struct {
		name  string
		lasts time.Duration // 0: a new folder
		ok    bool
	}{
		{"a new folder", 0, false},
		{"it lasts", 30 * time.Second, true},
		{"it lasts for no more than the margin", margin, false},
		{"it has run out", -time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := withFile(t)
			if c.lasts != 0 {
				m.folder.written = true
				m.folder.lease = model.Lease{WorkerID: theirs, Reserved: someday - 1000,
					Expires: someday + c.lasts.Milliseconds()}
			}
			m.registry.fail(errAway)
			l := m.boot()
			check.Is(t, l.steps(), errAway)
			if !c.ok {
				l.refuses("nothing to continue with", model.ErrNoLease)
				l.looks("nothing to continue with", StateWaiting, -1, "connection refused")
				return
			}
			l.issues("from the file")
			l.goesOn(27 * time.Second)
			l.issues("still")
			m.clock.mono.Store((c.lasts - margin).Milliseconds() - 1)
			_ = l.steps()
			l.issues("trusted")
			m.clock.mono.Add(1)
			_ = l.steps()
			l.refuses("at the end of the trust", model.ErrNoLease)
			m.clock.mono.Store(0)
			m.clock.wall.Store(someday + c.lasts.Milliseconds())
			l.refuses("at its end, from which on another may follow", model.ErrNoLease)
		})
	}
}

// Once the registry has answered that the worker ID is not ours, the file counts
// for nothing: in this life even if it cannot be written, in the next if it can.
func TestADeniedFileIsNotGoneOnWith(t *testing.T) {
	for name, deny := range map[string]func(*machine){
		"taken":         func(m *machine) { m.registry.failing["acquire"] = model.ErrAddressTaken },
		"all are taken": func(m *machine) { m.registry.failing["acquire"] = model.ErrNoWorkerID },
		"lost":          func(m *machine) { m.registry.failing["renew"] = model.ErrLeaseLost },
	} {
		for _, written := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, written %t", name, written), func(t *testing.T) {
				m, l := fromTheFile(t)
				m.registry.fail(nil)
				deny(m)
				if !written {
					m.folder.store = errDisk
				}
				if err := l.steps(); err == nil || isAway(err) || errors.Is(err, errDisk) == written {
					t.Fatal(err)
				}
				l.refuses("denied", model.ErrNoLease)
				m.registry.fail(errAway)
				m.folder.store = nil
				m.clock.pass(pastIt)
				if written {
					l = m.boot()
				}
				_ = l.steps()
				l.refuses("denied, and the registry is unreachable", model.ErrNoLease)
				m.registry.fail(nil)
				m.registry.failing = map[string]error{}
				l.mustStep()
				l.issues("the registry gives it again")
			})
		}
	}
}

// With the registry silent the grant ends by the monotonic clock, counted from the
// start of the last call that renewed it, whatever the wall clock does.
func TestTrustEndsByTheMonotonicClock(t *testing.T) {
	for _, back := range []int64{0, 4000} {
		t.Run(fmt.Sprintf("%d ms back", back), func(t *testing.T) {
			withAndWithoutFile(t, func(t *testing.T, m *machine) {
				trust := testTTL - margin
				if m.folder != nil {
					trust = testExpiry - margin
				}
				m.registry.during["renew"] = func() { m.clock.pass(2 * time.Second) }
				_, l := m.serving()
				m.registry.fail(errAway)
				delete(m.registry.during, "renew")
				m.clock.wall.Add(-back)
				for m.clock.mono.Load() < trust.Milliseconds()-1000 {
					m.clock.mono.Add(1000)
					_ = l.steps()
					l.issues("trusted")
				}
				m.clock.mono.Store(trust.Milliseconds() - 1)
				l.issues("just trusted")
				m.clock.mono.Add(1)
				l.refuses("at the end", model.ErrNoLease)
				_ = l.steps()
				l.refuses("after another attempt", model.ErrNoLease)
			})
		})
	}
}

// A folder that cannot be used is waited for, and a file that stops taking writes grants nothing: IDs end with what it
// holds.
func TestAFileThatCannotBeWrittenAnyMore(t *testing.T) {
	for name, cause := range map[string]error{"the registry is there": nil, "it is unreachable": errAway} {
		t.Run(name, func(t *testing.T) {
			m := withFile(t)
			m.folder.open = errDisk
			l := m.boot()
			check.Is(t, l.steps(), errDisk, "a folder that cannot be used")
			l.refuses("no file", model.ErrNoLease)
			m.folder.open = nil
			l.mustStep()
			bound := m.folder.lease.Reserved
			m.folder.store = errDisk
			m.registry.fail(cause)
			l.goesOn(Ahead)
			l.issues("inside the bound")
			m.clock.wall.Store(bound + 1)
			_ = l.steps()
			l.refuses("past it", model.ErrNoLease)
			check.Has(t, fmt.Sprint(l.Ready()), errDisk.Error(), "readiness")
			m.folder.store = nil
			m.registry.fail(nil)
			l.mustStep()
			l.issues("mended")
		})
	}
}

// A fresh database gets a layout when the first ID is asked for: until then the worker ID is
// held, and nothing is reserved in the file, which would stand for a recorded layout.
func TestLayoutWaitsForTheFirstID(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		m.fresh, m.recorded = true, 0
		l := m.boot()
		l.mustStep()
		check.OK(t, l.Ready())
		l.refuses("nobody asked for it", model.ErrNoLease)
		check.Equal(t, m.fresh, true, "not recorded")
		if _, kept := l.stored(); kept {
			t.Error("the file stands for a layout that was not recorded")
		}
		l.needed.Store(true)
		l.mustStep()
		check.Equal(t, m.fresh, false, "not recorded")
		l.issues("recorded")
		check.Equal(t, strings.Count(l.log.String(), Condition+" acquired"), 1, "lines about one worker ID in", l.log)
	})
}

// An instance that has held its worker ID since a fresh database had no layout is asked for its first ID, after
// others: it is refused if theirs have another layout, and what the registry forgot before that counts.
func TestFirstIDAfterOthers(t *testing.T) {
	for _, c := range []struct{ layout, want error }{
		{nil, model.ErrTooEarly}, {model.ErrLayoutChanged, model.ErrLayoutChanged},
	} {
		m := fileless(t)
		m.fresh, m.recorded, m.registry.keptSince = true, 0, m.clock.server.Load()
		_, l := m.serving()
		m.layout, m.recorded = c.layout, time.Hour
		l.mustStep()
		l.needed.Store(true)
		check.Is(t, l.steps(), c.layout)
		want := c.want
		if c.layout != nil {
			want = model.ErrNoLease // it has not even begun
		}
		l.refuses("others may hold the worker ID", want)
	}
}

// At the start, without the database and with another layout. A file of an earlier life that issued IDs is proof
// enough of the layout.
func TestTheLayoutAtTheStart(t *testing.T) {
	changed := model.ErrLayoutChanged
	for _, c := range []struct {
		name         string
		on           func(*testing.T) *machine
		layout, want error
	}{
		{"away", fileless, errAway, model.ErrNoLease},
		{"away, with a file", wentOn, errAway, nil},
		{"another one", fileless, changed, model.ErrLayoutChanged},
		{"another one, with a file", wentOn, changed, model.ErrLayoutChanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.on(t)
			m.layout = c.layout
			m.clock.pass(pastIt)
			renewals := len(m.registry.renewals)
			l := m.boot()
			if err := l.steps(); c.want != nil {
				check.Is(t, err, c.layout)
				l.refuses("nobody knows the layout, or it is another", c.want)
				l.looks("the same", StateWaiting, -1, c.layout.Error())
				check.Equal(t, len(m.registry.renewals), renewals, "renewals")
				m.layout = nil
				l.mustStep()
			}
			l.issues("known")
		})
	}
}
