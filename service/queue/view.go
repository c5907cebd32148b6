package queue

import (
	"errors"

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
	// Unused are the shards that no index is known to be allocated of.
	Unused []int
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
	v := View{App: id, Name: a.name, Left: 1, Unused: []int{}}
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
	if l.known == 0 {
		v.Unused = append(v.Unused, int(l.key.Shard))
	}
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
