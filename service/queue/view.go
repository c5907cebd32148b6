package queue

import (
	"context"

	"shardid/model"
)

// View is an app and how full its lists are.
type View struct {
	App   uint8
	Name  string
	Step  int64 // smallest segment, in indices, of its first shard
	Limit model.Limit
	// Depths are the indices in the store by shard; -1 for a shard that is not
	// provisioned or cannot be asked.
	Depths [model.Shards]int64
}

// Views asks the store for the depth of every list, in as few round trips as it
// can, and returns the apps in order of their IDs.
func (s *Service) Views(ctx context.Context) []View {
	c := s.catalogue.Load()
	if c == nil {
		return nil
	}
	var keys []model.ListKey
	for _, l := range c.all() {
		keys = append(keys, l.key)
	}
	views := c.views()
	at := map[uint8]int{}
	for i, v := range views {
		at[v.App] = i
	}
	for i, state := range s.opts.Lists.State(ctx, keys) {
		if state.Err == nil {
			views[at[keys[i].App]].Depths[keys[i].Shard] = state.Len
		}
	}
	return views
}

// views are the apps with depths unknown.
func (c *catalogue) views() []View {
	var views []View
	for id, a := range c.apps {
		if a == nil {
			continue
		}
		v := View{App: uint8(id), Name: a.name}
		for shard, l := range a.lists {
			v.Depths[shard] = -1
			if l != nil && v.Step == 0 {
				v.Step, v.Limit = l.config()
			}
		}
		views = append(views, v)
	}
	return views
}

func (l *list) config() (step int64, limit model.Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.Step, l.cfg.Limit
}
