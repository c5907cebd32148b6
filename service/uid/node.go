package uid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shardid/client/idgen"
	"shardid/model"
	"shardid/service/background"
)

const (
	// callTimeout bounds one call to the database.
	callTimeout = 3 * time.Second
	// minRetry and maxRetry bound the pause between two tries of a call, so that
	// serving begins soon after the database is there.
	minRetry = 50 * time.Millisecond
	maxRetry = 500 * time.Millisecond
	// keepEvery is how often the mark is looked at.
	keepEvery = time.Second
	// markEvery is the longest time between two marks: a row that vanished, because
	// the database went back in time, is noticed so soon.
	markEvery = time.Minute
	// hostBytes is the width of HOST_NAME in Baidu's table.
	hostBytes = 64
)

// Start lets the first call of Next get a node. A second call does nothing.
func (s *Service) Start() { s.started.Store(true) }

// Stop ends all background work and fails all callers that still wait. What is left in
// the ring is a gap. It may be called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error { return s.background.Stop(ctx, nil) }

// run holds one node after the other until Stop.
func (s *Service) run() {
	for s.background.Context().Err() == nil {
		if g := s.register(); g != nil {
			s.hold(g)
		}
	}
}

// register tries until it gets a node; nil means that the service stops. A start
// keeps its token, and with it its mark, over tries whose answer is not known.
func (s *Service) register() *grant {
	start := s.newStart()
	for retry := minRetry; ; retry = min(2*retry, maxRetry) {
		node, err := s.tryRegister(start)
		s.opts.Reporter.Report(ConditionNode, err)
		if err == nil {
			s.opts.Reporter.Report(ConditionMark, nil) // the node has one
			return newGrant(s.opts.Layout, start, node, s.opts.clock)
		}
		s.reason.Store(&err)
		s.markOpened() // who waits for the first node hears why there is none
		if errors.Is(err, model.ErrNoWorkerID) {
			start = s.newStart() // marks of others may have passed by now
		}
		if !s.background.Sleep(retry) {
			return nil
		}
	}
}

func (s *Service) newStart() model.NodeStart {
	now, place := s.opts.Now(), s.opts.Place
	_, workers := s.opts.Region.Workers(s.opts.Layout.WorkerBits)
	return model.NodeStart{
		Host: place.Host[:min(len(place.Host), hostBytes)], Port: place.port(now), Type: place.Type,
		Token: rand.Text(), Workers: workers,
		NowSecond: now.Unix(), UsedUntil: min(now.Unix()+2*markHour, s.opts.Layout.MaxSecond()),
	}
}

func (s *Service) tryRegister(start model.NodeStart) (node model.Node, err error) {
	ctx, cancel := context.WithTimeout(s.background.Context(), callTimeout)
	defer cancel()
	err = s.guard("register a node", func() (err error) {
		if err = s.opts.RecordLayout(ctx); err != nil {
			return err
		}
		node, err = s.opts.Nodes.RegisterNode(ctx, start)
		return err
	})
	if err == nil && (node.WorkerID < 0 || node.WorkerID >= start.Workers) {
		return model.Node{}, fmt.Errorf("%w: node %d has worker ID %d, the layout holds 0…%d", model.ErrNoWorkerID, node.ID, node.WorkerID, start.Workers-1)
	}
	from, _ := s.opts.Region.Workers(s.opts.Layout.WorkerBits)
	node.WorkerID += from
	return node, err
}

// hold serves with a node until it is lost or the service stops. Then the ring is
// dropped, after the last put.
func (s *Service) hold(g *grant) {
	ctx, cancel := context.WithCancel(s.background.Context())
	defer cancel()
	k := newKeeper(s, g)
	_ = s.guard("keep a node", k.step) // where the mark has to be raised for the first IDs; run tries again
	// Both before the filler, whose first IDs let the first callers in.
	s.grant.Store(g)
	s.stats.nodes.Add(1)
	var filler sync.WaitGroup
	if s.ring != nil {
		filler.Go(func() { s.fillLoop(ctx, g) })
	} else {
		s.markOpened()
	}
	s.opts.Log.Info("UID mode has a worker ID", "mode", s.opts.Mode, "worker_id", g.node.WorkerID, "node", g.node.ID, "recycled", g.node.Recycled)
	if lost := k.run(ctx); lost != nil {
		s.reason.Store(&lost)
		s.opts.Log.Warn("UID node lost, getting another", "worker_id", g.node.WorkerID, "node", g.node.ID, "error", lost)
	}
	s.grant.Store(nil)
	g.byClock.End(s.noGrant())
	cancel()
	filler.Wait()
	s.drop()
}

// drop gives up what is left in the ring.
func (s *Service) drop() {
	if s.ring == nil {
		return
	}
	if n := s.ring.Clear(); n > 0 {
		s.opts.Log.Info("UIDs in the ring were given up; they are gaps", "ids", n)
	}
}

// keeper keeps one grant's mark ahead. Not safe for concurrent use.
type keeper struct {
	svc  *Service
	g    *grant
	at   time.Time // when the mark was raised last
	last int64     // the grant's last then; 0 before its first
}

func newKeeper(s *Service, g *grant) *keeper {
	return &keeper{svc: s, g: g, at: s.opts.Now(), last: g.last.Load()}
}

// run returns when ctx ends, with nil, or when the node is lost, with model.ErrLeaseLost.
func (k *keeper) run(ctx context.Context) error {
	retry := minRetry
	for ctx.Err() == nil {
		switch err := k.svc.guard("keep a node", k.step); {
		case errors.Is(err, model.ErrLeaseLost):
			return err
		case err != nil:
			background.Pause(ctx, retry, nil)
			retry = min(2*retry, maxRetry)
		default:
			retry = minRetry
			background.Pause(ctx, keepEvery, k.g.due)
		}
	}
	return nil
}

// step raises the mark if that is due.
func (k *keeper) step() error {
	now := k.svc.opts.Now()
	position := k.g.position(now.Unix())
	k.svc.life.check(k.svc.opts.Log, k.g.layout, position)
	if since := now.Sub(k.at); since >= 0 && since < markEvery && !k.g.halfUsed(position) {
		return nil
	}
	return k.raise(now, position)
}

// raise raises the mark to what the rate of use calls for: how many seconds of the IDs'
// time were used in a second of the clock's, where that is not one. Only when the
// database has confirmed it may it be used.
func (k *keeper) raise(now time.Time, position int64) error {
	last := k.g.last.Load()
	if k.last == 0 { // before the first second of the ring, and in default mode
		k.last = last
	} else {
		elapsed := max(1, now.Sub(k.at).Seconds())
		k.g.rate.Store(max(1, int64(float64(last-k.last)/elapsed)))
	}
	target := k.g.target(position)
	ctx, cancel := context.WithTimeout(k.svc.background.Context(), callTimeout)
	defer cancel()
	err := k.svc.opts.Nodes.MarkNode(ctx, k.g.node, target)
	if k.svc.background.Context().Err() != nil {
		return err
	}
	k.svc.opts.Reporter.Report(ConditionMark, err)
	if err != nil {
		k.g.markErr.Store(&err)
		return err
	}
	k.at, k.last = now, k.g.last.Load()
	k.g.markErr.Store(nil)
	k.g.lead.Store(target - position)
	k.g.mark.Store(target)
	k.g.byClock.Extend(target, math.MaxInt64)
	poke(k.g.raised)
	return nil
}

// guard turns a panic of f into an error: the caller tries again.
func (s *Service) guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("panic in the UID service", "what", what, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return f()
}

// How far ahead the mark is kept, in seconds of the IDs' time: enough for an hour
// by the clock, and for ten minutes at the rate at which IDs were used last. Twice
// that is asked for when half is used, so that it is never less while the database
// answers.
const (
	markHour = 3600
	markRate = 600
)

// grant is what one node may issue. Safe for concurrent use.
type grant struct {
	layout model.UIDLayout
	node   model.Node
	after  int64 // IDs carry a later second than this

	mark atomic.Int64 // IDs carry at most this second; it is durable
	lead atomic.Int64 // of the mark, in seconds, when it was raised last
	rate atomic.Int64 // seconds of the IDs' time used in a second, at least 1

	// last is, in cached mode, the last second put into the ring, 0 before the
	// first. Only the filler writes it.
	last atomic.Int64
	// byClock makes the IDs of default mode; in cached mode it only is there.
	byClock *idgen.Generator

	fillErr atomic.Pointer[error] // why the ring cannot be filled; nil when it can
	markErr atomic.Pointer[error] // how the last attempt to raise the mark failed; nil when it went well
	raised  chan struct{}         // of one value: the mark was raised
	due     chan struct{}         // of one value: the mark is to be raised
}

// newGrant is for a node that was registered by start.
func newGrant(layout model.UIDLayout, start model.NodeStart, node model.Node, clock idgen.Clock) *grant {
	g := &grant{layout: layout, node: node, after: node.AfterSecond,
		raised: make(chan struct{}, 1), due: make(chan struct{}, 1)}
	if node.Recycled { // its mark was below the clock of the start
		g.after = max(g.after, start.NowSecond-1)
	}
	g.mark.Store(start.UsedUntil)
	g.lead.Store(2 * markHour)
	g.rate.Store(1)
	g.byClock = newByClock(layout, clock)
	g.byClock.Begin(int(node.WorkerID), max(g.after, layout.Epoch.Unix()))
	g.byClock.Extend(start.UsedUntil, math.MaxInt64)
	return g
}

// second says whether IDs of a Unix second may be issued. Errors:
// model.ErrTimeExhausted, and ErrNoLease when the mark is used up.
func (g *grant) second(second int64) (int64, error) {
	if err := g.layout.CheckSecond(second); err != nil {
		return 0, err
	}
	if g.halfUsed(second) {
		poke(g.due)
	}
	if mark := g.mark.Load(); second > mark {
		if err := g.markErr.Load(); err != nil {
			return 0, fmt.Errorf("%w: the database is away and what it granted is used up: second %d is beyond the mark %d: %w", model.ErrNoLease, second, mark, *err)
		}
		return 0, fmt.Errorf("%w: second %d is beyond the mark %d, which is being raised", model.ErrNoLease, second, mark)
	}
	return second, nil
}

// position is the second that the mark must stay ahead of: the last one used, and
// the clock's where that comes next.
func (g *grant) position(now int64) int64 {
	if last := g.last.Load(); last > 0 {
		return last
	}
	return max(g.byClock.LastIssued(), g.after, now)
}

// target is how far to raise the mark from a position.
func (g *grant) target(position int64) int64 {
	lead := max(markHour, markRate*g.rate.Load())
	return max(g.mark.Load(), min(position+2*lead, g.layout.MaxSecond()))
}

// halfUsed says whether the mark is due to be raised.
func (g *grant) halfUsed(position int64) bool {
	mark := g.mark.Load()
	return mark-position < g.lead.Load()/2 && mark < g.layout.MaxSecond()
}

// poke puts the value into a channel of one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// portRandom bounds the random part of a machine's PORT: 0…99999, Baidu's
// DisposableWorkerIdAssigner.
const portRandom = 100_000

// Place is what a node's row says about where it runs.
type Place struct {
	Host string
	Port string // empty: each start makes up its own, so that rows differ
	Type int    // model.NodeContainer or model.NodeActual
}

// FindPlace says whether the process runs in a container. JPAAS_HOST with
// JPAAS_HTTP_PORT or JPAAS_HOST_PORT_8080 say so and give the row's host and port,
// as for Baidu's DockerUtils; then one without the other is model.ErrInvalidArgument.
// So do the usual signs: KUBERNETES_SERVICE_HOST, and the files that Docker and
// Podman leave. lookup is os.LookupEnv, exists says whether a file is there, host is
// what the machine or the container calls itself.
func FindPlace(host string, lookup func(string) (string, bool), exists func(string) bool) (Place, error) {
	env := func(name string) string { value, _ := lookup(name); return value }
	jpaas, port := env("JPAAS_HOST"), env("JPAAS_HTTP_PORT")
	if port == "" {
		port = env("JPAAS_HOST_PORT_8080")
	}
	switch {
	case jpaas != "" && port != "":
		return Place{Host: jpaas, Port: port, Type: model.NodeContainer}, nil
	case jpaas != "" || port != "":
		return Place{}, fmt.Errorf("%w: JPAAS_HOST is %q and its port %q: set both or neither", model.ErrInvalidArgument, jpaas, port)
	case env("KUBERNETES_SERVICE_HOST") != "" || exists("/.dockerenv") || exists("/run/.containerenv"):
		return Place{Host: host, Type: model.NodeContainer}, nil
	}
	return Place{Host: host, Type: model.NodeActual}, nil
}

// port is that of one start.
func (p Place) port(now time.Time) string {
	if p.Port != "" {
		return p.Port
	}
	return fmt.Sprintf("%d-%d", now.UnixMilli(), mathrand.IntN(portRandom))
}
