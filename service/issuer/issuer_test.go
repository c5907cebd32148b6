package issuer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardid/client/hold"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/scripts/fakes"
	"shardid/service/access"
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

// slowRun gives runs after a while, as a database does.
type slowRun struct{ fakes.Segment }

func (s slowRun) Run(ctx context.Context, tag string, key model.ShardKey) (hold.Run, error) {
	time.Sleep(time.Millisecond)
	return s.Segment.Run(ctx, tag, key)
}

// The last ID of a quota is worth one run, however many are asked for at once.
func TestRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Issuer{Segment: slowRun{fakes.Segment{Mode: &fakes.Mode{}}}}
		token := tokenOf(t, "may: ['segment:*'], ids_per_second: 10")
		var all sync.WaitGroup
		var given atomic.Int32
		for range 5 {
			all.Go(func() {
				_, err := s.IssueRun(t.Context(), token, Request{Mode: model.ModeSegment, Tag: "a"})
				if err == nil {
					given.Add(1)
				}
			})
		}
		all.Wait()
		check.Equal(t, given.Load(), 1, "runs")
		late, cancel := context.WithCancel(t.Context())
		end, err := token.BeginRun(late)
		check.Must(t, err)
		cancel()
		check.Is(t, check.Err(token.BeginRun(late)), context.Canceled)
		end()
	})
}

// A batch that fails costs no more than a second of the quota, however large it is.
func TestFailuresCostASecond(t *testing.T) {
	s := &Issuer{Segment: fakes.Segment{Mode: &fakes.Mode{Fail: fakes.Broken(model.ErrSegmentEmpty)}},
		Sequence: &fakes.Sequence{Mode: &fakes.Mode{}}}
	for _, r := range []Request{
		{Mode: model.ModeSegment, Tag: "a", Count: 5000},
		{Mode: model.ModeSequence, Space: "chat", Key: "bad", Count: 5000},
	} {
		token := tokenOf(t, "may: ['segment:*', 'sequence:*'], ids_per_second: 100")
		_, _, err := s.Issue(t.Context(), token, r, nil)
		check.Equal(t, err != nil && !errors.Is(err, model.ErrTooMany), true, err)
		many, _ := errors.AsType[*access.TooManyError](token.Take(1))
		check.Equal(t, many == nil || many.After <= time.Second, true, r.Mode, many)
	}
}

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

// A request counts once, by its mode and its outcome, and one that got no ID by its code too. A mode that is
// not served has no metrics.
func TestTraffic(t *testing.T) {
	for code := 0; code >= LastCode; code-- {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			registry := prometheus.NewRegistry()
			traffic := NewTraffic(registry, model.ModeUID, model.ModeSequence)
			traffic.Observe(model.ModeUID, code, time.Second)
			traffic.Observe(model.ModeQueue, code, time.Second)
			values := check.Metrics(t, registry)
			outcome, refused := "ok", 0.0
			switch code {
			case 0:
			case -1, -4, -8, -11: // 5xx
				outcome, refused = "failed", 1
			default:
				outcome, refused = "refused", 1
			}
			const requests = "shardid_request_duration_seconds_count"
			check.Equal(t, values[requests], 1, "requests")
			check.Equal(t, values[requests+`{outcome="`+outcome+`"}`], 1, outcome)
			check.Equal(t, values[requests+`{mode="uid"}`], 1, "of the mode")
			check.Equal(t, values["shardid_refused_total"], refused, "refused")
			check.Equal(t, values[fmt.Sprintf(`shardid_refused_total{code="%d"}`, code)], refused, "with the code")
			if _, has := values[requests+`{mode="sequence"}`]; !has {
				t.Error("a mode without requests has no metrics")
			}
			if _, has := values[requests+`{mode="queue"}`]; has {
				t.Error("a disabled mode has metrics")
			}
		})
	}
}

// Nothing is counted, and nothing allocated, without need.
func TestTrafficIsCheap(t *testing.T) {
	traffic := NewTraffic(nil, model.ModeUID)
	observe := func() { traffic.Observe(model.ModeUID, -4, time.Second) }
	check.Equal(t, testing.AllocsPerRun(100, observe), 0, "allocations")
	(*Traffic)(nil).Observe(model.ModeUID, 0, time.Second)
	(*Traffic)(nil).Fault()
}
