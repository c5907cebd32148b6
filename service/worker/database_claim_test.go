package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

var errInUse = fmt.Errorf("%w: run `shardid confirm --registry`", model.ErrRegistryInUse)

func (m *machine) lastClaim() model.WorkerClaim { return m.claims[len(m.claims)-1] }

func TestClaimsReachBeyondWhatIsGranted(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		l := m.boot()
		for range 5 {
			l.mustStep()
			c, until := m.lastClaim(), l.lease.Expires
			if c.Token != l.owner.Token || c.Registry != "test 1" || c.WorkerID != theirs ||
				c.Until < until+model.ClaimAhead.Milliseconds() || l.lease.Reserved >= until {
				t.Errorf("claimed %+v, granted up to %+d, %+d ms", c, l.lease.Reserved-someday, until-someday)
			}
			m.clock.pass(every)
		}
		check.Equal(t, m.claims[0].First, true, "the first is one")
		l.issues("claimed")
		check.Must(t, l.release(t.Context()))
		bound := l.gen.LastIssued()
		if m.folder != nil {
			bound = m.folder.lease.Expires
		}
		check.Equal(t, m.lastClaim().Until, bound+1, "the end of the claim")
	})
}

// A start beside instances of another registry waits, and says for whom; then it
// starts above all that they may have issued.
func TestAStartWaitsForAnotherRegistry(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		l := m.boot()
		m.claim = errInUse
		for range 20 {
			err := l.steps()
			check.Is(t, err, model.ErrRegistryInUse)
			check.Has(t, fmt.Sprint(err), "confirm --registry")
			check.Equal(t, m.lastClaim().First, true, "first")
			m.clock.pass(retry)
		}
		l.refuses("others may issue", model.ErrNoLease)
		check.Equal(t, len(m.registry.releases), 20, "releases")
		m.claim, m.grant.After = nil, someday+20_000
		l.mustStep()
		l.startsAfter(someday + 20_000)
	})
}

// An instance whose claim was closed, as others have moved to another registry, stops, and its file is not gone on
// with. It begins above what they may have issued.
func TestAnotherRegistryEndsTheTerm(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		_, l := m.serving()
		l.issues("before")
		m.clock.pass(every)
		m.claim = model.ErrLeaseLost
		check.Is(t, l.steps(), model.ErrLeaseLost)
		l.refuses("others may issue", model.ErrNoLease)
		if m.folder != nil && m.folder.lease.Expires > m.folder.lease.Reserved {
			t.Errorf("the file may still continue, up to %+d ms", m.folder.lease.Expires-someday)
		}
		m.clock.pass(retry)
		m.claim, m.grant.After = nil, someday+20_000
		l.mustStep()
		check.Equal(t, m.claims[len(m.claims)-2].First, true, "a first claim")
		l.startsAfter(someday + 20_000)
	})
}

// A file that continues without its registry keeps its claim, and ends when others have
// moved to another registry since the database forgot it.
func TestAFileKeepsItsClaim(t *testing.T) {
	m, l := withFile(t).serving()
	m.registry.fail(errAway)
	m.clock.pass(every)
	_ = l.steps()
	if c := m.lastClaim(); len(m.claims) != 3 || c.Until <= l.lease.Expires || c.First {
		t.Errorf("%d claims, the last is %+v", len(m.claims), c)
	}
	l = m.boot()
	_ = l.steps()
	if c := m.lastClaim(); c.Token != l.owner.Token || c.Registry != "test 1" || !c.First {
		t.Errorf("a life that began with the file claims %+v", c)
	}
	m.claim = errInUse
	check.Is(t, l.steps(), model.ErrRegistryInUse)
	l.refuses("others may issue", model.ErrNoLease)
}

// A life that begins with the file reserves nothing before its claim is made: others may have moved to another registry
// while it was down, and may have issued IDs of later times.
func TestAFileIsClaimedBeforeItIsUsed(t *testing.T) {
	for name, answer := range map[string]func(*machine, *life){
		"others use another registry":  func(m *machine, _ *life) { m.claim = errInUse },
		"others used another registry": func(m *machine, _ *life) { m.grant.After = m.folder.lease.Reserved + 1 },
		"others did, and the file continued without the database": func(m *machine, l *life) {
			m.claim = errAway
			l.goesOn(every)
			m.claim, m.grant.After = nil, l.lease.After+1
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := withFile(t).serving()
			m.registry.fail(errAway)
			m.clock.pass(every)
			l := m.boot()
			answer(m, l)
			reserved := m.folder.lease.Reserved
			check.Is(t, l.steps(), model.ErrRegistryInUse)
			check.Equal(t, m.folder.lease.Reserved, reserved, "what is reserved")
			l.refuses("others may issue", model.ErrNoLease)
		})
	}
}

// While the database is unreachable an instance issues as far as the claim that is stored, and its file lets a later
// life issue no further.
func TestTheDatabaseIsAwayWhenAClaimIsDue(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		_, l := m.serving()
		end := m.lastClaim().Until - model.ClaimAhead.Milliseconds()
		m.claim = errAway
		for m.clock.wall.Load() < end {
			l.issues("it continues")
			if f := m.folder; f != nil && f.lease.Expires > end {
				t.Fatalf("the file may continue up to %+d ms", f.lease.Expires-end)
			}
			m.clock.pass(time.Second)
			err := l.steps()
			if near := m.clock.wall.Load()+Ahead.Milliseconds() >= end; near != (err != nil) {
				t.Fatalf("%+d ms before the end of its claim: %v", end-m.clock.wall.Load(), err)
			}
		}
		l.refuses("its claim has ended", model.ErrNoLease)
		l.looks("its claim has ended", StateWaiting, theirs, "connection refused")
		m.claim = nil
		l.mustStep()
		l.issues("the database is back")
	})
}

// At a start without the database the claim of the life before stands, for its registry, and as far as it goes.
func TestTheClaimOfTheLifeBefore(t *testing.T) {
	m, _ := withFile(t).serving()
	end := m.folder.lease.Expires
	m.claim = errAway
	l := m.boot()
	m.clock.pass(pastIt)
	l.mustStep()
	l.issues("it stands")
	l.goesOn(time.Duration(end-m.clock.wall.Load()) * time.Millisecond)
	if l.lease.Reserved >= end {
		t.Errorf("reserved %+d ms beyond the claim", l.lease.Reserved-end)
	}

	m, _ = withFile(t).serving()
	m.claim, m.registry.identity = errAway, "test 2"
	l = m.boot()
	check.Is(t, l.steps(), errAway, "on another registry")
	if l.held && !l.offline {
		t.Error("nobody knows who uses the other registry")
	}

	m = fileless(t)
	m.claim = errAway
	l = m.boot()
	check.Is(t, l.steps(), errAway, "without a file")
	l.refuses("nobody knows who uses another registry", model.ErrNoLease)
}

// A registry without a clock goes by the database's, and remembers what the file does: without one, an earlier life may
// have issued what its clock let it reserve.
func TestARegistryWithoutAClock(t *testing.T) {
	boot := func(t *testing.T, m *machine) *life {
		t.Helper()
		return m.boot(func(o *Options) { o.Registry = clockless{m.registry} })
	}
	m := withFile(t)
	l := boot(t, m)
	l.mustStep()
	l.startsAfter(someday + Ahead.Milliseconds() + testOffset.Milliseconds())
	reserved := m.folder.lease.Reserved
	l = boot(t, m)
	l.mustStep()
	l.startsAfter(reserved)
	m.clock.set(-2 * testOffset)
	check.Is(t, l.steps(), ErrClockOff, "renewed")
	l = boot(t, m)
	check.Is(t, l.steps(), ErrClockOff, "started")
	l.refuses("a clock that is off", model.ErrNoLease)
}

// clockless is a registry that knows no time and keeps nothing.
type clockless struct{ *registry }

func (r clockless) Acquire(_ context.Context, o model.Owner) (model.Lease, error) {
	return model.Lease{WorkerID: theirs, Owner: o, Registry: r.identity}, nil
}
func (clockless) Renew(_ context.Context, l model.Lease) (model.Lease, error) {
	l.ServerTime = 0
	return l, nil
}
func (clockless) Release(context.Context, model.Lease) error { return nil }

// The file of another registry does not vouch for what this one has forgotten.
func TestTheFileVouchesForItsRegistryOnly(t *testing.T) {
	for _, identity := range []string{"test 1", "test 2"} {
		m, _ := withFile(t).serving()
		reserved := m.folder.lease.Reserved
		m.registry.set(func(r *registry) { r.identity, r.keptSince = identity, someday })
		_, l := m.serving()
		if identity == "test 1" {
			l.startsAfter(reserved)
			continue
		}
		m.clock.wall.Store(reserved + 1)
		l.refuses("others may have it", model.ErrTooEarly)
	}
}
