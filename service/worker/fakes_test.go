package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	someday = int64(1_800_000_000_000) // Unix ms
	address = "10.0.0.5:8080"
	theirs  = 7 // the worker ID that the registry gives

	testExpiry = time.Minute
	testTTL    = 10 * time.Second
	testOffset = 5 * time.Second
)

var (
	errAway = &model.StoreError{Store: "database", Op: "ask", Err: errors.New("connection refused")}
	errDisk = errors.New("no space left on device")
)

// hand is three clocks in ms that stand until they are told to continue: the
// registry's, which is the true one, and this machine's two.
type hand struct{ server, wall, mono atomic.Int64 }

func newHand() *hand {
	h := &hand{}
	h.server.Store(someday)
	h.wall.Store(someday)
	return h
}

func (h *hand) now() (int64, time.Duration) {
	return h.wall.Load() * int64(time.Millisecond), time.Duration(h.mono.Load()) * time.Millisecond
}

func (h *hand) pass(d time.Duration) {
	h.suspend(d)
	h.mono.Add(d.Milliseconds())
}

// suspend lets time pass in which the monotonic clock stands.
func (h *hand) suspend(d time.Duration) {
	h.server.Add(d.Milliseconds())
	h.wall.Add(d.Milliseconds())
}

// set makes the wall clock differ from true time.
func (h *hand) set(offset time.Duration) { h.wall.Store(h.server.Load() + offset.Milliseconds()) }

// registry has one worker ID.
type registry struct {
	now func() int64 // Unix ms

	mu        sync.Mutex
	identity  string
	row       model.Lease // what is stored
	keptSince int64
	err       error // of every call
	failing   map[string]error
	hangs     bool              // calls end with their context
	during    map[string]func() // happens while a call is under way
	renewals  []model.Lease
	releases  []model.Lease
}

func newRegistry(now func() int64) *registry {
	return &registry{now: now, identity: "test 1", row: model.Lease{WorkerID: theirs}, failing: map[string]error{},
		during: map[string]func(){}}
}

// set changes the registry.
func (r *registry) set(f func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

func (r *registry) fail(err error) { r.set(func(r *registry) { r.err = err }) }

// stored is what it keeps.
func (r *registry) stored() model.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row
}

// call begins a call and returns with the lock held.
func (r *registry) call(ctx context.Context, op string) error {
	r.mu.Lock()
	if r.hangs {
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return &model.StoreError{Store: "database", Op: op, Err: ctx.Err()}
	}
	if f := r.during[op]; f != nil {
		f()
	}
	if r.err != nil {
		return r.err
	}
	return r.failing[op]
}

func (r *registry) Acquire(ctx context.Context, owner model.Owner) (model.Lease, error) {
	defer r.mu.Unlock()
	if err := r.call(ctx, "acquire"); err != nil {
		return model.Lease{}, err
	}
	same := r.row.Owner.Token == owner.Token || owner.Identity != "" && r.row.Owner.Identity == owner.Identity
	if !same {
		r.row.Reserved = r.row.Expires
	}
	r.row.Owner = owner
	return r.answer(model.Lease{WorkerID: r.row.WorkerID, Owner: owner, Registry: r.identity,
		After: r.row.Reserved}), nil
}

func (r *registry) answer(lease model.Lease) model.Lease {
	lease.ServerTime, lease.KeptSince = r.now(), r.keptSince
	return lease
}

func (r *registry) Renew(ctx context.Context, lease model.Lease) (model.Lease, error) {
	defer r.mu.Unlock()
	if err := r.call(ctx, "renew"); err != nil {
		return model.Lease{}, err
	}
	if r.row.Owner != lease.Owner || r.row.WorkerID != lease.WorkerID {
		return model.Lease{}, model.ErrLeaseLost
	}
	r.renewals = append(r.renewals, lease)
	r.row.Reserved, r.row.Expires = max(r.row.Reserved, lease.Reserved), max(r.row.Expires, lease.Expires)
	lease.Reserved, lease.Expires = r.row.Reserved, r.row.Expires
	return r.answer(lease), nil
}

func (r *registry) Release(ctx context.Context, lease model.Lease) error {
	defer r.mu.Unlock()
	if err := r.call(ctx, "release"); err != nil {
		return err
	}
	if r.row.Owner != lease.Owner {
		return model.ErrLeaseLost
	}
	r.releases = append(r.releases, lease)
	r.row.Owner.Token, r.row.Reserved, r.row.Expires = "", lease.Reserved, lease.Expires
	return nil
}

// lose ends the lease as a registry does that gave it up: nobody else had it.
func (r *registry) lose() { r.set(func(r *registry) { r.row.Owner.Token = "" }) }

// give ends the lease and lets somebody else have it who reserved up to Unix ms.
func (r *registry) give(reserved int64) {
	r.set(func(r *registry) {
		r.row.Owner = model.Owner{Address: "10.0.0.6:8080", Identity: "another folder", Token: "another"}
		r.row.Reserved, r.row.Expires = reserved, reserved
	})
}

// folder is a data folder; it outlives processes.
type folder struct {
	written bool
	lease   model.Lease
	open    error // of the next open
	store   error // of every Store
	locked  bool
}

func (f *folder) opener(address string) (File, error) {
	if f.open != nil {
		return nil, f.open
	}
	f.locked = true
	return openFolder{f, address}, nil
}

// openFolder is a folder in use at an address.
type openFolder struct {
	*folder
	at string
}

func (f openFolder) Identity() string { return "folder" }

func (f openFolder) Load() (model.Lease, bool) {
	if !f.written {
		return model.Lease{}, false
	}
	l := f.lease
	return model.Lease{
		WorkerID: l.WorkerID, Registry: l.Registry, Owner: model.Owner{Address: f.at, Identity: f.Identity()},
		After: l.Reserved, Reserved: l.Reserved, Expires: l.Expires,
	}, true
}

func (f openFolder) Store(lease model.Lease) error {
	if f.store == nil {
		f.written, f.lease = true, lease
	}
	return f.store
}

func (f openFolder) Close() error {
	f.locked = false
	return nil
}

// machine runs one process after the other.
type machine struct {
	*testing.T
	clock    *hand
	registry *registry
	folder   *folder // nil without a local file
	layout   error   // of the question for the layout
	claim    error   // of each claim
	claims   []model.WorkerClaim
	grant    model.ClaimGrant
	recorded time.Duration // how long ago the layout was
	fresh    bool          // it is not
	lives    int
}

// withFile is a machine whose registry knows a local file; its registry has
// issued IDs before and forgot nothing.
func withFile(t *testing.T) *machine {
	m := fileless(t)
	m.folder = &folder{}
	return m
}

// withAndWithoutFile runs a test on a machine of each kind.
func withAndWithoutFile(t *testing.T, test func(*testing.T, *machine)) {
	t.Helper()
	t.Run("with a file", func(t *testing.T) { test(t, withFile(t)) })
	t.Run("fileless", func(t *testing.T) { test(t, fileless(t)) })
}

func fileless(t *testing.T) *machine {
	h := newHand()
	return &machine{T: t, clock: h, registry: newRegistry(h.server.Load), recorded: 24 * time.Hour,
		grant: model.ClaimGrant{Kept: 48 * time.Hour}}
}

// life is one process. It takes its steps when it is told to, unless it is started.
type life struct {
	*Keeper
	m       *machine
	gen     *idgen.Generator
	reports *check.Reports
	log     *bytes.Buffer
}

func (m *machine) options(l *life, now func() (int64, time.Duration)) Options {
	o := Options{
		Condition: Condition, Mode: "test", Registry: m.registry, Generator: l.gen, Reporter: l.reports, Now: now,
		Expiry: testExpiry, TTL: testTTL, MaxClockOffset: testOffset,
		Layout: func(_ context.Context, record bool) (time.Duration, bool, error) {
			m.fresh = m.fresh && !record
			return m.recorded, !m.fresh && m.layout == nil, m.layout
		},
		Claim: func(_ context.Context, c model.WorkerClaim) (model.ClaimGrant, error) {
			var f func()
			var err error
			m.registry.set(func(r *registry) { f, err = r.during["claim"], m.claim })
			if f != nil {
				f()
			}
			m.claims = append(m.claims, c)
			m.grant.Now = m.clock.server.Load()
			if isAway(err) {
				return model.ClaimGrant{}, err
			}
			return m.grant, err
		},
		Log: slog.New(slog.NewTextHandler(l.log, nil)),
	}
	if m.folder != nil {
		o.OpenFile = m.folder.opener
	}
	return o
}

// boot begins a life at the machine's clock; the one before has crashed.
func (m *machine) boot(change ...func(*Options)) *life {
	m.Helper()
	l := m.process(m.clock.now, change...)
	m.lives++
	l.owner = model.Owner{Address: address, Token: string(rune('a' + m.lives))}
	return l
}

// serving boots a life and lets it take its first step, which must succeed.
func (m *machine) serving() (*machine, *life) {
	m.Helper()
	l := m.boot()
	l.mustStep()
	return m, l
}

// process is a life with an owner to come.
func (m *machine) process(now func() (int64, time.Duration), change ...func(*Options)) *life {
	m.Helper()
	l := &life{m: m, reports: &check.Reports{}, log: &bytes.Buffer{}}
	var err error
	if l.gen, err = idgen.New(idgen.Snowflakes(model.SnowflakeLayout(0, 10, 12), now)); err != nil {
		m.Fatal(err)
	}
	o := m.options(l, now)
	for _, f := range change {
		f(&o)
	}
	l.Keeper = New(o)
	return l
}

// steps does what is due and returns what was reported.
func (l *life) steps() error {
	l.m.Helper()
	pause := l.step(l.m.Context())
	err := l.reports.Of(Condition)
	if err == nil && pause != every || err != nil && (pause < retry/2 || pause > retry) {
		l.m.Errorf("the next step comes after %v: %v", pause, err)
	}
	return err
}

// mustStep does what is due without an error.
func (l *life) mustStep() {
	l.m.Helper()
	check.Must(l.m, l.steps())
}

// goesOn lets time pass in steps, with whatever outcome.
func (l *life) goesOn(d time.Duration) {
	for end := l.m.clock.mono.Load() + d.Milliseconds(); l.m.clock.mono.Load() < end; _ = l.steps() {
		l.m.clock.pass(every)
	}
}

// issues takes an ID, whose time must be the clock's.
func (l *life) issues(when string) {
	l.m.Helper()
	id, got, wait, err := l.gen.Take(1)
	if ms := id >> 22; got != 1 || ms != l.m.clock.wall.Load() || id>>12&1023 != theirs {
		l.m.Errorf("%s: no ID of the present: %d, wait %v, %v", when, id, wait, err)
	}
}

// refuses must get no ID, for the given reason.
func (l *life) refuses(when string, want error) {
	l.m.Helper()
	if id, got, wait, err := l.gen.Take(1); got != 0 || !errors.Is(err, want) {
		l.m.Errorf("%s: %d IDs from %d (%+d ms), wait %v, %v; want %v", when, got, id, id>>22-l.m.clock.wall.Load(),
			wait, err, want)
	}
}

// startsAfter holds the first ID that may be issued against a bound, Unix ms.
func (l *life) startsAfter(bound int64) {
	l.m.Helper()
	back := l.m.clock.wall.Load()
	l.m.clock.wall.Store(bound - 6)
	if _, got, _, err := l.gen.Take(1); got != 0 || !errors.Is(err, model.ErrTooEarly) {
		l.m.Errorf("an ID at %+d ms, before a bound at %+d ms: %v", bound-6-someday, bound-someday, err)
	}
	l.m.clock.wall.Store(bound)
	if _, got, _, _ := l.gen.Take(1); got != 0 {
		l.m.Errorf("an ID at the bound, %+d ms", bound-someday)
	}
	l.m.clock.wall.Store(back)
}
