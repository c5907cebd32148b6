package issuer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/access"
)

// tokenOf is a token that may do what the entry says.
func tokenOf(t *testing.T, may string) *access.Token {
	t.Helper()
	token, err := fakes.Guard("", "a", may).Client(http.Header{"Authorization": {"Bearer sesame-a"}})
	check.Must(t, err)
	return token
}

// What may be asked is asked in one call and in order, and the others have their errors. Of a
// quota what is asked for is used up, and nothing by looking. The region joins each number.
func TestAskSequence(t *testing.T) {
	f := &fakes.Sequence{Mode: &fakes.Mode{}}
	s := &Issuer{Sequence: f, Region: model.Region{ID: 1, Bits: 2}}
	token := tokenOf(t, "may: ['sequence:chat'], ids_per_second: 100")
	ask := func(space, key string, count int64) *model.SequenceAsk {
		return &model.SequenceAsk{Space: space, Key: key, Count: count}
	}
	asks := []*model.SequenceAsk{
		ask("chat", "a", 90), ask("feed", "a", 1), ask("chat", "", 1), ask("chat", "bad", 8),
		ask("chat", strings.Repeat("k", 257), 1), ask("", "a", 1),
		ask("chat", "a", -1), ask("chat", "a", 10_001), ask("chat", "b", 9), ask("chat", "a", 0),
		ask("chat", "a", 2), ask("chat", "\x00\n:", 1),
	}
	want := []error{nil, model.ErrForbidden, model.ErrInvalidArgument, model.ErrNoNumber, model.ErrInvalidArgument,
		model.ErrInvalidArgument,
		model.ErrInvalidArgument, model.ErrInvalidArgument, model.ErrTooMany, nil, nil, model.ErrTooMany}
	s.AskSequence(t.Context(), token, asks)
	for i, ask := range asks {
		if !errors.Is(ask.Err, want[i]) || (ask.Err == nil) != (want[i] == nil) {
			t.Errorf("ask %d: %v, want %v", i, ask.Err, want[i])
		}
	}
	check.Equal(t, fmt.Sprint(f.Sizes, asks[0].Last, asks[9].Last, asks[10].Last), "[4] 361 361 369")
	token = tokenOf(t, "may: ['sequence:chat'], ids_per_second: 8")
	r := Request{Mode: model.ModeSequence, Space: "chat", Key: "a", Count: 8}
	ids, _, err := s.Issue(t.Context(), token, r, nil)
	check.Must(t, err)
	check.Equal(t, fmt.Sprint(ids), "[373 377 381 385 389 393 397 401]")
	if _, _, err = s.Issue(t.Context(), token, Request{Mode: model.ModeSequence, Space: "chat", Key: "a", Count: 1},
		nil); !errors.Is(err, model.ErrTooMany) {
		t.Error(err)
	}
	ids, _, err = s.Issue(t.Context(), token, Request{Mode: model.ModeSequence, Space: "chat", Key: "a"}, nil)
	check.Must(t, err)
	check.Equal(t, fmt.Sprint(ids), "[401]", "current")

	other := []*model.SequenceAsk{ask("chat", "a", 1), ask("chat", "a", 0)}
	s.AskSequence(t.Context(), tokenOf(t, "may: [uid]"), other)
	check.Is(t, other[0].Err, model.ErrForbidden)
	check.Is(t, other[1].Err, model.ErrForbidden)
	check.Equal(t, f.Last[[2]string{"chat", "a"}], 100, "issued")
}
