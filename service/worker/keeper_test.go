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

// A registry that is unreachable is tried again within a second, time is reserved every three, and a file continues
// while a registry hangs.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := withFile(t)
		m.registry.fail(errAway)
		l := m.started()
		l.Start(address, "another") // does nothing
		time.Sleep(time.Minute)
		check.Is(t, l.Ready(), model.ErrNotReady, "without a registry")
		check.Equal(t, l.take(), 0, "the time of an ID")
		m.registry.fail(nil)
		time.Sleep(retry + time.Millisecond)
		check.OK(t, l.Ready())
		renewals := func() (n int) {
			m.registry.set(func(r *registry) { n = len(r.renewals) })
			return n
		}
		before := renewals()
		time.Sleep(30 * time.Second)
		check.Equal(t, renewals()-before, 10, "renewals in 30 s")
		check.Equal(t, l.take(), time.Now().UnixMilli(), "the time of an ID")
		m.registry.set(func(r *registry) { r.hangs = true })
		time.Sleep(testExpiry / 2)
		if l.take() == 0 {
			t.Error("the file does not continue")
		}
		check.Equal(t, l.Status().State, StateOffline, "status")
	})
}

// IDs are issued without a gap while the database answers late, and while it hangs.
func TestALateDatabase(t *testing.T) {
	for name, hangs := range map[string]bool{"late": false, "hanging": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := withFile(t)
				l := m.started()
				m.registry.set(func(r *registry) {
					r.hangs = hangs
					r.during["claim"] = func() { time.Sleep(claimTimeout) }
					r.during["renew"] = func() { time.Sleep(callTimeout - claimTimeout) }
					if hangs {
						m.claim = errAway
					}
				})
				for began := time.Now(); time.Since(began) < testExpiry/2; time.Sleep(time.Millisecond) {
					if l.take() == 0 {
						t.Fatalf("none after %v", time.Since(began))
					}
				}
			})
		})
	}
}

// A stop stores how far the term went, which is what came before it where nothing was issued, so that the next life
// continues at once. The grace of a file is no longer than what was promised.
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
				expires, promised := reserved, m.registry.stored().Expires
				check.OK(t, errors.Join(l.Stop(t.Context()), l.Stop(t.Context())))
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
				check.Equal(t, next.take(), time.Now().UnixMilli(), "the next life continues at once")
			})
		})
	}
}

// What a stop cannot store is told, and takes stopTimeout at most. A file promises no grace that it does not hold, and
// of a term that the registry has not confirmed, or has denied, the registry is told nothing.
func TestStopThatStoresLess(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	always := context.Background()
	hang := func(m *machine) { m.registry.set(func(r *registry) { r.hangs = true }) }
	for name, c := range map[string]struct {
		spoil func(*machine)
		ctx   context.Context
		sleep time.Duration // before the stop, to a pause or into a call
		took  time.Duration
		told  error
		file  bool // it says how far the term went
	}{
		"between two calls":     {hang, always, time.Second, stopTimeout, context.DeadlineExceeded, true},
		"in a call":             {hang, always, every + time.Second, stopTimeout, context.DeadlineExceeded, true},
		"the context has ended": {hang, ended, time.Second, stopTimeout, context.DeadlineExceeded, true},
		"the file fails":        {func(m *machine) { m.folder.store = errDisk }, always, 0, 0, errDisk, false},
		"lost": {func(m *machine) { m.registry.set(func(r *registry) { r.failing["renew"] = model.ErrLeaseLost }) },
			always, every + time.Millisecond, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := withFile(t)
				l := m.started()
				bound := m.registry.stored().Reserved
				c.spoil(m)
				time.Sleep(c.sleep)
				if issued := l.take(); c.file {
					bound = issued
				}
				began := time.Now()
				check.OK(t, l.Stop(c.ctx))
				check.Equal(t, time.Since(began), c.took, "the stop")
				if text := l.log.String(); strings.Contains(text, "was not given back") != (c.told != nil) ||
					c.told != nil && !strings.Contains(text, c.told.Error()) {
					t.Errorf("logged %s", text)
				}
				if m.folder.lease.Reserved != bound || m.folder.locked || len(m.registry.releases) > 0 {
					t.Errorf("want %d, the file has %+v, locked %t; released %v",
						bound, m.folder.lease, m.folder.locked, m.registry.releases)
				}
			})
		})
	}
}

// The registry has not confirmed the file's term: only the file is written.
func TestStopOffline(t *testing.T) {
	m, l := fromTheFile(t)
	issued, expires := l.gen.LastIssued(), m.folder.lease.Expires
	m.registry.fail(nil)
	check.OK(t, l.Stop(t.Context()))
	if f := m.folder.lease; f.Reserved != issued || f.Expires != expires || len(m.registry.releases) > 0 {
		t.Errorf("issued %d, the file has %+v; released %v", issued, f, m.registry.releases)
	}
}

// looks holds the status and the readiness against a state.
func (l *life) looks(when, state string, workerID int, text string) {
	l.m.Helper()
	s := l.Status()
	if s.Mode != "test" || s.State != state || s.WorkerID != workerID || !strings.Contains(model.Message(s.Err),
		text) ||
		text == "" && s.Err != nil {
		l.m.Errorf("%s: %+v, want %s, worker ID %d, %q", when, s, state, workerID, text)
	}
	err := l.Ready()
	if ok := state != StateWaiting; (err == nil) != ok ||
		!ok && (!errors.Is(err, model.ErrNotReady) || !strings.Contains(err.Error(), text)) {
		l.m.Errorf("%s: ready: %v", when, err)
	}
}

// The status does not say what the generator denies.
func TestStatus(t *testing.T) {
	m := withFile(t)
	l := m.boot()
	l.looks("new", StateWaiting, -1, "")
	check.Has(t, l.Ready().Error(), "not been acquired yet", "readiness")
	m.registry.fail(errAway)
	_ = l.steps()
	l.looks("the registry is unreachable", StateWaiting, -1, "connection refused")

	m.registry.fail(nil)
	m.registry.give(someday + 4000)
	m.clock.set(time.Second)
	l.mustStep()
	l.looks("before its time", StateWaiting, theirs, "3.001s to go")
	m.clock.pass(every)
	l.looks("at the bound", StateWaiting, theirs, "1ms to go")
	m.clock.pass(time.Millisecond)
	l.looks("served", StateServing, theirs, "")
	l.issues("past the bound")
	s := l.Status()
	if file := m.folder.lease; s.After.UnixMilli() != someday+4000 || s.Reserved.UnixMilli() != file.Reserved ||
		s.Trust != testExpiry-margin-every-time.Millisecond ||
		s.ClockOffset != time.Second {
		t.Errorf("%+v, the file has %+v", s, file)
	}

	m.registry.fail(errAway)
	_ = l.steps()
	l.looks("the file continues", StateOffline, theirs, "connection refused")
	m.registry.fail(nil)
	m.registry.lose()
	_ = l.steps()
	l.looks("lost", StateWaiting, -1, model.ErrLeaseLost.Error())

	for what, end := range map[string]func(*hand){
		"trust":       func(h *hand) { h.mono.Add((testTTL - margin).Milliseconds()) },
		"reservation": func(h *hand) { h.wall.Add(Ahead.Milliseconds() + 1) },
	} {
		m, l := fileless(t).serving()
		end(m.clock)
		l.refuses(what, model.ErrNoLease)
		l.looks(what, StateWaiting, theirs, "worker ID 7 was not renewed in time")
	}
	if !at(0).IsZero() || !at(1<<62).IsZero() || at(1).UnixMilli() != 1 {
		t.Error("times that never come are none")
	}
}
