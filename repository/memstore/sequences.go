package memstore

import (
	"context"
	"crypto/rand"
	"sync"

	"shardid/model"
)

// Sequences keeps how far the keys of sections have come, in the process, whose life is theirs. It
// never waits. Safe for concurrent use.
type Sequences struct {
	life string

	mu       sync.Mutex
	sections map[model.SectionKey]*section
}

// section is a section: no number below base or above bound is given under its term.
type section struct {
	term, base, bound int64
	keys              map[string]int64
}

// NewSequences returns empty ones with a life of their own.
func NewSequences() *Sequences {
	return &Sequences{life: rand.Text(), sections: map[model.SectionKey]*section{}}
}

// Place is that of the process.
func (q *Sequences) Place() string { return "" }

// Majority is true: nobody else decides.
func (q *Sequences) Majority() bool { return true }

// Confirm gives the life.
func (q *Sequences) Confirm(context.Context, model.SectionKey) (string, error) {
	return q.life, nil
}

// State answers for every section, in order.
func (q *Sequences) State(_ context.Context, keys []model.SectionKey) []model.SectionState {
	q.mu.Lock()
	defer q.mu.Unlock()
	states := make([]model.SectionState, len(keys))
	for i, k := range keys {
		states[i].Server, states[i].Life = q.life, q.life
		if s := q.sections[k]; s != nil {
			states[i].Term, states[i].Bound = s.term, s.bound
		}
	}
	return states
}

// Next gives numbers, and answers in order.
func (q *Sequences) Next(_ context.Context, asks []model.SectionAsk) []model.SectionAnswer {
	q.mu.Lock()
	defer q.mu.Unlock()
	answers := make([]model.SectionAnswer, len(asks))
	for i, a := range asks {
		s := q.sections[a.Key]
		if s == nil || a.Server != q.life || s.term != a.Term {
			answers[i].Dry = true
			continue
		}
		answers[i] = model.SectionAnswer{Bound: s.bound, Last: make([]int64, len(a.Asks))}
		dry := false
		for j, ask := range a.Asks {
			v := max(s.keys[ask.Key], s.base) + ask.Count
			if dry = dry || v > s.bound; dry {
				v = model.NoNumber
			} else if ask.Count > 0 {
				s.keys[ask.Key] = v
			}
			answers[i].Last[j] = v
		}
	}
	return answers
}

// Push gives sections more numbers, and answers in order: nil, model.ErrLifeChanged, or
// model.ErrNotAboveHighWater.
func (q *Sequences) Push(_ context.Context, pushes []model.SectionPush) []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	errs := make([]error, len(pushes))
	for i, p := range pushes {
		s := q.sections[p.Key]
		if s == nil {
			s = new(section)
			q.sections[p.Key] = s
		}
		switch base := p.Segment.First - 1; {
		case p.Life != q.life:
			errs[i] = model.ErrLifeChanged
		case p.Term > s.term:
			*s = section{term: p.Term, base: base, bound: p.Segment.Last, keys: map[string]int64{}}
		case p.Term == s.term && base >= s.bound:
			if base > s.bound {
				s.base = base
			}
			s.bound = p.Segment.Last
		default:
			errs[i] = model.ErrNotAboveHighWater
		}
	}
	return errs
}

// Forget drops the sections of a space.
func (q *Sequences) Forget(_ context.Context, space model.Space) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for section := range space.Sections {
		delete(q.sections, model.SectionKey{Space: space.Name, Section: section})
	}
	return nil
}
