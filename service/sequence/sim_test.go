package sequence_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/repository/memstore"
	"shardid/scripts/check"
	"shardid/scripts/simtest"
	"shardid/service/background"
	"shardid/service/issuer"
	"shardid/service/sequence"
)

// A world of the simulation has one deployment, or two regions. Each has a database, servers of Redis, of which the
// last is the present one and those before may still answer, and replicas with the real service, which callers ask.
// scripts/mutants has the rules that are left out of the real code to see that a world notices.

func TestSimulation(t *testing.T) {
	simtest.Simulation[string]{
		Worlds: 10_000, Least: map[string]float64{"numbers": 50},
		World: func(t *testing.T, seed uint64, _ string) (did simtest.Tally, err error) {
			synctest.Test(t, func(t *testing.T) { did, err = newWorld(seed).run(t) })
			return did, err
		},
	}.Run(t)
}

const (
	simFaults  = 25
	simLongest = 20 * time.Second // a fault, and what a clock is off by
	spaceRests = 15 * time.Second // as in sqlstore
)

type world struct {
	mu        sync.Mutex // guards all but what is said
	rng       *rand.Rand
	began     time.Time
	suspended bool // machines are suspended; else clocks are set: both together are outside the promise
	shares    []int
	sites     []*site
	replicas  []*replica
	issued    map[string]map[int64]bool // by key
	calm      bool                      // no fault happens any more
	faults    []string
	err       error // the first violation
}

// site is a deployment.
type site struct {
	*table
	region  model.Region
	servers []*server
	copy    stored
	copied  time.Time
	since   time.Time        // when the space began to be there as it is
	told    map[string]int64 // how far each key has come, as its callers know
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 5)), began: time.Now(), suspended: seed%2 == 0,
		issued: map[string]map[int64]bool{}}
	for range w.someFaults() {
		w.shares = append(w.shares, []int{0, 1, 4}[w.rng.IntN(3)])
	}
	bits := uint(w.rng.IntN(2))
	for id := range 1 << bits {
		s := &site{table: newTable(w.newSpace()), region: model.Region{ID: id, Bits: bits}, told: map[string]int64{}}
		s.promote()
		s.save()
		w.sites = append(w.sites, s)
		for range 2 + w.rng.IntN(2)*int(1-bits) {
			w.replicas = append(w.replicas, w.newReplica(s))
		}
	}
	return w
}

func (w *world) newSpace() model.Space {
	return model.Space{Name: "s", Sections: 1 + w.n(3), Step: []int64{10, 200}[w.n(2)]}
}

func (w *world) run(t *testing.T) (simtest.Tally, error) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var callers sync.WaitGroup
	for _, r := range w.replicas {
		r.Start()
		repeat := func(most time.Duration, do func()) {
			callers.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(max(w.upTo(most), r.sleeps()))
					do()
				}
			})
		}
		repeat(500*time.Millisecond, func() { _ = r.ask(ctx, simKeys[w.n(len(simKeys))], w.n(4)) })
		repeat(3*time.Second, func() { // leases are renewed to look for it
			r.Ask(ctx, []*model.SequenceAsk{{Space: "none", Key: "a", Count: 1}})
		})
	}
	for range simFaults {
		time.Sleep(w.upTo(4 * time.Second))
		w.fault()
	}
	end()
	callers.Wait()
	w.heal()
	for _, r := range w.replicas {
		for _, key := range simKeys {
			err := r.ask(t.Context(), key, 1)
			for end := time.Now().Add(2 * simLongest); err != nil && time.Now().Before(end); {
				err = r.ask(t.Context(), key, 1)
				time.Sleep(time.Second)
			}
			if err != nil {
				w.fail("%v after all faults have ended", err)
			}
		}
	}
	for _, r := range w.replicas {
		check.OK(t, r.Stop(context.Background()))
	}
	numbers := 0
	for _, of := range w.issued {
		numbers += len(of)
	}
	if w.err != nil {
		return nil, fmt.Errorf("%w after %s", w.err, strings.Join(w.faults, ", "))
	}
	return simtest.Tally{"numbers": numbers}, nil
}

var simKeys = []string{"a", "b"}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) isCalm() (calm bool) {
	w.set(func() { calm = w.calm })
	return calm
}

// n is a chance of n; upTo is a time.
func (w *world) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) upTo(d time.Duration) time.Duration { return 1 + time.Duration(w.n(int(d))) }

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
		w.faults = append(w.faults, fmt.Sprint(time.Since(w.began), " it is noticed"))
	}
}

// fault does one thing that the promise covers. Of those that there are, a world leaves some out and has others often.
func (w *world) fault() {
	r, all := w.replicas[w.n(len(w.replicas))], w.someFaults()
	sum := 0
	for _, share := range w.shares {
		sum += share
	}
	at := w.n(sum + 1)
	for i, share := range w.shares {
		if at -= share; at < 0 {
			w.set(func() {
				w.faults = append(w.faults, fmt.Sprint(time.Since(w.began), " ", r.name, ": ", all[i].name))
			})
			all[i].do(r)
			return
		}
	}
}

type fault struct {
	name string
	do   func(*replica)
}

func (w *world) someFaults() []fault {
	return []fault{
		{"Redis is emptied", func(r *replica) { r.present().empty() }},
		{"Redis loses a section", func(r *replica) { r.present().forget(w.n(3)) }},
		{"Redis fails over", func(r *replica) { r.promote(); w.split(r) }},
		{"replica follows", func(r *replica) { r.uses(r.present()) }},
		{"database is copied", func(r *replica) { r.save() }},
		{"database fails over", func(r *replica) { r.failOver(w.n(2) == 0) }},
		{"replica reaches no database", func(r *replica) { r.cutOff(w.upTo(simLongest)) }},
		{"space is made anew", w.remakeSpace},
		{"suspension, or the clock is set", func(r *replica) { w.disturbClock(r, w.upTo(simLongest)) }},
	}
}

// remakeSpace deletes the space, and soon adds it again with other sections, perhaps. A replica may hear of neither.
func (w *world) remakeSpace(r *replica) {
	if w.suspended {
		r.suspend(spaceRests + w.upTo(simLongest/2))
	} else {
		r.cutOff(2 * spaceRests)
	}
	r.deleteSpace()
	go func() {
		time.Sleep(spaceRests + w.upTo(simLongest/4))
		r.addSpace(w.newSpace())
	}()
}

// split leaves a replica with the server of Redis that was replaced, perhaps in further trouble. Others follow, mostly.
// A copy of the database from before may take over later.
func (w *world) split(off *replica) {
	if d := simLongest - w.upTo(simLongest/4); w.n(4) > 0 {
		off.cutOff(d)
		w.disturbClock(off, d)
	}
	if w.n(4) == 0 {
		off.save()
		go func() {
			time.Sleep(spaceRests - w.upTo(spaceRests/4))
			off.failOver(w.n(2) == 0)
		}()
	}
	for _, r := range w.replicas {
		if r != off && r.site == off.site && w.n(4) > 0 {
			r.uses(r.present())
		}
	}
}

func (w *world) disturbClock(r *replica, d time.Duration) {
	if w.suspended {
		r.suspend(d)
		return
	}
	r.setClock([]time.Duration{-d, -d, -d, d}[w.n(4)])
}

func (w *world) heal() {
	w.set(func() { w.calm = true })
	for _, r := range w.replicas {
		r.cutOff(0)
		r.uses(r.present())
	}
	time.Sleep(spaceRests + simLongest)
	for _, s := range w.sites {
		s.addSpace(w.newSpace()) // which a failover may have undone
	}
}

func (s *site) present() (now *server) {
	s.change(func() { now = s.servers[len(s.servers)-1] })
	return now
}

func (s *site) promote() {
	s.change(func() {
		s.servers = append(s.servers, &server{name: fmt.Sprint("server", len(s.servers)), sections: sections{}})
	})
}

func (s *stored) clone() stored {
	return stored{maps.Clone(s.rows), maps.Clone(s.spaces), maps.Clone(s.numbers), s.fresh, s.deleted}
}

// save takes a copy of the database.
func (s *site) save() {
	s.change(func() { s.copy, s.copied = s.clone(), time.Now() })
}

// failOver lets the copy take over, if that is not too old, or one that lacks nothing. In either case what it lacks of
// the numbers is known, by a witness or as a doubt.
func (s *site) failOver(doubts bool) {
	s.change(func() {
		if time.Since(s.copied) < spaceRests {
			s.stored = s.copy.clone()
		}
		s.changes, s.changed, s.doubts = s.changes+1, time.Now(), doubts
		s.since = s.changed
	})
}

// deleteSpace also ends the leases of lives that have its sections.
func (s *site) deleteSpace() {
	s.change(func() {
		if len(s.spaces) == 0 {
			return
		}
		ends := map[string]bool{}
		for _, row := range s.rows {
			ends[model.ServerOf(row.Life)] = true
		}
		for server := range ends {
			s.numbers[server] += 1000
		}
		s.spaces, s.deleted, s.rows = map[string]model.Space{}, time.Now(), map[model.SectionKey]sectionRow{}
	})
}

// addSpace adds the space again above what it had issued, once no replica can have it any more.
func (s *site) addSpace(space model.Space) {
	s.change(func() {
		if len(s.spaces) > 0 || time.Since(s.deleted) < spaceRests {
			return
		}
		s.spaces, s.fresh = map[string]model.Space{space.Name: space}, sectionRow{change: s.changes}
		s.since = time.Now()
		for _, last := range s.top {
			s.fresh.Last = max(s.fresh.Last, last)
		}
		for section := range space.Sections {
			s.top[model.SectionKey{Space: space.Name, Section: section}] = s.fresh.Last
		}
		if s.changes > 0 && time.Since(s.changed) < spaceRests {
			s.fresh.Life = model.UnknownLife
		}
	})
}

// server is a life of a Redis server. Each of its sections has a life of its own.
type server struct {
	name string
	mu   sync.Mutex
	sections
}

type sections map[model.SectionKey]*memstore.Sequences

func (s *server) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sections)
}

func (s *server) forget(section int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sections, model.SectionKey{Space: "s", Section: section})
}

func (s *server) section(key model.SectionKey) *memstore.Sequences {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sections[key] == nil {
		s.sections[key] = memstore.NewSequences()
	}
	return s.sections[key]
}

func (s *server) state(key model.SectionKey) model.SectionState {
	state := s.section(key).State(context.Background(), []model.SectionKey{key})[0]
	state.Server, state.Life = s.name, s.name+"-"+state.Life
	return state
}

func (s *server) next(ask model.SectionAsk) model.SectionAnswer {
	of := s.section(ask.Key)
	if ask.Server == s.name {
		ask.Server, _ = of.Confirm(context.Background(), ask.Key)
	}
	return of.Next(context.Background(), []model.SectionAsk{ask})[0]
}

func (s *server) push(push model.SectionPush) error {
	push.Life = strings.TrimPrefix(push.Life, s.name+"-")
	return s.section(push.Key).Push(context.Background(), []model.SectionPush{push})[0]
}

// replica is a process with the real service, on a machine of its own. It is the service's stores, and its clock.
type replica struct {
	*sequence.Service
	*site
	w              *world
	name           string
	issuer         issuer.Issuer
	mu             sync.Mutex // guards what follows
	server         *server    // that its connections lead to
	offset         time.Duration
	slept          time.Duration // for how long its monotonic clock stood
	until          time.Time     // when it is awake again
	cut            time.Time     // it reaches no database before
	found, missing time.Duration // when the last renewals began that found the space, and that found none
	gone           time.Time     // when it last asked the database and there was none
}

func (w *world) newReplica(s *site) *replica {
	r := &replica{site: s, w: w, name: fmt.Sprint("replica", len(w.replicas)), server: s.present()}
	r.Service = sequence.New(sequence.Options{Store: r, Allocator: r, Reporter: &check.Reports{},
		Log: slog.New(slog.DiscardHandler), Timeout: time.Second + w.upTo(20*time.Second),
		Prepare: func(context.Context) error { return nil }, Now: r.now})
	r.issuer = issuer.Issuer{Sequence: r, Region: s.region}
	return r
}

func (r *replica) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *replica) uses(s *server)           { r.set(func() { r.server = s }) }
func (r *replica) cutOff(d time.Duration)   { r.set(func() { r.cut = time.Now().Add(d) }) }
func (r *replica) setClock(d time.Duration) { r.set(func() { r.offset = d }) }
func (r *replica) suspend(d time.Duration) {
	r.set(func() {
		if time.Now().After(r.until) {
			r.until = time.Now().Add(d)
			r.slept += d
		}
	})
}

// sleeps is for how long the machine is suspended yet.
func (r *replica) sleeps() (left time.Duration) {
	r.set(func() { left = time.Until(r.until) })
	return left
}

// now is the time by its clocks. Whoever reads them does so when it is awake again.
func (r *replica) now() (wall int64, mono time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.until) {
		now = r.until
	}
	return now.Add(r.offset).UnixNano(), now.Sub(r.w.began) - r.slept
}

// ask asks as a caller does, and holds the answer against those that came before.
func (r *replica) ask(ctx context.Context, key string, count int) error {
	ask := &model.SequenceAsk{Space: "s", Key: key, Count: int64(count)}
	r.w.mu.Lock()
	before, began := r.told[key], time.Now()
	r.w.mu.Unlock()
	r.issuer.AskSequence(ctx, nil, []*model.SequenceAsk{ask})
	if errors.Is(ask.Err, model.ErrUnknownSpace) {
		r.checkUnknown(began)
	}
	if ask.Err != nil {
		return ask.Err
	}
	first := ask.Last - int64(count)*r.region.Stride() // or the one before
	if first < before {
		r.w.fail("%s gave numbers of %q behind %d, which was known to have come to %d", r.name, key, first, before)
	}
	r.w.mu.Lock()
	r.told[key] = max(r.told[key], ask.Last)
	of := r.w.issued[key]
	if of == nil {
		of = map[int64]bool{}
		r.w.issued[key] = of
	}
	twice := int64(0)
	for n := first; n < ask.Last; {
		n += r.region.Stride()
		if of[n] {
			twice = n
		}
		of[n] = true
	}
	r.w.mu.Unlock()
	if twice > 0 {
		r.w.fail("%s gave number %d of %q again", r.name, twice, key)
	}
	return nil
}

// checkUnknown: a space may be unknown only to a replica that was told so last, or whose answers may be of before.
func (r *replica) checkUnknown(began time.Time) {
	bad := false
	r.change(func() { bad = len(r.spaces) > 0 && began.After(r.since) })
	r.set(func() { bad = bad && r.found > r.missing && began.Sub(r.gone) > simLongest+5*time.Second })
	if bad {
		r.w.fail("%s did not know a space that there was", r.name)
	}
}

// call has a server do something, which takes seconds one time in slow. It may get lost, or arrive late, and its answer
// may get lost.
func call[A any](ctx context.Context, r *replica, slow int, do func() (A, error)) (answer A, err error) {
	fate := r.w.n(100)
	if r.w.isCalm() {
		fate = 100
	}
	if fate < 2 {
		go func() {
			time.Sleep(r.w.upTo(5 * time.Second))
			_, _ = do()
		}()
	}
	if !r.pause(ctx, slow) || fate < 4 {
		return answer, errAway
	}
	got, err := do()
	if !r.pause(ctx, slow) || fate < 6 {
		return answer, errAway
	}
	return got, err
}

// pause lets others run, for seconds one time in slow, and waits until the machine is awake. It says whether ctx
// lasted.
func (r *replica) pause(ctx context.Context, slow int) bool {
	d := r.w.upTo(10 * time.Millisecond)
	if r.w.n(slow) == 0 && !r.w.isCalm() {
		d = r.w.upTo(2500 * time.Millisecond)
	}
	lasts := background.Pause(ctx, d, nil)
	if left := r.sleeps(); left > 0 {
		time.Sleep(left + r.w.upTo(d)) // what is left of the pause
	}
	return lasts
}

// askEach has the server that the replica's connections lead to answer requests, or gives each what failed makes of
// the error.
func askEach[Q, A any](ctx context.Context, r *replica, asked []Q, do func(*server, Q) A, failed func(error) A) []A {
	answers, err := call(ctx, r, 15, func() (answers []A, err error) {
		r.mu.Lock()
		to := r.server
		r.mu.Unlock()
		for _, q := range asked {
			answers = append(answers, do(to, q))
		}
		return answers, nil
	})
	if err != nil {
		return slices.Repeat([]A{failed(err)}, len(asked))
	}
	return answers
}

func (r *replica) State(ctx context.Context, keys []model.SectionKey) []model.SectionState {
	return askEach(ctx, r, keys, (*server).state,
		func(err error) model.SectionState { return model.SectionState{Err: err} })
}

func (r *replica) Next(ctx context.Context, asks []model.SectionAsk) []model.SectionAnswer {
	return askEach(ctx, r, asks, (*server).next,
		func(err error) model.SectionAnswer { return model.SectionAnswer{Err: err} })
}

func (r *replica) Push(ctx context.Context, pushes []model.SectionPush) []error {
	return askEach(ctx, r, pushes, (*server).push, func(err error) error { return err })
}

func (r *replica) Confirm(ctx context.Context, _ model.SectionKey) (string, error) {
	return call(ctx, r, 15, func() (string, error) { return r.present().name, nil })
}

func (r *replica) Majority() bool { return true }
func (r *replica) Place() string  { return "here" }

// askDatabase is call for the database.
func askDatabase[A any](ctx context.Context, r *replica, do func() (A, error)) (A, error) {
	if left := r.sleeps(); left > 0 { // so was what waited for the time of the call
		time.Sleep(left + r.w.upTo(3*time.Second))
	}
	return call(ctx, r, 4, func() (answer A, err error) {
		r.mu.Lock()
		away := time.Now().Before(r.cut)
		r.mu.Unlock()
		r.change(func() {
			if len(r.spaces) == 0 {
				r.set(func() { r.gone = time.Now() })
			}
		})
		if away {
			return answer, errAway
		}
		return do()
	})
}

func (r *replica) AllocateSections(ctx context.Context, reqs []model.SectionRequest, place string,
	sure bool) []model.SectionGrant {
	grants, err := askDatabase(ctx, r, func() ([]model.SectionGrant, error) {
		return r.table.AllocateSections(ctx, reqs, place, sure), nil
	})
	if err != nil {
		return slices.Repeat([]model.SectionGrant{{Err: err}}, len(reqs))
	}
	return grants
}

func (r *replica) RenewFence(ctx context.Context, servers []string, place string) (model.Fence, error) {
	_, began := r.now()
	f, err := askDatabase(ctx, r, func() (model.Fence, error) { return r.table.RenewFence(ctx, servers, place) })
	if err == nil {
		r.set(func() {
			if len(f.Spaces) == 0 {
				r.missing = max(r.missing, began)
			} else {
				r.found = max(r.found, began)
			}
		})
	}
	return f, err
}
