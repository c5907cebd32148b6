package issuer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
)

// Large batches of a mode take turns, one that waits too long is refused, and neither small
// ones nor other modes wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Issuer
		large := Request{Mode: model.ModeSegment, Count: Large + 1}
		ends := make([]func(), turns)
		for i := range ends {
			var err error
			if ends[i], err = s.Turn(t.Context(), large); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range []Request{{Mode: model.ModeSegment, Count: Large},
			{Mode: model.ModeQueue, Count: model.MaxBatch}} {
			if done, err := s.Turn(t.Context(), other); err != nil {
				t.Errorf("%+v: %v", other, err)
			} else {
				done()
			}
		}
		began := time.Now()
		if _, err := s.Turn(t.Context(), large); !errors.Is(err, model.ErrTooMany) || time.Since(began) != patience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() {
			check.Is(t, check.Err(s.Turn(ctx, large)), context.Canceled)
		})
		synctest.Wait()
		cancel()
		waiting.Wait()
		waiting.Go(func() {
			done, err := s.Turn(t.Context(), large)
			if err != nil {
				t.Error(err)
				return
			}
			done()
		})
		synctest.Wait()
		ends[0]()
		waiting.Wait()
	})
}

// What is asked for counts in the quota of a token, all or none, and texts as IDs. A run is given while one ID is left,
// and counts whole.
func TestQuota(t *testing.T) {
	s := &Issuer{Segment: fakes.Segment{Mode: &fakes.Mode{}}}
	token := tokenOf(t, "may: ['segment:*'], ids_per_second: 100")
	for _, step := range []struct {
		tag   string
		count int
		want  error
	}{{"a", 40, nil}, {"a", 61, model.ErrTooMany}, {"numbers", 58, nil}, {"numbers", 3, model.ErrTooMany},
		{"a", -1, model.ErrInvalidArgument}, {"a", 0, model.ErrInvalidArgument},
		{"a", model.MaxBatch + 1, model.ErrInvalidArgument}} {
		r := Request{Mode: model.ModeSegment, Tag: step.tag, Count: step.count, Texts: true}
		_, _, err := s.Issue(t.Context(), token, r, nil)
		check.Is(t, err, step.want, step.count, "of", step.tag)
	}
	for _, want := range []error{nil, model.ErrTooMany} {
		_, err := s.IssueRun(t.Context(), token, Request{Mode: model.ModeSegment, Tag: "a"})
		check.Is(t, err, want, "a run")
	}
	_, _, err := s.Issue(t.Context(), token, Request{Mode: model.ModeSegment, Tag: "a", Count: 1}, nil)
	check.Is(t, err, model.ErrTooMany, "after a run")
}
