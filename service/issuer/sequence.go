package issuer

import (
	"cmp"
	"context"

	"shardid/model"
	"shardid/service/access"
)

// AskSequence answers all asks together, those of one key in their order, each with its own
// error. token is nil where none is required; what is asked for counts in its quota. Errors, in
// each ask: those of the model package that have a code, or the context's.
func (s *Issuer) AskSequence(ctx context.Context, token *access.Token, asks []*model.SequenceAsk) {
	closed := cmp.Or(token.Mode(model.ModeSequence), s.Enabled(model.ModeSequence))
	good := make([]*model.SequenceAsk, 0, len(asks))
	for _, ask := range asks {
		ask.Err = cmp.Or(closed, mayAsk(token, ask))
		if ask.Err == nil && ask.Count > 0 {
			ask.Err = token.Take(int(ask.Count))
		}
		if ask.Err == nil {
			good = append(good, ask)
		}
	}
	if len(good) == 0 {
		return
	}
	s.Sequence.Ask(ctx, good)
	for _, ask := range good {
		ask.Last = s.Region.Number(ask.Last)
		if ask.Err != nil {
			token.Refund(int(ask.Count))
		}
	}
}

// mayAsk refuses what cannot be asked for, and a space that the token is not for.
func mayAsk(token *access.Token, ask *model.SequenceAsk) error {
	return cmp.Or(checkCount(ask.Count, 0), model.CheckSpace(ask.Space), model.CheckSequenceKey(ask.Key),
		token.Of(model.ModeSequence, ask.Space))
}

// issueSequence is Issue for one key.
func (s *Issuer) issueSequence(ctx context.Context, token *access.Token, r Request, dst []int64) ([]int64, error) {
	ask := model.SequenceAsk{Space: r.Space, Key: r.Key, Count: int64(r.Count)}
	s.AskSequence(ctx, token, []*model.SequenceAsk{&ask})
	switch {
	case ask.Err != nil:
		return dst, ask.Err
	case ask.Count == 0:
		return append(dst, ask.Last), nil
	}
	stride := s.Region.Stride()
	for n := ask.Last - (ask.Count-1)*stride; n <= ask.Last; n += stride {
		dst = append(dst, n)
	}
	return dst, nil
}
