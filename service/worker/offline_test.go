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
			if err := l.steps(); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
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
	l = m.boot()
	l.mustStep()
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
				l := m.boot()
				l.mustStep()
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
	m.folder.open = fmt.Errorf("/data: %w", model.ErrNotWritable)
	l := m.boot()
	l.mustStep()
	l.goesOn(3 * every)
	l.issues("the registry alone keeps the reservation")
	if row := m.registry.stored(); row.Expires != row.Reserved+1 || row.Reserved != m.clock.wall.Load()+Ahead.Milliseconds() {
		t.Errorf("bounds %+d and %+d ms", row.Reserved-someday, row.Expires-someday)
	}
	if text := l.log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "/data") {
		t.Errorf("logged %s", text)
	}
	m.registry.fail(errAway)
	m.clock.mono.Add(testTTL.Milliseconds())
	_ = l.steps()
	l.refuses("and nothing else does", model.ErrNoLease)
}

func TestAFolderThatIsAllThereIs(t *testing.T) {
	m := withFile(t)
	m.folder.open = model.ErrNotWritable
	l := m.boot(func(o *Options) { o.FileOnly = true })
	check.Is(t, l.steps(), model.ErrNotWritable)
	l.refuses("no file", model.ErrNoLease)
	check.Is(t, l.Ready(), model.ErrNotReady)
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
			m := withFile(t)
			l := m.boot()
			l.mustStep()
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
