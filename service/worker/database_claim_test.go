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

var errInUse = fmt.Errorf("%w: run `shardid confirm --registry`", model.ErrRegistryInUse)

func (m *machine) lastClaim() model.WorkerClaim { return m.claims[len(m.claims)-1] }

func TestClaimsReachBeyondWhatIsGranted(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		l := m.boot()
		for range 5 {
			l.mustStep()
			c, until := m.lastClaim(), l.lease.Expires
			if c.Token != l.owner.Token || c.Registry != "test 1" || c.WorkerID != theirs ||
				c.Until < until+model.ClaimAhead.Milliseconds()/2 || l.lease.Reserved >= until {
				t.Errorf("claimed %+v, granted up to %+d, %+d ms", c, l.lease.Reserved-someday, until-someday)
			}
			m.clock.pass(every)
		}
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
// starts above all that they may have issued. It has not watched them while the database was unreachable, for which
// nobody could make a claim.
func TestAStartWaitsForAnotherRegistry(t *testing.T) {
	withAndWithoutFile(t, func(t *testing.T, m *machine) {
		l := m.boot()
		const unreachable = 5
		for i := range 20 {
			m.claim = errInUse
			if i == unreachable {
				m.claim = errAway
			}
			err := l.steps()
			if !errors.Is(err, m.claim) || i != unreachable && !strings.Contains(err.Error(), "confirm --registry") {
				t.Fatal(err)
			}
			check.Equal(t, m.lastClaim().Watched, i >= unreachable+1+10, "watched after", i, "s")
			m.clock.pass(retry)
		}
		l.refuses("others may issue", model.ErrNoLease)
		check.Equal(t, len(m.registry.releases), 20, "releases")
		m.claim, m.grant.After = nil, someday+20_000
		l.mustStep()
		l.startsAfter(someday + 20_000)
	})
}

// An instance whose claim has ended, as the database was unreachable, stops when others have
// moved to another registry meanwhile; its file is not gone on with.
func TestAnotherRegistryEndsTheTerm(t *testing.T) {
	m, l := withFile(t).serving()
	l.issues("before")
	m.clock.pass(every)
	m.claim = errInUse
	check.Is(t, l.steps(), model.ErrRegistryInUse)
	l.refuses("others may issue", model.ErrNoLease)
	if f := m.folder.lease; f.Expires > f.Reserved {
		t.Errorf("the file may still continue, up to %+d ms", f.Expires-someday)
	}
}

// A file that continues without its registry keeps its claim, and ends when others have
// moved to another registry since the database forgot it.
func TestAFileKeepsItsClaim(t *testing.T) {
	m, l := withFile(t).serving()
	m.registry.fail(errAway)
	m.clock.pass(every)
	_ = l.steps()
	if c := m.lastClaim(); len(m.claims) != 3 || c.Until <= l.lease.Expires || !c.Watched {
		t.Errorf("%d claims, the last is %+v", len(m.claims), c)
	}
	l = m.boot()
	_ = l.steps()
	if c := m.lastClaim(); c.Token != l.owner.Token || c.Registry != "test 1" || !c.Watched {
		t.Errorf("a life that began with the file claims %+v", c)
	}
	m.claim = errInUse
	check.Is(t, l.steps(), model.ErrRegistryInUse)
	l.refuses("others may issue", model.ErrNoLease)
}

// A life that begins with the file reserves nothing before its claim is made: others may have moved to another registry
// while it was down, and may have issued IDs of later times.
func TestAFileIsClaimedBeforeItIsUsed(t *testing.T) {
	for name, answer := range map[string]func(m *machine){
		"others use another registry":  func(m *machine) { m.claim = errInUse },
		"others used another registry": func(m *machine) { m.grant.After = m.folder.lease.Reserved + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := withFile(t).serving()
			m.registry.fail(errAway)
			m.clock.pass(every)
			reserved := m.folder.lease.Reserved
			answer(m)
			l := m.boot()
			check.Is(t, l.steps(), model.ErrRegistryInUse)
			check.Equal(t, m.folder.lease.Reserved, reserved, "what is reserved")
			l.refuses("others may issue", model.ErrNoLease)
		})
	}
}

func TestTheDatabaseIsAwayWhenAClaimIsDue(t *testing.T) {
	m, l := withFile(t).serving()
	m.claim = errAway
	l.goesOn(2 * time.Minute)
	l.issues("it continues")
	check.Equal(t, strings.Count(l.log.String(), "the database is unreachable"), 1, "lines about it in", l.log)
	if c := m.lastClaim(); !c.Watched {
		t.Error("a holder does not watch others")
	}

	l = m.boot() // a crash
	m.clock.pass(pastIt)
	l.mustStep()
	l.issues("the claim of the life before stands")

	m.registry.identity = "test 2"
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

// A database that went back in time may have forgotten a claim.
func TestForgottenClaimsAreDoubted(t *testing.T) {
	m := fileless(t)
	m.grant.Kept = time.Second
	_, l := m.serving()
	l.startsAfter(someday - 1000 + Ahead.Milliseconds() + testOffset.Milliseconds())
}

// A claim that ended while others could claim stands for nothing, once the database is unreachable: they may have moved
// to another registry since.
func TestAnEndedClaimIsNotGoneOnWith(t *testing.T) {
	for name, end := range map[string]func(*machine, *life){
		"cut off from the registry, while others claim": func(m *machine, l *life) {
			m.registry.fail(errAway)
			l.goesOn(testExpiry + model.ClaimAhead + 2*every)
			m.registry.fail(nil)
		},
		"asleep, while the database came back and went": func(m *machine, l *life) {
			m.claim = errAway
			l.goesOn(every)
			m.clock.suspend(testExpiry + model.ClaimAhead)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := withFile(t).serving()
			end(m, l)
			m.claim = errAway
			check.Is(t, l.steps(), model.ErrRegistryInUse)
			l.refuses("others may issue", model.ErrNoLease)
		})
	}
}

// A claim that was made anew, as it had ended, shows what others did meanwhile.
func TestWhatOthersDidMeanwhileEndsTheTerm(t *testing.T) {
	m, l := fileless(t).serving()
	l.issues("before")
	m.clock.pass(every)
	m.grant.After = someday + 1000
	check.Is(t, l.steps(), model.ErrLeaseLost)
	l.refuses("before it is taken anew", model.ErrNoLease)
	m.clock.pass(retry)
	l.mustStep()
	l.issues("above what others did")
}

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
