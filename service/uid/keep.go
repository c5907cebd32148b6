package uid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"shardid/model"
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

// Start begins to get a node in the background and returns at once: the service
// becomes ready when the database has answered.
func (s *Service) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.wg.Go(s.run)
	}
}

// Stop ends all background work and fails whoever still waits. What is left in the
// ring is a gap. It may be called twice and returns when all has ended or ctx has.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop UID service: %w", ctx.Err())
	}
}

// run holds one node after the other until Stop.
func (s *Service) run() {
	for s.ctx.Err() == nil {
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
			return newGrant(s.opts.Layout, start, node)
		}
		s.reason.Store(&err)
		if errors.Is(err, model.ErrNoWorkerID) {
			start = s.newStart() // marks of others may have passed by now
		}
		if !pause(s.ctx, retry, nil) {
			return nil
		}
	}
}

func (s *Service) newStart() model.NodeStart {
	now, place := s.opts.Now(), s.opts.Place
	return model.NodeStart{
		Host: place.Host[:min(len(place.Host), hostBytes)], Port: place.port(now), Type: place.Type,
		Token: rand.Text(), Workers: s.opts.Layout.Workers(),
		NowSecond: now.Unix(), MarkSecond: min(now.Unix()+2*markHour, s.opts.Layout.MaxSecond()),
	}
}

func (s *Service) tryRegister(start model.NodeStart) (node model.Node, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	err = s.guard("register a node", func() (err error) {
		node, err = s.opts.Nodes.RegisterNode(ctx, start)
		return err
	})
	if err == nil && (node.WorkerID < 0 || node.WorkerID >= start.Workers) {
		return model.Node{}, fmt.Errorf("%w: node %d has worker ID %d, the layout holds 0…%d", model.ErrNoWorkerID, node.ID, node.WorkerID, start.Workers-1)
	}
	return node, err
}

// hold serves with a node until it is lost or the service stops. Then the ring is
// dropped, after the last put.
func (s *Service) hold(g *grant) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var filler sync.WaitGroup
	if s.ring != nil {
		filler.Go(func() { s.fillLoop(ctx, g) })
	}
	s.grant.Store(g)
	s.stats.nodes.Add(1)
	s.opts.Log.Info("UID mode has a worker ID", "mode", s.opts.Mode, "worker_id", g.node.WorkerID, "node", g.node.ID, "recycled", g.node.Recycled)
	if lost := newKeeper(s, g).run(ctx); lost != nil {
		s.reason.Store(&lost)
		s.opts.Log.Warn("UID node lost, getting another", "worker_id", g.node.WorkerID, "node", g.node.ID, "error", lost)
	}
	s.grant.Store(nil)
	cancel()
	filler.Wait()
	s.drop()
}

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

// run returns when ctx ends, with nil, or when the node is lost, with
// model.ErrLeaseLost.
func (k *keeper) run(ctx context.Context) error {
	retry := minRetry
	for ctx.Err() == nil {
		err := k.svc.guard("keep a node", k.step)
		switch {
		case errors.Is(err, model.ErrLeaseLost):
			return err
		case err != nil:
			pause(ctx, retry, nil)
			retry = min(2*retry, maxRetry)
		default:
			retry = minRetry
			pause(ctx, keepEvery, k.g.due)
		}
	}
	return nil
}

// step raises the mark if that is due.
func (k *keeper) step() error {
	now := k.svc.opts.Now()
	position := k.g.position(now.Unix(), k.svc.byClock())
	k.svc.life.check(k.svc.opts.Log, k.g.layout, position)
	if since := now.Sub(k.at); since >= 0 && since < markEvery && !k.g.halfUsed(position) {
		return nil
	}
	return k.raise(now, position)
}

// byClock says whether the seconds of IDs follow the clock.
func (s *Service) byClock() bool { return s.ring == nil || s.opts.FollowClock }

// raise raises the mark to what the rate of use calls for. Only when the database
// has confirmed it may it be used.
func (k *keeper) raise(now time.Time, position int64) error {
	k.observe(now)
	target := k.g.target(position)
	ctx, cancel := context.WithTimeout(k.svc.ctx, callTimeout)
	defer cancel()
	err := k.svc.opts.Nodes.MarkNode(ctx, k.g.node, target)
	if k.svc.ctx.Err() != nil {
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
	poke(k.g.raised)
	return nil
}

// observe learns how many seconds of the IDs' time are used in a second of the
// clock's, where that is not one.
func (k *keeper) observe(now time.Time) {
	last := k.g.last.Load()
	if k.last == 0 || k.svc.byClock() {
		k.last = last
		return
	}
	elapsed := max(1, now.Sub(k.at).Seconds())
	k.g.rate.Store(max(1, int64(float64(last-k.last)/elapsed)))
}

// guard turns a panic of f into an error: whoever runs it tries again.
func (s *Service) guard(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Log.Error("panic in the UID service", "what", what, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%s: panic: %v", what, p)
		}
	}()
	return f()
}
