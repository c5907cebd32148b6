package sequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardid/model"
	"shardid/service/background"
)

const (
	// roundAsks bounds the asks of one call.
	roundAsks = 4096
	// gatherAsks are worth a call, which costs Redis as much as five of them, and this process as much as one.
	gatherAsks = 4
	// gatherFor is how long a call waits for as many.
	gatherFor = time.Millisecond
	// callTimeout bounds a call of a store, and askTimeout one that asks all servers of a Redis Cluster: a silent one
	// must leave the sections of the others time.
	callTimeout = 2 * time.Second
	askTimeout  = time.Second
)

// lane gathers the asks of all sections: what comes while a call of Redis is under way goes with
// the next, which waits for a few more while calls follow each other closely. So asks stay in order, and the more there
// are, the less each costs.
type lane struct {
	svc *Service

	mu       sync.Mutex
	queue    []*item
	sections map[model.SectionKey]*section
	leases   map[string]*serverLease // of this replica, by the life of the server
	spacesAt time.Duration           // when the renewal began that found the spaces of the service
	failure  error                   // why the latest renewal failed, nil when it went well
	answers  bool                    // a goroutine answers what has come
	closed   bool

	gathering bool          // that goroutine waits for more
	gathered  chan struct{} // which have come
}

// section is what this replica knows of a section. The lane's mu guards it.
type section struct {
	key     model.SectionKey
	space   model.Space
	grant   grant
	phase   phase
	waiting []*item   // while it is dry
	pause   time.Time // no pass begins before
	want    int64     // numbers to ask the database for; 0: only the term is not known
	err     error     // why the last filling failed; nil since numbers were given
	// claimed is a term that is not open, seen since a time.
	claimed int64
	since   time.Time
	server  string  // the life that gave its numbers last
	asked   []*item // by the call that is being gathered or under way
	at      int     // in the asks of that call
}

// grant is the right to ask a life of Redis for numbers under a term, while a lease lasts.
type grant struct {
	server  string
	term    int64 // 0: none
	number  int64 // of the leases that it takes
	changes int64 // of the database server, likewise
}

func (l *lane) add(items []*item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, items...)
	l.begin()
}

// gather waits until as many asks have come as are worth a call, for a while. It follows a call that carried as many:
// so a lone caller never waits for others.
func (l *lane) gather() {
	l.mu.Lock()
	l.gathering = len(l.queue) < gatherAsks
	waits := l.gathering
	l.mu.Unlock()
	if !waits {
		return
	}
	late := time.NewTimer(gatherFor)
	defer late.Stop()
	select {
	case <-l.gathered:
		return
	case <-late.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gathering {
		<-l.gathered // it came with the timer
	}
	l.gathering = false
}

// begin has what has come answered. Callers hold mu.
func (l *lane) begin() {
	if !l.answers && !l.closed {
		l.answers = l.svc.background.Go(l.answerQueue)
	}
	if l.closed || !l.answers {
		l.fail()
	}
	if l.gathering && len(l.queue) >= gatherAsks {
		l.gathering = false
		l.gathered <- struct{}{}
	}
}

// requeue has what waits for a section grouped again. Callers hold mu.
func (l *lane) requeue(s *section) {
	l.queue = append(s.waiting, l.queue...)
	s.waiting = nil
	l.begin()
}

// close fails all that wait, for good.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.fail()
}

// fail tells all that wait that the service stops. Callers hold mu.
func (l *lane) fail() {
	for _, s := range l.sections {
		l.queue = append(l.queue, s.waiting...)
		s.waiting = nil
	}
	for _, i := range l.queue {
		i.answer(0, background.ErrStopping)
	}
	l.queue = nil
}

// answerQueue answers what has come, a call of Redis at a time, until nothing has.
func (l *lane) answerQueue() {
	last := 0 // asks of the call before
	for {
		if last >= gatherAsks {
			l.gather()
		}
		l.mu.Lock()
		if len(l.queue) == 0 || l.closed {
			l.answers = false
			l.mu.Unlock()
			return
		}
		items := l.queue[:min(len(l.queue), roundAsks)]
		if l.queue = l.queue[len(items):]; len(l.queue) == 0 {
			l.queue = nil
		}
		asked, asks := l.groupAsks(items)
		l.mu.Unlock()
		if len(asks) == 0 {
			continue
		}
		last = len(items)
		ctx, cancel := context.WithTimeout(l.svc.background.Context(), askTimeout)
		answers := l.svc.opts.Store.Next(ctx, asks)
		late := ctx.Err() != nil
		cancel()
		l.mu.Lock()
		for i, a := range answers {
			l.takeAnswer(asked[i], asks[i], a)
		}
		if late {
			l.dropSilent(asks, answers)
		}
		l.mu.Unlock()
	}
}

// dropSilent has the sections of servers that gave no answer in time looked at before they are asked again: to ask for
// one after the other would keep those of all servers waiting. Callers hold mu.
func (l *lane) dropSilent(asks []model.SectionAsk, answers []model.SectionAnswer) {
	silent := map[string]bool{}
	for i, a := range answers {
		if a.Err != nil {
			silent[asks[i].Server] = true
		}
	}
	for _, s := range l.sections {
		if silent[s.grant.server] {
			s.grant = grant{}
		}
	}
}

// groupAsks gathers items by section; those whose section cannot be asked wait for a filling. The
// spaces and the lease are looked at here, after all of them have come. Callers hold mu.
func (l *lane) groupAsks(items []*item) (asked []*section, asks []model.SectionAsk) {
	now, spaces := l.svc.now(), *l.svc.spaces.Load()
	for _, i := range items {
		if !i.waits() { // numbers for those who have gone would be gaps
			continue
		}
		space, there := spaces[i.key.Space]
		if !there {
			i.answer(0, model.UnknownSpace(i.key.Space))
			continue
		}
		i.key.Section = space.SectionOf(i.what.Key)
		s := l.sections[i.key]
		if s == nil {
			s = &section{key: i.key, space: space}
			l.sections[i.key] = s
		}
		if len(s.asked) == 0 {
			if s.phase == dry || !l.mayAsk(s.grant, now) {
				l.waitForFill(s, i)
				continue
			}
			s.at = len(asked)
			asked = append(asked, s)
			asks = append(asks, model.SectionAsk{Key: s.key, Server: s.grant.server, Term: s.grant.term})
		}
		s.asked = append(s.asked, i)
		asks[s.at].Asks = append(asks[s.at].Asks, i.what)
	}
	return asked, asks
}

// waitForFill lets an item wait for a filling of its section. Callers hold mu.
func (l *lane) waitForFill(s *section, i *item) {
	if l.closed { // nothing is filled any more
		i.answer(0, background.ErrStopping)
		return
	}
	l.fillSoon(s)
	s.waiting, s.phase = append(s.waiting, i), dry
}

// fillSoon has a section filled after its pause, unless that is due. Callers hold mu.
func (l *lane) fillSoon(s *section) {
	if s.phase != idle {
		return
	}
	s.phase = filling
	wait := time.Until(s.pause)
	if wait <= 0 {
		l.svc.fills.Add(s, false)
		return
	}
	l.svc.background.Go(func() {
		if l.svc.background.Sleep(wait) {
			l.svc.fills.Add(s, false)
		}
	})
}

// takeAnswer hands out what a section answered, and sees to it that its numbers do not run out. What it did not answer
// waits for a filling. Callers hold mu.
func (l *lane) takeAnswer(s *section, ask model.SectionAsk, a model.SectionAnswer) {
	items := s.asked
	s.asked = nil
	if a.Err != nil || a.Dry {
		s.grant = grant{}
		if a.Err != nil {
			s.err = a.Err // its state says more
		}
		for _, i := range items {
			l.waitForFill(s, i)
		}
		return
	}
	s.err = nil
	l.svc.failing.Note(s.key, nil)
	var highest, issued, short int64
	for n, i := range items {
		if a.Last[n] == model.NoNumber {
			short += ask.Asks[n].Count
			l.waitForFill(s, i)
			continue
		}
		highest, issued = max(highest, a.Last[n]), issued+ask.Asks[n].Count
		i.answer(a.Last[n], nil)
	}
	l.svc.issued.Add(float64(issued))
	s.want = max(s.want, min(short, model.MaxSequenceStep)) // what comes too early is asked for again
	if highest > 0 && a.Bound-highest < s.space.Step/2 {
		s.want = max(s.want, 1)
		l.fillSoon(s)
	}
}

// errSlow is why a section gave nothing that has not failed.
var errSlow = errors.New("its section did not answer in time")

// leaveUnanswered gives what has no answer an error: err, or why its section gave none. Nobody else uses an
// ask from then on.
func (l *lane) leaveUnanswered(items []*item, r *request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range items {
		if !i.waits() {
			continue
		}
		if i.ask.Err = err; err == nil {
			why := errSlow
			if s := l.sections[i.key]; s != nil {
				why = cmp.Or(s.err, errSlow)
			}
			i.ask.Err = fmt.Errorf("%w: %w", model.ErrNoNumber, why)
		}
	}
	r.left = 0
}
