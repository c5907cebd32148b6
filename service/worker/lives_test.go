package worker

import (
	"errors"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// pastIt is when the clock has passed whatever a life that crashed reserved.
const pastIt = Ahead + time.Second

// wentOn is a machine whose process went on in its file for a while, as the
// registry was away, and crashed: the file knows a higher bound than the registry.
func wentOn(t *testing.T, away time.Duration, change ...func(*Options)) *machine {
	t.Helper()
	m := withFile(t)
	l := m.boot(change...)
	l.mustStep()
	m.registry.fail(errAway)
	l.goesOn(away)
	m.registry.fail(nil)
	if file, far := m.folder.lease.Reserved, m.registry.stored().Reserved; file <= far {
		t.Fatalf("the file has %d, the registry %d", file, far)
	}
	return m
}

func TestStartsAboveItsFile(t *testing.T) {
	short := func(o *Options) { o.Expiry = 2 * Ahead }
	for _, c := range []struct {
		name   string
		away   time.Duration
		change func(*Options)
		held   bool // nobody else can have had the worker ID meanwhile
	}{
		{"its lease lasts", 6 * time.Second, func(*Options) {}, true},
		{"its lease has run out", 2 * Ahead, short, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := wentOn(t, c.away, c.change)
			if held := m.folder.lease.Expires > m.clock.server.Load(); held != c.held {
				t.Fatalf("the lease ends %d ms from now", m.folder.lease.Expires-m.clock.server.Load())
			}
			bound := m.folder.lease.Reserved
			m.clock.set(-4 * time.Second)
			l := m.boot(c.change)
			l.mustStep()
			l.startsAfter(bound)
			l.refuses("behind what the file reserved", model.ErrTooEarly)
			l.goesOn(15 * time.Second)
			l.issues("past it")
		})
	}
}

// The first life's bound is in its file alone. The second gets as far as a worker
// ID, and crashes too.
func TestAnInterruptedStartLowersNoBound(t *testing.T) {
	for name, interrupt := range map[string]func(*machine){
		"the renewal fails": func(m *machine) { m.registry.failing["renew"] = errAway },
		"the clock jumps": func(m *machine) {
			m.registry.during["peers"] = func() { m.clock.mono.Add(-8000); delete(m.registry.during, "peers") }
		},
		"the file fails": func(m *machine) { m.folder.store = errDisk },
	} {
		t.Run(name, func(t *testing.T) {
			m := wentOn(t, 6*time.Second)
			file := m.folder.lease
			interrupt(m)
			_ = m.boot().steps()
			if now := m.folder.lease; now.Reserved < file.Reserved {
				t.Errorf("the file's bound went from %d to %d", file.Reserved, now.Reserved)
			}
			m.registry.failing, m.folder.store = map[string]error{}, nil
			m.clock.set(-4 * time.Second)
			l := m.boot()
			l.mustStep()
			l.startsAfter(file.Reserved)
		})
	}
}

// A registry that keeps answering Acquire alone does not take the right away to
// go on from the file.
func TestAnInterruptedStartKeepsTheRightOfTheFile(t *testing.T) {
	m := wentOn(t, 6*time.Second)
	m.registry.failing["renew"] = errAway
	_ = m.boot().steps()
	m.registry.fail(errAway)
	m.clock.pass(pastIt)
	l := m.boot()
	_ = l.steps()
	l.issues("from the file")
}

// What a life reserved beyond the registry's knowledge, and its right to go on in
// its file, hold when a later life has to give the worker ID back unused.
func TestARefusedStartGivesNothingAwayThatTheFileHolds(t *testing.T) {
	for name, refuse := range map[string]func(*machine){
		"its clock is off":     func(m *machine) { m.clock.set(6 * time.Second) },
		"the peers are hidden": func(m *machine) { m.registry.failing["peers"] = errAway },
	} {
		t.Run(name, func(t *testing.T) {
			m := wentOn(t, 6*time.Second)
			file := m.folder.lease
			refuse(m)
			if err := m.boot().steps(); err == nil {
				t.Fatal("no error")
			}
			if len(m.registry.releases) != 1 {
				t.Fatalf("released %d times", len(m.registry.releases))
			}
			if row := m.registry.stored(); row.Reserved < file.Reserved || row.Expires < file.Expires {
				t.Errorf("others may follow after %+d and %+d ms, the file has %+d and %+d", row.Reserved-someday, row.Expires-someday,
					file.Reserved-someday, file.Expires-someday)
			}
		})
	}
}

// A life that must wait as the registry forgot something crashes; the next one
// finds the lease in its file and must still wait.
func TestACrashDoesNotEndADoubt(t *testing.T) {
	m := withFile(t)
	m.registry.keptSince = m.clock.server.Load()
	bound := someday + (Ahead + testOffset).Milliseconds()
	l := m.boot()
	l.mustStep()
	l.startsAfter(bound)
	m.clock.pass(time.Second)
	l = m.boot()
	l.mustStep()
	l.startsAfter(bound)
	l.goesOn(15 * time.Second)
	l.issues("past all doubt")
}

// Both restarted. A registry that knows what the file knows has forgotten nothing
// that matters; one that does not may have forgotten others too.
func TestARestartOfBothCostsNoWait(t *testing.T) {
	for _, back := range []int64{0, 1} {
		m := withFile(t)
		m.boot().mustStep()
		m.clock.pass(pastIt)
		m.registry.keptSince = m.clock.server.Load()
		m.registry.row.Reserved -= back
		l := m.boot()
		l.mustStep()
		if back > 0 {
			l.startsAfter(m.clock.server.Load() + (Ahead + testOffset).Milliseconds())
			continue
		}
		l.issues("at once")
	}
}

func TestRegainsAfterALoss(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  func(m *machine)
		after func(confirmed int64) int64 // 0: goes on at once
	}{
		{"nobody had it", func(m *machine) { m.registry.lose() }, nil},
		{"another had it", func(m *machine) { m.registry.give(m.registry.stored().Expires + 5000) },
			func(int64) int64 { return someday + testExpiry.Milliseconds() + 5000 }},
		{"a renewal of its own was stored and its answer lost", func(m *machine) {
			m.registry.lose()
			m.registry.set(func(r *registry) { r.row.Reserved += 2000 })
		}, func(confirmed int64) int64 { return confirmed + 2000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := withFile(t)
			l := m.boot()
			l.mustStep()
			m.clock.pass(time.Millisecond)
			l.issues("serving")
			confirmed := m.registry.stored().Reserved
			c.lose(m)
			m.clock.pass(time.Second)
			if err := l.steps(); !errors.Is(err, model.ErrLeaseLost) {
				t.Fatalf("lost: %v", err)
			}
			l.refuses("lost", model.ErrLeaseLost)
			l.mustStep()
			if c.after == nil {
				l.issues("regained")
				return
			}
			l.startsAfter(c.after(confirmed))
		})
	}
}

// Reserved in the file alone and then lost: what was issued is all there is.
func TestRegainsWithoutWaitingAfterItWentOnInItsFile(t *testing.T) {
	m := withFile(t)
	l := m.boot()
	l.mustStep()
	m.registry.fail(errAway)
	l.goesOn(12 * time.Second)
	l.issues("offline")
	m.registry.fail(nil)
	m.registry.lose()
	m.clock.pass(time.Millisecond)
	if err := l.steps(); !errors.Is(err, model.ErrLeaseLost) {
		t.Fatal(err)
	}
	l.mustStep()
	l.issues("regained")
}

func TestTheFilesTermGoesOnOnceTheRegistryIsBack(t *testing.T) {
	for _, c := range []struct {
		name     string
		give     bool // the registry gave the worker ID to another meanwhile
		exchange bool // it is another registry, where another had reserved as much
	}{{"nobody had it", false, false}, {"another had it", true, false}, {"another registry", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			m := wentOn(t, 6*time.Second)
			m.registry.fail(errAway)
			m.clock.pass(pastIt)
			l := m.boot()
			if err := l.steps(); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
			l.issues("from the file")
			bound := m.clock.wall.Load() + 30_000
			if c.exchange {
				bound = l.lease.Reserved
				m.registry.identity = "test 2"
			}
			if c.give {
				m.registry.give(bound)
			}
			m.registry.fail(nil)
			m.clock.pass(time.Millisecond)
			l.mustStep()
			if c.give {
				l.startsAfter(bound)
				return
			}
			l.issues("confirmed")
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
		l := m.boot()
		l.mustStep()
		m.registry.fail(errAway)
		l.goesOn(testExpiry + 3*time.Second)
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
