package worker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// looks holds the status and the readiness against a state.
func (l *life) looks(when, state string, workerID int, text string) {
	l.m.Helper()
	s := l.Status()
	if s.Mode != "test" || s.State != state || s.WorkerID != workerID || !strings.Contains(s.Error, text) || text == "" && s.Error != "" {
		l.m.Errorf("%s: %+v, want %s, worker ID %d, %q", when, s, state, workerID, text)
	}
	err := l.Ready()
	if ok := state != StateWaiting; (err == nil) != ok || !ok && (!errors.Is(err, model.ErrNotReady) || !strings.Contains(err.Error(), text)) {
		l.m.Errorf("%s: ready: %v", when, err)
	}
}

func TestStatusOfALife(t *testing.T) {
	m := withFile(t)
	l := m.boot()
	l.looks("new", StateWaiting, -1, "")
	if err := l.Ready(); !strings.Contains(err.Error(), "not been acquired yet") {
		t.Error(err)
	}
	m.registry.fail(errAway)
	_ = l.steps()
	l.looks("the registry is away", StateWaiting, -1, "connection refused")

	m.registry.fail(nil)
	m.clock.set(time.Second)
	l.mustStep()
	l.looks("served", StateServing, theirs, "")
	s := l.Status()
	if want := time.UnixMilli(m.folder.lease.Reserved).UTC(); s.Reserved != want || !s.After.IsZero() {
		t.Errorf("after %v, reserved %v, want %v", s.After, s.Reserved, want)
	}
	if want := time.UnixMilli(m.folder.lease.Expires).UTC(); s.Expires != want || s.Trust != testExpiry-margin || s.ClockOffset != time.Second {
		t.Errorf("expires %v, want %v, trust %v, offset %v", s.Expires, want, s.Trust, s.ClockOffset)
	}

	m.registry.fail(errAway)
	m.clock.pass(every)
	_ = l.steps()
	l.looks("the file goes on", StateOffline, theirs, "connection refused")
	check.Equal(t, l.Status().Trust, testExpiry-margin-every, "trust")

	m.registry.fail(nil)
	m.registry.lose()
	_ = l.steps()
	l.looks("lost", StateWaiting, -1, model.ErrLeaseLost.Error())
}

func TestStatusWhileTheBoundIsAhead(t *testing.T) {
	m := withFile(t)
	m.registry.give(someday + 4000)
	l := m.boot()
	l.mustStep()
	l.looks("before it", StateWaiting, theirs, "4.001s to go")
	m.clock.pass(4 * time.Second)
	l.looks("at it", StateWaiting, theirs, "1ms to go")
	m.clock.pass(time.Millisecond)
	l.looks("past it", StateServing, theirs, "")
	l.issues("past it")
}

// Ready must not say what the generator denies.
func TestStatusOnceTheGrantHasEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*hand)
	}{
		{"trust", func(h *hand) { h.mono.Add((testTTL - margin).Milliseconds()) }},
		{"reservation", func(h *hand) { h.wall.Add(Ahead.Milliseconds() + 1) }},
	} {
		m := fileless(t)
		l := m.boot()
		l.mustStep()
		c.end(m.clock)
		l.refuses(c.name, model.ErrNoLease)
		l.looks(c.name, StateWaiting, theirs, "worker ID 7 was not renewed in time")
	}
}

func TestTheReporterIsTold(t *testing.T) {
	m := withFile(t)
	l := m.boot()
	for _, want := range []error{nil, errAway, nil} {
		m.registry.fail(want)
		check.Is(t, l.steps(), want)
	}
	check.Equal(t, l.reports.Told(Condition), 3, "reports")
}

func TestTimesThatNeverComeAreNone(t *testing.T) {
	const year9999 = 253402300799999
	if !at(0).IsZero() || !at(year9999+1).IsZero() || at(year9999).Year() != 9999 || at(1).UnixMilli() != 1 {
		t.Error("at")
	}
}
