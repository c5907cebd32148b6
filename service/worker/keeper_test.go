package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// started is a life on the clock of a synctest bubble, which is the registry's
// too.
func (m *machine) started(change ...func(*Options)) *life {
	m.Helper()
	m.registry.now = func() int64 { return time.Now().UnixMilli() }
	began := time.Now()
	l := m.process(func() (int64, time.Duration) { return time.Now().UnixNano(), time.Since(began) }, change...)
	m.lives++
	l.Start(address, string(rune('a'+m.lives)))
	m.Cleanup(func() { _ = l.Stop(context.Background()) })
	synctest.Wait()
	return l
}

// take takes an ID and returns its time, Unix ms, and 0 when there is none.
func (l *life) take() int64 {
	id, got, _, _ := l.gen.Take(1)
	return id >> 22 * int64(got)
}

// stop stops and returns how long it took.
func (l *life) stop(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := l.Stop(ctx)
	return time.Since(began), err
}

func TestRenewsEveryThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withFile(t)
		l := m.started()
		l.Start(address, "another") // does nothing
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		check.Equal(t, len(m.registry.renewals), 11, "renewals in 30 s")
		check.Equal(t, l.take(), time.Now().UnixMilli(), "no ID")
		check.OK(t, l.Ready())
	})
}

func TestTriesUntilTheRegistryIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fileless(t)
		m.registry.fail(errAway)
		l := m.started()
		time.Sleep(time.Minute)
		if err := l.Ready(); !errors.Is(err, model.ErrNotReady) || l.take() != 0 {
			t.Errorf("without a registry: %v", err)
		}
		m.registry.fail(nil)
		time.Sleep(retry + time.Millisecond)
		if err := l.Ready(); err != nil || l.take() == 0 {
			t.Errorf("with a registry: %v", err)
		}
	})
}

// A registry that hangs is given up, and a file goes on.
func TestAHangingRegistryIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withFile(t)
		l := m.started()
		m.registry.set(func(r *registry) { r.hangs = true })
		time.Sleep(testExpiry / 2)
		if l.take() == 0 {
			t.Error("the file does not go on")
		}
		check.Equal(t, l.Status().State, StateOffline, "status")
	})
}

// A stop stores how far the term went, which is what came before it where nothing was issued, so that the next life
// goes on at once. The grace of a file is no longer than what was promised.
func TestStopStoresHowFarItWent(t *testing.T) {
	for name, c := range map[string]struct {
		on     func(*testing.T) *machine
		expiry time.Duration
		before time.Duration // that others reserved of the future
	}{
		"fileless": {fileless, time.Hour, 0}, "with a file": {withFile, time.Hour, 0},
		"its promise is short": {withFile, 2 * Ahead, 0}, "no ID": {withFile, time.Hour, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := c.on(t)
				reserved := time.Now().Add(c.before).UnixMilli()
				m.registry.give(reserved)
				l := m.started(func(o *Options) { o.Expiry = c.expiry })
				time.Sleep(10 * time.Second)
				reserved = max(reserved, l.take())
				time.Sleep(time.Second)
				promised := m.registry.stored().Expires
				for range 2 {
					if took, err := l.stop(t.Context()); err != nil || took != 0 {
						t.Errorf("%v, %v", took, err)
					}
				}
				expires := reserved
				if m.folder != nil {
					expires = min(promised, time.Now().Add(restartGrace).UnixMilli())
					if f := m.folder.lease; f.Reserved != reserved || f.Expires != expires || m.folder.locked {
						t.Errorf("the file has %+v, locked %t", f, m.folder.locked)
					}
				}
				if r := m.registry.releases; len(r) != 1 || r[0].Reserved != reserved || r[0].Expires != expires {
					t.Errorf("released %+v, want %d and %d once", r, reserved, expires)
				}
				l.refuses("stopped", model.ErrNoLease)
				next := m.started()
				time.Sleep(max(0, time.Until(time.UnixMilli(reserved+1))))
				check.Equal(t, next.take(), time.Now().UnixMilli(), "the next life goes on at once")
			})
		})
	}
}

// The registry has not confirmed the file's term: only the file is written.
func TestStopOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withFile(t)
		now := time.Now().UnixMilli()
		m.folder = &folder{written: true, lease: model.Lease{WorkerID: theirs, Reserved: now - 1, Expires: now + 50_000}}
		m.registry.fail(errAway)
		l := m.started(func(o *Options) { o.Expiry = time.Hour })
		issued := l.take()
		time.Sleep(retry / 2)
		m.registry.fail(nil)
		check.OK(t, check.Err(l.stop(t.Context())))
		if f := m.folder.lease; issued == 0 || f.Reserved != issued || f.Expires != now+50_000 || m.folder.locked {
			t.Errorf("issued %d, the file has %+v", issued, f)
		}
		check.Equal(t, len(m.registry.releases), 0, "released", m.registry.releases)
	})
}

func TestStopIsBounded(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		sleep time.Duration // to a pause, or into a call
	}{
		{"between two calls", context.Background(), time.Second},
		{"in a call", context.Background(), every + time.Second},
		{"the context has ended", ended, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := withFile(t)
				l := m.started()
				m.registry.set(func(r *registry) { r.hangs = true })
				time.Sleep(c.sleep)
				issued := l.take()
				if took, err := l.stop(c.ctx); took != stopTimeout || err != nil {
					t.Errorf("%v, %v", took, err)
				}
				l.wantNotGivenBack(context.DeadlineExceeded)
				if m.folder.lease.Reserved != issued || m.folder.locked {
					t.Errorf("issued %d, the file has %+v, locked %t", issued, m.folder.lease, m.folder.locked)
				}
			})
		})
	}
}

// wantNotGivenBack wants one warning with the cause.
func (l *life) wantNotGivenBack(cause error) {
	l.m.Helper()
	if text := l.log.String(); strings.Count(text, "was not given back") != 1 || !strings.Contains(text, cause.Error()) {
		l.m.Errorf("logged %s", text)
	}
}

// The file may not promise a grace that is not stored.
func TestStopTellsThatTheFileFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withFile(t)
		l := m.started()
		bound := m.registry.stored().Reserved
		m.folder.store = errDisk
		check.OK(t, check.Err(l.stop(t.Context())))
		l.wantNotGivenBack(errDisk)
		if m.registry.stored().Reserved != bound || m.folder.lease.Reserved != bound || m.folder.locked {
			t.Errorf("the bound went from %d to %d", bound, m.registry.stored().Reserved)
		}
	})
}

func TestStopAfterALossReleasesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withFile(t)
		l := m.started()
		m.registry.set(func(r *registry) { r.failing["renew"] = model.ErrLeaseLost })
		time.Sleep(every + time.Millisecond)
		if _, err := l.stop(t.Context()); err != nil || len(m.registry.releases) != 0 {
			t.Errorf("%v, released %+v", err, m.registry.releases)
		}
	})
}

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
	check.Equal(t, l.reports.Told(Condition), 4, "reports")
}

func TestStatusWhileTheBoundIsAhead(t *testing.T) {
	m := withFile(t)
	m.registry.give(someday + 4000)
	_, l := m.serving()
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
		m, l := fileless(t).serving()
		c.end(m.clock)
		l.refuses(c.name, model.ErrNoLease)
		l.looks(c.name, StateWaiting, theirs, "worker ID 7 was not renewed in time")
	}
}

func TestTimesThatNeverComeAreNone(t *testing.T) {
	const year9999 = 253402300799999
	if !at(0).IsZero() || !at(year9999+1).IsZero() || at(year9999).Year() != 9999 || at(1).UnixMilli() != 1 {
		t.Error("at")
	}
}
