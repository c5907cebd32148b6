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
			_, l := m.serving()
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
	_, l := m.serving()
	l.startsAfter(bound)
	m.clock.pass(time.Second)
	_, l = m.serving()
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
		_, l := m.serving()
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
			m, l := withFile(t).serving()
			m.clock.pass(time.Millisecond)
			l.issues("serving")
			confirmed := m.registry.stored().Reserved
			c.lose(m)
			m.clock.pass(time.Second)
			check.Is(t, l.steps(), model.ErrLeaseLost, "lost")
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
	m, l := withFile(t).serving()
	m.registry.fail(errAway)
	l.goesOn(12 * time.Second)
	l.issues("offline")
	m.registry.fail(nil)
	m.registry.lose()
	m.clock.pass(time.Millisecond)
	check.Is(t, l.steps(), model.ErrLeaseLost)
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
			check.Is(t, l.steps(), errAway)
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
		_, l := m.serving()
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

func TestStartWithoutTheRegistry(t *testing.T) {
	lease := func(expires int64) model.Lease {
		return model.Lease{WorkerID: theirs, Reserved: someday - 1000, Expires: expires}
	}
	for _, c := range []struct {
		name   string
		folder folder
		ok     bool
	}{
		{"a new folder", folder{}, false},
		{"it lasts", folder{written: true, lease: lease(someday + 30_000)}, true},
		{"it lasts for no more than the margin", folder{written: true, lease: lease(someday + margin.Milliseconds())}, false},
		{"it has run out", folder{written: true, lease: lease(someday - 1)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := withFile(t)
			m.folder = &c.folder
			m.registry.fail(errAway)
			l := m.boot()
			check.Is(t, l.steps(), errAway)
			if !c.ok {
				l.refuses("nothing to go on with", model.ErrNoLease)
				l.looks("nothing to go on with", StateWaiting, -1, "connection refused")
				return
			}
			l.issues("from the file")
			l.goesOn(27 * time.Second)
			l.issues("still")
			m.clock.wall.Store(someday + 30_000)
			l.refuses("at its end, from which on another may follow", model.ErrNoLease)
		})
	}
}

func TestTheFileStartsAboveItsBound(t *testing.T) {
	m := wentOn(t, 6*time.Second)
	bound := m.folder.lease.Reserved
	m.registry.fail(errAway)
	l := m.boot()
	_ = l.steps()
	l.startsAfter(bound)
}

// Once the registry has answered that the worker ID is not ours, the file counts
// for nothing: in this life even if it cannot be written, in the next if it can.
func TestADeniedFileIsNotGoneOnWith(t *testing.T) {
	for name, deny := range map[string]func(*machine){
		"taken": func(m *machine) {
			m.registry.failing["acquire"] = &model.AddressTakenError{Address: address, WorkerID: theirs}
		},
		"all are taken": func(m *machine) { m.registry.failing["acquire"] = model.ErrNoWorkerID },
		"lost":          func(m *machine) { m.registry.failing["renew"] = model.ErrLeaseLost },
	} {
		for _, written := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, written %t", name, written), func(t *testing.T) {
				m := wentOn(t, 6*time.Second)
				m.clock.pass(pastIt)
				deny(m)
				if !written {
					m.folder.store = errDisk
				}
				l := m.boot()
				if err := l.steps(); err == nil || isAway(err) || errors.Is(err, errDisk) == written {
					t.Fatal(err)
				}
				m.registry.fail(errAway)
				m.folder.store = nil
				if written {
					l = m.boot()
				}
				_ = l.steps()
				l.refuses("denied", model.ErrNoLease)
				m.registry.fail(nil)
				m.registry.failing = map[string]error{}
				l.mustStep()
				l.issues("the registry gives it again")
			})
		}
	}
}

func TestADenialEndsTheFilesTerm(t *testing.T) {
	for _, denial := range []error{&model.AddressTakenError{Address: address}, model.ErrNoWorkerID} {
		m := wentOn(t, 6*time.Second)
		m.clock.pass(pastIt)
		m.registry.fail(errAway)
		l := m.boot()
		_ = l.steps()
		l.issues("from the file")
		m.registry.fail(denial)
		check.Is(t, l.steps(), denial)
		l.refuses("denied", denial)
		if f := m.folder.lease; f.Expires > f.Reserved {
			t.Errorf("the file may still go on, up to %+d ms", f.Expires-someday)
		}
	}
}

func TestTheDatabaseIsAwayAndTheRegistryIsNot(t *testing.T) {
	m := fileless(t)
	m.layout = errAway
	l := m.boot()
	check.Is(t, l.steps(), errAway)
	l.refuses("nobody knows the layout", model.ErrNoLease)
	m.layout = nil
	l.mustStep()
	l.issues("known")

	m = wentOn(t, 6*time.Second)
	m.layout = errAway
	m.clock.pass(pastIt)
	_, l = m.serving()
	l.issues("its file is proof enough")
}

func TestAnotherLayoutIsRefused(t *testing.T) {
	m := wentOn(t, 6*time.Second)
	m.clock.pass(pastIt)
	m.layout = &model.LayoutChangedError{Kind: "snowflake"}
	l := m.boot()
	check.Is(t, l.steps(), model.ErrLayoutChanged)
	l.refuses("another layout", model.ErrLayoutChanged)
	if err := l.Ready(); !errors.Is(err, model.ErrNotReady) || !strings.Contains(err.Error(), m.layout.Error()) {
		t.Errorf("not ready: %v", err)
	}
	if len(m.registry.renewals) > 1 {
		t.Error("it renewed")
	}
}

// With the registry silent the grant ends by the monotonic clock, counted from the
// start of the last call that renewed it, whatever the wall clock does.
func TestTrustEndsByTheMonotonicClock(t *testing.T) {
	for _, c := range []struct {
		name  string
		on    func(*testing.T) *machine
		trust time.Duration
	}{
		{"fileless", fileless, testTTL - time.Second},
		{"with a file", withFile, testExpiry - time.Second},
	} {
		for _, back := range []int64{0, 4000} {
			t.Run(fmt.Sprintf("%s, %d ms back", c.name, back), func(t *testing.T) {
				m := c.on(t)
				m.registry.during["renew"] = func() { m.clock.pass(2 * time.Second) }
				_, l := m.serving()
				m.registry.fail(errAway)
				delete(m.registry.during, "renew")
				m.clock.wall.Add(-back)
				for m.clock.mono.Load() < c.trust.Milliseconds()-1000 {
					m.clock.mono.Add(1000)
					_ = l.steps()
					l.issues("trusted")
				}
				m.clock.mono.Store(c.trust.Milliseconds() - 1)
				l.issues("just trusted")
				m.clock.mono.Add(1)
				l.refuses("at the end", model.ErrNoLease)
				_ = l.steps()
				l.refuses("after another attempt", model.ErrNoLease)
			})
		}
	}
}

func TestTheFilesTermIsTrustedUpToItsEnd(t *testing.T) {
	m := withFile(t)
	m.folder = &folder{written: true, lease: model.Lease{WorkerID: theirs, Reserved: someday - 1, Expires: someday + 20_000}}
	m.registry.fail(errAway)
	l := m.boot()
	_ = l.steps()
	m.clock.mono.Store(18_999)
	_ = l.steps()
	l.issues("trusted")
	m.clock.mono.Store(19_000)
	_ = l.steps()
	l.refuses("at the end", model.ErrNoLease)
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	m := withFile(t)
	full := errors.New("/data: no space left")
	m.folder.open = full
	l := m.boot()
	check.Is(t, l.steps(), full)
	l.refuses("no file", model.ErrNoLease)
	check.Is(t, l.Ready(), model.ErrNotReady)
	m.folder.open = nil
	check.OK(t, l.steps())
	l.issues("the folder can be written")
}

func TestACorruptFileIsWaitedFor(t *testing.T) {
	corrupt := errors.New("the worker file is corrupt: restore it, or delete it")
	m := withFile(t)
	m.folder.open = corrupt
	l := m.boot()
	for range 2 {
		check.Is(t, l.steps(), corrupt)
	}
	if err := l.Ready(); !errors.Is(err, model.ErrNotReady) || !strings.Contains(err.Error(), corrupt.Error()) {
		t.Errorf("not ready: %v", err)
	}
	m.folder.open = nil
	l.mustStep()
	l.issues("mended")
}

// A file that stops taking writes grants nothing: IDs end with what it holds.
func TestAFileThatCannotBeWrittenAnyMore(t *testing.T) {
	for name, cause := range map[string]error{"the registry is there": nil, "it is away": errAway} {
		t.Run(name, func(t *testing.T) {
			m, l := withFile(t).serving()
			bound := m.folder.lease.Reserved
			m.folder.store = errDisk
			m.registry.fail(cause)
			l.goesOn(Ahead)
			l.issues("inside the bound")
			m.clock.wall.Store(bound + 1)
			_ = l.steps()
			l.refuses("past it", model.ErrNoLease)
			if err := l.Ready(); !errors.Is(err, model.ErrNotReady) || !strings.Contains(err.Error(), errDisk.Error()) {
				t.Errorf("not ready: %v", err)
			}
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
		check.Must(t, l.steps())
		check.OK(t, l.Ready())
		l.refuses("nobody asked for it", model.ErrNoLease)
		if !m.fresh {
			t.Error("the layout was recorded")
		}
		if _, kept := l.stored(); kept {
			t.Error("the file stands for a layout that was not recorded")
		}
		l.needed.Store(true)
		check.Must(t, l.steps())
		check.Equal(t, m.fresh, false, "not recorded")
		if _, got, _, err := l.gen.Take(1); got != 1 {
			t.Errorf("no ID: %v", err)
		}
		check.Equal(t, strings.Count(l.log.String(), Condition+" acquired"), 1, "lines about one worker ID in", l.log)
	})
}

// Two instances on a fresh database have other layouts: the second that is asked for an ID is
// refused, although it has held its worker ID all the time.
func TestSecondLayoutIsRefused(t *testing.T) {
	m := fileless(t)
	m.fresh, m.recorded = true, 0
	l := m.boot()
	check.Must(t, l.steps())
	m.layout = &model.LayoutChangedError{Kind: "snowflake"}
	check.Must(t, l.steps())
	l.needed.Store(true)
	check.Is(t, l.steps(), model.ErrLayoutChanged)
	l.refuses("another layout was recorded meanwhile", model.ErrNoLease)
}

// Where others have issued IDs since, what the registry forgot before that counts.
func TestFirstIDAfterOthers(t *testing.T) {
	m := fileless(t)
	m.fresh, m.recorded = true, 0
	l := m.boot()
	m.registry.keptSince = m.clock.server.Load()
	check.Must(t, l.steps())
	m.recorded = time.Hour
	l.needed.Store(true)
	check.Must(t, l.steps())
	l.refuses("others may hold the worker ID", model.ErrTooEarly)
}
