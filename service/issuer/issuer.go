// Package issuer is what every front end does with a request for IDs, whatever the
// protocol: check what is asked for, check that the token allows it, and ask the mode.
package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardid/client/hold"
	"shardid/model"
	"shardid/service/access"
)

const (
	// Large is how many IDs a batch may have that waits for no turn.
	Large = 128
	// turns is how many larger ones of a mode are made and written at once: each takes up to 0.4 MB,
	// and more at once are no faster.
	turns = 32
	// patience is how long one waits for its turn.
	patience = 2 * time.Second
)

// Queue issues IDs of the queue mode.
type Queue interface {
	// Next issues count IDs and appends them to dst, all or none. Errors: those
	// of the model package that carry a code, or the context's.
	Next(ctx context.Context, app int, shard uint8, count int, dst []int64) ([]int64, error)
}

// Segment issues IDs of the segment mode, as Queue does.
type Segment interface {
	Next(ctx context.Context, tag string, key model.ShardKey, count int, dst []int64) ([]int64, error)
	// Run issues IDs that are equally far apart; how many, and how far, is the tag's to say.
	Run(ctx context.Context, tag string, key model.ShardKey) (hold.Run, error)
	// ShardBits are those of the IDs of a tag, 0 for none. Errors: those of Next.
	ShardBits(ctx context.Context, tag string) (uint, error)
	// Numbers issues texts, of a tag for which Next answers model.ErrPattern.
	Numbers(ctx context.Context, tag string, count int, dst []string) ([]string, error)
}

// Generator issues IDs that depend on nothing that the caller says, as Queue does:
// snowflakes and UIDs.
type Generator interface {
	Next(ctx context.Context, count int, dst []int64) ([]int64, error)
}

// Sequence issues numbers that rise, of any number of keys.
type Sequence interface {
	// Ask answers all asks, those of one key in their order. It waits until the mode's timeout,
	// or ctx's end, and keeps no ask afterwards. Errors, in each ask: those of the model package
	// that carry a code, or the context's.
	Ask(ctx context.Context, asks []*model.SequenceAsk)
}

// Issuer asks the modes that a replica serves; a disabled one is nil. Safe for concurrent use.
type Issuer struct {
	Queue     Queue
	Segment   Segment
	Snowflake Generator
	UID       Generator
	Sequence  Sequence
	Region    model.Region // joins each number of a sequence
	// NoSequence says why Sequence is nil, if it is not switched off: a model.ErrModeDisabled.
	NoSequence error
	Traffic    *Traffic // told by the front ends; nil: nothing is counted

	lines sync.Once
	turns [model.ModeLease + 1]chan struct{} // by the mode; see Turn
}

// Request says which IDs a client asks for.
type Request struct {
	Mode     model.Mode
	App      int            // of the queue mode, 0…255
	Shard    uint8          // of the queue mode, 0…63
	Tag      string         // of the segment mode
	ShardKey model.ShardKey // of the segment mode
	Space    string         // of sequences
	Key      string         // of sequences
	Count    int            // 1…model.MaxBatch; of sequences 0 too, which gives how far the key has come
	Texts    bool           // will do where a tag has those in place of IDs
}

// Enabled is nil for a mode that is served. Errors: model.ErrModeDisabled.
func (s *Issuer) Enabled(mode model.Mode) error {
	if mode == model.ModeQueue && s.Queue != nil || mode == model.ModeSegment && s.Segment != nil ||
		mode == model.ModeSnowflake && s.Snowflake != nil || mode == model.ModeUID && s.UID != nil ||
		mode == model.ModeSequence && s.Sequence != nil {
		return nil
	}
	if mode == model.ModeSequence && s.NoSequence != nil {
		return s.NoSequence
	}
	return Disabled(mode.String())
}

// Disabled is the error of a mode that is switched off.
func Disabled(mode string) error {
	return fmt.Errorf("%w: %w", model.Do("set %s.enabled to true, and restart", mode), model.ErrModeDisabled)
}

// Issue appends the IDs to dst, or gives texts of a tag with a pattern, all or none. token is
// nil where none is required; what is asked for counts in its quota. Errors: those of the model
// package that have a code, or the context's.
func (s *Issuer) Issue(
	ctx context.Context, token *access.Token, r Request, dst []int64,
) (ids []int64, texts []string, err error) {
	if r.Mode == model.ModeSequence {
		dst, err = s.issueSequence(ctx, token, r, dst)
		return dst, nil, err
	}
	if err = s.allow(token, r); err == nil {
		err = token.Take(r.Count)
	}
	if err != nil {
		return dst, nil, err
	}
	switch r.Mode {
	case model.ModeSegment:
		dst, err = s.Segment.Next(ctx, r.Tag, r.ShardKey, r.Count, dst)
		if err != nil && r.Texts && errors.Is(err, model.ErrPattern) {
			texts, err = s.Segment.Numbers(ctx, r.Tag, r.Count, nil)
		}
	case model.ModeSnowflake:
		dst, err = s.Snowflake.Next(ctx, r.Count, dst)
	case model.ModeUID:
		dst, err = s.UID.Next(ctx, r.Count, dst)
	default:
		dst, err = s.Queue.Next(ctx, r.App, r.Shard, r.Count, dst)
	}
	if err != nil {
		token.Refund(r.Count)
	}
	return dst, texts, err
}

// checkCount refuses what is no number of IDs, so the modes need not look.
func checkCount(count, least int64) error {
	if count < least || count > model.MaxBatch {
		return fmt.Errorf("%w: count must be a whole number in %d…%d, not %d", model.ErrInvalidArgument, least,
			model.MaxBatch, count)
	}
	return nil
}

// allow refuses what the token is not for, and what can be no tag. The modes refuse other apps.
func (s *Issuer) allow(token *access.Token, r Request) error {
	if err := cmp.Or(token.Mode(r.Mode), s.Enabled(r.Mode), checkCount(int64(r.Count), 1)); err != nil {
		return err
	}
	switch r.Mode {
	case model.ModeSegment:
		return cmp.Or(model.CheckTag(r.Tag), token.Of(model.ModeSegment, r.Tag))
	case model.ModeQueue:
		return token.App(r.App)
	}
	return nil
}

// IssueRun issues IDs of a tag, equally far apart, to a client that counts on its own, whatever r says of their
// number. That is known afterwards: a run takes one ID of the token's quota to begin with, and the others however
// many are left. Errors: those of Issue.
func (s *Issuer) IssueRun(ctx context.Context, token *access.Token, r Request) (run hold.Run, err error) {
	r.Count = 1
	if err = s.allow(token, r); err != nil {
		return run, err
	}
	end, err := token.BeginRun(ctx)
	if err != nil {
		return run, err
	}
	defer end()
	if err = token.Take(1); err != nil {
		return run, err
	}
	if run, err = s.Segment.Run(ctx, r.Tag, r.ShardKey); err == nil {
		token.Charge(run.Count - 1)
	}
	return run, err
}

// Turn waits until the IDs of a large batch may be made. Call done when its answer has been written, so
// that turns bound what answers hold that clients do not read. A mode that is starved holds no other
// up. Errors: model.ErrTooMany, or ctx's.
func (s *Issuer) Turn(ctx context.Context, r Request) (done func(), err error) {
	if r.Count <= Large {
		return func() {}, nil
	}
	s.lines.Do(func() {
		for i := range s.turns {
			s.turns[i] = make(chan struct{}, turns)
		}
	})
	turn := s.turns[r.Mode]
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-late.C:
		return nil, fmt.Errorf("%w: %w: nothing was issued: %d batches of more than %d IDs are being made or read, "+
			"and none ended within %v", model.Do("try again, or ask another replica"),
			model.ErrTooMany, turns, Large, patience)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// MayLease refuses what can be no name of worker IDs, and a name that the token is not for.
// Leases are never disabled. Errors: model.ErrForbidden, ErrInvalidArgument.
func (s *Issuer) MayLease(token *access.Token, name string) error {
	return cmp.Or(token.Mode(model.ModeLease), model.CheckName(name), token.Of(model.ModeLease, name))
}
