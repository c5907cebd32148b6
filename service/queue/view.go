package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"shardid/model"
)

// View is an app and what this process knows of its lists, counted since the start
// of the process.
type View struct {
	App   uint8
	Name  string
	Step  int64 // smallest segment, in indices, of its first shard
	Limit model.Limit

	Issued  int64 // IDs given to callers
	Refills int64 // segments pushed
	Held    int64 // IDs held ahead of callers
	// Highest is the highest index of any shard that is known to be allocated: it was
	// issued, or may be at any moment.
	Highest int64
	// Left is the share, in 0…1, of its indices that the shard which has the fewest
	// can still allocate.
	Left float64
	// Exhausted is how many shards have nothing more to give under the limit.
	Exhausted int
	// Unconfirmed is how many shards take no segment before an operator confirms their
	// max_id.
	Unconfirmed int
	// Depths are the indices in the store by shard; -1 for a shard that is not
	// provisioned or has not been seen.
	Depths [model.Shards]int64
}

// Seen returns the apps in order of their IDs, as this process last saw their lists:
// when it popped, refilled or swept them. It asks no store.
func (s *Service) Seen() []View {
	c := s.catalogue.Load()
	if c == nil {
		return nil
	}
	var views []View
	for id, a := range c.apps {
		if a != nil {
			views = append(views, a.view(uint8(id)))
		}
	}
	return views
}

func (a *app) view(id uint8) View {
	v := View{App: id, Name: a.name, Left: 1}
	for shard, l := range a.lists {
		v.Depths[shard] = -1
		if l != nil {
			l.addTo(&v)
		}
	}
	return v
}

// addTo adds what is known of one list.
func (l *list) addTo(v *View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Step == 0 {
		v.Step, v.Limit = l.cfg.Step, l.cfg.Limit
	}
	v.Issued += l.issued
	v.Refills += l.refills
	v.Held += int64(l.held())
	v.Highest = max(v.Highest, l.known)
	v.Left = min(v.Left, l.leftShare())
	v.Depths[l.key.Shard] = l.depth
	if l.left() == 0 && l.held() == 0 && l.depth == 0 {
		v.Exhausted++
	}
	if errors.Is(l.refillErr, model.ErrUnconfirmed) {
		v.Unconfirmed++
	}
}

// leftShare is the share of the list's indices that can still be allocated; of none
// there are none left. Callers hold mu.
func (l *list) leftShare() float64 {
	return float64(l.left()) / float64(max(1, l.cfg.Limit.LastIndex(l.key)))
}

const (
	// depthsFor is how long a reading of all depths is good enough for whoever looks:
	// several consoles cost the store no more than one.
	depthsFor = time.Second
	// depthsShare is the share of the time, one part in so many, that readings may
	// take: a store that needs long for thousands of lists is asked less often.
	depthsShare = 5
	// depthsTimeout bounds one reading.
	depthsTimeout = 3 * time.Second
)

// depthGate lets one reading of all depths run at a time.
type depthGate struct {
	mu       sync.Mutex
	inFlight chan struct{} // closed at the end of the reading; nil when none runs
	next     time.Time     // from when on another is due
}

// Views is Seen after the store was asked for the depth of every list, in few round
// trips and at most once a second, however many ask. A list that could not be asked
// has the depth -1. When ctx ends first, what is known is returned.
func (s *Service) Views(ctx context.Context) []View {
	if done := s.readDepthsAgain(); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	return s.Seen()
}

// readDepthsAgain starts a reading if one is due; nil means that there is nothing to
// wait for. It does not end with the caller who started it: others may wait for it.
func (s *Service) readDepthsAgain() <-chan struct{} {
	g := &s.depths
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.inFlight == nil && !now.Before(g.next) {
		done := make(chan struct{})
		if s.spawn(func() { s.readDepths(); g.end(now) }) {
			g.inFlight = done
		}
	}
	return g.inFlight
}

// end notes the end of the reading that began then.
func (g *depthGate) end(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.inFlight)
	now := time.Now()
	g.inFlight, g.next = nil, now.Add(max(depthsFor, (depthsShare-1)*now.Sub(began)))
}

// readDepths asks for all lists, some at a time, so that nobody who pops waits long.
func (s *Service) readDepths() {
	c := s.catalogue.Load()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, depthsTimeout)
	defer cancel()
	away := false
	for lists := c.all(); len(lists) > 0; {
		n := min(sweepChunk, len(lists))
		away = s.measure(ctx, lists[:n], away)
		lists = lists[n:]
	}
}

// measure asks for the depths of lists, unless the store is away, and says whether it
// is.
func (s *Service) measure(ctx context.Context, lists []*list, away bool) bool {
	if away {
		forget(lists)
		return true
	}
	keys := make([]model.ListKey, len(lists))
	for i, l := range lists {
		keys[i] = l.key
	}
	away = true
	for i, state := range s.opts.Lists.State(ctx, keys) {
		if state.Err != nil {
			lists[i].measured(-1)
			continue
		}
		away = false
		lists[i].saw(state)
	}
	return away
}

func forget(lists []*list) {
	for _, l := range lists {
		l.measured(-1)
	}
}
