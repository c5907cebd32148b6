package uid

import (
	"context"
	"fmt"
	"time"

	"shardid/model"
)

// Registry keeps a worker ID for an instance over its starts. Safe for concurrent use.
type Registry interface {
	// Start begins to acquire it in the background. It is called once.
	Start()
	// Place is what the instance holds at present. The error says why it holds nothing.
	Place() (model.NodePlace, error)
}

// releaseTimeout bounds the last call for a node.
const releaseTimeout = 2 * time.Second

// placed is the start with what the instance holds in the registry, and a token of its
// own for each place.
func (s *Service) placed(start model.NodeStart) (model.NodeStart, error) {
	if s.opts.Registry == nil {
		return start, nil
	}
	place, err := s.opts.Registry.Place()
	if err != nil {
		return start, fmt.Errorf("the registry has given no worker ID: %w", err)
	}
	if start.Place == nil || *start.Place != place {
		start = s.newStart()
		start.Place = &place
	}
	return start, nil
}

// displaced is model.ErrLeaseLost when the instance no longer holds what the node stands
// for. Another instance that holds it by now has taken the node's row over, and issues
// only seconds above its mark; so it does no harm that this is noticed a little later.
func (s *Service) displaced(g *grant) error {
	if g.place == nil {
		return nil
	}
	place, err := s.opts.Registry.Place()
	switch {
	case err != nil:
		return fmt.Errorf("%w: the registry's: %w", model.ErrLeaseLost, err)
	case place != *g.place:
		return fmt.Errorf("%w: the registry has given worker ID %d in place of %d", model.ErrLeaseLost, place.WorkerID, g.place.WorkerID)
	}
	return nil
}

// release lowers the mark to what was issued. The filler has ended, and a caller in
// default mode that still has the grant finds it sealed, so that nothing follows.
func (s *Service) release(g *grant) {
	issued := g.state.Swap(sealed)>>g.layout.SeqBits + g.layout.Epoch.Unix()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.background.Context()), releaseTimeout)
	defer cancel()
	if err := s.opts.Nodes.ReleaseNode(ctx, g.node, max(issued, g.last.Load())); err != nil {
		s.opts.Log.Warn("the mark of the worker ID was not lowered: the next start leaves out what is left of it",
			"worker_id", g.node.WorkerID, "seconds", g.mark.Load()-max(issued, g.last.Load()), "error", err)
	}
}
